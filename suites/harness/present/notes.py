"""Marks of a case, and the notes below a table that explain those that occur in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from suites.harness.judge.judged_case import NEAR_TOLERANCE, JudgedCase, Mark, find_scheme, judge_neighbours
from suites.harness.present import further, units
from suites.harness.record import reasons
from suites.harness.record.schema import Summary

LETTERS: Mapping[Mark | str, str] = {
    "noisy": "~",
    "disturbed": "d",
    "neighbours": "n",
    "unclear neighbours": "n?",
    "error": "e",
    "slow": "s",
    "scheme": "q",
    "form": "f",
}
"""Mark -> its sign in a table."""
MEANINGS: Mapping[Mark | str, str] = {
    "noisy": "the A/A floor is above 1.20x",
    "disturbed": "other processes used the processors, also when rounds were repeated",
    "neighbours": "a backend is slower while idle workers of other backends are running, beyond noise",
    "unclear neighbours": "a backend is slower while idle workers of other backends are running, within noise",
    "error": f"an error of more than {NEAR_TOLERANCE:.0%} of what is allowed",
    "slow": "slow kernels run a part of the program",
    "scheme": "a backend quantises in a way of its own",
    "form": "a column has the times of the fastest form of a backend, which has options",
}
"""Mark -> what it means, for a list of all signs."""
_ASKED = re.compile(r"; the case asks for \w+ on \w+")
_COVERED: Mapping[Mark | str, Mark] = {"unclear neighbours": "neighbours"}
"""Mark -> another one that makes it superfluous in a table."""


def write_marks(one: JudgedCase) -> str:
    """The signs of a case, in the order of `LETTERS`."""
    marks = {mark for found in one.marks.values() for mark in found}
    shown = {mark for mark in LETTERS if mark in marks or (mark == "form" and find_forms(one))}
    return " ".join(letter for mark, letter in LETTERS.items() if mark in shown and _COVERED.get(mark) not in shown)


def find_forms(one: JudgedCase) -> dict[str, Summary]:
    """Column -> row, where an overview shows the time of another backend with options under its name alone."""
    return {
        column: row
        for column, row in one.best_forms().items()
        if row.role == "peer" and row.backend != column and row.latency
    }


def write_neighbours(row: Summary) -> str:
    """The effect of neighbours, and whether it is beyond noise: ``+23.6% unclear``; without a word if it is small."""
    if row.neighbours is None:
        return units.UNKNOWN
    return " ".join(filter(None, [f"{row.neighbours:+.1%}", judge_neighbours(row)]))


def explain(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> list[str]:
    """One note a mark that occurs, then one a reason why rows have no time, then notes on references.

    `short` has the names of the cases in the table.
    """
    writers = (*_OF_ROWS, _explain_forms, explain_missing, explain_references)
    return [note for write in writers for note in write(judged, short)]


def explain_case(one: JudgedCase) -> list[str]:
    """The same of one case, all of whose rows are shown."""
    here = {one.case: "this case"}
    texts = [note for write in (*_OF_ROWS, explain_missing, explain_references) for note in write([one], here)]
    return [
        text.replace(": this case ", " ").replace(" in this case", "").replace(" (this case)", "") for text in texts
    ]


def _explain_noisy(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    noisy = [one for one in judged if "noisy" in one.marks.get("", ())]
    if noisy:
        cases = ", ".join(f"{short[one.case]} ({units.times(1 + (one.floor or 0))})" for one in noisy)
        yield f"{LETTERS['noisy']} noisy: the A/A floor is above 1.20x: {cases}."


def _explain_disturbed(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    texts = []
    for one in judged:
        shares = [row.disturbed or 0 for label, row in one.rows.items() if "disturbed" in one.marks.get(label, ())]
        texts += [f"{short[one.case]} ({max(shares):.0%} of rounds)"] if shares else []
    if texts:
        yield (
            f"{LETTERS['disturbed']} disturbed: other processes used the processors, also when rounds were repeated: "
            f"{', '.join(texts)}."
        )


def _explain_neighbours(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    marks: tuple[Mark, ...] = ("neighbours", "unclear neighbours")
    texts = _collect(judged, short, marks, lambda row: f"{row.backend} {write_neighbours(row)}")
    if texts:
        signs = {mark for one in judged for found in one.marks.values() for mark in found}
        sign = " ".join(LETTERS[mark] for mark in marks if mark in signs)
        meaning = "unclear is within noise" if "unclear neighbours" in signs else ""
        yield (
            f"{sign} neighbours: slower while idle workers of other backends are running: {'; '.join(texts)}. "
            f"Idle workers are stopped while times are taken{f'; {meaning}' if meaning else ''}."
        )


def _explain_error(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    def describe(row: Summary) -> str:
        error = row.error
        return "" if error is None else f"{row.backend} {units.error(error.relative)} of {units.error(error.tolerance)}"

    texts = _collect(judged, short, ("error",), describe)
    if texts:
        yield f"{LETTERS['error']} error: more than {NEAR_TOLERANCE:.0%} of what is allowed: {'; '.join(texts)}."


def _explain_slow(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    texts = _collect(
        judged,
        short,
        ("slow",),
        lambda row: (
            f"the only launch of {row.backend}"
            if row.slow_launches == row.launches == 1
            else f"{row.slow_launches} of {row.launches} launches of {row.backend}"
        ),
    )
    if texts:
        yield f"{LETTERS['slow']} slow kernels run {'; '.join(texts)}."


def _explain_scheme(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    cases: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        for label, row in one.rows.items():
            if "scheme" in one.marks.get(label, ()):
                cases.setdefault((row.backend, find_scheme(row) or ""), []).append(short[one.case])
    if cases:
        texts = [f"{label} in {name_cases(where, judged, short)}: {scheme}" for (label, scheme), where in cases.items()]
        yield f"{LETTERS['scheme']} quantised in a way of its own: {'; '.join(texts)}."


_OF_ROWS = (
    _explain_noisy,
    _explain_disturbed,
    _explain_neighbours,
    _explain_error,
    _explain_slow,
    _explain_scheme,
)
"""Notes on marks of rows, in the order of `LETTERS`."""


def _explain_forms(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    cases: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        for column, row in find_forms(one).items():
            cases.setdefault((column, row.backend), []).append(short[one.case])
    for (column, label), where in cases.items():
        names = name_cases(where, judged, short)
        yield f"{LETTERS['form']} form: the column {column} has the times of {label}, its fastest form, in {names}."


def _collect(
    judged: Sequence[JudgedCase], short: Mapping[str, str], marks: Sequence[Mark], describe: Callable[[Summary], str]
) -> list[str]:
    """One text a case: its name, and what is to be said of each row that has one of the marks."""
    found = []
    for one in judged:
        rows = [row for label, row in one.rows.items() if one.marks.get(label, frozenset()) & set(marks)]
        found += [f"{', '.join(map(describe, rows))} in {short[one.case]}"] if rows else []
    return found


def explain_missing(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    """One note a status and reason of rows without a time, with the backends and the cases.

    What a case asked for is left out of the reason: the names of the cases say it, and so one note covers them all.
    """
    cases: dict[tuple[str, str, str], list[str]] = {}
    for one in judged:
        for row in one.rows.values():
            if row.latency is None:
                reason = _ASKED.sub("", reasons.clean_line(row.reason)) + _look_further(row)
                cases.setdefault((row.backend, row.status, reason), []).append(short[one.case])
    backends: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (backend, status, reason), where in cases.items():
        backends.setdefault((status, reason, tuple(where)), []).append(backend)
    for (status, reason, names), labels in backends.items():
        yield f"{', '.join(labels)} {status} ({name_cases(names, judged, short)}): {reason}"


def _look_further(row: Summary) -> str:
    """The command that finds what is wrong with a row of the engine; "" for others."""
    if row.status != "wrong" or row.role != "engine":
        return ""
    return f"; look further: enginebench diff {shlex.join(further.list_arguments(row))}"


def name_cases(names: Sequence[str], judged: Sequence[JudgedCase], short: Mapping[str, str]) -> str:
    """The short names of some cases, or ``all cases``, or ``all cases in bf16`` where that says the same."""
    if len(names) == len(judged) > 1:
        return "all cases"
    by_precision: dict[str, set[str]] = {}
    for one in judged:
        precision = next((row.precision for row in one.rows.values()), "")
        by_precision.setdefault(precision, set()).add(short[one.case])
    whole = {precision: cases for precision, cases in by_precision.items() if cases <= set(names)}
    if len(names) > len(whole) and set().union(*whole.values()) == set(names):
        return f"all cases in {' and '.join(whole)}"
    return ", ".join(names)


def explain_references(judged: Sequence[JudgedCase], short: Mapping[str, str]) -> Iterator[str]:
    """What is special about the references and the inputs of cases: `note` of the records."""
    for one in judged:
        note = next((row.note for row in one.rows.values() if row.note), None)
        if note is not None:
            yield f"{short[one.case]}: {note}"
