"""Lines about the commits of a history."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from suites.harness.record.facts import Facts
from suites.harness.record.schema import Part, Record


class CountedCase(Part):
    """What the engine of one commit makes of one case."""

    facts: Facts | None = None
    """counts of the program; null if it could not be made"""
    reason: str | None = None
    """why not"""


class CommitRecord(Record):
    """A commit that a history looked at."""

    kind: Literal["commit"] = "commit"
    """`commit`"""
    commit: str
    """full name"""
    previous: str | None = None
    """the commit before it in this history, which it is compared with; null for the first"""
    skipped: int = 0
    """commits between `previous` and this one that change the engine and were left out"""
    date: str
    """when it was committed, in ISO 8601"""
    subject: str
    """first line of its message"""
    status: Literal["built", "failed"]
    """`failed` if the engine of this commit could not be built or started"""
    reason: str | None = None
    """why it failed"""
    backend: str | None = None
    """label of its engine in the samples, such as `engine@0123456789ab`; null if it failed"""
    digest: str | None = None
    """beginning of a SHA-256 over the Python files and the extension of its engine; null if it failed"""
    cases: dict[str, CountedCase] = Field(default_factory=dict)
    """case -> what its engine makes of it"""
