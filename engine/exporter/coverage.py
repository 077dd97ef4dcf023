"""The table of ATen calls that compile, as measured by tests. Others may compile if torch decomposes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLE = "engine/exporter/coverage.json"
TARGETS = ("interpreter", "cpu")  # every op of the op table has a definition in NumPy and a kernel in C


def rows() -> list[dict[str, Any]]:
    """One row an overload: ``name``, ``dtypes``, ``ops`` and ``by``, sorted by name."""
    found: list[dict[str, Any]] = json.loads(Path(__file__).with_name("coverage.json").read_text())
    return found


def packets(table: list[dict[str, Any]]) -> set[str]:
    """Names of the ATen calls, their overloads counted once."""
    return {row["name"].split(".")[1] for row in table if row["name"].startswith("aten.")}
