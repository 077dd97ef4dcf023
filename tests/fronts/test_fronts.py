"""What the fronts share: which pairs are declared, and that nothing wrong is timed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from suites import fronts
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.harness.run.single import CannotRun, Failed, SingleRuns
from tests import messages

FAKES = Path(__file__).parents[1] / "harness" / "fakes.py"


def test_the_quick_suite_is_the_default_and_the_environment_may_say_otherwise(root, monkeypatch):
    monkeypatch.delenv(fronts.SUITE_VARIABLE, raising=False)
    assert fronts.suite_name() == "quick"
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert settings["enginebench_suite"] == fronts.DEFAULT_SUITE
    monkeypatch.setenv(fronts.SUITE_VARIABLE, "bert")
    assert fronts.suite_name() == "bert"


def test_every_case_meets_every_backend():
    found = fronts.of_suite("quick")
    assert len(found) == len({(pair.case.id, pair.ref.label) for pair in found})
    assert {pair.ref.label for pair in found} == {"eager", "torch_compile", "onnxruntime", "engine"}
    assert all(pair.case.threads == 1 for pair in found)


def test_other_backends_may_take_the_place_of_those_of_a_suite():
    labels = fronts.resolve_labels(["engine[disable=fuse_gelu]", "fakes.py:Right"], FAKES.parent)
    found = {pair.ref.label for pair in fronts.of_suite("quick", labels)}
    assert found == {"engine[disable=fuse_gelu]", "fakes.py:Right"}
    with messages.raises(UsageError):
        fronts.resolve_labels(["eagre"], FAKES.parent)


def test_a_model_makes_a_case_for_each_number_of_threads():
    found = fronts.of_model("mlp", threads=[1, 2], arguments={"batch": 3})
    assert [(pair.case.shape["batch"], pair.case.threads, pair.ref.label) for pair in found] == [
        (3, 1, "eager"),
        (3, 1, "engine"),
        (3, 2, "eager"),
        (3, 2, "engine"),
    ]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("Wrong", "relative error"),
        ("Scribbling", "the call changed its inputs"),
        ("Hundredth", "a call before the warm-up: output 0: relative error"),
    ],
)
def test_a_wrong_result_is_not_timed(fault, reason):
    (pair, *_others) = fronts.of_model("mlp", arguments={"batch": 2, "widths": "16-16"})
    with SingleRuns() as runs, pytest.raises(Failed, match=f"wrong: .*{reason}"):
        runs.measure(pair.case, BackendRef(f"{FAKES}:{fault}"), pair.suite)


def test_single_runs_tell_what_failed_and_why():
    (pair, *_others) = fronts.of_model("mlp", arguments={"batch": 2, "widths": "16-16"})
    with SingleRuns() as runs:
        found = runs.measure(pair.case, pair.ref, pair.suite, timed=False)
        assert 0 < found.error < 1e-5
        assert found.phases["import_s"] > 0
        assert not found.seconds
        with messages.raises(Failed) as caught:
            runs.measure(pair.case, BackendRef(f"{FAKES}:Crashing"), pair.suite)
        assert caught.value.status == "failed"
        with pytest.raises(CannotRun, match="needs 4096 processors"):
            runs.measure(Case("mlp", {"batch": 2}, threads=4096), pair.ref, pair.suite)
