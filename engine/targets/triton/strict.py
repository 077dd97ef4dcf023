"""Makes Triton's interpreter strict: right about bfloat16, and stopped by an access outside of its operands.

`TRITON_INTERPRET=1` runs kernels in NumPy, on CPU tensors. Triton 3.7 computes there with the bits of bfloat16 numbers
as if they were integers, reads and writes whatever an address leads to, and multiplies exactly where a GPU rounds to
TF32. `install` changes classes of triton in this process: it corrects products and conversions of bfloat16, refuses
other arithmetic on it, because kernels compute in float32, and lets products in TF32 lose the bits that tensor cores do
not read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_Builder = interpreter.InterpreterBuilder
_Handle = interpreter.TensorHandle


class _Memory:
    """The address ranges that the kernel which runs may access: the storages of its arguments."""

    def __init__(self) -> None:
        self.ranges = np.zeros((0, 2), np.uint64)

    def set(self, arguments: list[Any]) -> None:
        """Allow the storages of the tensors among `arguments`."""
        storages = [interpreter._unwrap_tensor(a).untyped_storage() for a in arguments if hasattr(a, "data_ptr")]
        found = sorted({(one.data_ptr(), one.data_ptr() + one.nbytes()) for one in storages})
        self.ranges = np.array(found, np.uint64).reshape(-1, 2)

    def check(self, pointers: Any, mask: Any, what: str) -> None:
        """IndexError if a lane that `mask` allows lies outside."""
        size = np.uint64(max(1, pointers.get_element_ty().primitive_bitwidth // 8))
        allowed = np.asarray(getattr(mask, "data", mask), dtype=np.bool_)
        addresses = np.broadcast_to(pointers.data, np.broadcast_shapes(pointers.data.shape, allowed.shape))
        addresses = addresses[np.broadcast_to(allowed, addresses.shape)].astype(np.uint64)
        if not len(self.ranges):
            outside = addresses.size
        else:
            number = np.searchsorted(self.ranges[:, 0], addresses, side="right").astype(np.int64) - 1
            low, high = self.ranges[number.clip(0)].T
            outside = int(np.count_nonzero((number < 0) | (addresses < low) | (addresses + size > high)))
        if outside:
            raise IndexError(f"{outside} lanes of a {what} lie outside of the operands")


_MEMORY = _Memory()


def _is_bfloat16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def _wide(handle: Any) -> Any:
    """The same numbers in float32."""
    return _Handle(handle.data.view(_BFLOAT16).astype(np.float32), tl.float32) if _is_bfloat16(handle) else handle


def _cut_to_tf32(handle: Any) -> Any:
    """float32 numbers without the 13 bits that tensor cores do not read; other numbers as they are."""
    if handle.dtype.scalar != tl.float32:
        return handle
    bits = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return _Handle(bits.view(np.float32), tl.float32)


def _convert(source: Any, target: Any) -> Any:
    """A conversion, rounded to the nearest, ties to even; integers wrap, and floats are cut off."""
    kind = target.scalar
    if source.dtype.scalar == kind:
        return source
    elements = _wide(source).data
    with np.errstate(all="ignore"):
        if kind == tl.bfloat16:
            made = np.ascontiguousarray(elements.astype(np.float32).astype(_BFLOAT16)).view(np.uint16)
        else:
            made = elements.astype(interpreter._get_np_dtype(kind))
    return _Handle(made, kind)


def _refusing(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, but TypeError for an operand of bfloat16."""

    def checked(self: Any, first: Any, *others: Any) -> Any:
        operands = [one for one in (first, *others) if isinstance(one, _Handle)]
        if any(map(_is_bfloat16, operands)):
            raise TypeError(f"{name} of bfloat16: convert the operands to float32 first")
        return plain(self, first, *others)

    return checked


def _refusing_inputs(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """As `_refusing`, for a method that takes a sequence of tensors."""

    def checked(self: Any, inputs: Any) -> Any:
        if any(one.dtype == tl.bfloat16 for one in inputs):
            raise TypeError(f"{name} of bfloat16: convert the operand to float32 first")
        return plain(self, inputs)

    return checked


def install() -> None:
    """Change triton's interpreter in this process. Later calls do nothing."""
    if getattr(_Builder, "is_strict", False):
        return
    _Builder.is_strict = True
    _install_memory()
    _patch_language_once()
    _install_lock()
    for name in ("binary_op", "create_fma", "create_atomic_rmw"):
        setattr(_Builder, name, _refusing("arithmetic", getattr(_Builder, name)))
    _Builder.unary_op = _refusing("a function", _Builder.unary_op)
    for fold, name in ((interpreter.ReduceOps, "a reduction"), (interpreter.ScanOps, "a scan")):
        fold.apply_impl = _refusing_inputs(name, fold.apply_impl)
    _Builder.cast_impl = lambda _self, source, target: _convert(source, target)
    _Builder.create_fp_to_fp = lambda _self, source, target, _mode: _convert(source, target)
    _install_products()
    # device_assert fires only in this mode.
    object.__setattr__(interpreter.interpreter_builder.options, "debug", True)


def _install_products() -> None:
    dot = _Builder.create_dot

    def multiply(self: Any, a: Any, b: Any, d: Any, precision: Any, *others: Any) -> Any:
        if precision == ir.INPUT_PRECISION.TF32:
            a, b = _cut_to_tf32(a), _cut_to_tf32(b)
        return dot(self, _wide(a), _wide(b), d, precision, *others)

    _Builder.create_dot = multiply


def _install_memory() -> None:
    executor = interpreter.GridExecutor
    begin, load, store = executor._init_args_hst, _Builder.create_masked_load, _Builder.create_masked_store
    update, exchange = _Builder.create_atomic_rmw, _Builder.create_atomic_cas

    def begin_checked(self: Any, args: Any, kwargs: Any) -> Any:
        positional, named = begin(self, args, kwargs)
        _MEMORY.set([*positional, *named.values()])
        return positional, named

    def load_checked(self: Any, pointers: Any, mask: Any, *others: Any) -> Any:
        _MEMORY.check(pointers, mask, "load")
        return load(self, pointers, mask, *others)

    def store_checked(self: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        _MEMORY.check(pointers, mask, "store")
        return store(self, pointers, value, mask, *others)

    def update_checked(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
        _MEMORY.check(pointers, mask, "read-modify-write")
        return update(self, operation, pointers, value, mask, *others)

    def exchange_checked(self: Any, pointers: Any, *others: Any) -> Any:
        _MEMORY.check(pointers, np.True_, "compare-and-swap")
        return exchange(self, pointers, *others)

    call = executor.__call__

    def call_silently(self: Any, *args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):  # lanes beyond the end compute with zeros, of which a GPU says nothing
            return call(self, *args, **kwargs)

    executor._init_args_hst, executor.__call__ = begin_checked, call_silently
    _Builder.create_masked_load, _Builder.create_masked_store = load_checked, store_checked
    _Builder.create_atomic_rmw, _Builder.create_atomic_cas = update_checked, exchange_checked


def _patch_language_once() -> None:
    """Leave out work that triton repeats at each call of a function within a kernel.

    Triton replaces members of the modules of `triton.language` that the globals of a function name, until the launch
    ends. Doing so once a launch saves 10 of 33 s of CPU time of tests/targets/on_triton/test_numerics.py.
    """
    call, patch = interpreter.GridExecutor.__call__, interpreter._patch_lang
    done: set[int] = set()

    def call_afresh(self: Any, *args: Any, **kwargs: Any) -> Any:
        done.clear()
        return call(self, *args, **kwargs)

    def patch_once(function: Any) -> Any:
        if id(function.__globals__) in done:
            return None
        done.add(id(function.__globals__))
        return patch(function)

    interpreter.GridExecutor.__call__, interpreter._patch_lang = call_afresh, patch_once


def _install_lock() -> None:
    """Run one kernel at a time: the interpreter and this module keep facts about the running program in globals."""
    call, lock = interpreter.GridExecutor.__call__, threading.RLock()

    def call_alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return call(self, *args, **kwargs)

    interpreter.GridExecutor.__call__ = call_alone
