"""Launches of profiles as the model pages read them: the newest profile of each case and program on each machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from suites.harness.present.launches import NODE_LEGEND, describe_node_roofs, tabulate_nodes
from suites.harness.record import lookup
from suites.harness.record.collection import Collection
from suites.harness.record.launches import NodeRecord
from suites.harness.record.store import Run
from suites.site.places import describe_run

LEGEND = NODE_LEGEND


@dataclass(frozen=True)
class StoredProfile:
    """One profiled call.

    Attributes:
        run: the run that stores it.
        case: what was called.
        backend: label of the engine.
        nodes: its launches, in the order of execution.
    """

    run: Run
    case: str
    backend: str
    nodes: tuple[NodeRecord, ...]

    @property
    def machine(self) -> str:
        """Machine of the run."""
        return self.run.environment.machine

    @property
    def model(self) -> str:
        """Model of the case, by the name that stands in the case."""
        return self.case.partition("/")[0]


def choose_profiles(collection: Collection) -> list[StoredProfile]:
    """The newest profile of every case and program on every machine, newest first."""
    found: dict[tuple[str, str, str], StoredProfile] = {}
    for run in sorted(collection.runs, key=lambda run: run.name):
        groups: dict[tuple[str, str], list[NodeRecord]] = {}
        if lookup.get_launch_kind(run) is NodeRecord:
            for node in run.of(NodeRecord):
                groups.setdefault((node.case, node.backend), []).append(node)
        for (case, backend), nodes in groups.items():
            found[run.environment.machine, case, backend] = StoredProfile(run, case, backend, tuple(nodes))
    return sorted(found.values(), key=lambda one: one.run.name, reverse=True)


def describe_profile(profile: StoredProfile) -> dict[str, Any]:
    """What the scripts of a page read: a point for each launch that computes, and a table of all launches."""
    first = profile.nodes[0]
    parts = re.search(r"/t(\d+)/([^/]+)", profile.case)
    return {
        **describe_run(profile.run),
        "case": profile.case,
        "threads": int(parts[1]) if parts else None,
        "precision": parts[2] if parts else "",
        "backend": profile.backend,
        "roofs": describe_node_roofs(profile.nodes),
        "peak": first.peak_flops,
        "bandwidth": first.bandwidth,
        "points": [
            {
                "index": node.index,
                "op": node.op,
                "intensity": node.executed_flops / node.bytes,
                "rate": node.executed_flops / node.seconds,
                "time": node.time_share,
                "roof": node.roof_share,
                "bound": node.bound,
            }
            for node in profile.nodes
            if node.executed_flops and node.bytes and node.seconds
        ],
        "table": tabulate_nodes(profile.nodes),
    }


def list_numbers(profile: StoredProfile) -> Iterator[Mapping[str, Any]]:
    """The raw numbers of a profile: a line for each launch."""
    for node in profile.nodes:
        yield {"machine": profile.machine, "run": profile.run.name, **node.model_dump(exclude={"kind"})}
