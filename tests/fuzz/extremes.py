"""The values that mutations put into attributes, by the attribute's kind, each under a stable name for the coverage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from engine import dtypes
from engine.ops import TABLE, Attribute

MISSING: Any = object()
"""In place of a value: the attribute is left out of the file."""

INTS: dict[str, Any] = {
    "0": 0, "1": 1, "2": 2, "-1": -1, "2^15": 1 << 15, "2^22": 1 << 22, "2^31-1": (1 << 31) - 1, "-2^31": -(1 << 31),
    "1-2^31": 1 - (1 << 31), "2^31": 1 << 31, "2^32+1": (1 << 32) + 1, "2^47": 1 << 47, "2^62": 1 << 62,
    "2^63-1": (1 << 63) - 1, "-2^63": -(1 << 63), "2^64": 1 << 64, "2^70": 1 << 70, "-2^70": -(1 << 70),
}  # fmt: skip
_FLOATS: dict[str, Any] = {
    "0.0": 0.0, "-0.0": -0.0, "1.0": 1.0, "-1.0": -1.0, "nan": math.nan, "inf": math.inf, "-inf": -math.inf,
    "1e308": 1e308, "-1e308": -1e308, "1e39": 1e39, "5e-324": 5e-324, "2^63": 1 << 63, "2^2000": 1 << 2000,
}  # fmt: skip
_WRONG: dict[str, Any] = {
    "missing": MISSING, "none": None, "true": True, "float": 1.5, "string": "x", "list": [1], "strings": ["x"],
    "floats": [1.5], "nones": [None], "lists": [[1]], "object": {}, "size": {"size": [[["s"], 1]]},
    "no size": {"size": 1},
}  # fmt: skip
_LENGTHS: dict[str, Any] = {"empty": [], "eight": [1] * 8, "nine": [1] * 9, "thousand": [1] * 1000}


class Extreme(NamedTuple):
    """One value of one attribute of one op. `of` makes it from the value that the op has."""

    op: str
    attribute: str
    label: str
    of: Callable[[Any], Any]

    def __str__(self) -> str:
        return f"{self.op}.{self.attribute} := {self.label}"


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _old: value


def _first(value: Any) -> Callable[[Any], Any]:
    return lambda old: [value, *old[1:]] if isinstance(old, list) else value


def _every(value: Any) -> Callable[[Any], Any]:
    return lambda old: [value] * len(old) if isinstance(old, list) else value


def _elements(values: dict[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """Each value as the first element of a list and as all of them."""
    first = {f"first {label}": _first(value) for label, value in values.items()}
    every = {f"every {label}": _every(value) for label, value in values.items()}
    return first | every | {label: _constant(value) for label, value in _LENGTHS.items()}


def _axes() -> dict[str, Callable[[Any], Any]]:
    lists = {"all eight": list(range(8)), "nine": list(range(9)), "twice": [0, 0], "backwards": [1, 0], "empty": []}
    single = {f"[{label}]": [value] for label, value in INTS.items()}
    return {label: _constant(value) for label, value in (lists | single).items()}


def _programs(attribute: Attribute) -> dict[str, Callable[[Any], Any]]:
    """Programs of the op `pointwise`: steps that read what there is not, have wrong arities, or are many."""
    names = attribute.choices
    programs: dict[str, Any] = {
        "empty": [], "no operands": [["neg"]], "four operands": [["add", 0, 0, 0, 0]], "one for two": [["add", 0]],
        "two for one": [["neg", 0, 0]], "itself": [["neg", 1]], "later": [["neg", 2], ["neg", 0]],
        "bool operand": [["neg", True]], "list as name": [[["neg"], 0]], "unknown": [["system", 0]],
        "256 steps": [["neg", 0]] * 256, "20000 steps": [["neg", 0]] * 20000,
    }  # fmt: skip
    programs |= {f"operand {label}": [[names[0], value]] for label, value in INTS.items()}
    programs |= {f"every {name}": [[name, 0], [name, 0, 0], [name, 0, 0, 0]] for name in names}
    return {label: _constant(value) for label, value in programs.items()}


def _of_kind(attribute: Attribute) -> dict[str, Callable[[Any], Any]]:
    match attribute.kind:
        case "int" | "axis":
            return {label: _constant(value) for label, value in INTS.items()}
        case "bool":
            return {
                label: _constant(value) for label, value in {"0": 0, "1": 1, "2": 2, "-1": -1, "false": False}.items()
            }
        case "float":
            return {label: _constant(value) for label, value in _FLOATS.items()}
        case "choice":
            return {f"'{value}'": _constant(value) for value in (*attribute.choices, "", "nonsense", "\0", "\u00e9")}
        case "dtype":
            return {f"'{value}'": _constant(value) for value in (*dtypes.BY_NAME, "complex64", "", "object")}
        case "axes":
            return _axes()
        case "ints" | "shape":
            return _elements(INTS)
        case "program":
            return _programs(attribute)


def of_attribute(op: str, name: str) -> list[Extreme]:
    """Every extreme of one attribute."""
    values = _of_kind(TABLE[op].attributes[name]) | {label: _constant(value) for label, value in _WRONG.items()}
    return [Extreme(op, name, label, of) for label, of in values.items()]


ALL: tuple[Extreme, ...] = tuple(
    extreme
    for op, declared in sorted(TABLE.items())
    for name in declared.attributes
    for extreme in of_attribute(op, name)
)
"""Every op x attribute x extreme."""
