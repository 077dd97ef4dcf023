"""Records of every schema are read by one typed definition, from which everything else about columns derives."""

from __future__ import annotations

import json

import pytest

from suites import backends
from suites.harness.errors import UsageError
from suites.harness.record import document, migrations, store
from suites.harness.record.facts import AllFacts, Facts, columns, facts_of
from suites.harness.record.kinds import KINDS
from suites.harness.record.schema import (
    SCHEMA,
    AblationRecord,
    Environment,
    Samples,
    Summary,
    names,
)  # fmt: skip
from tests import messages
from tests.harness import records

GOLDEN = (
    "schema-1-first", "schema-1-ablation", "schema-1-generation", "schema-1-versions", "schema-2-first",
    "schema-2-precision", "schema-3-first", "schema-4-accuracy", "schema-5-history", "schema-5-kernels",
    "schema-5-nodes", "schema-5-versions", "schema-6-ablation", "schema-6-speeds", "schema-7-speeds",
)  # fmt: skip


def is_in(line, written):
    """Whether all that `line` says is in `written`, which may say more."""
    if isinstance(line, dict):
        return all(key in written and is_in(value, written[key]) for key, value in line.items())
    if isinstance(line, list):
        return len(line) == len(written) and all(map(is_in, line, written))
    return line == written


@pytest.fixture(scope="module", params=GOLDEN)
def golden(request, root):
    return store.read(root / f"tests/golden/records/{request.param}.jsonl")


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
def test_every_committed_record_is_read_and_nothing_of_it_is_left_out(root, step):
    paths = store.all_run_files(root / "results")
    assert len(paths) > 50
    for path in paths[::step]:
        run = store.read(path)
        raw = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(raw) == 1 + len(run.records)
        for line, record in zip(raw, (run.environment, *run.records), strict=True):
            written = store.to_json(record)
            line = migrations.upgrade(line, SCHEMA)
            del line["schema"]
            assert is_in(line, written), path.name


def test_an_upgrade_to_schema_6_renames_one_verdict_and_the_shares_of_nodes_and_nothing_else(root):
    old = ('"verdict": "inconclusive"', '"share_of_time":', '"share_of_roof":')
    new = ('"verdict": "unclear"', '"time_share":', '"roof_share":')
    seen = set()
    for path in sorted((root / "tests/golden/records").glob("schema-5-*.jsonl")):
        for text in path.read_text().splitlines():
            expected = text
            for before, after in zip(old, new, strict=True):
                seen |= {before} if before in expected else set()
                expected = expected.replace(before, after)
            assert json.dumps(migrations.upgrade(json.loads(text), 6)) == expected
    assert seen == set(old), "the golden files have each of them"


def test_an_upgrade_to_schema_7_turns_ratios_of_times_into_speeds(root):
    """The expected file was written by hand. Its numbers are exact: the inverse of 0.4 is 2.5."""
    old, new = (
        list(map(json.loads, (root / f"tests/golden/records/schema-{number}-speeds.jsonl").read_text().splitlines()))
        for number in (6, 7)
    )
    assert [migrations.upgrade(line, 7) | {"schema": 7} for line in old] == new


def read_upgraded(root, name, index):
    """A line of a golden file in schema 6 and in schema 7."""
    text = (root / f"tests/golden/records/{name}.jsonl").read_text().splitlines()[index]
    return [migrations.upgrade(json.loads(text), schema) for schema in (6, 7)]


def test_an_upgrade_to_schema_7_inverts_times_over_times(root):
    old, new = ([line, line["best_peer"], line["runner_up"], *line["versions"]]
                for line in read_upgraded(root, "schema-5-versions", 3))  # fmt: skip
    for before, after in zip(old, new, strict=True):
        ratio = before["ratio"]
        assert after["speed"] == {"value": 1 / ratio["value"], "low": 1 / ratio["high"], "high": 1 / ratio["low"]}
        assert (after["verdict"], "ratio" in after) == (before["verdict"], False)
    kernel, upgraded = read_upgraded(root, "schema-5-kernels", 1)
    assert upgraded["torch_speed"] == 1 / kernel["torch_ratio"]
    assert upgraded["openblas_speed"] == 1 / kernel["openblas_ratio"]


@pytest.mark.parametrize(
    ("switch", "mode", "verdict", "speed", "expected"),
    [
        ("fuse_gelu", "leave_one_out", "pays", 1.25, "faster"),
        ("fuse_gelu", "add_one_in", "costs", 1.25, "slower"),
        ("level=basic", "leave_one_out", "pays", 0.8, "slower"),  # the usual value pays
        ("level=basic", "leave_one_out", "costs", 0.8, "faster"),
        ("level=basic", "leave_one_out", "same", 0.8, "same"),
        ("a+b", "pair", "redundant", 0.8, "slower"),
        ("a+b", "pair", "synergy", 0.8, "faster"),
        ("a+level=basic", "pair", "independent", 0.8, "same"),
    ],
)
def test_an_upgrade_to_schema_7_says_of_an_ablation_what_is_faster(switch, mode, verdict, speed, expected):
    """The ratio of schema 6 is 1.25, of the time without the switch, or with its value, over the usual time."""
    ratio = {"value": 1.25, "low": 1.0, "high": 2.0}
    line = {"schema": 6, "kind": "ablation", "switch": switch, "mode": mode, "with": "engine", "without": "other",
            "ratio": ratio, "verdict": verdict, "deltas": {"nodes": [10, 11]}}  # fmt: skip
    new = migrations.upgrade(line, 7)
    assert new["speed"] == (ratio if speed == 1.25 else {"value": 0.8, "low": 0.5, "high": 1.0})
    assert new["verdict"] == expected
    is_value = mode == "leave_one_out" and "=" in switch
    told = (new["with"], new["without"], new["deltas"]["nodes"])
    assert told == (("other", "engine", [11, 10]) if is_value else ("engine", "other", [10, 11]))


def test_a_golden_file_is_read_and_written_back_in_todays_schema(golden, tmp_path):
    with store.Writer(tmp_path / "again.jsonl") as writer:
        writer.append(golden.environment, *golden.records)
    again = store.read(tmp_path / "again.jsonl")
    assert (again.environment, again.records) == (golden.environment, golden.records)
    assert {json.loads(line)["schema"] for line in again.path.read_text().splitlines()} == {SCHEMA}


def test_an_early_summary_has_null_where_it_had_no_column(root):
    run = store.read(root / "tests/golden/records/schema-1-first.jsonl")
    by_label = {line.backend: line for line in run.of(Summary)}
    engine = by_label["engine"]
    assert (engine.detectable, engine.best_peer, engine.neighbours, engine.executed_flops) == (None, None, None, None)
    assert engine.latency.min <= engine.latency.p50 <= engine.latency.p99 < 1e-4
    assert {line.device for line in by_label.values()} == {"cpu"}
    assert {label: line.role for label, line in by_label.items()} == {
        "eager": "peer", "eager#2": "peer", "torch_compile": "peer", "onnxruntime": "peer", "engine": "engine",
    }  # fmt: skip


def test_roles_and_packages_of_early_records_do_not_ask_todays_registry(root, monkeypatch):
    monkeypatch.setattr(backends, "BACKENDS", {})
    run = store.read(root / "tests/golden/records/schema-1-versions.jsonl")
    roles = {line.backend: line.role for line in run.of(Summary)}
    assert roles == {"engine@962abfb80ac7": "version", "engine@962abfb80ac7#2": "version", "engine": "engine"}
    assert {label: one.role for label, one in run.environment.backends.items()} == roles
    other = run.environment.backends["engine@962abfb80ac7"]
    assert (other.name, other.packages["torch"]) == ("engine@962abfb80ac7", "2.13.0+cpu")


@pytest.mark.parametrize("name", [name for name in GOLDEN if int(name.split("-")[1]) < 3])
def test_the_options_of_runs_before_schema_3_are_not_known(root, name):
    assert store.read(root / f"tests/golden/records/{name}.jsonl").environment.plan.options is None


def test_tokens_and_ablations_of_early_records_are_typed(root):
    (line, *_) = store.read(root / "tests/golden/records/schema-1-generation.jsonl").of(Samples)
    assert isinstance(line.facts, AllFacts)
    assert sum(line.facts.tokens.values()) > 0
    effects = store.read(root / "tests/golden/records/schema-1-ablation.jsonl").of(AblationRecord)
    assert effects[0].with_ == "engine"
    assert effects[0].speed.low <= effects[0].speed.value <= effects[0].speed.high


def test_an_upgrade_to_schema_8_renames_the_launches_that_are_slow_and_nothing_else(root):
    texts = (root / "tests/golden/records/schema-7-speeds.jsonl").read_text().splitlines()
    assert sum(text.count('"reference_launches":') for text in texts) > 1
    for text in texts:
        expected = text.replace('"reference_launches":', '"slow_launches":')
        assert json.dumps(migrations.upgrade(json.loads(text), 8)) == expected


def test_every_schema_but_the_newest_has_a_step_and_a_golden_file():
    assert set(migrations.STEPS) == set(range(1, SCHEMA))
    assert {int(name.split("-")[1]) for name in GOLDEN} == set(migrations.STEPS)


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "fast"},
        {"secnods": []},
        {"status": "splendid"},
        {"kind": "sample"},
        {"kind": ["samples"]},
        {"kind": {}},
        {"schema": 0},
        {"facts": {"nodes": "many"}},
        {"kind": "environment", "schema": 1},
        {"kind": "summary", "schema": 6, "ratio": {"value": 0, "low": 0, "high": 1}},
    ],
    ids=[
        "type",
        "unknown key",
        "status",
        "kind",
        "list as kind",
        "table as kind",
        "schema",
        "fact",
        "migration",
        "ratio",
    ],
)
def test_a_damaged_line_is_named_and_with_lenient_reading_left_out_alone(tmp_path, change):
    path = tmp_path / "a.jsonl"
    with store.Writer(path) as writer:
        writer.append(records.environment(), records.samples(), records.samples(generation=1))
    first, second, third = map(json.loads, path.read_text().splitlines())
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, second | change, third)))
    with messages.raises(UsageError) as caught:
        store.read(path)
    run = store.read(path, lenient=True)
    assert [line.generation for line in run.of(Samples)] == [1]
    assert run.problems == (str(caught.value),)


def test_a_file_without_its_first_line_says_nothing(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with messages.raises(UsageError):
        store.read(tmp_path / "empty.jsonl", lenient=True)


def test_what_a_backend_tells_has_a_column_or_goes_to_the_details():
    facts = facts_of({"nodes": 3, "arena_bytes": None, "taste": "sweet", "details": {"made": {"Gelu": 2}}})
    assert (facts.nodes, facts.arena_bytes) == (3, None)
    assert facts.details == {"made": {"Gelu": 2}, "taste": "sweet"}
    with pytest.raises(ValueError, match="nodes"):
        facts_of({"nodes": "three"})


def test_columns_that_gate_or_are_counted_are_declared_with_the_column():
    assert set(columns("counted")) < set(columns("gates")) < set(Facts.model_fields)
    assert {"launches", "arena_bytes"} <= set(columns("counted"))
    assert "run_digest" not in columns("gates")


def test_the_page_is_fresh(root):
    page = root / "docs/results-format.md"
    assert document.write(page) == page.read_text()


def test_every_field_says_what_it_means():
    for kind in (*KINDS.values(), *document.PARTS):
        assert all(kind.model_fields[name].description for name in names(kind)), kind


def test_a_line_begins_with_what_it_is_of():
    assert list(store.to_json(records.summary()))[:3] == ["kind", "case", "model"]
    assert "with" in store.to_json(
        AblationRecord(
            case="c", switch="s", switch_kind="pass", mode="pair", reached=False, with_="engine", without="other"
        )
    )


def test_the_role_of_a_second_copy_is_that_of_the_first():
    known = records.environment(backends={"engine[a=b]": {"name": "engine", "role": "engine"}})
    assert isinstance(known, Environment)
    assert [known.role(label) for label in ("engine[a=b]", "engine[a=b]#2", "other")] == ["engine", "engine", "peer"]
