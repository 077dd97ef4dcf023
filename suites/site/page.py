"""What every page of the site is made of. Knows no page."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any

from suites.harness.judge import steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.steps import Track
from suites.harness.present import names
from suites.harness.record.collection import Collection
from suites.harness.record.commits import CommitRecord
from suites.harness.record.schema import Environment
from suites.harness.record.store import Run
from suites.site.places import Place, choose_places
from suites.site.profiles import StoredProfile, choose_profiles

LONGEST_NAME = 100
"""Characters of a model's name that the name of its page takes; a file name has 255 bytes at most."""
Rows = Sequence[Mapping[str, Any]]
"""Lines of plain values, all with the same keys: a table of raw numbers."""


@dataclass(frozen=True)
class Page:
    """One file of the site.

    Attributes:
        name: of the file, without ``.html``.
        title: its heading.
        template: file in `templates/` that lays it out.
        data: what its scripts draw, as JSON can hold it.
        tables: name -> raw numbers behind a chart or a table, offered as CSV and JSON.
        texts: what the template itself writes.
        parts: name -> further data, each in a script of its own that the page loads only when it shows that part.
    """

    name: str
    title: str
    template: str
    data: Mapping[str, Any]
    tables: Mapping[str, Rows]
    texts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """What the pages read: all stored runs, and which of them show the cases.

    Attributes:
        collection: the runs.
    """

    collection: Collection

    @cached_property
    def places(self) -> list[Place]:
        """A measurement of every case on every machine, newest runs first."""
        return choose_places(self.collection)

    @cached_property
    def profiles(self) -> list[StoredProfile]:
        """The newest profile of every case and program on every machine, newest first."""
        return choose_profiles(self.collection)

    @cached_property
    def names(self) -> dict[str, str]:
        """Case -> a short name of its workload, which leaves out threads, precision and device."""
        return names.name_workloads([place.row for place in self.places])

    @cached_property
    def histories(self) -> list[tuple[Run, list[Track]]]:
        """Every complete history of commits with its cases, the newest run first."""
        found: list[tuple[Run, list[Track]]] = []
        for run in sorted(self.collection.runs, key=lambda one: one.name, reverse=True):
            if run.of(CommitRecord):
                machine = run.environment.machine
                others = [one for one in self.collection.runs if one.environment.machine == machine and one is not run]
                found.append((run, steps.follow(run, MachineNoise.of_runs(others))))
        return found

    @cached_property
    def machines(self) -> dict[str, Environment]:
        """Machine -> the first line of its newest run. The machine that measured the most cases comes first, of those
        with equally many the one with the newest run.

        Its roofs are those of the newest run that measured them.
        """
        runs = sorted(self.collection.runs, key=lambda run: run.name, reverse=True)
        found: dict[str, Environment] = {}
        for run in runs:
            machine, roofs = run.environment.machine, run.environment.roofs
            known = found.setdefault(machine, run.environment)
            if known.roofs is None and roofs is not None:
                found[machine] = known.model_copy(update={"roofs": roofs})
        cases = Counter(place.machine for place in self.places if place.leads)
        return {name: found[name] for name in sorted(found, key=lambda name: -cases[name])}

    @cached_property
    def models(self) -> dict[str, str]:
        """Model that has a measurement or a profile -> the name of its page: ASCII letters, digits and dashes.

        Names are short enough for a file, and differ also where files are found without regard to capitals.
        """
        found: dict[str, str] = {}
        taken: set[str] = set()
        measured = {place.row.model for place in self.places}
        profiled = {one.model for one in self.profiles} - {PurePath(model).name for model in measured}
        for model in sorted(measured | profiled):
            letters = (letter if letter.isascii() and letter.isalnum() else "-" for letter in model[:LONGEST_NAME])
            plain = "model-" + "".join(letters)
            numbered = (f"{plain}-{number}" for number in itertools.count(2))
            name = next(name for name in itertools.chain([plain], numbered) if name.lower() not in taken)
            taken.add(name.lower())
            found[model] = name
        return found
