"""One model at its default size, every backend that is installed here: latency, and what it costs to get there.

python scripts/compare_backends.py [MODEL ...] [--stored RUN]... [--into docs/ablations.md]
"""

from __future__ import annotations

from pathlib import Path

from suites import backends
from suites.cli import guard
from suites.cli.scripts import measured, show_rows
from suites.harness.declare.case import BackendRef
from suites.harness.present import rows

CELLS = {
    "backend": rows.write_text("backend"),
    "latency": rows.write_latency,
    rows.SPEED: rows.write_speed,
    "error": rows.write_error,
    "import": rows.write_seconds("import_s"),
    "export": rows.write_seconds("export_s"),
    "compile": rows.write_seconds("compile_s"),
    "first call": rows.write_seconds("first_call_s"),
    "peak memory": rows.write_size("run_peak_rss_bytes"),
    "artifact": rows.write_size("artifact_bytes"),
}
LEGEND = (
    f"{rows.SPEED_LEGEND} In all other columns less is better. Peak memory is above the imports, with nothing exported."
)


def measure(model: str, results: Path | None) -> Path:
    """Run one model with the installed backends; eager is the baseline."""
    installed = [name for name in backends.BACKENDS if backends.unavailable(BackendRef(name)) is None]
    return measured("compare_backends", installed, [{"name": model}], results).path


def main() -> None:
    """Measure the models or read stored runs, then print the tables or write them into a page."""
    show_rows(__doc__, ["minilm"], measure, CELLS, LEGEND, "compare-backends")


if __name__ == "__main__":
    guard(main, "compare_backends")
