"""What a backend tells of the program that it made: one entry a column, with the uses of the column as marks.

A part of the schema in `suites.harness.record.schema`, whose text says what holds for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

FIELDS = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""Of every class of the schema: other keys are an error, and the text below a field is its description."""


_WHOLE = Field(ge=0, lt=1 << 63)
Whole = Annotated[int, _WHOLE]
ReportedCount = Annotated[int | None, _WHOLE]
Count = Annotated[int | None, _WHOLE, "gates"]
"""Counts of the engine's programs that only change when the program does: more is worse, and ``enginebench compare
--gate`` fails."""
CountedCount = Annotated[int | None, _WHOLE, "gates", "counted"]
"""The same, which an ablation compares with a switch and without it."""
Positive = Annotated[float, Field(gt=0, lt=1e12)]
"""Seconds, and speeds: nothing can be said of others."""


class Facts(BaseModel):
    """What a backend tells of the program that it made."""

    model_config = FIELDS

    nodes: CountedCount = None
    """nodes of the graph that runs"""
    launches: CountedCount = None
    """kernel launches of a call"""
    fallback_nodes: Count = None
    """calls that torch runs because the engine cannot"""
    slow_launches: Count = None
    """kernel launches of a call that use the engine's slow kernels"""
    graph_breaks: Count = None
    """places where torch.compile left the graph"""
    arena_bytes: CountedCount = None
    """memory that intermediate values share"""
    arena_lower_bound_bytes: ReportedCount = None
    """the most that is alive at once: no plan of the arena is smaller"""
    weight_bytes: CountedCount = None
    """constants"""
    packed_bytes: ReportedCount = None
    """constants in the layouts that kernels take"""
    artifact_bytes: Count = None
    """files of the saved or exported program"""
    flops: CountedCount = None
    """operations of a call, two a multiply-add; in the summary of a backend that counts no work, those of the engine's
    program"""
    executed_flops: CountedCount = None
    """operations that the engine's kernels execute, for example fewer than `flops` with Winograd's convolution"""
    bytes: CountedCount = None
    """bytes that a call reads and writes, weights included, without the copies that the engine inserts, whose
    number depends on the kernels. In the summary of a backend that counts no work, those of the engine's program"""
    steps: ReportedCount = None
    """passes over the weights in a call: tokens per text in phase decode, 1 in phase prefill"""
    run_digest: str | None = None
    """of the program, its kernels and its threads: equal digests run the same code"""
    details: dict[str, JsonValue] | None = None
    """what only this kind of backend can tell, such as operators that fusions made, or reasons of graph breaks"""


class AllFacts(Facts):
    """The same with what is stored once a generation and is no column of a summary."""

    kernels: list[tuple[str, int]] | None = None
    """names of the kernels that run, and how often"""
    tokens: dict[str, int] | None = None
    """of a case that generates text: tokens of a call, by phase"""


def facts_of(values: Mapping[str, Any]) -> AllFacts:
    """What a backend tells, by column; what has no column of its own goes to `details`.

    Raises:
        ValueError: a value is not of its column's type.
    """
    known = {name: value for name, value in values.items() if name in AllFacts.model_fields}
    others = {name: value for name, value in values.items() if name not in AllFacts.model_fields and value is not None}
    if others:
        known["details"] = {**(known.get("details") or {}), **others}
    return AllFacts.model_validate(known)


def columns(mark: Literal["gates", "counted"]) -> tuple[str, ...]:
    """Columns that have a mark, in order."""
    return tuple(name for name, field in Facts.model_fields.items() if mark in field.metadata)
