"""Which machines measured, how, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from suites.harness.judge.judged_case import judge_cases
from suites.harness.present import overview, units
from suites.harness.record import lookup
from suites.harness.record.schema import Environment
from suites.harness.record.store import Run
from suites.site.page import Page, Site

NAME = "machines"
MOST_PROBLEMS = 200
"""Problems that the page itself lists; all of them are in the raw numbers."""


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    runs = sorted(site.collection.runs, key=lambda run: run.name, reverse=True)
    described = [_describe_run(site, run) for run in runs]
    machines = [_describe_machine(environment) for environment in site.machines.values()]
    yield Page(
        name=NAME,
        title="Machines and method",
        template="machines.html",
        data={"runs": described},
        tables={
            "runs": described,
            "roofs": list(_list_roofs(site)),
            "problems": [{"problem": problem} for problem in site.collection.problems],
        },
        texts={
            "machines": machines,
            "faults": [fault.model_dump() for fault in site.collection.faults.fault],
            "unread": list(site.collection.problems[:MOST_PROBLEMS]),
        },
    )


def _describe_run(site: Site, run: Run) -> dict[str, Any]:
    known = run.environment
    is_measurement = lookup.is_measurement(run)
    return {
        "run": run.name,
        "machine": known.machine,
        "suite": known.suite,
        "started": run.started.isoformat() if run.started is not None else "",
        "commit": known.commit,
        "dirty": bool(known.dirty),
        "rows": lookup.count_rows(run),
        "unfinished": run.unfinished if lookup.get_launch_kind(run) is None else "",  # others have no rows to lack
        "floor": overview.describe_floor(judge_cases(run.summaries())) if is_measurement else "",
        "superseded": "; ".join(
            f"{', '.join(fault.backends)}: {fault.reason}" for fault in site.collection.faults.of_run(run.name)
        ),
    }


def _describe_machine(known: Environment) -> dict[str, Any]:
    facts = {
        "Processor": f"{known.cpu}, {known.cores} cores",
        "Caches": ", ".join(f"{name} {size}" for name, size in known.caches.items()),
        "Instruction sets": ", ".join(known.isa),
        "Memory": units.size(known.memory_bytes),
        "Kernel": known.kernel,
        "Python": known.python,
        "Packages": ", ".join(f"{name} {version}" for name, version in known.versions.items()),
    }
    return {
        "name": known.machine,
        "facts": facts,
        "roofs": [
            {
                "name": roof.name,
                "threads": roof.threads,
                "rate": "not available" if roof.rate is None else f"{roof.rate / 1e9:,.1f} G{roof.unit}",
                "believed": {None: "", True: "yes", False: "no: disturbed?"}[roof.believed],
            }
            for roof in (known.roofs.rows if known.roofs is not None else ())
        ],
    }


def _list_roofs(site: Site) -> Iterator[Mapping[str, Any]]:
    for name, known in site.machines.items():
        for roof in known.roofs.rows if known.roofs is not None else ():
            yield {
                "machine": name,
                "roof": roof.name,
                "threads": roof.threads,
                "rate": roof.rate,
                "unit": roof.unit,
                "believed": roof.believed,
            }
