"""Values of options that mean nothing: each is refused by the name of its option, with ``--dry-run`` and without."""

from __future__ import annotations

import pytest

from tests.harness.test_command_line import call


@pytest.mark.parametrize("ways", [["--dry-run"], ["--dry-run", "--json"], []], ids=" ".join)
@pytest.mark.parametrize("switches", ["", ",", " , "])
def test_an_ablation_of_no_switches_is_refused(switches, ways, capsys, tmp_path):
    status, out, err = call(capsys, "ablate", "mlp", "--switches", switches, "--results", str(tmp_path), *ways)
    assert (status, out) == (2, "")
    assert err == "enginebench: --switches names none; leave it out for the usual switches\n"
    assert not list(tmp_path.iterdir())
