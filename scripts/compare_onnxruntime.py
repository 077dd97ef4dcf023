"""ONNX Runtime's levels of optimisation and its offline optimiser, beside the engine, and which fusions fired in each.

    python scripts/compare_onnxruntime.py [MODEL ...] [--stored RUN]... [--into docs/ablations.md] [--results DIR]

Without a model, those of the suite `onnxruntime`, with the variants that it names; any other model at each level.
Prints two tables of Markdown a model. `--stored` prints them of a stored run of this script or of the suite. It may be
given several times: of a case that several runs have, the rows of the last one are printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from suites.cli import guard
from suites.cli.scripts import check_models, check_output, find_stored, load_latest, output_parser, run
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef
from suites.harness.declare.spec import ModelSweep, Suite
from suites.harness.present import markdown, rows
from suites.harness.present.rows import Row
from suites.harness.record import store

if TYPE_CHECKING:
    import pandas as pd

SUITE, NAME, MARKER = "onnxruntime", "compare_onnxruntime", "compare-onnxruntime"
CELLS = {
    "backend": lambda row: f"`{row['backend']}`",
    "latency": rows.write_latency,
    rows.SPEED: rows.write_speed,
    "error": rows.write_error,
    "export": rows.write_seconds("export_s"),
    "compile": rows.write_seconds("compile_s"),
    "first call": rows.write_seconds("first_call_s"),
    "peak memory": rows.write_size("run_peak_rss_bytes"),
}
LEGEND = (
    f"{rows.SPEED_LEGEND} In all other columns less is better. Peak memory is above the imports, with nothing "
    "exported. The lower table counts how many more operators of each kind the optimised graph has than the exported "
    "one. In brackets is the number that the offline optimiser made, before ONNX Runtime's own optimisations."
)


def suite_of(names: Sequence[str]) -> Suite:
    """The suite `onnxruntime` with the models of these names alone, or all where none is named."""
    whole = spec.load(spec.find(SUITE))
    known = {sweep.name: sweep for sweep in whole.models}
    chosen = [known.get(name) or ModelSweep(name=name) for name in names or known]
    return whole.model_copy(update={"name": NAME, "models": chosen})


def write_markdown(frame: pd.DataFrame, headings: Sequence[str]) -> str:
    """Both tables of every case.

    Args:
        frame: rows of the runs, as `suites.load_runs` gives them; a case has the rows of one run.
        headings: machine, commit and versions of each run.
    """
    parts = list(dict.fromkeys(headings))
    for case, part in frame.groupby("case", sort=False):
        found = rows.read_rows(part)
        parts += [f"**`{case}`**", markdown.pipes(rows.write_lines(found, CELLS)), markdown.pipes(list_fusions(found))]
    return "\n\n".join([*parts, LEGEND]) + "\n"


def list_fusions(found: Sequence[Row]) -> list[list[str]]:
    """Lines of the table of fusions, headings first: one an operator, a column for each variant of ONNX Runtime."""
    refs = [BackendRef.parse(row["backend"]) for row in found]
    variants = [row for ref, row in zip(refs, found, strict=True) if ref.name == SUITE and ref.copy == 1]
    details: list[dict[str, Any]] = [json.loads(row["details"] or "{}") for row in variants]
    operators = sorted({name for one in details for key in ("made", "tool_made") for name in one.get(key) or {}})
    lines = [["operator", *(f"`{row['backend']}`" for row in variants)]]
    lines += [[f"`{name}`", *(_count(one, name) for one in details)] for name in operators]
    return [*lines, ["nodes", *(_count_nodes(row, one) for row, one in zip(variants, details, strict=True))]]


def _count(details: Mapping[str, Any], name: str) -> str:
    """How often an operator was made; in brackets how often by the offline optimiser."""
    made, by_tool = ((details.get(key) or {}).get(name, 0) for key in ("made", "tool_made"))
    return f"{made} ({by_tool})" if by_tool else str(made or "")


def _count_nodes(row: Row, details: Mapping[str, Any]) -> str:
    """The nodes of the optimised graph, or why nothing is known of it."""
    if row["status"] != "ok":
        return str(row["status"])
    undescribed = details.get("undescribed")
    return f"not known: {undescribed}" if undescribed else str(row["nodes"])


def main() -> None:
    """Measure, or read what was measured; print it or write it between its markers."""
    parser = output_parser(__doc__, MARKER)
    arguments = parser.parse_args()
    check_models(parser, arguments.model)
    check_output(parser, arguments, MARKER)
    paths = find_stored(arguments) or [run(suite_of(arguments.model), arguments.results).path]
    text = write_markdown(load_latest(paths), [markdown.heading(store.read(path).environment) for path in paths])
    if arguments.into:
        markdown.write_between(arguments.into, MARKER, text)
    else:
        print(text)


if __name__ == "__main__":
    guard(main, "compare_onnxruntime")
