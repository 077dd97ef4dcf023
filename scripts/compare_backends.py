"""One model at its default size, every backend that is installed here: latency, and what it costs to get there.

python scripts/compare_backends.py [MODEL ...]
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

import suites
from suites import backends
from suites.cli.scripts import chosen_models, measured
from suites.harness.declare.case import BackendRef
from suites.harness.present import rows

CELLS = {
    "backend": rows.write_text("backend"),
    "latency": rows.write_latency,
    "speed vs eager [95%] verdict": rows.write_speed,
    "error": rows.write_error,
    "import": rows.write_seconds("import_s"),
    "export": rows.write_seconds("export_s"),
    "compile": rows.write_seconds("compile_s"),
    "first call": rows.write_seconds("first_call_s"),
    "peak memory": rows.write_size("run_peak_rss_bytes"),
    "artifact": rows.write_size("artifact_bytes"),
}
CAPTION = "speed above 1 is faster than eager; of all else, less is better; memory above the imports, nothing exported"


def show(model: str) -> Table:
    """The table of one model over the installed backends; eager is the baseline."""
    installed = [name for name in backends.BACKENDS if backends.unavailable(BackendRef(name)) is None]
    frame = suites.load_runs(measured("compare_backends", installed, [{"name": model}]).path)
    return rows.make_table(rows.write_lines(rows.read_rows(frame), CELLS), model, CAPTION)


if __name__ == "__main__":
    for chosen in chosen_models(__doc__, ["minilm"]):
        Console(width=170).print(show(chosen))
