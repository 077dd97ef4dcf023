"""The fuzzer itself: programs of fixed seeds have allowed outcomes, seeds reproduce, planted faults are found."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from engine import planner
from engine.errors import ShapeError
from engine.ops import TABLE
from engine.runtime.boundary import Boundary
from engine.targets.cpu import native
from engine.targets.cpu.executable import CpuExecutable
from tests.fuzz import campaign, extremes, mutations, oracle, samples, summary
from tests.fuzz.campaign import Worker
from tests.fuzz.programs import Draft

ROUND = len(samples.OPS)
"""Seeds of one round: each op once."""
CYCLE = len(samples.KINDS) * ROUND
"""Seeds until every kind of change was made."""


@pytest.mark.parametrize(
    ("every", "accepted"),  # few programs with changed bytes are
    [
        (7, ("attribute", "structure")),
        pytest.param(1, ("attribute", "structure", "bytes"), marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_programs_of_fixed_seeds_have_allowed_outcomes(every, accepted, tmp_path):
    """Each op of the table in valid and in changed programs, and each kind of change; or every seventh of these."""
    seeds = range(0, CYCLE, every)
    results = campaign.run(seeds, folder=tmp_path)
    assert not results.findings, summary.findings(results, tmp_path)
    assert results.programs == len(seeds)
    valid = sum(samples.subject(seed).kind == "valid" for seed in seeds)
    called = (
        results.stages["valid", "ran"] + results.stages["valid", "failed"] + results.stages["valid", "refused call"]
    )
    assert called == valid
    assert results.stages["valid", "ran"] > 0.9 * valid
    for kind in accepted:
        assert results.stages[kind, "ran"], f"some programs with changed {kind} are accepted"
    for kind in ("attribute", "structure", "bytes"):
        assert results.stages[kind, "refused"]


def digest(seeds: range) -> str:
    """Hash of the files of these seeds, and of what goes with them."""
    whole = hashlib.sha256()
    for seed in seeds:
        one = samples.sample(seed)
        whole.update(samples.describe(one).encode())
        for array in (*one.draft.tensors.values(), *one.draft.arrays):
            whole.update(array.tobytes())
    return whole.hexdigest()


def test_a_seed_makes_the_same_program_in_every_process(root):
    seeds = range(0, CYCLE, 17)
    command, expected = f"from tests.fuzz.test_fuzz import digest; print(digest({seeds!r}))", digest(seeds)
    for hashing in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        done = subprocess.run(
            [sys.executable, "-c", command], check=True, capture_output=True, text=True, cwd=root, env=environment
        )
        assert done.stdout.strip() == expected


def test_rounds_reach_every_op_and_every_extreme():
    cycles = -(-len(extremes.ALL) // (samples.KINDS.count("attribute") * ROUND))
    tried = {one.extreme for one in map(samples.subject, range(cycles * CYCLE)) if one.extreme is not None}
    assert tried == set(extremes.ALL)
    assert {one.op for one in extremes.ALL} >= {name for name, op in TABLE.items() if not op.has_kernels}
    for kind in ("valid", "structure", "bytes"):
        assert {one.op for one in map(samples.subject, range(CYCLE)) if one.kind == kind} == set(samples.OPS)


def test_every_attribute_of_the_table_has_extremes():
    assert {(one.op, one.attribute) for one in extremes.ALL} == {
        (name, attribute) for name, op in TABLE.items() for attribute in op.attributes
    }


def test_valid_programs_have_every_kind_of_operand_and_signature():
    drafts = [samples.sample(seed).draft for seed in range(ROUND)]
    documents = [draft.document for draft in drafts]
    operands = [i["inputs"] for document in documents for i in document["instructions"]]
    assert any(None in inputs for inputs in operands), "an absent operand"
    assert any(document["states"] for document in documents)
    assert any(document["sizes"] for document in documents)
    assert any(len(set(document["outputs"])) < len(document["outputs"]) for document in documents), "repeated outputs"
    assert any(set(document["outputs"]) & set(document["inputs"]) for document in documents), "an input returned"
    types = [(dtype, len(shape)) for document in documents for dtype, shape in document["types"]]
    assert {dtype for dtype, _ in types} == {d.name for d in native.dtypes.DTYPES}
    assert {rank for _, rank in types} == set(range(9))


def test_every_change_of_the_structure_changes_something():
    draft = samples.sample(0).draft
    before = json.dumps(draft.document)
    for change in mutations.STRUCTURAL:
        changed = [Draft(json.loads(before), dict(draft.tensors), draft.arrays) for _ in range(20)]
        for seed, one in enumerate(changed):
            change(Random(seed), one)
        assert any(json.dumps(one.document) != before for one in changed), change.__name__


# --- planted faults -----------------------------------------------------------------------------------------------


def findings(seeds: range, folder) -> Iterator[str]:
    """What checking these programs in this process finds. No program is checked before its finding is asked for."""
    outcomes = (oracle.check_sample(samples.sample(seed), folder / "p.engine") for seed in seeds)
    return (outcome.finding.splitlines()[0] for outcome in outcomes if outcome.finding)


@pytest.mark.long
def test_without_a_planted_fault_nothing_is_found(tmp_path):
    assert list(findings(range(ROUND), tmp_path)) == []


def test_a_kernel_that_is_wrong_in_one_element_is_found(tmp_path, monkeypatch):
    def wrong(*arrays, **attributes):
        right = np.array(TABLE_RELU(*arrays, **attributes))
        right.reshape(-1)[-1:] += 1
        return right

    TABLE_RELU = TABLE["relu"].reference
    monkeypatch.setitem(TABLE, "relu", replace(TABLE["relu"], reference=wrong))
    seed = samples.OPS.index("relu")
    (finding,) = findings(range(seed, seed + 1), tmp_path)
    assert finding.startswith("wrong result: relu: 1 of ")


@pytest.fixture
def _overlapping(monkeypatch):
    """Let every plan put all memory at one place."""
    for name in planner.STRATEGIES:
        if name != "no_reuse":
            strategy = replace(planner.STRATEGIES[name], place=lambda requests: [0] * len(requests))
            monkeypatch.setitem(planner.STRATEGIES, name, strategy)


@pytest.mark.usefixtures("_overlapping")
def test_a_memory_plan_with_working_memory_in_an_operand_is_found(tmp_path):
    """Before anything runs."""
    assert any("working memory overlaps an operand" in finding for finding in findings(range(ROUND), tmp_path))


@pytest.mark.long
@pytest.mark.usefixtures("_overlapping")
def test_a_memory_plan_with_two_values_in_one_place_is_found(tmp_path):
    """By the bits of a run and its trace."""
    assert any("a run and its trace" in finding for finding in findings(range(CYCLE), tmp_path))


def test_an_error_that_is_not_promised_is_found(tmp_path, monkeypatch):
    def fail(self):
        raise MemoryError("planted")

    monkeypatch.setattr(CpuExecutable, "make_memory", fail)
    assert list(findings(range(1), tmp_path)) == ["MemoryError: planted"]


def test_arguments_that_are_refused_though_they_fit_are_found(tmp_path, monkeypatch):
    def refuse(self, args, kwargs):
        raise ShapeError("planted")

    monkeypatch.setattr(Boundary, "flatten_arguments", refuse)
    found = findings(range(ROUND), tmp_path)
    assert "the right arguments are refused: planted" in found


def test_wrong_arguments_that_are_taken_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(Boundary, "_check", lambda self, position, leaf: None)
    assert any("wrong arguments are taken" in finding for finding in findings(range(20), tmp_path))


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    made = Worker(tmp_path_factory.mktemp("fuzz") / "worker", None, limit=20.0)
    yield made
    made.close()


def test_a_process_that_dies_is_a_finding_and_is_replaced(worker):
    assert worker.check(0).stage == "ran"
    worker._process.send_signal(signal.SIGSEGV)
    verdict = worker.check(1)
    assert (verdict.stage, verdict.finding.splitlines()[0]) == ("died", "Segmentation fault")
    assert worker.check(1).stage == "ran"


def test_a_program_that_does_not_end_is_a_finding(worker, monkeypatch):
    assert worker.check(0).stage == "ran"
    worker._process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(worker, "limit", 0.5)
    verdict = worker.check(1)
    assert verdict.finding.startswith("no end within 0.5 s")


def test_findings_are_saved_and_end_the_run_with_status_one(tmp_path, monkeypatch):
    def find(self, seed):
        return campaign.Verdict(seed, {"kind": "valid", "op": "add"}, "died", "", "Segmentation fault", (), 0.0)

    monkeypatch.setattr(Worker, "check", find)
    results = campaign.run(range(5), folder=tmp_path)
    assert [verdict.seed for verdict in results.findings["add Segmentation fault"]] == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.glob("*/finding.txt"))[:1] == ["finding.txt"]
    assert len(list(tmp_path.iterdir())) == campaign.PER_FINDING
    from tests.fuzz import __main__ as command

    monkeypatch.setattr(sys, "argv", ["fuzz", "run", "--programs", "1", "--folder", str(tmp_path)])
    assert command.main() == 1


def test_the_page_names_every_module_and_the_number_of_programs(root):
    text = (root / "docs/reliability.md").read_text()
    modules = {path.name for path in (root / "tests/fuzz").glob("*.py") if not path.name.startswith(("test_", "__"))}
    assert modules == set(re.findall(r"`(\w+\.py)`", text))
    # The page gives no total, which a new op would change.
    assert len(samples.KINDS) == 8
    assert "one cycle of seeds, eight for each op" in text
    assert "<!-- fuzz -->" in text
    assert "<!-- /fuzz -->" in text
