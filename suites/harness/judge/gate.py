"""Counts of the engine's programs against those that a project has accepted. Pure, but for `read` and `write`.

Accepted counts are exact: a smaller count is a difference, too. Otherwise a later increase back to the old count would
pass unseen. Only columns of `ALLOWED_GROWTH` may move a little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suites.harness.errors import UsageError, describe_os_error, describe_unreadable
from suites.harness.files import parse_toml, read_text_file, write_text_file
from suites.harness.invalid import describe
from suites.harness.judge.compare import ALLOWED_GROWTH, EXACT
from suites.harness.record.schema import Status

HEADER = """\
# Counts of the programs that the engine makes of the cases of one suite. `enginebench compare --gate` fails where a
# program has other counts; `enginebench compare --accept WHY` writes this file.

"""
Change = Literal["worse", "better", "new", "gone", "failed"]
Row = dict[str, int]


class Acceptance(BaseModel):
    """One use of ``--accept``."""

    model_config = ConfigDict(extra="forbid")

    on: date
    """day"""
    why: str
    """what the user gave as the reason"""
    changes: list[str] = []
    """what changed, a line for each row"""


class Baselines(BaseModel):
    """The file of accepted counts."""

    model_config = ConfigDict(extra="forbid")

    suite: str
    """name of a suite, or the path of a suite file, relative to this file"""
    counts: dict[str, dict[str, dict[str, Annotated[int, Field(strict=True)]]]] = {}
    """case -> label of the engine -> column -> count"""
    accepted: list[Acceptance] = []
    """oldest first"""


@dataclass(frozen=True)
class Found:
    """What an engine makes of a case now.

    Attributes:
        counts: column -> count; None if there is no program.
        status, reason: as of `suites.harness.run.counts.Counted`.
    """

    counts: Row | None
    status: Status = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class Difference:
    """A row that is not as accepted.

    Attributes:
        kind: ``worse`` if a count grew, or if only one side has it; ``better`` if counts only became smaller; ``new``
            and ``gone`` for rows that only one side has; ``failed`` for a program that cannot be made.
        changes: column -> (accepted, now); None for a column that one side does not have.
        reason: why a program cannot be made.
    """

    case: str
    backend: str
    kind: Change
    changes: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    reason: str | None = None

    def describe(self) -> str:
        """In one line, without case and backend."""
        if self.reason is not None:
            return self.reason
        if self.kind in ("new", "gone"):
            side = 1 if self.kind == "new" else 0
            return ", ".join(f"{name} {_number(pair[side])}" for name, pair in self.changes.items())
        return ", ".join(f"{name} {_number(one)} -> {_number(two)}" for name, (one, two) in self.changes.items())


@dataclass(frozen=True)
class Judgement:
    """All rows.

    Attributes:
        differences: rows that are not as accepted.
        equal: how many rows are as accepted.
        skipped: (case, backend, reason) of rows that this machine cannot have.
    """

    differences: tuple[Difference, ...]
    equal: int
    skipped: tuple[tuple[str, str, str], ...]

    @property
    def passes(self) -> bool:
        """True if every row that this machine can have is as accepted, and there is at least one."""
        return not self.differences and self.equal > 0

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        return asdict(self) | {"passes": self.passes}


def read(path: Path) -> Baselines:
    """The accepted counts in the file at `path`.

    Raises:
        UsageError: no such file, or it is not a file of baselines.
    """
    try:
        return Baselines.model_validate(parse_toml(read_text_file(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {describe_unreadable(error)}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{path}: {place}: {describe(first)}. Restore the file. Or delete it, "
            "and write a new one with `enginebench compare --accept WHY --suite SUITE`"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None


def write(path: Path, found: Baselines) -> None:
    """Write the file anew; UsageError if that fails, which leaves an earlier file as it is."""
    told = {"suite": found.suite, "accepted": [one.model_dump() for one in found.accepted], "counts": found.counts}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {describe_os_error(error)}") from None
    write_text_file(path, HEADER + tomli_w.dumps(told))


def judge(accepted: Baselines, found: Mapping[tuple[str, str], Found]) -> Judgement:
    """Compare the current programs with the accepted counts.

    Args:
        accepted: the counts to compare with.
        found: (case, label) -> what the engine makes of it, for every row of the suite.
    """
    differences: list[Difference] = []
    skipped: list[tuple[str, str, str]] = []
    known = {(case, label): row for case, rows in accepted.counts.items() for label, row in rows.items()}
    equal = 0
    for key, now in found.items():
        if now.status in ("unavailable", "not applicable"):
            skipped.append((*key, now.reason or now.status))
        elif now.counts is None:
            differences.append(Difference(*key, "failed", reason=now.reason or now.status))
        else:
            difference = _compare(key, known.get(key), now.counts)
            equal += difference is None
            differences += [] if difference is None else [difference]
    differences += [Difference(*key, "gone", _pairs(row, {})) for key, row in known.items() if key not in found]
    return Judgement(tuple(differences), equal, tuple(skipped))


def accept(accepted: Baselines, judgement: Judgement, why: str, on: date) -> Baselines:
    """`accepted` with the current counts in place of those that differ, and with the reason.

    Raises:
        UsageError: some program could not be made.
    """
    failed = [one for one in judgement.differences if one.kind == "failed"]
    if failed:
        one = failed[0]
        raise UsageError(f"{one.case}: {one.backend}: there is no program to accept: {one.reason}")
    counts = {case: dict(rows) for case, rows in accepted.counts.items()}
    for one in judgement.differences:
        rows = counts.setdefault(one.case, {})
        old = rows.pop(one.backend, {})
        if one.kind != "gone":
            new = {name: after for name, (_, after) in one.changes.items()}
            merged = {name: new.get(name, old.get(name)) for name in EXACT}
            rows[one.backend] = {name: value for name, value in merged.items() if value is not None}
    lines = [f"{one.case} {one.backend}: {one.kind}: {one.describe()}" for one in judgement.differences]
    ordered = {case: dict(sorted(rows.items())) for case, rows in sorted(counts.items()) if rows}
    acceptance = Acceptance(on=on, why=why, changes=[line for line in lines if not _is_first(line, accepted)])
    return Baselines(suite=accepted.suite, counts=ordered, accepted=[*accepted.accepted, acceptance])


def _is_first(line: str, accepted: Baselines) -> bool:
    """True for a row of the first acceptance: all rows are new then, and the counts stand in the file."""
    return not accepted.accepted and ": new: " in line


def _compare(key: tuple[str, str], before: Row | None, now: Row) -> Difference | None:
    if before is None:
        return Difference(*key, "new", _pairs({}, now))
    changes = {name: pair for name, pair in _pairs(before, now).items() if _differs(name, *pair)}
    if not changes:
        return None
    grew = any(one is None or two is None or two > one for one, two in changes.values())
    return Difference(*key, "worse" if grew else "better", changes)


def _pairs(before: Row, now: Row) -> dict[str, tuple[int | None, int | None]]:
    names = [name for name in EXACT if name in before or name in now]
    return {name: (before.get(name), now.get(name)) for name in names}


def _differs(name: str, before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before != now
    least_bytes, share = ALLOWED_GROWTH.get(name, (0, 0.0))
    return abs(now - before) > max(least_bytes, share * before)


def list_rows(found: Judgement) -> Iterator[dict[str, str]]:
    """The differences as rows of a table."""
    for one in found.differences:
        yield {"case": one.case, "backend": one.backend, "verdict": one.kind, "accepted -> now": one.describe()}


def summarise(found: Judgement) -> list[str]:
    """Lines below the table: how many rows are equal, and which were left out."""
    rows = _count_rows(found.equal + len(found.differences))
    return [f"{found.equal} of {rows} {'is' if found.equal == 1 else 'are'} as accepted.", *_describe_skipped(found)]


def describe_acceptance(found: Judgement, *, is_first: bool) -> list[str]:
    """Lines below the table once the current counts are accepted: what was done, and which rows were left out.

    Args:
        found: what was judged before.
        is_first: True if no counts were accepted before.
    """
    number = len(found.differences)
    total = found.equal + sum(one.kind != "gone" for one in found.differences)
    rows = _count_rows(number)
    if not number:
        done = "Nothing was accepted: no row has changed."
    elif is_first:
        done = f"Accepted: {rows}, counted for the first time."
    else:
        now = {0: "no row is left", 1: "the only row is as accepted now"}
        done = f"Accepted: {rows} changed, and {now.get(total, f'all {total} rows are as accepted now')}."
    return [done, *_describe_skipped(found)]


def _describe_skipped(found: Judgement) -> list[str]:
    reasons = Counter((label, reason) for _, label, reason in found.skipped)
    return [f"Not compared: {label} in {number} of the cases: {why}" for (label, why), number in reasons.items()]


def _count_rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"
