"""Commands of enginebench, called in the process of the test."""

from __future__ import annotations

from typing import Any

import pytest

from suites.cli import main


def call(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int | str, str, str]:
    """Exit status, standard output, standard error of ``enginebench ARGUMENTS``."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err
