"""Writes a results folder of invented runs, to see what readers of records do with a large one.

    python -m tools.make_results /tmp/many --lines 100000
    time enginebench site --results /tmp/many --out /tmp/many-site

Every line is valid and about as long as one of a real run. The same arguments write the same files.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from suites.cli.scripts import make_parser
from suites.harness.declare.case import Case
from suites.harness.record import schema, store
from suites.harness.record.facts import AllFacts

BACKENDS = {"eager": 2.0, "eager#2": 2.0, "onnxruntime": 1.4, "openvino": 1.1, "engine": 1.0}
"""Label -> its time over the engine's, before noise."""
GENERATIONS, ROUNDS, SAMPLES_PER_ROUND = 2, 12, 3
CASES_PER_RUN = 20
MACHINES, MODELS = 20, 40
SWITCHES = 12
"""Of each case of an ablation; one run in ten is one."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Line = dict[str, Any]
Timed = tuple[Case, float]
"""A case, and seconds of a call of the engine."""


def write_results(folder: Path, lines: int) -> int:
    """Write runs until there are `lines` lines below `folder`, a results folder, and say how many runs there are.

    Machines take turns. Each measures all cases again and again, some in each run; neighbours are of different models.
    """
    sizes = itertools.product((1, 2, 4, 8, 16, 32, 64, 128), (1, 2), ("fp32", "bf16"))
    cases = [
        (Case(f"model{number:03}", {"batch": batch}, threads, precision), 1e-4 * (1 + number) * batch / threads)
        for batch, threads, precision in sizes
        for number in range(MODELS)
    ]
    left = lines
    for number in itertools.count():
        if left <= 0:
            return number
        machine, turn = f"machine{number % MACHINES:02}-2c-{number % MACHINES:06x}", number // MACHINES
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


def describe_run(chance: random.Random, machine: str, suite: str, number: int, cases: list[Timed]) -> Iterator[Line]:
    """The lines of one run; `chance` makes the noise."""
    yield _write(_describe_environment(machine, suite, number, cases))
    samples, summary, ablation = _write(_SAMPLES), _write(_SUMMARY), _write(_ABLATION)
    for case, own in cases:
        factors = {label: time * chance.uniform(0.8, 1.25) for label, time in BACKENDS.items()}
        for label, generation in itertools.product(factors, range(GENERATIONS)):
            seconds = own * factors[label]
            rounds = [
                [seconds * chance.lognormvariate(0, 0.02) for _ in range(SAMPLES_PER_ROUND)] for _ in range(ROUNDS)
            ]
            about = {"case": case.id, "backend": label, "generation": generation, "threads": case.threads}
            yield samples | about | {"seconds": rounds}
        for label in factors:
            yield summary | _describe_row(case, own, label, factors)
        if suite.startswith("ablate_"):
            for switch, mode in itertools.product(range(SWITCHES), ("leave_one_out", "add_one_in")):
                speed = _describe_speed(chance.lognormvariate(0.05, 0.1))
                yield ablation | {"case": case.id, "switch": f"pass{switch:02}", "mode": mode, "speed": speed}


def _describe_environment(machine: str, suite: str, number: int, cases: list[Timed]) -> schema.Environment:
    return schema.Environment(
        machine=machine, cpu=f"Invented {machine}", architecture="x86_64", cores=2, caches={"L2": "1024K"},
        isa=["avx2"], memory_bytes=1 << 34, kernel="Linux 6",
        python="3.11.7", versions={"torch": "2"}, commit=f"{number:012x}",
        dirty=False, difference=None, threads=[1, 2], suite=suite, plan_digest="0",
        backends={label: _describe_backend(label) for label in BACKENDS},
        plan=schema.Plan(
            name=suite, baseline="eager", rounds=ROUNDS, samples_per_round=SAMPLES_PER_ROUND, generations=GENERATIONS,
            generation_budget_s=10.0, same_within=0.02, timeouts={},
            cases={case.id: list(BACKENDS) for case, _ in cases},
        ),
    )  # fmt: skip


def _describe_backend(label: str) -> schema.BackendRecord:
    return schema.BackendRecord(name=label.partition("#")[0], role="engine" if label == "engine" else "peer")


def _describe_row(case: Case, own: float, label: str, factors: dict[str, float]) -> Line:
    seconds = own * factors[label]
    fastest = min((one for one in factors if one != "engine"), key=lambda one: factors[one])
    row: Line = {
        "case": case.id, "model": case.model, "shape": case.shape, "threads": case.threads,
        "precision": case.precision, "backend": label, "role": _describe_backend(label).role,
        "latency": {"p50": seconds, "p90": seconds * 1.1, "p99": seconds * 1.2, "min": seconds * 0.95, "n": 72},
        "speed": None if label == "eager" else _describe_speed(factors["eager"] / factors[label]),
    }  # fmt: skip
    if label == "engine":
        speed = factors[fastest] / factors["engine"]
        verdict = "faster" if speed > 1.05 else "slower" if speed < 0.95 else "unclear"
        about = {"backend": fastest, "speed": _describe_speed(speed), "verdict": verdict, "detectable": 0.04}
        row["best_peer"] = about
    return row


def _describe_speed(value: float) -> Line:
    return {"value": value, "low": value / 1.03, "high": value * 1.03}


def _write(record: schema.Record) -> Line:
    return {"schema": schema.SCHEMA, **store.to_json(record)}


_FACTS = AllFacts(
    nodes=40, launches=30, arena_bytes=1 << 20, arena_lower_bound_bytes=1 << 20, weight_bytes=1 << 24, flops=10**8,
    executed_flops=10**8, bytes=1 << 25, run_digest="0" * 64, kernels=[("f32_linear__avx2_packed", 30)],
)  # fmt: skip
_SAMPLES = schema.Samples(
    case="", backend="", generation=0, threads=1, inner=10, steady=True, facts=_FACTS, import_s=1.0, export_s=2.0,
    compile_s=0.5, first_call_s=0.01, peak_rss_bytes=1 << 28, elapsed_s=3.0,
    contention=schema.Contention(load=0.5, foreign_s=0.1, steal_s=0.0, repeated=0, disturbed=0, involuntary=1),
    error=schema.Error(relative=1e-7, max_abs=1e-6, tolerance=1e-5),
)  # fmt: skip
_SUMMARY = schema.Summary(
    case="", model="", shape={}, threads=1, precision="fp32", backend="", role="peer", baseline="eager", status="ok",
    latency=schema.Latency(p50=1.0, p90=1.0, p99=1.0, min=1.0, n=72), throughput=1.0, verdict="faster", detectable=0.04,
    best_peer=schema.Compared(backend=""), floor=0.03, aa_observations=4, error=_SAMPLES.error, import_s=1.0,
    export_s=2.0, compile_s=0.5, first_call_s=0.01, peak_rss_bytes=1 << 28, run_peak_rss_bytes=1 << 27, roof_share=0.4,
    executed_share=0.4, disturbed=0.0, neighbours=0.01, neighbours_flagged=False, weight_bytes=1 << 24, flops=10**8,
    executed_flops=10**8, bytes=1 << 25,
)  # fmt: skip
_ABLATION = schema.AblationRecord(
    case="", switch="", switch_kind="pass", mode="leave_one_out", reached=True, with_="engine", without="engine[x]",
    speed=schema.Speed(1.0, 1.0, 1.0), p=0.01, verdict="faster", detectable=0.04, floor=0.03,
)  # fmt: skip


def main() -> None:
    """Write the folder that the command line names."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, help="results folder to write")
    parser.add_argument("--lines", type=int, default=100_000)
    arguments = parser.parse_args()
    runs = write_results(arguments.folder, arguments.lines)
    print(f"{arguments.folder}: {arguments.lines:,} lines in {runs} runs")


if __name__ == "__main__":
    main()
