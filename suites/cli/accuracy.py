"""``enginebench accuracy``: what lower precision costs in accuracy, on real data where a model has some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from engine import config
from engine.suggest import unknown
from suites import backends as registry
from suites import models
from suites.accuracy import evaluate, tables
from suites.accuracy.evaluate import EXACT, Subject
from suites.backends import versions
from suites.backends.base import Backend
from suites.cli import targets
from suites.cli.output import (
    JsonFlag,
    check_writable,
    console,
    path_option,
    print_json,
    print_table,
    stdout_as_stderr,
    whole_number,
)
from suites.cli.recipes import check_recipes
from suites.harness.declare.case import BackendRef
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError
from suites.harness.files import write_text_file
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.run.reporter import Reporter

DEFAULT_PRECISIONS = "fp32,bf16,int8_weight"
DEFAULT_BACKENDS = "engine"


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    precision: Annotated[
        str, typer.Option(help=f"Comma-separated precisions: {', '.join(PRECISIONS)}.")
    ] = DEFAULT_PRECISIONS,
    backends: Annotated[
        str, typer.Option(help="Comma-separated backends; the table says why a backend has no row.")
    ] = DEFAULT_BACKENDS,
    recipe: Annotated[
        list[Path] | None,
        path_option(
            "--recipe", help="TOML file with the precision of single layers; adds a row of the engine. Repeatable."
        ),
    ] = None,
    sensitivity: Annotated[
        str | None,
        typer.Option(
            metavar="PRECISION",
            help="Print a table of layers instead: the error with only this layer in PRECISION, and with all others.",
        ),
    ] = None,
    layers: Annotated[str, typer.Option(metavar="PATTERN", help="With --sensitivity: only layers that match.")] = "*",
    chunks: Annotated[
        int | None,
        whole_number(
            "--chunks",
            1,
            help="Number of calls, such as texts; by default all of the data. Ignored for fixed data sets.",
        ),
    ] = None,
    chosen: targets.SetOption = None,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of each backend.")] = 1,
    markdown: Annotated[
        Path | None, path_option("--markdown", help="Write the table to this file as Markdown, too.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare outputs in lower precision with those of the float32 model, and with labels where the data has some.

    Models with real weights read real data (enginebench data fetch says which); others get random inputs.
    """
    _check_model(model)
    arguments = targets.arguments_of(model, chosen or [])
    subjects = make_subjects(precision, backends, recipe or [])
    if sensitivity is not None:
        _check_unused(
            {
                "--precision": precision != DEFAULT_PRECISIONS,
                "--backends": backends != DEFAULT_BACKENDS,
                "--recipe": bool(recipe),
            }
        )
    if sensitivity is not None and sensitivity not in config.PRECISIONS:
        raise UsageError(f"--sensitivity: {unknown('precision', sensitivity, config.PRECISIONS)}")
    if sensitivity == EXACT[1]:
        raise UsageError(f"--sensitivity {sensitivity}: layers are compared with {sensitivity}; name another precision")
    if sensitivity is None and layers != "*":
        raise UsageError("--layers is for --sensitivity")
    if markdown is not None:
        _check_page(markdown)  # so that minutes of measuring do not end in finding that it cannot be written
    from suites.accuracy import datasets  # here, because it imports torch, as few commands do
    from suites.accuracy import sensitivity as sensitivities

    spec = models.get(model)
    datasets.check_arguments(spec.name, arguments)
    reason = spec.unavailable() or datasets.missing(spec.name)
    if reason is not None:
        raise UsageError(f"model {model} is unavailable: {reason}")
    suite = targets.suite_of_model(model, chosen or [], threads, backends=[DEFAULT_BACKENDS], baseline=DEFAULT_BACKENDS)
    check_recipes(recipe or (), {}, [case for case, _ in suite.cases()], suite.timeouts, Reporter())
    progress = console(stderr=True)

    def print_progress(line: str) -> None:
        write_paragraph(progress, line, style="dim")

    with stdout_as_stderr():
        print_progress("reading the data")
        dataset = datasets.read(spec.name, arguments, chunks)
        if sensitivity is None:
            rows = list(evaluate.evaluate(model, dataset, subjects, threads, print_progress))
        else:
            found = sensitivities.measure(model, dataset, sensitivity, threads, print_progress, layers)
    if sensitivity is None:
        lines = tables.tabulate(dataset.task, rows)
        below = tables.describe(dataset.task, model, rows)
        answer: dict[str, Any] = {"rows": [row.to_dict() for row in rows]}
    else:
        lines = tables.tabulate_sensitivity(found)
        below = [f"All layers in {found.precision}: {found.measure} {tables.format_estimate(found.whole, 'e')}."]
        below += tables.describe_sensitivity(dataset, model, found)
        answer = found.to_dict() | {"items": tables.count_inputs(dataset)}
    if as_json:
        print_json(
            {"model": model, "data": dataset.task.data, "items": dataset.task.items, "threads": threads, **answer}
        )
    else:
        print_table(lines)
        for line in below:
            write_paragraph(console(), line)
    if markdown is not None:  # last: if it cannot be written after all, the answer is not lost
        write_text_file(markdown, f"{tables.write_markdown(lines, below)}\n")
    if sensitivity is None and any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def _check_unused(given: Mapping[str, bool]) -> None:
    """UsageError if an option is given that a table of layers has no use for."""
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option} is not for --sensitivity, which compares layers of the engine's own program; leave it out"
            )


def _check_page(path: Path) -> None:
    """UsageError if the file that the Markdown goes to cannot be written. Leaves it as it is, or absent."""
    if not path.parent.is_dir():
        raise UsageError(f"--markdown: {path.parent} is no folder")
    if path.is_dir():
        raise UsageError(f"--markdown: {path} is a folder; expected the path of a file")
    check_writable(path)


def _check_model(model: str) -> None:
    spec = models.get(model)
    if spec.form not in Backend.runs:
        raise UsageError(
            f"model {model}: accuracy compares precisions of PyTorch modules; it cannot read {models.FORMS[spec.form]}"
        )


def make_subjects(precision: str, backends: str, recipes: Sequence[Path]) -> list[Subject]:
    """What is scored: every backend in every precision, and the engine with every recipe.

    Raises:
        UsageError: an unknown name.
        ConfigError: a file is no recipe.
    """
    names = targets.split_list("--precision", precision)
    for name in names:
        if name not in PRECISIONS:
            raise UsageError(f"--precision: {unknown('precision', name, PRECISIONS)}")
    with versions.without_building():  # other versions are refused, so none has to be built
        refs = [BackendRef.parse(versions.resolve(label, Path.cwd())) for label in targets.read_backends(backends)]
        for ref in refs:
            registry.check(ref)
            if versions.is_version(ref.name):
                raise UsageError(
                    f"--backends {ref.name}: accuracy scores the engine of this checkout alone; leave it out"
                )
    if not refs:
        raise UsageError("--backends names none")
    found = [Subject(ref, name, name) for name in names for ref in refs if (ref.label, name) != EXACT]
    names_of_recipes = [path.name for path in recipes]
    for path in recipes:
        if names_of_recipes.count(path.name) > 1:
            raise UsageError(f"--recipe: two rows would both be called {path.name}. Rename one file")
        ref = BackendRef("engine", {"recipe": str(path)})
        registry.check(ref)
        found.append(Subject(ref, "fp32", path.name))
    return found
