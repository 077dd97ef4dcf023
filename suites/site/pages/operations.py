"""Single operations by the engine and by eager PyTorch: the first and the newest sweep of every machine."""

from __future__ import annotations

from collections.abc import Iterator

from suites.harness.present.operations import (
    LEGEND,
    group_families,
    sort_worst_first,
    tabulate_family,
    tabulate_operations,
)
from suites.harness.record.launches import OperationRecord
from suites.harness.record.store import Run
from suites.site.page import Page, Site

NAME = "operations"


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    runs = _choose_runs(site)
    yield Page(
        name=NAME,
        title="How fast is every operation?",
        template="operations.html",
        data={},
        tables={
            "operations": [
                {"machine": run.environment.machine, "run": run.name, **line.model_dump(exclude={"kind"})}
                for run in runs
                for line in run.of(OperationRecord)
            ]
        },
        texts={"runs": [_describe_run(run) for run in runs], "legend": LEGEND},
    )


def _choose_runs(site: Site) -> list[Run]:
    """The newest and the first run of every machine that swept all operations, newest first."""
    found: dict[str, list[Run]] = {}
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        if run.of(OperationRecord) and "--filter" not in (run.environment.plan.options or ()):
            found.setdefault(run.environment.machine, []).append(run)
    ends = {run.name: run for runs in found.values() for run in (runs[0], runs[-1])}
    return sorted(ends.values(), key=lambda run: run.name, reverse=True)


def _describe_run(run: Run) -> dict[str, object]:
    lines = run.of(OperationRecord)
    return {
        "machine": run.environment.machine,
        "name": run.name,
        "date": f"{run.started:%Y-%m-%d}" if run.started is not None else "",
        "commit": run.environment.commit or "unknown",
        "families": [tabulate_family(name, group) for name, group in group_families(lines).items()],
        "operations": tabulate_operations(sort_worst_first(lines)),
        "problems": [line for line in lines if line.problem is not None],
    }
