"""``enginebench run``: suites, or models against every backend; verified, timed, printed, stored."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.processors import count_processors
from suites import models
from suites.accuracy import scoring
from suites.backends import versions
from suites.cli import capsules, show, targets
from suites.cli.output import (
    JsonFlag,
    ResultsOption,
    console,
    count,
    path_option,
    print_json,
    stdout_as_stderr,
    whole_number,
)
from suites.cli.recipes import check_recipes
from suites.cli.resuming import ResumeOption
from suites.harness.declare.case import BackendRef, split_labels
from suites.harness.declare.spec import MOST_GENERATIONS, find, load
from suites.harness.measure import roofs
from suites.harness.present import answer, progress
from suites.harness.present.report import print_report
from suites.harness.present.terminal import write_paragraph
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import HARMLESS, AccuracyRecord
from suites.harness.run import checks, plan, runner
from suites.harness.run.reporter import Reporter

MODEL_FIELDS = {
    "rounds": 10,
    "generation_budget_s": 4.0,
    "timeouts": {"prepare": 900.0, "verify": 300.0, "warm": 180.0, "sample": 180.0, "reference": 900.0},
}
"""How a model without a suite is measured: with less time for a generation than suite default gives, and with the time
limits of suite models."""


def command(
    context: typer.Context,
    targets_: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help=f"Suites by name or path. {targets.MODEL}, is measured with five backends.",
            show_default=False,
        ),
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="Expression over the fields of the cases, such as 'threads == 1 and batch in (1, 8)'; --dry-run lists "
            "the fields of a suite with their values.",
        ),
    ] = None,
    backends: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated backends (default: the suite's); engine@PATH is the engine of another checkout."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Backend that speeds are against (default: the suite's).")
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(metavar="N[,N...]", help="Threads of a call, for a model.", show_default="1, and all processors"),
    ] = None,
    chosen: targets.SweepOption = None,
    precision: targets.PrecisionOption = None,
    recipe: Annotated[
        list[Path] | None,
        path_option(
            "--recipe", help="TOML file with the precision of single layers; adds a row of the engine. Repeatable."
        ),
    ] = None,
    generations: Annotated[
        int | None,
        whole_number(
            "--generations",
            2,
            MOST_GENERATIONS,
            help="Generations of processes (default: the suite's); with 10, most differences of 3% are detected.",
        ),
    ] = None,
    resume: ResumeOption = None,  # noqa: ARG001  # `Resumable` takes it
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the cases and an estimate. Imports your Python files, and runs nothing else."
        ),
    ] = False,
    folder_of_capsules: Annotated[
        Path | None,
        path_option("--capsules", help="Folder for a capsule (see minify) of each row that is wrong or failed."),
    ] = None,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure suites or models: check outputs, time the backends in turns, print which is faster, store the records."""
    labels = split_labels(backends) if backends is not None else None
    asked = {} if generations is None else {"generations": generations}
    of_model = {"--threads": threads, "--set": chosen, "--precision": precision}
    counts = (
        sorted({1, count_processors()})
        if threads is None
        else [models.read_value(one) for one in targets.split_list(threads)]
    )

    def make_plans() -> list[plan.RunPlan]:
        rows = [BackendRef("engine", {"recipe": str(path)}).spelling for path in recipe or ()]
        plans = []
        for name in targets_:
            if targets.is_model(name):
                suite = targets.suite_of_model(name, chosen or [], counts, precision, **MODEL_FIELDS)
            else:
                targets.check_suite(name, of_model)
                suite = load(find(name))
            suite = plan.add_rows(suite.model_copy(update=asked), labels, rows)
            plans.append(plan.make(suite, only, None, baseline))
        return plans

    folder = store.results_folder(results)
    with versions.without_building() as unbuilt:  # A mistake should not cost the minutes that a build takes.
        plans = make_plans()
    with versions.without_building() if dry_run else nullcontext():
        if unbuilt:
            plans = make_plans()
        if dry_run:
            for line in _list_impossible(plans):
                print(line, file=sys.stderr)
            _dry_run(plans, folder, as_json=as_json)
            return
    invocation: Invocation = context.obj
    suites = [find(name) for name in targets_ if not targets.is_model(name)]
    invocation.note_files([*suites, *(path for one in plans for path in one.list_files())])
    with progress.reporter() as reporter:
        cases = [case for one in plans for case, _ in one.cases]
        check_recipes(recipe or (), cases, plans[0].suite.timeouts, reporter)
        for line in (line for one in plans if one.suite.accuracy for line in scoring.list_missing_data(one)):
            reporter.say(f"accuracy will be missing: {line}")
        outcomes = [measure_plan(one, folder, reporter, invocation) for one in plans]
    invocation.end()
    if as_json:
        print_json([one.to_dict() | show.describe_accuracy(store.read(one.path)) for one in outcomes])
    else:
        for name, outcome in zip(targets_, outcomes, strict=True):
            print_report(console(), show.describe_rows(store.read(outcome.path), outcome.summaries))
            if targets.is_model(name):
                printer = console()
                printer.print()
                write_paragraph(printer, answer.write_answer(outcome.summaries), style="bold")
            print(f"stored: {outcome.path}")
    if folder_of_capsules is not None:
        for line in capsules.write(folder_of_capsules, [row for one in outcomes for row in one.summaries]):
            print(line, file=sys.stderr)
    if not all(outcome.succeeded and _has_scored(outcome) for outcome in outcomes):
        raise typer.Exit(1)


def _has_scored(outcome: runner.Outcome) -> bool:
    """False if the accuracy of some row could not be scored because its backend failed."""
    return all(line.status in HARMLESS for line in store.read(outcome.path).of(AccuracyRecord))


def _list_impossible(plans: Sequence[plan.RunPlan]) -> list[str]:
    """A line for all cases that no backend can run here, for the same reasons."""
    found: dict[str, list[str]] = {}
    for case, refs in {case.id: (case, refs) for one in plans for case, refs in one.cases}.values():
        reasons = {ref.label: checks.unavailable(case, ref) for ref in refs if ref.copy == 1}
        if None not in reasons.values():
            found.setdefault("; ".join(f"{label}: {text}" for label, text in reasons.items()), []).append(case.id)
    return [f"cannot run here: {', '.join(cases)}: no backend can ({text})" for text, cases in found.items()]


def measure_plan(
    asked: plan.RunPlan,
    folder: Path,
    reporter: Reporter,
    invocation: Invocation | None = None,
) -> runner.Outcome:
    """Time a plan, then score its accuracy if the suite says so."""
    outcome = runner.run(asked, folder, reporter, invocation=invocation, measure_roofs=roofs.measure)
    if asked.suite.accuracy:
        with stdout_as_stderr():
            scoring.score(asked, outcome.path, reporter)
    return outcome


def _dry_run(plans: Sequence[plan.RunPlan], folder: Path, *, as_json: bool) -> None:
    """Show what is to be measured; `folder` has the results that the estimate is made from."""
    found: list[dict[str, Any]] = []
    for one in plans:
        seconds, basis = one.estimate(folder)
        about = {"workers": one.units(), "estimate_s": round(seconds), "basis": basis, "accuracy": one.suite.accuracy}
        cases = {case.id: [ref.label for ref in refs] for case, refs in one.cases}
        found.append({"suite": one.suite.name, "cases": cases, "fields": plan.list_fields(one.cases), **about})
    if as_json:
        print_json(found)
        return
    for entry in found:
        for case, labels in entry["cases"].items():
            print(f"{case}  {', '.join(labels)}")
        print(f"{entry['suite']}: {count(len(entry['cases']), 'case')}, ", end="")
        print(f"{count(entry['workers'], 'worker process', 'es')}, ", end="")
        scored = ", and the time to score accuracy" if entry["accuracy"] else ""
        print(f"about {plan.describe_duration(entry['estimate_s'])} ({entry['basis']}){scored}")
        print(f"fields for --only: {plan.describe_fields(entry['fields'])}")
