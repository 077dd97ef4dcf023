"""The first page: every case against every backend, and which is faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from suites.harness.judge.judged_case import count_firsts
from suites.harness.present import notes
from suites.site.entries import describe_machines, list_entries, list_numbers
from suites.site.page import Page, Site

NAME = "index"


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    entries = list_entries(site)
    machines = describe_machines(site)
    parts = {
        f"machine-{number}": [entry for entry in entries if entry["machine"] == machine["name"]]
        for number, machine in enumerate(machines, 1)
    }
    yield Page(
        name=NAME,
        title="Who is fastest?",
        template="overview.html",
        data={
            "machines": [machine | {"part": part} for machine, part in zip(machines, parts, strict=True)],
            "facets": _list_facets(entries),
            "columns": _order_columns(entries),
        },
        tables={"cases": [line for place in site.places for line in list_numbers(place)]},
        texts={
            "empty": not entries,
            "part": next(iter(parts), None),
            "tally": _write_tally(site, machines),
            "marks": _list_marks(entries),
        },
        parts=parts,
    )


def _write_tally(site: Site, machines: list[dict[str, Any]]) -> str:
    """How often the engine is first on the machine that the page opens with, for readers without scripts."""
    if not machines:
        return ""
    first = machines[0]["name"]
    found = count_firsts([place.judged for place in site.places if place.machine == first])
    return str(replace(found, without=0))


def _list_marks(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The signs of marks that occur, each with its meaning."""
    found = {sign for entry in entries for sign in entry["marks"].split()}
    return [(sign, notes.MEANINGS[mark]) for mark, sign in notes.LETTERS.items() if sign in found]


def _list_facets(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the filters need to know before the cases of a machine are loaded: combinations that occur."""
    found = {(entry["machine"], entry["threads"], entry["precision"]): None for entry in entries}
    return [{"machine": machine, "threads": threads, "precision": precision} for machine, threads, precision in found]


def _order_columns(entries: list[dict[str, Any]]) -> list[str]:
    """Competitors by how many cases they are in, then other versions of the engine, then the engine's forms."""
    roles: dict[str, str] = {}
    counts: dict[str, int] = {}
    for entry in entries:
        for column, cell in entry["cells"].items():
            roles[column] = cell["role"]
            counts[column] = counts.get(column, 0) + 1
    places = {"peer": 0, "version": 1, "engine": 2}
    return sorted(roles, key=lambda column: (places[roles[column]], -counts[column], column))
