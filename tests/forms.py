"""The short form of the tests, and the long one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def shorten(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of which only `kept` belong to the short form. A tuple has a value for each of several names."""
    return [one if one in kept else _only_long(one) for one in values]


def _only_long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
