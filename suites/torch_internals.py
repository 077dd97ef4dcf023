"""Private names of torch that the suites need beside those of `engine.exporter.torch_internals`, each with the reason.

torch is imported inside of functions: backends are also listed where nobody needs torch.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PHASES = {
    "dynamo": "entire_frame_compile",
    "aot_autograd": "backend_compile",
    "inductor": "inductor_compile",
    "code_generation": "code_gen",
    "cpp_compiler": "async_compile.wait",
}
"""Phase of a compilation -> torch's name of it."""


@contextmanager
def inductor_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Inductor's settings of the process, such as ``freezing``, have these values in the block.

    The block has no command line: inductor takes what follows ``--only`` there for the name of a model and writes it
    into its modules without escaping quotes, so that ``enginebench run --only "model == 'gpt2'"`` would be a syntax
    error in them.
    """
    from torch._inductor import config

    before = sys.argv
    sys.argv = before[:1]
    try:
        with config.patch(dict(settings)):
            yield
    finally:
        sys.argv = before


def inductor_mode(mode: str) -> dict[str, Any]:
    """The options that a mode of `torch.compile`, which takes a mode or options, stands for."""
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode))


class CompilationLog:
    """What torch.compile does from now on in this process. Dynamo has no public way to read its counts."""

    def __init__(self) -> None:
        from torch._dynamo import utils

        self._breaks = len(utils.graph_break_reasons)
        self._graphs = utils.counters["stats"]["unique_graphs"]
        self._seconds = utils.calculate_time_spent()
        self._since_us = time.time_ns() // 1000

    def breaks(self) -> list[dict[str, Any]]:
        """Graph breaks, oldest first: `reason` in one line, and the user's line as `file`, `line` and `code`.

        Not ``counters["graph_break"]``, which lacks breaks at a branch on a tensor's value (torch 2.13).
        """
        from torch._dynamo.utils import graph_break_reasons

        found = []
        for one in graph_break_reasons[self._breaks :]:
            place = one.user_stack[-1] if one.user_stack else None
            file, line, code = (Path(place.filename).name, place.lineno, place.line) if place else (None, None, None)
            found.append({"reason": one.reason.splitlines()[0], "file": file, "line": line, "code": code})
        return found

    def graphs(self) -> int:
        """Graphs that were compiled, those of recompilations included."""
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"] - self._graphs

    def recompiles(self) -> list[str]:
        """The guard that failed, of each compilation of code that had been compiled before."""
        from torch._dynamo.utils import get_compilation_metrics

        recent = [one for one in get_compilation_metrics() if (one.start_time_us or 0) >= self._since_us]
        # behind a # comes the line of the user with the path of its file
        return [one.recompile_reason.partition("#")[0].strip() for one in recent if one.recompile_reason]

    def phases(self) -> dict[str, float]:
        """Seconds in each phase of compiling. Each phase up to `inductor` contains the next one.

        `inductor` contains `code_generation`, which is 0 where a cache has the code, and `cpp_compiler`, the wait for
        the C++ compiler.
        """
        from torch._dynamo.utils import calculate_time_spent

        spent = calculate_time_spent()
        return {phase: spent.get(name, 0.0) - self._seconds.get(name, 0.0) for phase, name in _PHASES.items()}


def generated_files() -> list[Path]:
    """Python files that inductor has generated and loaded in this process, oldest first. No public list."""
    from torch._inductor.codecache import PyCodeCache

    return [Path(str(module.__file__)) for module in PyCodeCache.modules]


def version_of(tensor: torch.Tensor) -> int | None:
    """How often the memory of a tensor was written in place; None where torch does not count. No public counter."""
    return None if tensor.is_inference() else tensor._version


def flatten_with_names(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Leaves of nested lists, tuples and dicts, each with a name such as ``mask_0``, and their structure.

    A name begins below the outermost level. torch has no public functions of trees.
    """
    from torch.utils._pytree import tree_flatten_with_path

    leaves, structure = tree_flatten_with_path(tree)
    named = [(re.sub(r"\W+", "_", "".join(map(str, path[1:]))).strip("_"), leaf) for path, leaf in leaves]
    return named, structure


def multiply_int8(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """X [M, K] by int8 weights [N, K] with a scale for each of N. torch has no public name for the product."""
    import torch

    return torch._weight_int8pack_mm(x, weight, scale)


def multiply_bytes(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """X [M, K] by weight [N, K], both int8, in int32. torch has no public name for this product, either."""
    import torch

    return torch._int_mm(x, weight.T)
