"""All kinds of lines."""

from __future__ import annotations

from suites.harness.record.commits import CommitRecord
from suites.harness.record.launches import KernelRecord, NodeRecord
from suites.harness.record.schema import AblationRecord, AccuracyRecord, Environment, Record, Samples, Summary

KINDS: dict[str, type[Record]] = {
    "environment": Environment,
    "samples": Samples,
    "summary": Summary,
    "ablation": AblationRecord,
    "accuracy": AccuracyRecord,
    "kernel": KernelRecord,
    "node": NodeRecord,
    "commit": CommitRecord,
}
"""Kind of a line -> its class."""
