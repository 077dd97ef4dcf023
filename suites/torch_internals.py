"""Private names of torch that the suites need beside those of `engine.exporter.torch_internals`, each with the reason.

torch is imported inside of functions: backends are also listed where nobody needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def inductor_settings(settings: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Inductor's settings of the process, such as ``freezing``, have these values in the block.

    `torch.compile` has public options, but those are in force too late for ``freezing`` (see `torch_compile.py`).
    """
    from torch._inductor import config

    patch: AbstractContextManager[Any] = config.patch(dict(settings))
    return patch


def inductor_mode(mode: str) -> dict[str, Any]:
    """The options that a mode of `torch.compile` stands for. `torch.compile` takes a mode or options, never both."""
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode))


def count_graph_breaks() -> int:
    """Graph breaks of this process until now. Dynamo has no public counter."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def generated_files() -> list[Path]:
    """Python files that inductor has generated and loaded in this process, oldest first. No public list."""
    from torch._inductor.codecache import PyCodeCache

    return [Path(str(module.__file__)) for module in PyCodeCache.modules]


def version_of(tensor: torch.Tensor) -> int | None:
    """How often the memory of a tensor was written in place; None where torch does not count. No public counter."""
    return None if tensor.is_inference() else tensor._version
