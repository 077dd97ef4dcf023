"""Counts of the engine's programs against those that a project has accepted. Pure, but for `read` and `write`.

Accepted counts are exact: a smaller count is a difference, too. Otherwise a later increase back to the old count would
pass unseen. Only columns of `ALLOWED_GROWTH` may move a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suites.harness.errors import UsageError, describe_unreadable
from suites.harness.files import parse_toml, read_text_file, write_text_file
from suites.harness.invalid import describe
from suites.harness.judge.compare import EXACT, describe_change, exceeds_allowance
from suites.harness.judge.summary import Key
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
class Program:
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
        return self.reason or ", ".join(describe_change(name, *pair) for name, pair in self.changes.items())


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
    """The accepted counts in the file at `path`; UsageError if it cannot be read or is not a file of baselines."""
    try:
        return Baselines.model_validate(parse_toml(read_text_file(path)))
    except (OSError, UnicodeDecodeError) as error:
        reason = describe_unreadable(error)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, problem['loc']))}: {describe(problem)}"
    except ValueError as error:
        reason = f"not valid TOML: {error}"
    raise UsageError(f"{path}: {reason}")


def write(path: Path, baselines: Baselines) -> None:
    """Write the file anew; UsageError if that fails, which leaves an earlier file as it is."""
    accepted = [entry.model_dump() for entry in baselines.accepted]
    tables = {"suite": baselines.suite, "accepted": accepted, "counts": baselines.counts}
    write_text_file(path, HEADER + tomli_w.dumps(tables))


def judge(accepted: Baselines, programs: Mapping[Key, Program]) -> Judgement:
    """Compare the current programs with the accepted counts.

    Args:
        accepted: the counts to compare with.
        programs: (case, label) -> what the engine makes of it, for every row of the suite.
    """
    differences: list[Difference] = []
    skipped: list[tuple[str, str, str]] = []
    known = {(case, label): row for case, rows in accepted.counts.items() for label, row in rows.items()}
    equal = 0
    for key, now in programs.items():
        if now.status in ("unavailable", "not applicable"):
            skipped.append((*key, now.reason or now.status))
        elif now.counts is None:
            differences.append(Difference(*key, "failed", reason=now.reason or now.status))
        elif difference := _compare(key, known.get(key), now.counts):
            differences.append(difference)
        else:
            equal += 1
    differences += [Difference(*key, "gone", _pairs(row, {})) for key, row in known.items() if key not in programs]
    return Judgement(tuple(differences), equal, tuple(skipped))


def accept(accepted: Baselines, judgement: Judgement, why: str, on: date) -> Baselines:
    """`accepted` with the current counts in place of those that differ, and with the reason.

    Raises:
        UsageError: some program could not be made.
    """
    counts = {case: dict(rows) for case, rows in accepted.counts.items()}
    for row in judgement.differences:
        if row.kind == "failed":
            raise UsageError(f"{row.case}: {row.backend}: there is no program to accept: {row.reason}")
        rows = counts.setdefault(row.case, {})
        old = rows.pop(row.backend, {})
        if row.kind != "gone":
            new = old | {name: after for name, (_, after) in row.changes.items()}
            rows[row.backend] = {name: value for name in EXACT if (value := new.get(name)) is not None}
    ordered = {case: dict(sorted(rows.items())) for case, rows in sorted(counts.items()) if rows}
    # The first acceptance would list every count of the file again.
    changed = judgement.differences if accepted.counts else ()
    changes = [f"{row.case} {row.backend}: {row.kind}: {row.describe()}" for row in changed]
    acceptance = Acceptance(on=on, why=why, changes=changes)
    return Baselines(suite=accepted.suite, counts=ordered, accepted=[*accepted.accepted, acceptance])


def _compare(key: Key, before: Row | None, now: Row) -> Difference | None:
    if before is None:
        return Difference(*key, "new", _pairs({}, now))
    changes = {name: pair for name, pair in _pairs(before, now).items() if _differs(name, *pair)}
    if not changes:
        return None
    grew = any(old is None or new is None or new > old for old, new in changes.values())
    return Difference(*key, "worse" if grew else "better", changes)


def _pairs(before: Row, now: Row) -> dict[str, tuple[int | None, int | None]]:
    return {name: (before.get(name), now.get(name)) for name in EXACT if name in before or name in now}


def _differs(name: str, before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before != now
    return exceeds_allowance(name, before, before + abs(now - before))
