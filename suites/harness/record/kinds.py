"""All kinds of lines."""

from __future__ import annotations

from suites.harness.record.commits import CommitRecord
from suites.harness.record.launches import KernelRecord, NodeRecord, OperationRecord
from suites.harness.record.schema import AblationRecord, AccuracyRecord, Environment, Record, Samples, Summary

_ALL: tuple[type[Record], ...] = (
    Environment, Samples, Summary, AblationRecord, AccuracyRecord, KernelRecord, NodeRecord, OperationRecord,
    CommitRecord,
)  # fmt: skip
KINDS = {kind.model_fields["kind"].default: kind for kind in _ALL}
"""Kind of a line -> its class."""
