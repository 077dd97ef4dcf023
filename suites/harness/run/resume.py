"""What to do if no run can be resumed as asked: which unfinished run may be meant, and the command that resumes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from suites.harness.record import lookup, machine, store
from suites.harness.record.schema import Summary
from suites.harness.run.plan import RunPlan
from suites.models import is_path


def list_finished_cases(run: store.Run) -> set[str]:
    """Cases that have a summary of every backend that the plan of the run names."""
    found: dict[str, set[str]] = {}
    for line in run.of(Summary):
        found.setdefault(line.case, set()).add(line.backend)
    planned = run.environment.plan.cases
    return {case for case, labels in found.items() if labels >= set(planned.get(case, labels))}


def describe_code(run: store.Run) -> str:
    """The commit of a run, as the names of files spell it."""
    return f"{run.environment.commit or 'no commit'}{'-dirty' if run.environment.dirty else ''}"


def explain_refusal(plan: RunPlan, results: Path) -> str:
    """Why no run of this plan can be resumed, for a message.

    If the suite has an unfinished run that was started with other options, the text has the command that resumes it.
    """
    folder = store.runs_folder(results)
    unfinished = list(_list_unfinished(plan, results))
    if not unfinished:
        return f"nothing to resume: no unfinished run of suite {plan.suite.name} under {folder}"
    now = machine.revision()
    asked = {case.id.split("/")[0] for case, _ in plan.cases}
    is_of_model = len(plan.command) > 1 and is_path(plan.command[1])
    of_now = [one for one in unfinished if one.environment.revision == now]
    run = next((one for one in of_now if _list_models(one) & asked), of_now[0] if of_now else None)
    if run is None:
        return (
            f"nothing to resume: the unfinished run {unfinished[0].name} was started with other code "
            f"({describe_code(unfinished[0])}), and with another plan: the suite, the options, a file or a backend "
            "differs. Start a new run without --resume"
        )
    others = _list_models(run)
    if is_of_model and not others & asked:  # suites of two functions of one file have the same name
        measured, wanted = (" and ".join(sorted(names)) for names in (others, asked))
        return (
            f"nothing to resume: the unfinished run {run.name} measures {measured}, not {wanted}. "
            f"Give {measured} to continue it, or leave out --resume to start a new run"
        )
    options = run.environment.plan.options
    if options is None:
        return f"nothing to resume with these options: give those that the unfinished run {run.name} was started with"
    if options == list(plan.options):
        return (
            f"nothing to resume: the suite, a file or a backend has changed since the unfinished run {run.name} began. "
            "Start a new run without --resume"
        )
    if not plan.command:
        given = shlex.join(options) or "no options"
        return f"nothing to resume with these options: the unfinished run {run.name} was started with {given}"
    command = shlex.join(["enginebench", *plan.command, *options, "--resume"])
    # What the expression of --only names is no path.
    words = " ".join(word for before, word in pairwise(["", *options]) if before != "--only")
    files = [label for label in _list_labels(run, words) if "@" in label or ".py:" in label]
    files += [name for name in run.environment.plan.files if name in words and not any(name in one for one in files)]
    paths = f" (with the path of {' and of '.join(files)} in place of the name)" if files else ""
    return (
        f"nothing to resume with these options: the unfinished run {run.name} was started with others. "
        f"To continue it{paths}: {command}"
    )


def _list_unfinished(plan: RunPlan, results: Path) -> Iterator[store.Run]:
    """Runs of the suite that lack cases, newest first."""
    for path in reversed(store.run_files(results)):
        if lookup.name_suite(path) == plan.suite.name:
            run = store.read_if_possible(path)
            if run is not None and not list_finished_cases(run) >= set(run.environment.plan.cases):
                yield run


def _list_models(run: store.Run) -> set[str]:
    """Models of the run: the first part of the name of each case."""
    return {case.split("/")[0] for case in run.environment.plan.cases}


def _list_labels(run: store.Run, text: str) -> list[str]:
    """Labels of the run's backends that `text` names."""
    labels = dict.fromkeys(label for labels in run.environment.plan.cases.values() for label in labels)
    return [label for label in labels if label in text]
