"""What the scripts of tables share: models named on the command line, a suite without a file, a model taken apart."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import suites
from engine.errors import EngineError
from suites import models
from suites.cli.output import check_writable, console
from suites.harness.declare.case import Scalar
from suites.harness.declare.spec import Suite, of_model
from suites.harness.judge import ablation
from suites.harness.present import markdown, progress, rows
from suites.harness.present.rows import Cell
from suites.harness.record import lookup, store
from suites.harness.run import ablate, plan, runner

if TYPE_CHECKING:
    import pandas as pd


def models_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of a command line that names models; a script may add arguments of its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="see `enginebench list models`; also path.py:factory")
    return parser


def check_models(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """End the script where one of `names` is unknown, with the nearest known name."""
    for name in names:
        try:
            models.get(name)
        except EngineError as e:
            parser.error(str(e))


def chosen_models(description: str | None, default: Iterable[str]) -> list[str]:
    """Names from the command line, or `default`. An unknown one ends the script with the nearest known name."""
    parser = models_parser(description)
    names: list[str] = parser.parse_args().model
    check_models(parser, names)
    return names or list(default)


def no_arguments(description: str | None) -> None:
    """The command line of a script that takes no arguments; ``--help`` prints the description."""
    argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()


def positive(text: str) -> int:
    """An argument that is a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def read_path(text: str) -> Path:
    """An argument that is a path. An empty text is refused, because `Path` reads it as the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got an empty text")
    return Path(text)


def output_parser(description: str | None, marker: str) -> argparse.ArgumentParser:
    """A parser of a command line that names models, or stored runs, and a file that the tables go into."""
    parser = models_parser(description)
    stored = f"a stored run {lookup.HELP}: measure nothing; may be given several times"
    parser.add_argument("--stored", metavar="RUN", action="append", help=stored)
    parser.add_argument("--into", type=read_path, help=f"write the Markdown between the markers {marker} of this file")
    parser.add_argument("--results", type=read_path, help="where runs lie, instead of results/")
    return parser


def check_output(parser: argparse.ArgumentParser, arguments: argparse.Namespace, marker: str) -> None:
    """End the script, before it measures, if its options contradict each other or the page has no such markers."""
    if arguments.model and arguments.stored:
        parser.error("--stored prints runs that are there; leave out the models")
    check_page(arguments.into, marker)


def check_page(path: Path | None, marker: str) -> None:
    """UsageError if the page has no such markers or cannot be written; nothing for None."""
    if path is not None:
        markdown.read_between(path, marker)
        check_writable(path)


def find_stored(arguments: argparse.Namespace) -> list[Path]:
    """The files of the runs that ``--stored`` names; ``last`` is the newest one with rows."""
    folder = store.results_folder(arguments.results)
    names = arguments.stored or ()
    return [
        lookup.find_run(folder, name, lookup.is_measurement, "is a run of a suite or model with rows").path
        for name in names
    ]


def load_latest(paths: Sequence[Path]) -> pd.DataFrame:
    """The rows of some runs; of a case that several of them have, those of the last one, in its first place."""
    import pandas as pd

    frame = pd.concat([suites.load_runs(path) for path in paths])
    return frame[frame["run"] == frame.groupby("case")["run"].transform("last")]


def write_tables(paths: Sequence[Path], cells: Mapping[str, Cell], legend: str) -> str:
    """A table a case in Markdown, of the rows of some runs.

    Args:
        paths: files of the runs.
        cells: heading -> how its cells are written.
        legend: below all tables.
    """
    parts = list(dict.fromkeys(markdown.heading(store.read(path).environment) for path in paths))
    for case, part in load_latest(paths).groupby("case", sort=False):
        lines = rows.write_lines(rows.read_rows(part), cells)
        parts += [f"**`{case}`**", markdown.pipes(lines)]
    return "\n\n".join([*parts, legend]) + "\n"


def show_rows(
    description: str | None,
    default: Sequence[str],
    measure: Callable[[str, Path | None], Path],
    cells: Mapping[str, Cell],
    legend: str,
    marker: str,
) -> None:
    """The command line of a script that prints a table a model, measured or stored.

    Args:
        description: of the script.
        default: models, if the command line names none.
        measure: model, and the results folder that ``--results`` names -> the file of a new run.
        cells: as of `write_tables`.
        legend: as of `write_tables`.
        marker: name of the markers of ``--into``.
    """
    parser = output_parser(description, marker)
    arguments = parser.parse_args()
    check_models(parser, arguments.model)
    check_output(parser, arguments, marker)
    results = arguments.results
    paths = find_stored(arguments) or [measure(name, results) for name in arguments.model or default]
    if arguments.into:
        markdown.write_between(arguments.into, marker, write_tables(paths, cells, legend))
        return
    printer = console()
    for case, part in load_latest(paths).groupby("case", sort=False):
        rows.print_rows(printer, rows.write_lines(rows.read_rows(part), cells), str(case), legend)


def measured(
    name: str, labels: Sequence[str], sweeps: Sequence[Mapping[str, Any]], results: Path | None = None, **settings: Any
) -> runner.Outcome:
    """A run of a suite that is declared here: ``[[models]]`` entries, and the other keys of a suite file."""
    suite = Suite.model_validate({"name": name, "backends": list(labels), "models": list(sweeps), **settings})
    return run(suite, results)


def run(suite: Suite, results: Path | None = None) -> runner.Outcome:
    """A run of `suite`, stored under `results`; None: among the others."""
    with progress.reporter() as reporter:
        return runner.run(plan.make(suite), store.results_folder(results), reporter)


def taken_apart(
    name: str,
    model: str,
    options: Mapping[str, Scalar] | None = None,
    *,
    backend: str = "engine",
    switches: Sequence[str] | None = None,
    threads: int = 1,
) -> ablate.Outcome:
    """A backend taken apart on a model at its default size, stored as run `name`."""
    fields: dict[str, Any] = {"threads": threads, "generations": 4}
    suite = of_model(model, options or {}, name=name, backends=[backend], baseline=backend, **fields)
    cases = [case for case, _ in suite.cases()]
    request = ablate.Request(suite, cases, ablate.of_backend(backend, switches), ablation.MODES)
    with progress.reporter() as reporter:
        return ablate.run(request, store.results_folder(None), reporter)
