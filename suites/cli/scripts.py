"""Runs what the scripts of `scripts/` declare to compare; and the command line of the programs of `tools/`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import suites
from suites.cli import guard
from suites.cli.app import app
from suites.cli.output import check_writable, console
from suites.cli.run import measure_plan
from suites.harness.declare.spec import ModelSweep, Suite
from suites.harness.errors import UsageError
from suites.harness.judge.ablation import MODES
from suites.harness.present import markdown, progress, rows
from suites.harness.present.report import Paragraph, Part, print_report
from suites.harness.present.table import Table
from suites.harness.record import lookup, store
from suites.harness.record.schema import AblationRecord, Summary
from suites.harness.run import ablate, plan


def make_parser(description: str | None, marker: str = "") -> argparse.ArgumentParser:
    """A parser whose help begins with the description; with the name of markers, it has the option ``--into``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if marker:

        def read_page(text: str) -> Path:
            markdown.read_between(path := Path(text), marker)  # before minutes of measuring
            check_writable(path)
            return path

        parser.add_argument("--into", type=read_page, help=f"write the Markdown between the markers {marker} of a file")
    return parser


def publish(text: str, into: Path | None, marker: str) -> None:
    """Write Markdown between the markers of the page that ``--into`` names, or print it."""
    if into:
        markdown.write_between(into, marker, text)
    else:
        print(text, end="")


def run_comparison(
    description: str | None,
    suite: Suite | Mapping[str, Any],
    cells: Mapping[str, rows.Cell] | None = None,
    legend: str = "",
    *,
    switches: Sequence[str] | None = None,
) -> None:
    """Run the command line of a script and exit: measures a comparison, or reads a stored one, and prints its tables.

    Args:
        description: of the script.
        suite: what is compared, with the keys of a suite file. A model of the command line that the suite has keeps
            its sizes and options. The name with hyphens is that of the markers of ``--into``.
        cells: heading -> how its cells are written, of a table for each case. Without them the tables are those of
            ``enginebench show``.
        legend: below the tables of `cells`.
        switches: what to leave out of the baseline, as of `ablate.of_backend`; () means its usual switches. None
            compares backends.
    """
    declared = Suite.model_validate(suite)
    guard(lambda: _compare(description, declared, cells, legend, switches), declared.name)


def write_made(row: rows.Row) -> str:
    """Writes the operators that the fusions of ONNX Runtime made; in brackets how many the offline optimiser made."""
    details = json.loads(row["details"] or "{}")
    made, by_tool = details.get("made") or {}, details.get("tool_made") or {}
    texts = [
        f"{name} x{made.get(name, 0)}{f' ({by_tool[name]})' if name in by_tool else ''}" for name in made | by_tool
    ]
    return ", ".join(sorted(texts))


def _compare(
    description: str | None,
    suite: Suite,
    cells: Mapping[str, rows.Cell] | None,
    legend: str,
    switches: Sequence[str] | None,
) -> None:
    marker = suite.name.replace("_", "-")
    parser = make_parser(description, marker)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("model", nargs="*", default=[], help="see `enginebench list models`; also path.py:factory")
    source.add_argument("--stored", metavar="RUN", help=f"a stored run {lookup.HELP}: measure nothing")
    parser.add_argument("--results", type=Path, help="where runs lie, instead of results/")
    given = parser.parse_args()
    results = store.results_folder(given.results)
    known = {sweep.name: sweep for sweep in suite.models}
    chosen = suite.model_copy(
        update={"models": [known.get(name) or ModelSweep(name=name) for name in given.model or known]}
    )
    path = _find(results, given.stored, switches) if given.stored else _measure(chosen, results, switches)
    if not cells:
        into = ["--into", str(given.into), "--marker", marker] if given.into else []
        app(["show", str(path), *into], standalone_mode=False)
    elif given.into:
        tables = [f"**`{case}`**\n\n{table.to_markdown()}" for case, table in _list_tables(path, cells)]
        heading = markdown.heading(store.read(path).environment)
        markdown.write_between(given.into, marker, "\n\n".join([heading, *tables, legend]))
    else:
        parts: list[Part] = [
            one for case, table in _list_tables(path, cells) for one in (Paragraph(case, "bold"), table)
        ]
        print_report(console(), [*parts, Paragraph(legend, "dim")])


def _find(results: Path, name: str, switches: Sequence[str] | None) -> Path:
    """The file of a stored run with the lines that the tables are made of."""
    kind, required = (Summary, "has rows") if switches is None else (AblationRecord, "is an ablation")
    run = lookup.find_run(results, name, lambda run: bool(run.of(kind)), required)
    if not run.of(kind):
        raise UsageError(f"{run.name}: expected a run that {required}")
    return run.path


def _measure(suite: Suite, results: Path, switches: Sequence[str] | None) -> Path:
    """The file of a new run."""
    planned = plan.make(suite)
    with progress.reporter() as reporter:
        if switches is None:
            return measure_plan(planned, results, reporter).path
        cases = [case for case, _ in planned.cases]
        request = ablate.Request(suite, cases, ablate.of_backend(suite.baseline, switches or None), MODES)
        return ablate.run(request, results, reporter).paths[0]


def _list_tables(path: Path, cells: Mapping[str, rows.Cell]) -> Iterator[tuple[str, Table]]:
    """Case -> its table."""
    for case, part in suites.load_runs(path).groupby("case", sort=False):
        yield str(case), rows.make_table(rows.read_rows(part), cells)
