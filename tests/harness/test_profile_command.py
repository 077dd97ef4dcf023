"""``enginebench profile --backends``: others beside the engine, each as a whole."""

from __future__ import annotations

import json

import pytest

from suites.cli import main, profile
from suites.harness.run.runner import Outcome

RATIO = {"value": 1.25, "low": 1.2, "high": 1.3}
LINES = [
    {"backend": "engine", "status": "ok", "latency": {"p50": 8e-6}, "ratio": None, "roof_share": 0.75},
    {
        "backend": "eager",
        "status": "ok",
        "latency": {"p50": 10e-6},
        "ratio": RATIO,
        "verdict": "slower",
        "roof_share": 0.6,
    },
    {"backend": "openvino", "status": "unavailable", "reason": "pip install openvino", "roof_share": None},
]
PROFILE = ["profile", "mlp", "--set", "widths=16-16", "--backends", "eager,openvino"]


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The plans that the command had measured; the answer is `LINES`."""
    found = []

    def run(plan, results, reporter, **_):
        found.append((plan, results))
        return Outcome(tmp_path / "run.jsonl", {}, LINES)

    monkeypatch.setattr(profile.runner, "run", run)
    return found


def test_the_engine_and_the_others_take_turns_on_the_very_case_that_is_profiled(capsys, measured, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main([*PROFILE, "--threads", "2", "--results", str(tmp_path)])
    assert not ended.value.code
    ((plan, results),) = measured
    ((case, refs),) = plan.cases
    assert case.id == "mlp/b1/t2/fp32/widths=16-16"
    assert [ref.label for ref in refs] == ["engine", "engine#2", "eager", "openvino"]
    assert (plan.suite.name, results) == ("profile_mlp", tmp_path)
    out = capsys.readouterr().out
    assert "at the roof" in out
    assert "1.250 [1.200, 1.300] slower" in out
    assert "pip install openvino" in out


def test_a_row_shows_its_share_of_the_roof_and_a_bar_of_that_length():
    engine, eager, missing = profile.rows(LINES)
    assert (engine["at the roof"], len(engine[""])) == ("75.0%", 30)
    assert (eager["at the roof"], len(eager[""])) == ("60.0%", 24)
    assert (missing["at the roof"], missing[""]) == (None, "")


def test_for_machines_the_summaries_lie_beside_the_nodes(capsys, measured):
    with pytest.raises(SystemExit):
        main([*PROFILE, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["beside"]["summaries"] == LINES
    assert answer["nodes"]


def test_what_a_model_prints_is_no_part_of_the_answer(capfd, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os\nimport torch\n\n\ndef chatty():\n    print('hello')\n    os.write(1, b'raw')\n"
        "    return torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),)\n\n\ndef leaves():\n    raise SystemExit(0)\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["profile", f"{tmp_path}/mine.py:chatty", "--json"])
    assert not ended.value.code
    out, err = capfd.readouterr()
    assert json.loads(out)["nodes"]
    assert "hello" in err
    assert "raw" in err
    with pytest.raises(SystemExit) as ended:
        main(["profile", f"{tmp_path}/mine.py:leaves"])
    assert ended.value.code == 2
    assert "ended the process: exit(0)" in capfd.readouterr().err
