"""The harness and what it runs: declared suites, models, backends, measurements, results.

Importing the package imports nothing else. The functions `load_...` give stored results as a DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.harness.record.frame import load_ablations, load_kernels, load_nodes, load_operations, load_runs

__all__ = ["load_ablations", "load_kernels", "load_nodes", "load_operations", "load_runs"]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: pandas takes a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from suites.harness.record import frame

    return getattr(frame, name)
