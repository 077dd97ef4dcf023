"""Writes a results folder of invented runs, to see what readers of records do with a large one.

    python scripts/make_results.py /tmp/many --lines 100000
    time enginebench site --results /tmp/many --out /tmp/many-site

Every line is valid and about as long as one of a real run. The same arguments write the same files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from suites.cli.scripts import positive, read_path
from suites.harness.record import store
from suites.harness.record.facts import AllFacts
from suites.harness.record.schema import (
    SCHEMA,
    AblationRecord,
    BackendRecord,
    Compared,
    Contention,
    Environment,
    Error,
    Latency,
    Plan,
    Ratio,
    Record,
    Samples,
    Summary,
)

BACKENDS = {"eager": 2.0, "eager#2": 2.0, "onnxruntime": 1.4, "openvino": 1.1, "engine": 1.0}
"""Label -> its time over the engine's, before noise."""
GENERATIONS, ROUNDS, SAMPLES_PER_ROUND = 2, 12, 3
CASES_PER_RUN = 20
SWITCHES = 12
"""Of each case of an ablation; one run in ten is one."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Line = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One case of a run: what its name says, and seconds of a call of the engine."""

    model: str
    batch: int
    threads: int
    precision: str
    seconds: float

    @property
    def name(self) -> str:
        """As records name it."""
        return f"{self.model}/b{self.batch}/t{self.threads}/{self.precision}"


def list_cases(models: int) -> list[Case]:
    """All cases, in an order in which neighbours are of different models."""
    sizes = itertools.product((1, 2, 4, 8, 16, 32, 64, 128), (1, 2), ("fp32", "bf16"))
    return [
        Case(f"model{number:03}", batch, threads, precision, 1e-4 * (1 + number) * batch / threads)
        for batch, threads, precision in sizes
        for number in range(models)
    ]


def write_results(folder: Path, lines: int, machines: int = 20, models: int = 40) -> int:
    """Write runs until there are `lines` lines, and say how many runs there are.

    Args:
        folder: the results folder, which gets ``runs/MACHINE/*.jsonl``.
        lines: number of lines of all files together.
        machines: number of machines, which take turns.
        models: number of models; each has 32 cases. Every machine measures all cases again and again, some in each run.
    """
    cases = list_cases(models)
    left = lines
    for number in itertools.count():
        if left <= 0:
            return number
        machine, turn = f"machine{number % machines:02}-2c-{number % machines:06x}", number // machines
        first = turn * CASES_PER_RUN % len(cases)
        chosen = (cases + cases)[first : first + CASES_PER_RUN]
        suite = "ablate_passes" if turn % 10 == 9 else "invented"
        stamp = f"{BEGIN + timedelta(minutes=10 * number):%Y%m%dT%H%M%SZ}"
        path = store.runs_folder(folder, machine) / f"{stamp}_{number:012x}_{suite}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        written = list(itertools.islice(describe_run(random.Random(number), machine, suite, number, chosen), left))
        path.write_text("".join(json.dumps(line, allow_nan=False) + "\n" for line in written), encoding="utf-8")
        left -= len(written)
    raise AssertionError


def describe_run(chance: random.Random, machine: str, suite: str, number: int, cases: list[Case]) -> Iterator[Line]:
    """The lines of one run; `chance` makes the noise."""
    yield _write(_describe_environment(machine, suite, number, cases))
    samples, summary, ablation = _write(_SAMPLES), _write(_SUMMARY), _write(_ABLATION)
    for case in cases:
        speeds = {label: time * chance.uniform(0.8, 1.25) for label, time in BACKENDS.items()}
        for label, generation in itertools.product(speeds, range(GENERATIONS)):
            seconds = case.seconds * speeds[label]
            rounds = [
                [seconds * chance.lognormvariate(0, 0.02) for _ in range(SAMPLES_PER_ROUND)] for _ in range(ROUNDS)
            ]
            about = {"case": case.name, "backend": label, "generation": generation, "threads": case.threads}
            yield samples | about | {"seconds": rounds}
        for label in speeds:
            yield summary | _describe_row(case, label, speeds)
        if suite.startswith("ablate_"):
            for switch, mode in itertools.product(range(SWITCHES), ("leave_one_out", "add_one_in")):
                value = chance.lognormvariate(0.05, 0.1)
                ratio = {"value": value, "low": value / 1.03, "high": value * 1.03}
                yield ablation | {"case": case.name, "switch": f"pass{switch:02}", "mode": mode, "ratio": ratio}


def _describe_environment(machine: str, suite: str, number: int, cases: list[Case]) -> Environment:
    return Environment(
        machine=machine, cpu=f"Invented {machine}", architecture="x86_64", cores=2, caches={"L2": "1024K"},
        isa=["avx2"], memory_bytes=1 << 34, kernel="Linux 6",
        python="3.11.7", versions={"torch": "2"}, commit=f"{number:012x}",
        dirty=False, difference=None, threads=[1, 2], suite=suite, plan_digest="0",
        backends={label: _describe_backend(label) for label in BACKENDS},
        plan=Plan(
            name=suite, baseline="eager", rounds=ROUNDS, samples_per_round=SAMPLES_PER_ROUND, generations=GENERATIONS,
            generation_budget_s=10.0, same_within=0.02, timeouts={},
            cases={case.name: list(BACKENDS) for case in cases},
        ),
    )  # fmt: skip


def _describe_backend(label: str) -> BackendRecord:
    return BackendRecord(name=label.partition("#")[0], role="engine" if label == "engine" else "peer")


def _describe_row(case: Case, label: str, speeds: dict[str, float]) -> Line:
    seconds = case.seconds * speeds[label]
    fastest = min((one for one in speeds if one != "engine"), key=lambda one: speeds[one])
    row: Line = {
        "case": case.name, "model": case.model, "shape": {"batch": case.batch}, "threads": case.threads,
        "precision": case.precision, "backend": label, "role": _describe_backend(label).role,
        "latency": {"p50": seconds, "p90": seconds * 1.1, "p99": seconds * 1.2, "min": seconds * 0.95, "n": 72},
        "ratio": None if label == "eager" else _describe_ratio(speeds[label] / speeds["eager"]),
    }  # fmt: skip
    if label == "engine":
        ratio = speeds["engine"] / speeds[fastest]
        verdict = "faster" if ratio < 0.95 else "slower" if ratio > 1.05 else "unclear"
        about = {"backend": fastest, "ratio": _describe_ratio(ratio), "verdict": verdict, "detectable": 0.04}
        row["best_peer"] = about
    return row


def _describe_ratio(value: float) -> Line:
    return {"value": value, "low": value / 1.03, "high": value * 1.03}


def _write(record: Record) -> Line:
    return {"schema": SCHEMA, **store.to_json(record)}


_FACTS = AllFacts(
    nodes=40, launches=30, arena_bytes=1 << 20, arena_lower_bound_bytes=1 << 20, weight_bytes=1 << 24, flops=10**8,
    executed_flops=10**8, bytes=1 << 25, run_digest="0" * 64, kernels=[("f32_linear__avx2_packed", 30)],
)  # fmt: skip
_SAMPLES = Samples(
    case="", backend="", generation=0, threads=1, inner=10, steady=True, facts=_FACTS, import_s=1.0, export_s=2.0,
    compile_s=0.5, first_call_s=0.01, peak_rss_bytes=1 << 28, elapsed_s=3.0,
    contention=Contention(load=0.5, foreign_s=0.1, steal_s=0.0, repeated=0, disturbed=0, involuntary=1),
    error=Error(relative=1e-7, max_abs=1e-6, tolerance=1e-5),
)  # fmt: skip
_SUMMARY = Summary(
    case="", model="", shape={}, threads=1, precision="fp32", backend="", role="peer", baseline="eager", status="ok",
    latency=Latency(p50=1.0, p90=1.0, p99=1.0, min=1.0, n=72), throughput=1.0, verdict="faster", detectable=0.04,
    best_peer=Compared(backend=""), floor=0.03, aa_observations=4, error=_SAMPLES.error, import_s=1.0, export_s=2.0,
    compile_s=0.5, first_call_s=0.01, peak_rss_bytes=1 << 28, run_peak_rss_bytes=1 << 27, roof_share=0.4,
    executed_share=0.4, disturbed=0.0, neighbours=0.01, neighbours_flagged=False, weight_bytes=1 << 24, flops=10**8,
    executed_flops=10**8, bytes=1 << 25,
)  # fmt: skip
_ABLATION = AblationRecord(
    case="", switch="", switch_kind="pass", mode="leave_one_out", reached=True, with_="engine", without="engine[x]",
    ratio=Ratio(1.0, 1.0, 1.0), p=0.01, verdict="pays", detectable=0.04, floor=0.03,
)  # fmt: skip


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=read_path, help="results folder to write")
    parser.add_argument("--lines", type=positive, default=100_000)
    parser.add_argument("--machines", type=positive, default=20)
    parser.add_argument("--models", type=positive, default=40)
    arguments = parser.parse_args()
    runs = write_results(arguments.folder, arguments.lines, arguments.machines, arguments.models)
    print(f"{arguments.folder}: {arguments.lines:,} lines in {runs} runs")


if __name__ == "__main__":
    main()
