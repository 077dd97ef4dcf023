"""Pydantic's findings in the words of a file. Knows no model of a file."""

from __future__ import annotations

from typing import Any

_EXPECTED = {
    "greater_than": "a number above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "at most {le}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "repeated": "each value once",
    "string_pattern_mismatch": "letters, digits, - and _, beginning with a letter or a digit",
}
"""Type of a pydantic error -> what the key takes; the error fills in its limits."""
_LONGEST = 60
"""Characters of a value that a message repeats."""


def describe(problem: Any) -> str:
    """What a key expected and which value it got. The name of the key is left to the caller.

    Args:
        problem: one of `pydantic.ValidationError.errors()`.
    """
    if problem["type"] == "missing":
        return "missing"
    got = repr(problem["input"])
    got = got if len(got) <= _LONGEST else f"{got[: _LONGEST - 3]}..."
    if problem["type"] == "extra_forbidden":
        return f"unknown key, with the value {got}"
    if problem["type"] == "too_short":
        return f"expected at least one value, got {got}"
    expected = _EXPECTED.get(problem["type"])
    if expected is None:
        message = problem["msg"][0].lower() + problem["msg"][1:]
    else:
        message = "expected " + expected.format_map(problem.get("ctx", {}))
    return f"{message}, got {got}"
