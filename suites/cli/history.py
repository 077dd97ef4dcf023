"""``enginebench history``: the engine over commits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from suites.cli.output import (
    JsonFlag,
    ResultsOption,
    console,
    count,
    path_option,
    print_json,
    print_rows,
    whole_number,
)
from suites.cli.resuming import ResumeOption
from suites.harness.declare.spec import MOST_GENERATIONS, find, load
from suites.harness.errors import UsageError
from suites.harness.judge import steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import history as present
from suites.harness.present import progress
from suites.harness.present.report import print_report
from suites.harness.record import lookup, store
from suites.harness.record.collection import collect
from suites.harness.record.invocation import Invocation
from suites.harness.run.plan import RunPlan, make
from suites.history import asv_results
from suites.history.commits import find_repository, has_changes, list_commits
from suites.history.measure import Request, measure

ASV = "asv"
"""Folder of asv's results in the results folder."""


def command(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option(metavar="REV", help="The first commit: a name, a tag, HEAD~20.", show_default=False)
    ] = None,
    until: Annotated[str, typer.Option(metavar="REV", help="The last commit.")] = "HEAD",
    every: Annotated[int, whole_number("--every", 1, help="Take only each N-th commit, and the last one.")] = 1,
    suite: Annotated[str, typer.Option(help="Suite whose cases are measured, by name or path.")] = lookup.HISTORY,
    only: Annotated[str | None, typer.Option(metavar="EXPR", help="Expression over the fields of the cases.")] = None,
    counts_only: Annotated[bool, typer.Option("--counts-only", help="Count programs, and time nothing.")] = False,
    generations: Annotated[
        int | None, whole_number("--generations", 2, MOST_GENERATIONS, help="Fresh sets of processes.")
    ] = None,
    repository: Annotated[
        Path | None,
        path_option(
            "--repository",
            help="Checkout whose commits are followed.",
            show_default="that of this harness",
        ),
    ] = None,
    asv: Annotated[
        Path | None,
        path_option(
            "--asv",
            help="Folder for asv's results.",
            show_default=f"{ASV}/ in the results folder",
        ),
    ] = None,
    resume: ResumeOption = None,  # noqa: ARG001  # `Resumable` takes it
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the commits, and build nothing.")] = False,
    write_asv: Annotated[
        bool, typer.Option("--write-asv", help="Write all stored histories for asv again, and do nothing else.")
    ] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Follow the engine over commits: latency of calls and counts of programs, each compared with the commit before.

    This harness measures all commits. Each engine is built once and kept. Consecutive commits take turns in one
    run, so a step is a speed from paired rounds. Commits that do not build are recorded.
    """
    if write_asv:
        _write_stored(store.results_folder(results), asv, as_json=as_json)
        return
    place = find_repository(repository)
    folder = store.results_folder(results)
    if since is None:
        raise UsageError("--since REV is missing: the first commit, such as --since HEAD~20")
    commits = list_commits(place, since, until, every)
    asked = {} if generations is None else {"generations": generations}
    chosen = load(find(suite)).model_copy(update={**asked, "name": lookup.HISTORY})
    cases = [case for case, _ in make(chosen, only).cases]
    if has_changes(place):
        sys.stderr.write(f"{place}: the engine has uncommitted changes, which are in no row\n")
    asv = store.results_folder(asv or folder / ASV)  # checked before builds, which take minutes
    if dry_run:
        rows = [{"commit": one.name, "date": f"{one.date:%Y-%m-%d}", "subject": one.subject} for one in commits]
        print_rows(rows, as_json=as_json)
        return
    request = Request(chosen, cases, place, commits, not counts_only)
    invocation: Invocation = context.obj
    invocation.note_files([find(suite), *RunPlan(chosen, [(case, []) for case in cases]).list_files()])
    with progress.reporter() as reporter:
        run = measure(request, folder, reporter, invocation)
    invocation.end()
    tracks = steps.follow(run, MachineNoise(folder, exclude=run.path))
    written = asv_results.write_results(tracks, run.environment, asv)
    if as_json:
        print_json({"path": str(run.path), "asv": str(written), "cases": present.to_dict(tracks)})
        return
    print_report(console(), [*present.describe_history(tracks)])
    print(f"stored: {run.path}")
    print(f"as results of asv: {written}")
    if all(point.note == "failed" for track in tracks for point in track.points):
        print("no commit has a program", file=sys.stderr)
        raise typer.Exit(1)


def _write_stored(folder: Path, asv: Path | None, *, as_json: bool) -> None:
    """Every stored history as results of asv; of a commit that several have measured, the newest counts."""
    from suites.site.page import Site

    histories = Site(collect(folder)).histories
    for run, tracks in reversed(histories):
        asv_results.write_results(tracks, run.environment, asv or folder / ASV)
    if as_json:
        print_json({"asv": str(asv or folder / ASV), "runs": [run.name for run, _ in histories]})
        return
    print(f"{count(len(histories), 'stored run')} as results of asv: {asv or folder / ASV}")
