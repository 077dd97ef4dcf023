"""ONNX Runtime's levels of optimisation and its offline optimiser, beside the engine, and which fusions fired in each.

    python scripts/compare_onnxruntime.py [MODEL ...] [--stored RUN] [--into docs/ablations.md] [--results DIR]

Without a model, those of the suite `onnxruntime`, with the variants that it names; any other model at each level.
Prints two tables of Markdown a model. `--stored` prints them of a stored run of this script or of the suite.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.cli.scripts import check_models, models_parser, run
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef
from suites.harness.declare.spec import ModelSweep, Suite
from suites.harness.present import table
from suites.harness.record import store
from suites.harness.record.schema import Environment, Summary

SUITE, NAME, MARKER = "onnxruntime", "compare_onnxruntime", "compare-onnxruntime"
COSTS = ("export_s", "compile_s", "first_call_s")
LEGEND = (
    "ratio: time over that of ONNX Runtime as usual, with its 95% interval, below 1 is faster; times and memory: lower "
    "is better; peak memory above the imports, nothing exported. Operators: how many more the optimised graph has than "
    "the exported one; in brackets those that the offline optimiser made, before ONNX Runtime's own optimisations."
)


def suite_of(names: Sequence[str]) -> Suite:
    """The suite `onnxruntime` with the models of these names alone, or all where none is named."""
    whole = spec.load(spec.find(SUITE))
    known = {sweep.name: sweep for sweep in whole.models}
    chosen = [known.get(name) or ModelSweep(name=name) for name in names or known]
    return whole.model_copy(update={"name": NAME, "models": chosen})


def markdown(summaries: Sequence[Summary], environment: Environment) -> str:
    """Both tables of every case."""
    by_case: dict[str, list[Summary]] = {}
    for line in summaries:
        by_case.setdefault(line.case, []).append(line)
    found = [table.heading(environment)]
    for case, lines in by_case.items():
        found += [f"**`{case}`**", table.pipes(speeds(lines)), table.pipes(fusions(lines))]
    return "\n\n".join([*found, LEGEND]) + "\n"


def speeds(lines: Sequence[Summary]) -> list[list[str]]:
    """Rows of the table of times: one a backend."""
    header = ["backend", "latency", "ratio", "error", *COSTS, "peak memory"]
    rows = [header, ["---"] * len(header)]
    for line in lines:
        time, ratio = table.cell_time(line)
        error = f"{line.error.relative:.1e}" if line.error else "-"
        costs = [table.seconds(getattr(line, name)) for name in COSTS]
        rows.append([f"`{line.backend}`", time, ratio, error, *costs, table.size(line.run_peak_rss_bytes)])
    return rows


def fusions(lines: Sequence[Summary]) -> list[list[str]]:
    """Rows of the table of fusions: one an operator, a column for each variant of ONNX Runtime."""
    refs = [BackendRef.parse(line.backend) for line in lines]
    of = {line.backend: line for ref, line in zip(refs, lines, strict=True) if ref.name == SUITE and ref.copy == 1}
    details: dict[str, dict[str, Any]] = {label: line.details or {} for label, line in of.items()}
    operators = sorted(
        {name for one in details.values() for key in ("made", "tool_made") for name in one.get(key) or {}}
    )
    rows = [["operator", *(f"`{label}`" for label in of)], ["---"] * (1 + len(of))]
    rows += [[f"`{name}`", *(_count(one, name) for one in details.values())] for name in operators]
    return [*rows, ["nodes", *(_nodes(line) for line in of.values())]]


def _count(details: Mapping[str, Any], name: str) -> str:
    """How often an operator was made; in brackets how often by the offline optimiser."""
    made, by_tool = ((details.get(key) or {}).get(name, 0) for key in ("made", "tool_made"))
    return f"{made} ({by_tool})" if by_tool else str(made or "")


def _nodes(line: Summary) -> str:
    """The nodes of the optimised graph, or why nothing is known of it."""
    if line.status != "ok":
        return line.status
    undescribed = (line.details or {}).get("undescribed")
    return f"not known: {undescribed}" if undescribed else str(line.nodes)


def _arguments() -> argparse.Namespace:
    parser = models_parser(__doc__)
    parser.add_argument("--stored", metavar="RUN", help="a stored run by name or path, or `last`: measure nothing")
    parser.add_argument("--into", type=Path, help=f"write the Markdown between the markers {MARKER} of this file")
    parser.add_argument("--results", type=Path, help="where runs lie, instead of the results folder of the checkout")
    arguments = parser.parse_args()
    check_models(parser, arguments.model)
    return arguments


def main() -> None:
    """Measure, or read what was measured; print it or write it between its markers."""
    arguments = _arguments()
    if arguments.stored:
        stored = store.find_run(store.results_folder(arguments.results), arguments.stored)
        summaries, environment = stored.summaries(), stored.environment
    else:
        outcome = run(suite_of(arguments.model), arguments.results)
        summaries, environment = outcome.summaries, outcome.environment
    if arguments.into:
        table.write_between(arguments.into, MARKER, markdown(summaries, environment))
    else:
        print(markdown(summaries, environment))


if __name__ == "__main__":
    main()
