"""Kernels with one fault each, and correct ones beside them: what the checks of kernels must and must not complain of.

Each is compiled for a GPU or run by the interpreter, as the kernels of the target are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import triton
import triton.language as tl

# --- faults that the compiler shows ----------------------------------------------------------------------------------


class Planted(NamedTuple):
    """A kernel to compile.

    Attributes:
        function: what `triton.jit` has made.
        dtypes: of the parameters that are pointers.
        numbers: of the other parameters.
        options: ``num_warps`` and ``num_stages``.
        complaint: how the only complaint about it begins; "" if there is none.
    """

    function: Any
    dtypes: Mapping[str, str]
    numbers: Mapping[str, int]
    options: Mapping[str, int]
    complaint: str


@triton.jit
def multiply(a, b, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A block of [M, k] @ [N, k]^T."""
    row, column, lane = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + start + lane[None, :])
        right = tl.load(b + column[None, :] * k + start + lane[:, None])
        total = tl.dot(left, right, total)
    tl.store(out + row[:, None] * N + column[None, :], total)


@triton.jit
def centre(x, out, BLOCK: tl.constexpr):
    """A row minus its mean; the whole row is in registers meanwhile."""
    lane = tl.arange(0, BLOCK)
    v = tl.load(x + lane)
    tl.store(out + lane, v - tl.sum(v) / BLOCK)


@triton.jit
def take_sign(x, out, BLOCK: tl.constexpr):
    """The sign of x, chosen among whole numbers."""
    lane = tl.arange(0, BLOCK)
    v = tl.load(x + lane).to(tl.float32)
    tl.store(out + lane, tl.where(v > 0, 1, tl.where(v < 0, -1, 0)).to(tl.bfloat16))


@triton.jit
def change_type(out, n):
    """A name that is an integer in one branch and a float in the other, which the interpreter does not mind."""
    made = 1
    if n > 3:
        made = 1.5
    tl.store(out, made)


_FLOAT16 = {"a": "float16", "b": "float16", "out": "float32"}
_FLOAT32 = {"x": "float32", "out": "float32"}
_BLOCK = {"k": 1024, "M": 64, "N": 64, "K": 64}
COMPILED = {
    "correct product": Planted(multiply, _FLOAT16, _BLOCK, {"num_warps": 4, "num_stages": 3}, ""),
    "correct row": Planted(centre, _FLOAT32, {"BLOCK": 1024}, {"num_warps": 4}, ""),
    "two types": Planted(change_type, {"out": "float32"}, {"n": 16}, {}, "it does not compile"),
    "signed truth": Planted(take_sign, {"x": "bfloat16", "out": "bfloat16"}, {"BLOCK": 1024}, {}, "it converts"),
    # Ten blocks of each operand, which have 128 x 64 elements of 2 bytes, are 327680 bytes.
    "many stages": Planted(
        multiply, _FLOAT16, _BLOCK | {"M": 128, "N": 128}, {"num_warps": 8, "num_stages": 10}, "it takes"
    ),
    # 256 numbers for each of 128 threads, which have 255 registers.
    "long row": Planted(centre, _FLOAT32, {"BLOCK": 32768}, {"num_warps": 4}, "a thread keeps"),
    # Warpgroup instructions multiply 64 rows.
    "few rows": Planted(multiply, _FLOAT16, _BLOCK | {"M": 16}, {"num_warps": 4, "num_stages": 3}, "it has no wgmma"),
}

# --- faults that the interpreter shows -------------------------------------------------------------------------------


@triton.jit
def access_past_end(x, out, n, ACCESS: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """Touches an element past the end of x or out, or before their beginning, by the ACCESS alone."""
    lane = tl.arange(0, BLOCK)
    inside = lane < n
    if ACCESS == "load":
        tl.store(out + lane, tl.load(x + lane + SHIFT), mask=inside)
    elif ACCESS == "store":
        tl.store(out + lane + SHIFT, tl.load(x + lane, mask=inside))
    elif ACCESS == "read-modify-write":
        tl.atomic_max(out + lane + SHIFT, tl.load(x + lane, mask=inside, other=0))
    elif ACCESS == "compare-and-swap":
        tl.atomic_cas(out + lane + SHIFT, tl.load(x + lane, mask=inside, other=0), lane + 1)


@triton.jit
def sum_rows(x, out, bad_index, n, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of rows of n elements, BLOCK at a time; with FAULT "" correct ones."""
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    blocks = n // BLOCK if FAULT == "end is left out" else tl.cdiv(n, BLOCK)
    for block in range(blocks):
        lane = block * BLOCK + tl.arange(0, BLOCK)
        fill = 1.0 if FAULT == "lanes past the end count" else 0.0
        total += tl.load(x + row * n + lane, mask=lane < n, other=fill).to(tl.float32)
    if FAULT == "a bad index is reported":
        tl.store(bad_index, 1)
    made = tl.sum(total, 0).to(out.dtype.element_ty)
    if FAULT == "nothing is stored":
        tl.store(out + row, made, mask=n % BLOCK == 0)
    else:
        tl.store(out + row, made)


@triton.jit
def _larger(a, b):
    return tl.where(a.to(tl.float32) > b.to(tl.float32), a, b)


@triton.jit
def compute_narrow(x, y, out, NAME: tl.constexpr, BLOCK: tl.constexpr):
    """Results of bfloat16 numbers, computed in bfloat16."""
    lane = tl.arange(0, BLOCK)
    a, b = tl.load(x + lane), tl.load(y + lane)
    if NAME == "add":
        made = a + b
    elif NAME == "compare":
        made = tl.where(a < b, a, b)
    elif NAME == "fma":
        made = tl.fma(a, b, a)
    elif NAME == "reduction":
        made = a + tl.reduce(b, 0, _larger)
    elif NAME == "scan":
        made = tl.associative_scan(a, 0, tl.standard._sum_combine)
    elif NAME == "atomic":
        made = tl.atomic_add(out + lane, a)
    tl.store(out + lane, made)
