"""Do workers that are prepared side by side take longer than one after the other? Prints a table a model.

    python scripts/bench_phases.py [MODEL ...] [--repeats N]

Workers of one thread are prepared on processors of their own, as many at once as there are processors. Each phase is
measured both ways in turn; a row has the medians of both, and the second over the first.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from suites.cli import guard
from suites.cli.output import console
from suites.cli.scripts import check_models, models_parser, positive
from suites.harness.declare.spec import of_model
from suites.harness.judge.summary import PHASES
from suites.harness.present import rows, units
from suites.harness.run import casework, plan, runner
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import find_lanes

BACKENDS = ("eager", "torch_compile", "onnxruntime", "openvino", "engine")
Seconds = dict[tuple[str, str], list[float]]
"""(backend, phase) -> seconds of each repetition."""


@contextmanager
def one_after_the_other() -> Iterator[None]:
    """Within, there is room for one worker at a time."""
    with patch.object(casework, "find_lanes", lambda threads: find_lanes(threads)[-1:]):
        yield


def measure(model: str, seconds: Seconds) -> None:
    """Add the phases of one run of `model`."""
    suite = of_model(model, {}, backends=BACKENDS, rounds=3, generation_budget_s=1.0)
    with tempfile.TemporaryDirectory() as folder:
        outcome = runner.run(plan.make(suite), Path(folder), Reporter())
    for row in outcome.summaries:
        for phase in PHASES:
            if getattr(row, phase) is not None:
                seconds[row.backend, phase].append(getattr(row, phase))


def compare(model: str, repeats: int) -> list[list[str]]:
    """The lines of the table of one model, headings first."""
    alone, beside = defaultdict[tuple[str, str], list[float]](list), defaultdict[tuple[str, str], list[float]](list)
    for _ in range(repeats):
        with one_after_the_other():
            measure(model, alone)
        measure(model, beside)
    lines = [["backend", "phase", "one after the other", "side by side", "ratio"]]
    for (backend, phase), values in alone.items():
        first, second = statistics.median(values), statistics.median(beside[backend, phase])
        ratio = f"{second / first:.2f}" if first else units.UNKNOWN
        lines.append([backend, phase.removesuffix("_s"), units.seconds(first), units.seconds(second), ratio])
    return lines


def main() -> None:
    """Compare both for each model."""
    parser = models_parser(__doc__)
    parser.add_argument("--repeats", type=positive, default=3, help="runs of each kind (default: 3)")
    arguments = parser.parse_args()
    check_models(parser, arguments.model)
    for model in arguments.model or ("minilm",):
        rows.print_rows(console(), compare(model, arguments.repeats), model, "less is better; ratio: about 1")


if __name__ == "__main__":
    guard(main, "bench_phases")
