"""Marks of a case, and the notes below a table that explain those that occur in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from suites.harness.judge.standing import NEAR_TOLERANCE, Mark, Standing
from suites.harness.present import units
from suites.harness.record.schema import Summary

LETTERS: Mapping[Mark | str, str] = {"noisy": "~", "disturbed": "d", "neighbours": "n", "error": "e", "form": "f"}
"""Mark -> its sign in a table."""


def write_marks(one: Standing) -> str:
    """The signs of a case, in the order of `LETTERS`."""
    marks = {mark for found in one.marks.values() for mark in found}
    shown = [letter for mark, letter in LETTERS.items() if mark in marks or (mark == "form" and find_forms(one))]
    return "".join(shown)


def find_forms(one: Standing) -> list[Summary]:
    """Rows of an overview that are not the backend as it is used, but a faster form of it."""
    shown = one.best_forms()
    return [row for column, row in shown.items() if row.role == "peer" and row.backend != column and row.latency]


def explain(standings: Sequence[Standing], short: Mapping[str, str]) -> list[str]:
    """One note a mark that occurs, then one a reason why rows have no time, then notes on references.

    Args:
        standings: the cases of a table.
        short: case -> the name that it has there.
    """
    marks = (_explain_noisy, _explain_disturbed, _explain_neighbours, _explain_error, _explain_forms)
    writers = (*marks, explain_missing, explain_references)
    return [note for write in writers for note in write(standings, short)]


def explain_case(one: Standing) -> list[str]:
    """The same of one case, all of whose rows are shown."""
    marks = (_explain_noisy, _explain_disturbed, _explain_neighbours, _explain_error)
    writers = (*marks, explain_missing, explain_references)
    here = {one.case: "this case"}
    texts = [note for write in writers for note in write([one], here)]
    return [
        text.replace(": this case ", " ").replace(" in this case", "").replace(" (this case)", "") for text in texts
    ]


def _explain_noisy(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    noisy = [one for one in standings if "noisy" in one.marks.get("", ())]
    if noisy:
        cases = ", ".join(f"{short[one.case]} ({units.times(1 + (one.floor or 0))})" for one in noisy)
        yield f"{LETTERS['noisy']} noisy: the A/A floor is above 1.20x: {cases}."


def _explain_disturbed(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    texts = []
    for one in standings:
        shares = [row.disturbed or 0 for label, row in one.rows.items() if "disturbed" in one.marks.get(label, ())]
        texts += [f"{short[one.case]} ({max(shares):.0%} of rounds)"] if shares else []
    if texts:
        yield (
            f"{LETTERS['disturbed']} disturbed: other processes used the processors, also when rounds were repeated: "
            f"{', '.join(texts)}."
        )


def _explain_neighbours(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    texts = _collect(standings, short, "neighbours", lambda row: f"{row.backend} {row.neighbours:+.1%}")
    if texts:
        yield (
            f"{LETTERS['neighbours']} neighbours: slower while idle workers of other backends are running: "
            f"{'; '.join(texts)}. Idle workers are stopped while times are taken."
        )


def _explain_error(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    def describe(row: Summary) -> str:
        error = row.error
        return "" if error is None else f"{row.backend} {units.error(error.relative)} of {units.error(error.tolerance)}"

    texts = _collect(standings, short, "error", describe)
    if texts:
        yield f"{LETTERS['error']} error: more than {NEAR_TOLERANCE:.0%} of what is allowed: {'; '.join(texts)}."


def _explain_forms(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    cases: dict[str, list[str]] = {}
    for one in standings:
        for row in find_forms(one):
            cases.setdefault(row.backend, []).append(short[one.case])
    for label, where in cases.items():
        column = label.partition("[")[0]
        yield f"{LETTERS['form']} form: the fastest form of {column} is {label} in {', '.join(where)}."


def _collect(
    standings: Sequence[Standing], short: Mapping[str, str], mark: Mark, describe: Callable[[Summary], str]
) -> list[str]:
    """One text a case: its name, and what is to be said of each row that has the mark."""
    found = []
    for one in standings:
        rows = [row for label, row in one.rows.items() if mark in one.marks.get(label, ())]
        found += [f"{', '.join(map(describe, rows))} in {short[one.case]}"] if rows else []
    return found


def explain_missing(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    """One note a backend, status and reason of rows without a time, with the cases."""
    cases: dict[tuple[str, str, str], list[str]] = {}
    for one in standings:
        for row in one.rows.values():
            if row.latency is None:
                key = (row.backend, row.status, " ".join((row.reason or "no reason recorded").split()))
                cases.setdefault(key, []).append(short[one.case])
    for (backend, status, reason), where in cases.items():
        place = "all cases" if len(where) == len(standings) > 1 else ", ".join(where)
        yield f"{backend} {status} ({place}): {reason}"


def explain_references(standings: Sequence[Standing], short: Mapping[str, str]) -> Iterator[str]:
    """Why the reference of a case is not float64."""
    for one in standings:
        note = next((row.note for row in one.rows.values() if row.note), None)
        if note is not None:
            yield f"{short[one.case]}: {note}"
