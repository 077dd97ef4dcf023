"""Summaries of made-up rounds: the work of a case, its share of the roof, the comparison with the best peer."""

from __future__ import annotations

import pytest

from suites.harness.declare.case import BackendRef, Case
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import Question, _neighbours, find_work, share_disturbed, summarise
from suites.harness.record import roofs
from suites.harness.record.roofs import Roof, Roofs
from suites.harness.record.schema import Contention
from tests.harness import records

PEAK, BANDWIDTH = 100e9, 20e9
MACHINE = Roofs(
    (
        Roof("fp32", 1, PEAK, "FLOP/s", believed=True),
        Roof("memory", 1, BANDWIDTH, "B/s", believed=True),
        Roof("fp32", 2, 2 * PEAK, "FLOP/s", believed=False),
    ),
    0.0,
)
LABELS = ("eager", "eager#2", "torch_compile", "onnxruntime", "engine[disable=fuse_gelu]", "engine")
TIMES = dict(zip(LABELS, (4.0, 3.9, 3.0, 2.0, 1.8, 1.5), strict=True))


@pytest.fixture(autouse=True)
def _cache(monkeypatch):
    monkeypatch.setattr(roofs, "last_level_bytes", lambda: 32 << 20)


def samples(label, seconds, facts=None, status="ok"):
    """One line a generation; the rounds drift together, so that only pairs tell the backends apart."""
    drifts = [1 + 0.1 * number for number in range(5)]
    lines = []
    for generation in range(4):
        rounds = [[seconds * drift * (1 + 1e-4 * generation)] for drift in drifts] if status == "ok" else []
        told = {"backend": label, "generation": generation, "status": status, "reason": status, "seconds": rounds}
        lines.append(records.samples(**told, facts=facts))
    return lines


def rows(flops=int(120e9), nbytes=1000, threads=1, machine=MACHINE, **status):
    facts = {
        "engine": {"flops": flops, "bytes": nbytes},
        "engine[disable=fuse_gelu]": {"flops": flops, "bytes": 3 * nbytes},
    }
    case = Case("mlp", {"batch": 2}, threads)
    refs = [BackendRef.parse(label) for label in LABELS]
    lines = [
        line for label in LABELS for line in samples(label, TIMES[label], facts.get(label), status.get(label, "ok"))
    ]
    found = summarise(Question(case, refs, "eager", 0.02, machine), lines, MachineNoise())
    return {line.backend: line for line in found}


def _summarise_with_roofs(labels, facts):
    lines = [line for label in labels for line in samples(label, TIMES[label], facts.get(label))]
    refs = [BackendRef.parse(label) for label in labels]
    question = Question(Case("mlp", {"batch": 2}), refs, "eager", 0.02, MACHINE)
    return {line.backend: line for line in summarise(question, lines, MachineNoise())}


def test_the_engine_is_compared_with_the_fastest_other_backend_by_pairs():
    line = rows()["engine"]
    assert line.best_peer.backend == "onnxruntime"
    assert line.best_peer.speed.value == pytest.approx(2.0 / 1.5)
    assert line.best_peer.speed.low <= 2.0 / 1.5 <= line.best_peer.speed.high
    assert line.best_peer.verdict == "faster"
    assert line.speed.value == pytest.approx(4.0 / 1.5), "the speed against the baseline stays"


def test_every_form_of_the_engine_is_compared_and_no_peer_is():
    found = rows()
    assert found["engine[disable=fuse_gelu]"].best_peer.speed.value == pytest.approx(2.0 / 1.8)
    assert [label for label, line in found.items() if line.best_peer] == ["engine[disable=fuse_gelu]", "engine"]


VERSION = "engine@0123456789ab"


def rows_of_versions(baseline="eager", labels=(*LABELS, VERSION), facts=None):
    """The rows of a case in which another version of the engine takes 1.2 of its time, less than any peer."""
    facts = facts or {"engine": {"flops": 10, "bytes": 1}, VERSION: {"flops": 99, "bytes": 9}}
    times = TIMES | {VERSION: 1.8, f"{VERSION}#2": 1.8}
    lines = [line for label in labels for line in samples(label, times[label], facts.get(label))]
    refs = [BackendRef.parse(label) for label in labels]
    found = summarise(Question(Case("mlp", {"batch": 2}), refs, baseline, 0.02), lines, MachineNoise())
    return {line.backend: line for line in found}


def test_the_engine_is_compared_with_other_versions_which_are_no_peers():
    found = rows_of_versions()
    (against,) = found["engine"].versions
    assert (against.backend, against.verdict) == (VERSION, "faster")
    assert against.speed.value == pytest.approx(1.8 / 1.5)
    assert [label for label, line in found.items() if line.versions] == ["engine[disable=fuse_gelu]", "engine"]
    assert found["engine"].best_peer.backend == "onnxruntime", "not the other version, which is faster"
    assert found[VERSION].best_peer is None


def test_a_version_that_is_the_baseline_is_compared_once():
    found = rows_of_versions(VERSION, (VERSION, f"{VERSION}#2", "engine"))
    assert found["engine"].speed.value == pytest.approx(1.8 / 1.5)
    assert found["engine"].versions is None
    assert found["engine"].best_peer is None


def test_the_work_of_a_case_is_that_of_this_checkout_where_it_took_part():
    labels = ("eager", "eager#2", VERSION, "engine[disable=fuse_gelu]")
    facts = {label: {"flops": number, "bytes": 1} for number, label in enumerate(labels) if number > 1}
    assert rows_of_versions(labels=labels, facts=facts)["eager"].flops == 3
    assert rows_of_versions(labels=labels[:3], facts=facts)["eager"].flops == 2


def test_details_of_a_backend_come_into_its_row_alone():
    facts = {"torch_compile": {"graph_breaks": 1, "details": {"kernels": 3}}}
    labels = LABELS[:3]
    lines = [line for label in labels for line in samples(label, TIMES[label], facts.get(label))]
    question = Question(Case("mlp", {"batch": 2}), [BackendRef.parse(label) for label in labels], "eager", 0.02)
    details = {line.backend: line.details for line in summarise(question, lines, MachineNoise())}
    assert details == {"eager": None, "eager#2": None, "torch_compile": {"kernels": 3}}


def test_a_peer_without_a_right_answer_is_no_peer():
    found = rows(onnxruntime="wrong")
    assert found["engine"].best_peer.backend == "torch_compile"
    assert rows(engine="failed")["engine"].best_peer is None


def test_the_work_of_a_case_is_that_of_the_engine_with_everything_on():
    found = rows()
    assert {(line.flops, line.bytes) for line in found.values() if line.role == "peer"} == {(int(120e9), 1000)}
    assert find_work(found.values()) is found["engine"]


def test_a_row_that_counted_its_own_work_keeps_it_and_its_share_of_the_roof_is_of_the_work_of_the_case():
    """The counts of a program are the same whoever takes part, so that two runs of it agree on them."""
    facts = {"engine": {"flops": 10, "bytes": int(36e9)}, "engine[disable=fuse_gelu]": {"flops": 20, "bytes": 5000}}
    labels = [label for label in LABELS if label != "engine"]
    both, alone = (_summarise_with_roofs(chosen, facts) for chosen in (LABELS, labels))
    without = both["engine[disable=fuse_gelu]"]
    assert (without.flops, without.bytes) == (20, 5000)
    assert (alone[without.backend].flops, alone[without.backend].bytes) == (20, 5000)
    assert without.roof_share == pytest.approx(1.8 / without.latency.p50), "36 GB at the bandwidth of the roofs"


def test_the_share_of_the_roof_is_the_least_time_over_the_median():
    found = rows()
    for label, line in found.items():
        assert line.roof_share == pytest.approx(1.2 / line.latency.p50), label
    heavy = rows(flops=10, nbytes=int(36e9))["engine"]
    assert heavy.roof_share == pytest.approx(1.8 / heavy.latency.p50), "bound by memory"


@pytest.mark.parametrize("given", [{"machine": None}, {"threads": 2}, {"flops": None}])
def test_without_a_believed_roof_or_a_count_there_is_no_share(given):
    assert {line.roof_share for line in rows(**given).values()} == {None}


def test_what_neighbours_cost_comes_from_turns_that_lie_close_together():
    drifting = [1.0, 1.3, 0.8]  # the machine, between the pairs
    alone = [[1.0 * speed] for speed in drifting]
    beside = [[gap * speed] for gap, speed in zip((1.05, 1.06, 1.07), drifting, strict=True)]
    lines = [records.samples(beside=beside, alone=alone), records.samples()]
    assert _neighbours(lines) == (pytest.approx(0.06), True)
    assert _neighbours(lines[1:]) == (None, None)
    assert _neighbours([records.samples(alone=[[1.0]])]) == (None, None), "a record from before"


def test_neighbours_that_disturb_most_turns_and_not_all_are_flagged():
    gaps = (1.24, 1.0, 1.66, 1.69, 1.31, 1.0)  # what a spinning pool did to a program on two threads
    longer, flagged = _neighbours([records.samples(beside=[[gap] for gap in gaps], alone=[[1.0]] * 6)])
    assert (longer, flagged) == (pytest.approx((1.24 * 1.31) ** 0.5 - 1), True)


@pytest.mark.parametrize(
    "gaps", [(1.01, 1.02, 1.03), (0.7, 1.06, 1.4), (0.93, 0.94, 0.95)], ids=["small", "scattered", "shorter"]
)
def test_what_neighbours_cost_is_not_flagged_where_it_is_little_or_unsure(gaps):
    line = records.samples(beside=[[gap] for gap in gaps], alone=[[1.0]] * 3)
    assert _neighbours([line])[1] is False


def test_rounds_that_stay_disturbed_are_marked():
    lines = [records.samples(seconds=[[1.0]] * 10, contention=told) for told in (Contention(disturbed=3), None)]
    assert share_disturbed(lines) == pytest.approx(0.3)
