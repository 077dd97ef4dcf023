"""The documents are followed literally, and every key of the record is described."""

from __future__ import annotations

import json
import re

import pytest

from suites.cli import main
from suites.harness.errors import UsageError
from suites.harness.judge import verify
from suites.harness.present import markdown
from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.harness.record.schema import Summary
from tools import reference, results_page


@pytest.fixture(scope="module")
def answer(root, tmp_path_factory):
    """What docs/add-a-backend.md leads to: its class, its suite, its command."""
    text = (root / "docs/add-a-backend.md").read_text()
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", text, re.DOTALL))
    folder = tmp_path_factory.mktemp("mine")
    (folder / "my_backend.py").write_text(blocks["python"])
    (folder / "my_suite.toml").write_text("rounds = 3\n" + blocks["toml"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main(["run", "my_suite.toml", "--results", "results"])
        assert not ended.value.code
    (path,) = folder.glob("results/runs/*/*.jsonl")
    return store.read(path)


def test_the_backend_of_the_page_runs_and_is_right(answer):
    rows = {line.backend: line for line in answer.of(Summary)}
    assert {line.status for line in rows.values()} == {"ok"}
    mine = rows["my_backend.py:Exported"]
    assert mine.nodes > 0
    assert mine.export_s > 0


def test_every_key_of_the_record_is_described(answer, root):
    text = (root / "docs/results-format.md").read_text()
    named = set(re.findall(r"`(\w+)`", text))
    for line in map(store.to_json, (answer.environment, *answer.records)):
        assert set(line) <= named, f"{line['kind']}: {sorted(set(line) - named)}"
    assert {"schema", "kind"} <= named


def test_the_record_is_plain_json(answer):
    for line in answer.path.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_constants_of_the_page_are_those_of_the_code(root):
    text = (root / "docs/measurement.md").read_text()
    assert f"{verify.TOLERANCE_FACTOR:g} times eager's own float32 error" in text
    assert f"at least {verify.TOLERANCE_ULPS:g} units in the" in text


def test_the_pages_of_commands_and_of_the_python_api_are_fresh(root):
    for name, text in (("cli", reference.write_cli()), ("python-api", reference.write_python())):
        assert (root / "docs" / f"{name}.md").read_text() == text, "run python -m tools.reference"


def test_the_page_of_results_follows_from_the_records(root):
    text = results_page.write_page(collect(root / "results"))
    assert (root / "docs" / "results.md").read_text() == text, "run python -m tools.results_page"


def test_a_page_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "page.md").write_bytes(b"\xf3")
    for name, told in (("none.md", "No such file"), (".", "Is a directory"), ("page.md", "not a text in UTF-8")):
        with pytest.raises(UsageError, match=told):
            markdown.write_between(tmp_path / name, "table", "text")
