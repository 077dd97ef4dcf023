"""Two profiles of one model side by side, layer by layer: where the one takes more time than the other, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from engine.runtime.report import NodeProfile, Profile
from suites.harness.present import units

_CONVERSIONS = frozenset({"quantize_rows", "cast", "copy"})
_NARROW = {"int8": "integers", "bfloat16": "bfloat16"}
"""Arithmetic of a launch that does not multiply floats -> what it multiplies."""
_FLOAT: Mapping[str, str] = {
    "attention": "both factors are computed",
    "matmul": "both factors are computed",
    "conv": "a convolution",
    "conv_transpose": "a convolution",
    "linear": "its precision",
    "gated_linear": "its precision",
}
"""Op that multiplies -> why it multiplies floats where others do not."""


class Layer(NamedTuple):
    """The launches of the modules whose paths differ in their numbers alone; times are seconds, of all of them.

    Attributes:
        name: their path, with ``*`` for numbers.
        ops: that the program has in them.
        times, conversions: of all launches, and of those that only convert, in this program and in the other.
        multiplies: what its products read: ``integers``, ``bfloat16``, ``float32`` with the reason. Empty if the whole
            program multiplies floats.
    """

    name: str
    ops: str
    times: tuple[float, float]
    conversions: tuple[float, float]
    multiplies: tuple[str, ...]


def compare(own: Profile, other: Profile) -> list[Layer]:
    """The layers of both profiles, that with the largest difference first."""
    found: dict[str, tuple[list[NodeProfile], list[NodeProfile]]] = {}
    for side, profile in enumerate((own, other)):
        for node in profile.nodes:
            name = re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", node.module) or "-"
            found.setdefault(name, ([], []))[side].append(node)
    is_mixed = any(_multiplies(node) in _NARROW.values() for node in own.nodes)
    layers = [
        Layer(
            name,
            "+".join(dict.fromkeys(node.op for node in sides[0])) or "-",
            (_seconds(sides[0]), _seconds(sides[1])),
            (_seconds(filter(_converts, sides[0])), _seconds(filter(_converts, sides[1]))),
            tuple(dict.fromkeys(filter(None, map(_multiplies, sides[0])))) if is_mixed else (),
        )
        for name, sides in found.items()
    ]
    return sorted(layers, key=lambda one: -abs(one.times[0] - one.times[1]))


def _seconds(nodes: Iterable[NodeProfile]) -> float:
    return sum(node.seconds for node in nodes)


def _converts(node: NodeProfile) -> bool:
    return node.op in _CONVERSIONS


def _multiplies(node: NodeProfile) -> str:
    if node.op not in _FLOAT:
        return ""
    return _NARROW.get(node.compute) or f"float32: {_FLOAT[node.op]}"


def tabulate(layers: Sequence[Layer], other: str) -> list[dict[str, str]]:
    """A row for each layer; `other` is the label of the second profile."""
    return [
        {
            "layer": one.name,
            "ops": one.ops,
            "time": units.seconds(one.times[0]),
            other: units.seconds(one.times[1]),
            "speed": units.digits(one.times[1] / one.times[0]) if all(one.times) else "-",
            "conversions": units.seconds(one.conversions[0]) if one.conversions[0] else "-",
            "multiplies": ", ".join(one.multiplies) or "-",
        }
        for one in layers
    ]


def explain(own: Profile, other: Profile, labels: tuple[str, str]) -> str:
    """One sentence: how the times differ, and by what."""
    parts: dict[str, float] = {}
    for one in compare(own, other):
        converting = one.conversions[0] - one.conversions[1]
        narrow = [what for what in _NARROW.values() if what in one.multiplies]
        kind = f"layers that multiply {narrow[0]}" if narrow else "all other layers"
        parts[kind] = parts.get(kind, 0.0) + one.times[0] - one.times[1] - converting
        parts["conversions"] = parts.get("conversions", 0.0) + converting
    shares = (f"{what} {_difference(seconds, other.seconds)}" for what, seconds in parts.items() if seconds)
    times = f"{units.seconds(own.seconds)} against {units.seconds(other.seconds)} of {labels[1]}"
    return f"{labels[0]}: {times}, {units.digits(other.seconds / own.seconds)}x its speed: {', '.join(shares)}."


def _difference(seconds: float, whole: float) -> str:
    """``save 12.0 ms (8.1%)`` or ``cost ...``, of the `whole` time."""
    verb = "save" if seconds < 0 else "cost"
    return f"{verb} {units.seconds(abs(seconds))} ({abs(seconds) / whole:.1%})"


def to_dict(own: Profile, other: Profile, labels: tuple[str, str]) -> dict[str, Any]:
    """For machines."""
    layers = [one._asdict() for one in compare(own, other)]
    return {"backend": labels[1], "seconds": other.seconds, "layers": layers, "summary": explain(own, other, labels)}
