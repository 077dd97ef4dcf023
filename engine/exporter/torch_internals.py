"""Every private name of torch that this package and `engine.torch_backend` use, each with the reason why no public name
serves. Imports torch.

pyproject.toml bounds the version of torch because of these names. For a new version, check each `torch_internals.py`,
in `engine/targets/triton` and `suites`, too; `tests/test_imports.py` finds private names in other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch

# In a compiler backend, only these give the current compilation and the results of AOT autograd's analysis.
from torch._guards import CompileContext, TracingContext

# The types of a node's target in an exported graph. `torch.ops` offers the operators and not their types.
from torch._ops import HigherOrderOperator, OpOverload

# A tensor of torch.export without data. No public name distinguishes it from a tensor with data. And what torch raises
# where it would have to read data: these errors say nothing but the name of an operator.
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)

# The only way to change the arguments of every operator below autograd.
from torch.utils._python_dispatch import TorchDispatchMode

# torch.export describes arguments and results by the structures of this module, and no public module has them.
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

# sympy's functions in torch's symbolic sizes, needed to recognise them in a formula.
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

__all__ = [  # beside the functions below
    "CompileContext", "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FloorDiv",
    "HigherOrderOperator", "Max", "Min", "Mod", "OpOverload", "PythonMod", "TorchDispatchMode", "TracingContext",
    "TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten",
]  # fmt: skip

# --- operators: torch.Tensor and torch.ops have no public schema ----------------------------------------------------


def guards_of(program: Any) -> Sequence[str]:
    """The conditions on the inputs of an exported program for which torch captured it, as Python expressions."""
    return tuple(getattr(program, "_guards_code", ()))


def schema_arguments(overload: OpOverload) -> Sequence[Any]:
    """The parameters of an operator, each with `name` and `default_value`."""
    arguments: Sequence[Any] = overload._schema.arguments
    return arguments


def has_results(overload: OpOverload) -> bool:
    """Whether the operator returns anything."""
    return bool(overload._schema.returns)


def writes(overload: OpOverload) -> bool:
    """Whether the operator changes elements of one of its arguments. `detach_` marks it for autograd only."""
    return bool(overload._schema.is_mutable) and overload is not torch.ops.aten.detach_.default


# --- decompositions: torch.export has a public table of its defaults, and only of these ------------------------------


def decomposition(overload: OpOverload) -> Callable[..., Any]:
    """Torch's definition of an operator by other operators. KeyError if it has none in Python."""
    from torch._decomp import decomposition_table

    rule: Callable[..., Any] = decomposition_table[overload]
    return rule


def can_decompose(overload: OpOverload) -> bool:
    """Whether torch's C++ code defines the operator by other operators."""
    return bool(overload._can_decompose())


def keep_whole(overloads: Iterable[OpOverload]) -> AbstractContextManager[None]:
    """A block in which tracing does not decompose calls of `overloads` that C++ code defines by others, in all threads.

    `ExportedProgram.run_decompositions` has an argument for this; AOT autograd has none.
    """
    from torch.export.exported_program import _override_composite_implicit_decomp

    block: AbstractContextManager[None] = _override_composite_implicit_decomp(_definitions(tuple(overloads)))
    return block


@contextmanager
def keep_unused(overloads: Iterable[OpOverload]) -> Iterator[None]:
    """A block in which tracing does not remove calls of `overloads` whose results are not used, in all threads.

    `torch.fx.node.has_side_effect` is public, but it cannot be undone.
    """
    from torch.fx.node import _side_effectful_functions as kept

    added = set(overloads) - kept
    kept |= added
    try:
        yield
    finally:
        kept -= added


@cache  # torch takes 14 ms to look at 300 operators
def _definitions(overloads: tuple[OpOverload, ...]) -> dict[OpOverload, Any]:
    """For operators that C++ code defines by others, the definition that tells torch to keep them."""
    from torch._export.utils import _is_preservable_cia_op, _special_op_to_preserve_cia

    return {overload: _special_op_to_preserve_cia for overload in overloads if _is_preservable_cia_op(overload)}


def compile_functional_graphs(**options: Any) -> Callable[..., Any]:
    """AOT autograd for a backend of `torch.compile`, as torch's guide to custom backends imports it."""
    from torch._dynamo.backends.common import aot_autograd  # here: exporting a model does not need Dynamo

    compiler: Callable[..., Any] = aot_autograd(**options)
    return compiler


# --- tensors ---------------------------------------------------------------------------------------------------------


def version(tensor: torch.Tensor) -> int:
    """How many times autograd has seen a write to the tensor's memory."""
    return tensor._version


def storage_key(tensor: torch.Tensor) -> int:
    """A number that is equal for tensors over the same memory. Fake tensors, which have no address, have one, too."""
    return tensor.untyped_storage()._cdata


def is_wrapper(tensor: Any) -> bool:
    """Whether a tensor has no memory of its own and consists of other tensors, as the quantised weights of torchao do.

    torch calls it a traceable wrapper subclass, and its protocol has no public name.
    """
    return isinstance(tensor, torch.Tensor) and hasattr(tensor, "__tensor_flatten__")


def parts_of(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The inner tensors of a tensor subclass, by the names of its attributes."""
    names, _context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]  # `is_wrapper` says so
    return {name: getattr(tensor, name) for name in names}


def is_contiguous(tensor: torch.Tensor) -> bool:
    """`Tensor.is_contiguous` for symbolic sizes: False where the answer depends on the values of tensors."""
    from torch._prims_common import is_contiguous_or_false

    return bool(is_contiguous_or_false(tensor))
