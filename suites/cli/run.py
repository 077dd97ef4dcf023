"""``enginebench run``: suites, or models against every backend; verified, timed, printed, stored."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.processors import count_processors
from suites.accuracy import scoring
from suites.backends import versions
from suites.cli import show, targets
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
from suites.harness.declare.case import BackendRef
from suites.harness.declare.spec import MOST_GENERATIONS, Suite, find, load
from suites.harness.errors import UsageError
from suites.harness.measure import roofs
from suites.harness.present import answer, progress, timing
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.record import machine, store
from suites.harness.record.schema import HARMLESS, AccuracyRecord
from suites.harness.run import checks, plan, room, runner
from suites.harness.run.reporter import Reporter
from suites.harness.run.stopwatch import Stopwatch

MODEL_FIELDS = {
    "rounds": 10,
    "generation_budget_s": 4.0,
    "timeouts": {"prepare": 900.0, "verify": 300.0, "warm": 180.0, "sample": 180.0, "reference": 900.0},
}
"""How a model without a suite is measured: with less time for a generation than suite default gives, and with the time
limits of suite models."""


def command(
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
        str | None, typer.Option(help="Backend that ratios are relative to (default: the suite's).")
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(metavar="N[,N...]", help="Threads of a call, for a model.", show_default="1, and all processors"),
    ] = None,
    chosen: targets.SetOption = None,
    size: targets.SizeOption = None,
    precision: targets.PrecisionOption = None,
    config: targets.ConfigOption = None,
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
    resume: Annotated[bool, typer.Option("--resume", help="Continue the newest unfinished run.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the cases and an estimate, with --resume of what is left; run nothing."),
    ] = False,
    with_timing: Annotated[bool, typer.Option("--timing", help="Print what the time of the run was spent on.")] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure suites or models: check outputs, time the backends in turns, print who is ahead, store the records.

    If a suite and a model have the same name, it means the suite, unless you give an option of models: --threads,
    --set, --size, --precision.
    """
    if dry_run and with_timing:
        raise UsageError("--timing is of a run, and --dry-run runs nothing; leave out one of the two")
    labels = targets.read_backends(backends) if backends is not None else None
    asked = {} if generations is None else {"generations": generations}
    fields = targets.config_options(config)
    of_model = {"--threads": threads, "--set": chosen, "--size": size, "--precision": precision}
    given = targets.given_options(of_model)

    def make_plans() -> list[plan.RunPlan]:
        if baseline is not None:
            targets.check_backend("--baseline", baseline)
        options = targets.list_options(
            {"--only": only, "--backends": targets.shorten_backends(backends)}
            | {"--baseline": targets.shorten_backends(baseline), **of_model}
            | {"--config": targets.shorten_config(config), "--recipe": [path.name for path in recipe or ()]}
            | {"--generations": generations}
        )
        rows = [BackendRef("engine", {"recipe": str(path)}).spelling for path in recipe or ()]
        plans = []
        for name in targets_:
            if _is_model(name, given):
                suite = _make_suite(name, chosen or [], threads, precision, size)
            else:
                suite = _load_suite(name, given)
            made = plan.make(plan.add_rows(suite.model_copy(update=asked), labels, rows), only, None, baseline, fields)
            plans.append(replace(made, command=targets.name_command("run", name, results), options=options))
        _check_distinct(targets_, plans)
        return plans

    folder = store.results_folder(results)
    with versions.without_building() as unbuilt:  # A mistake should not cost the minutes that a build takes.
        plans = make_plans()
    with _choose_building(dry_run=dry_run, resume=resume):
        if unbuilt:
            plans = make_plans()
        for line in (*_list_namesakes(targets_, given), *_list_excess_threads(plans)):
            print(line, file=sys.stderr)
        if dry_run:
            for line in (*_list_too_large(plans), *_list_without_backend(plans)):
                print(line, file=sys.stderr)
            _dry_run(plans, _list_remaining(plans, folder) if resume else plans, folder, as_json=as_json)
            return
    stopwatch = Stopwatch()
    with progress.reporter() as reporter:
        if not resume:
            cases = [case for one in plans for case, _ in one.cases]
            check_recipes(recipe or (), fields, cases, plans[0].suite.timeouts, reporter)
        for line in _list_missing_data(plans):
            reporter.say(f"accuracy will be missing: {line}")
        outcomes = _measure(plans, folder, reporter, stopwatch, resume=resume)
    if as_json:
        print_json([one.to_dict() | show.describe_accuracy(store.read(one.path)) for one in outcomes])
    else:
        for name, outcome in zip(targets_, outcomes, strict=True):
            _show(outcome, with_answer=_is_model(name, given))
    if with_timing:
        timing.print_timing(console(stderr=as_json), stopwatch)
    if not all(outcome.succeeded and _has_scored(outcome) for outcome in outcomes):
        raise typer.Exit(1)


def _choose_building(*, dry_run: bool, resume: bool) -> AbstractContextManager[object]:
    """What to do with commits of the engine that are not built. Only a run that is not dry builds them."""
    if not dry_run:
        return nullcontext()
    return versions.only_built() if resume else versions.without_building()


def _list_namesakes(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """A note for each name that is a suite's and a model's, and means the suite."""
    return [
        f"{name} is a suite and a model: this is the suite. The model alone: enginebench run {name} --threads 1"
        for name in names
        if targets.is_model(name) and not _is_model(name, given)
    ]


def _list_excess_threads(plans: Sequence[plan.RunPlan]) -> list[str]:
    """A note for each number of threads that is larger than the number of processors; its rows will have no time."""
    usable = count_processors()
    counts = sorted({case.threads for one in plans for case, _ in one.cases if case.threads > usable})
    may_use = f"this process may use {count(usable, 'processor')}"
    return [f"cases with {number} threads will be unavailable: {may_use}" for number in counts]


def _list_too_large(plans: Sequence[plan.RunPlan]) -> list[str]:
    """A note for each case that this machine has too little memory for; its rows would fail."""
    memory = machine.facts()["memory_bytes"]
    reasons = {case.id: room.explain_excess(case, memory) for one in plans for case, _ in one.cases}
    return [f"{case} cannot run here: {reason}" for case, reason in reasons.items() if reason is not None]


def _list_without_backend(plans: Sequence[plan.RunPlan]) -> list[str]:
    """A note for all cases that none of their backends can run for the same reasons.

    Cases with too many threads have a note already.
    """
    usable, found = count_processors(), dict[str, list[str]]()
    for case, refs in {case.id: (case, refs) for one in plans for case, refs in one.cases}.values():
        reasons = {ref.label: checks.unavailable(case, ref) for ref in refs if ref.copy == 1}
        if case.threads <= usable and None not in reasons.values():
            told = "; ".join(f"{label}: {reason}" for label, reason in reasons.items())
            found.setdefault(told, []).append(case.id)
    lines = []
    for told, cases in found.items():
        names = cases[0] if len(cases) == 1 else f"{cases[0]} and {count(len(cases) - 1, 'further case')}"
        lines.append(f"{names} cannot run here, because no backend can ({told})")
    return lines


def _list_missing_data(plans: Sequence[plan.RunPlan]) -> list[str]:
    return [line for one in plans if one.suite.accuracy for line in scoring.list_missing_data(one)]


def _measure(
    plans: Sequence[plan.RunPlan], folder: Path, reporter: Reporter, stopwatch: Stopwatch, *, resume: bool
) -> list[runner.Outcome]:
    """Time all plans, then score the accuracy of those whose suite says so.

    With `resume`, a plan whose newest run lacks nothing but accuracy is scored, whichever code has timed it.
    """
    unscored = _find_unscored(plans, folder) if resume else {}
    left = [one for one in plans if one.digest not in unscored]
    outcomes = runner.run_all(left, folder, reporter, resume=resume, measure_roofs=roofs.measure, stopwatch=stopwatch)
    found = {one.digest: outcome for one, outcome in zip(left, outcomes, strict=True)}
    for one in plans:
        run = unscored.get(one.digest)
        if run is not None:
            found[one.digest] = runner.Outcome(run.path, run.environment, runner.in_order(run.summaries(), one))
        if one.suite.accuracy:
            with stopwatch.time("accuracy"), stdout_as_stderr():
                scoring.score(one, found[one.digest].path, reporter)
    return [found[one.digest] for one in plans]


def _find_unscored(plans: Sequence[plan.RunPlan], folder: Path) -> dict[str, store.Run]:
    """Digest of a plan -> its complete run, if some complete run of these plans lacks accuracy; otherwise nothing."""
    complete = {one.digest: runner.find_complete(one, folder) for one in plans}
    found = {digest: run for digest, run in complete.items() if run is not None}
    lacking = (scoring.lacks_scores(one, found[one.digest]) for one in plans if one.digest in found)
    return found if any(lacking) else {}


def _list_remaining(plans: Sequence[plan.RunPlan], folder: Path) -> list[plan.RunPlan]:
    """Each plan with those of its cases that `_measure` with `resume` would time; UsageError as of `_measure`."""
    unscored = _find_unscored(plans, folder)
    remaining = iter(runner.list_remaining([one for one in plans if one.digest not in unscored], folder))
    return [replace(one, cases=[]) if one.digest in unscored else next(remaining) for one in plans]


def _has_scored(outcome: runner.Outcome) -> bool:
    """False if the accuracy of some row could not be scored because its backend failed."""
    return all(line.status in HARMLESS for line in store.read(outcome.path).of(AccuracyRecord))


def _check_distinct(names: Sequence[str], plans: Sequence[plan.RunPlan]) -> None:
    """UsageError if two targets ask for the same measurements."""
    known: dict[str, str] = {}
    for name, one in zip(names, plans, strict=True):
        other = known.get(one.digest)
        if other is not None:
            if other == name:
                raise UsageError(f"{name} is given twice; give it once")
            raise UsageError(f"{other} and {name} ask for the same measurements; give one of them")
        known[one.digest] = name


def _is_model(name: str, given: Sequence[str]) -> bool:
    """True if `name` means a model, where the options `given` are of models."""
    return targets.is_model(name) and (bool(given) or not targets.is_suite(name))


def _make_suite(
    name: str, chosen: Sequence[str], threads: str | None, precision: str | None, size: Sequence[str] | None
) -> Suite:
    """The suite of a model: at one thread and at all, unless `threads` says otherwise."""
    counts = sorted({1, count_processors()}) if threads is None else targets.read_counts("--threads", threads)
    return targets.suite_of_model(name, chosen, counts, precision, targets.read_sizes(size), **MODEL_FIELDS)


def _load_suite(name: str, given: Sequence[str]) -> Suite:
    """The suite of this name or file.

    Raises:
        UsageError: no such suite, or an option is given that only models have.
    """
    targets.check_suite(name, given)
    return load(find(name))


def _show(outcome: runner.Outcome, *, with_answer: bool) -> None:
    show.print_run(outcome.summaries, outcome.environment, store.read_start(outcome.path.stem))
    show.print_tradeoffs(outcome.summaries, store.read(outcome.path))
    if with_answer:
        printer = console()
        printer.print()
        write_paragraph(printer, answer.write_answer(outcome.summaries), style="bold")
    print(f"stored: {outcome.path}")


def _dry_run(plans: Sequence[plan.RunPlan], remaining: Sequence[plan.RunPlan], folder: Path, *, as_json: bool) -> None:
    """Show what is to be measured.

    Args:
        plans: as they were asked for, whose fields ``--only`` may name.
        remaining: the same with the cases that are still to be measured.
        folder: the results folder.
        as_json: print JSON.
    """
    found: list[dict[str, Any]] = []
    for whole, one in zip(plans, remaining, strict=True):
        seconds, basis = one.estimate(folder)
        cases = {case.id: [ref.label for ref in refs] for case, refs in one.cases}
        fields = plan.list_fields(whole.cases)
        found.append(
            {
                "suite": one.suite.name,
                "cases": cases,
                "fields": fields,
                "workers": one.units(),
                "estimate_s": round(seconds),
                "basis": basis,
                "accuracy": one.suite.accuracy,
            }
        )
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
