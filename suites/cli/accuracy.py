"""``enginebench accuracy``: what lower precision costs in accuracy, on real data where a model has some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from engine import config
from suites import backends as registry
from suites import models
from suites.accuracy import evaluate, tables
from suites.accuracy.evaluate import EXACT, Subject
from suites.backends import versions
from suites.cli import targets
from suites.cli.output import (
    JsonFlag,
    console,
    path_option,
    print_json,
    print_table,
    refuse_beside,
    stdout_as_stderr,
    whole_number,
)
from suites.cli.recipes import check_recipes
from suites.harness.declare.case import BackendRef, split_labels
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError
from suites.harness.present.terminal import write_paragraph
from suites.harness.run.reporter import Reporter

ENGINE = "engine"


def command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    precision: Annotated[
        str, typer.Option(help=f"Comma-separated precisions: {', '.join(PRECISIONS)}.")
    ] = "fp32,bf16,int8_weight",
    backends: Annotated[str, typer.Option(help="Comma-separated backends.")] = ENGINE,
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
    as_json: JsonFlag = False,
) -> None:
    """Compare outputs in lower precision with those of the float32 model, and with labels where the data has some.

    Models with real weights read real data (enginebench data fetch says which); others get random inputs.
    """
    targets.check_form(model, BackendRef(EXACT[0]), "accuracy compares precisions of PyTorch modules")
    arguments = targets.read_arguments(model, chosen or [])
    suite = targets.suite_of_model(model, chosen or [], threads, precision, backends=[ENGINE], baseline=ENGINE)
    subjects = make_subjects(precision, backends, recipe or [])
    if sensitivity is not None:
        used = ("--chunks", "--set", "--threads", "--json")
        refuse_beside(context, "--sensitivity", used, "compares layers of the engine's own program")
        config.Config(precision=sensitivity)  # refuses an unknown name before the data is read
        if sensitivity == EXACT[1]:
            raise UsageError(f"--sensitivity {sensitivity}: layers are compared with {sensitivity}; name another one")
    from suites.accuracy import datasets  # here, because it imports torch, as few commands do
    from suites.accuracy import sensitivity as sensitivities

    spec = models.get(model)
    datasets.check_arguments(spec.name, arguments)
    reason = spec.unavailable() or datasets.missing(spec.name)
    if reason is not None:
        raise UsageError(f"model {model} is unavailable: {reason}")
    check_recipes(recipe or (), [case for case, _ in suite.cases()], suite.timeouts, Reporter())
    progress = console(stderr=True)

    def print_progress(line: str) -> None:
        write_paragraph(progress, line, style="dim")

    with stdout_as_stderr():
        print_progress("reading the data")
        dataset = datasets.read(spec.name, arguments, chunks)
        if sensitivity is None:
            rows = list(evaluate.evaluate(model, dataset, subjects, threads, print_progress))
        else:
            found = sensitivities.measure(model, dataset, sensitivity, threads, print_progress)
    if sensitivity is None:
        lines, below = tables.tabulate(dataset.task, rows), tables.describe(dataset.task, model, rows)
        answer: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
    else:
        lines, below = tables.tabulate_sensitivity(found), tables.describe_sensitivity(dataset, model, found)
        answer = asdict(found) | {"items": tables.count_calls(dataset)}
    if as_json:
        task = dataset.task
        print_json({"model": model, "data": task.data, "items": task.items, "threads": threads, **answer})
    else:
        print_table(lines)
        for line in below:
            write_paragraph(console(), line)
    if sensitivity is None and any(row.status == "failed" for row in rows):
        raise typer.Exit(1)


def make_subjects(precision: str, backends: str, recipes: Sequence[Path]) -> list[Subject]:
    """What is scored: every backend in every precision, and the engine with every recipe.

    Raises:
        UsageError: an unknown backend.
        ConfigError: a file is no recipe.
    """
    names = targets.split_list(precision)
    with versions.without_building():  # other versions are refused, so none has to be built
        refs = [BackendRef.parse(versions.resolve(label, Path.cwd())) for label in split_labels(backends)]
        for ref in refs:
            registry.check(ref)
            if versions.is_version(ref.name):
                raise UsageError(f"--backends {ref.name}: accuracy scores the engine of this checkout alone")
    found = [Subject(ref, name) for name in names for ref in refs if (ref.label, name) != EXACT]
    for path in recipes:
        ref = BackendRef("engine", {"recipe": str(path)})
        registry.check(ref)
        found.append(Subject(ref, "fp32"))
    return found
