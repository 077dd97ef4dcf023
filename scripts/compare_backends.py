"""One model at its default size, every backend that is installed here: who is how fast, and what it costs to get there.

python scripts/compare_backends.py [MODEL ...]
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from suites import backends
from suites.cli.scripts import chosen_models, measured
from suites.harness.declare.case import BackendRef
from suites.harness.present import table
from suites.harness.record.schema import Summary

COSTS = ("import_s", "export_s", "compile_s", "first_call_s")


def lines(model: str) -> list[Summary]:
    """Summaries of one model over the installed backends; eager is the baseline."""
    installed = [name for name in backends.BACKENDS if backends.unavailable(BackendRef(name)) is None]
    return measured("compare_backends", installed, [{"name": model}]).summaries


def show(model: str) -> Table:
    """The table of one model."""
    header = ("backend", "latency", "ratio to eager [95%] verdict", "error", *COSTS, "peak memory", "artifact")
    found = Table(*header, title=model)
    for line in lines(model):
        time, ratio = table.cell_time(line)
        error = f"{line.error.relative:.1e}" if line.error else "-"
        costs = [table.seconds(getattr(line, name)) for name in COSTS]
        sizes = [table.size(getattr(line, name)) for name in ("run_peak_rss_bytes", "artifact_bytes")]
        found.add_row(line.backend, time, ratio.replace("[", "\\["), error, *costs, *sizes)
    found.caption = (
        "ratio below 1 is faster than eager; everything else: lower is better; "
        "memory above the imports, nothing exported"
    )
    return found


if __name__ == "__main__":
    for chosen in chosen_models(__doc__, ["minilm"]):
        Console(width=170).print(show(chosen))
