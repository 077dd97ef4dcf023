"""Products of matrices: linear layers with their epilogue, gated layers, and batched products.

`tiles`: a program makes a block of the result with `tl.dot`, sums in float32, and applies the epilogue to the sums
while they are in registers. Programs go on to further blocks until none is left. Blocks are taken in groups of eight
rows of blocks, whose operands share the L2 cache. If there are fewer blocks than multiprocessors, several programs
share the sum of one block, and a second launch adds their parts in a fixed order, so that results do not depend on
timing. The parts are 1 / (2 * BLOCK_K) of the bytes of bfloat16 weights at most.
`vector`: up to four rows are multiplied without `tl.dot`, whose blocks have 16 rows at least.
`two_tf32`: float32 factors beside weights of 16 or 8 bits. TF32 holds such a weight exactly, and a float32 number is
the sum of two TF32 numbers but for its last two bits. Two products on tensor cores replace one on the ordinary units:
of an H200's data sheet, 494 / 2 instead of 67 TFLOP/s.
`three_tf32`: both factors are float32, each the sum of a larger and a smaller TF32 number; Triton's `tf32x3` leaves out
the product of the smaller ones. On an H100, with 768 or 3072 summands, its errors against float64 were less than half
of those of products on the ordinary units, which took 1.3 to 10 times as long in the configurations of an earlier rule.
What was timed on a GPU, and what was not, is in docs/gpu-results.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import triton
import triton.language as tl

from engine import dtypes
from engine.targets.plan import NEEDS_DENSE, NeedsDense
from engine.targets.triton.configurations import describe_sizes
from engine.targets.triton.kernel_table import Answer, Request, Tensor, kernel
from engine.targets.triton.kernels._functions import activate
from engine.targets.triton.kernels._layouts import as_rows, broadcast_strides, join_axes
from engine.targets.triton.kernels._tiles import (
    FEWER_ROWS,
    FLOAT_ROWS,
    MORE_TILES,
    MORE_VECTORS,
    SPLIT_FROM,
    TILES,
    TIMED_ROWS,
    VECTORS,
    Tiling,
)
from engine.targets.triton.launch import Launch, Launches, Scratch, count_blocks

_ENCODINGS = ("bfloat16", "float16", "int8_channel")
_COMPUTE = ("element", "bfloat16")
MOST_PROGRAMS = 65535
"""Programs along the second and the third axis of a grid: https://docs.nvidia.com/cuda/cuda-c-programming-guide."""
_GROUP = 8  # rows of blocks
_VECTOR_ROWS = 4
_MOST_SPLITS = 16
_MOST_GATED_SUMS = 8192  # of each half
_MOST_GATED_SUMS_OF_WARP = 1024  # of each half


# --- kernels ---------------------------------------------------------------------------------------------------------


@triton.jit
def _finish(total, columns, is_column, scale, bias, alpha, HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr):
    """alpha * total * scale + bias, for columns of the weight."""
    if HAS_SCALE:
        total = total * tl.load(scale + columns, mask=is_column, other=0.0)[None, :]
    total = total * alpha
    if HAS_BIAS:
        total = total + tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
    return total


@triton.jit
def _finish_block(
    out, residual, total, up, rows, columns, n, is_column, mask, scale, bias, alpha, out_row, residual_row,
    ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Apply the epilogue to the sums of a block and store it. `up` has the second half of a gated layer's sums."""
    total = _finish(total, columns, is_column, scale, bias, alpha, HAS_SCALE, HAS_BIAS)
    if GATED:
        up = _finish(up, columns + n, is_column, scale, bias, alpha, HAS_SCALE, HAS_BIAS)
        total = activate(total, ACTIVATION) * up
    if HAS_RESIDUAL:
        there = residual + rows.to(tl.int64)[:, None] * residual_row + columns[None, :]
        total = total + tl.load(there, mask=mask, other=0.0).to(tl.float32)
    if not GATED:
        total = activate(total, ACTIVATION)
    there = out + rows.to(tl.int64)[:, None] * out_row + columns[None, :]
    tl.store(there, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _store_parts(parts, split, total, up, rows, columns, m, n, mask, GATED: tl.constexpr):
    """Store the sums of a block as part `split`, float32 [splits, m, columns of the weight]."""
    width = 2 * n if GATED else n
    there = parts + (split.to(tl.int64) * m + rows[:, None]) * width + columns[None, :]
    tl.store(there, total, mask=mask)
    if GATED:
        tl.store(there + n, up, mask=mask)


@triton.jit
def _sum_block(
    x, weight, rows, is_row, columns, is_column, first, last, x_row, x_step, w_column, w_step,
    TYPE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums of products from summand `first` up to `last`, [BLOCK_M, BLOCK_N] float32.

    PRECISION: as `input_precision` of `tl.dot`, or "two_tf32", for weights that TF32 holds exactly.
    """
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    k = first + tl.arange(0, BLOCK_K)
    left = x + rows.to(tl.int64)[:, None] * x_row + k[None, :] * x_step
    right = weight + columns.to(tl.int64)[None, :] * w_column + k.to(tl.int64)[:, None] * w_step
    for start in range(first, last, BLOCK_K):
        inside = start + tl.arange(0, BLOCK_K) < last
        a = tl.load(left, mask=is_row[:, None] & inside[None, :], other=0.0)
        b = tl.load(right, mask=inside[:, None] & is_column[None, :], other=0.0)
        a, b = a.to(TYPE), b.to(TYPE)
        if PRECISION == "two_tf32":
            high = (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)  # 11 of 24 significant bits
            low = tl.where(a == high, 0.0, a - high)  # of an infinity there is no rest
            total = tl.dot(high, b, total, input_precision="tf32")
            total = tl.dot(low, b, total, input_precision="tf32")
        else:
            total = tl.dot(a, b, total, input_precision=PRECISION)
        left += BLOCK_K * x_step
        right += BLOCK_K * w_step
    return total


@triton.jit
def multiply_tiles(
    x, weight, scale, bias, residual, out, parts, m, n, k, batch_1,
    x_batch_0, x_batch_1, w_batch_0, w_batch_1, out_batch_0, out_batch_1,
    x_row, x_step, w_column, w_step, out_row, residual_row, alpha, share,
    TYPE: tl.constexpr, PRECISION: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr, SPLIT: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Blocks of activation(alpha * x @ weight + bias + residual); programs along axes: blocks, batch, splits of k."""
    batch = tl.program_id(1).to(tl.int64)
    outer, inner = batch // batch_1, batch % batch_1
    x += outer * x_batch_0 + inner * x_batch_1
    weight += outer * w_batch_0 + inner * w_batch_1
    out += outer * out_batch_0 + inner * out_batch_1
    split = tl.program_id(2)
    first = split * share
    last = tl.minimum(first + share, k)
    blocks_m, blocks_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for block in range(tl.program_id(0), blocks_m * blocks_n, tl.num_programs(0)):
        group = block // (GROUP * blocks_n)
        height = tl.minimum(blocks_m - group * GROUP, GROUP)
        within = block % (GROUP * blocks_n)
        rows = (group * GROUP + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)
        is_row, is_column = rows < m, columns < n
        mask = is_row[:, None] & is_column[None, :]
        total = _sum_block(
            x, weight, rows, is_row, columns, is_column, first, last, x_row, x_step, w_column, w_step,
            TYPE, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        up = total
        if GATED:
            up = _sum_block(
                x, weight, rows, is_row, columns + n, is_column, first, last, x_row, x_step, w_column, w_step,
                TYPE, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
            )  # fmt: skip
        if SPLIT:
            _store_parts(parts, split, total, up, rows, columns, m, n, mask, GATED)
        else:
            _finish_block(
                out, residual, total, up, rows, columns, n, is_column, mask, scale, bias, alpha, out_row, residual_row,
                ACTIVATION, GATED, HAS_SCALE, HAS_BIAS, HAS_RESIDUAL,
            )  # fmt: skip


@triton.jit
def _sum_vectors(
    x, weight, rows, columns, is_row, is_column, first, last, x_row, w_column, w_step,
    TYPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """As `_sum_block`, for a few rows and without matrix instructions."""
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(first, last, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < last
        a = tl.load(x + rows[:, None] * x_row + k[None, :], mask=is_row[:, None] & inside[None, :], other=0.0)
        there = weight + columns.to(tl.int64)[:, None] * w_column + k.to(tl.int64)[None, :] * w_step
        b = tl.load(there, mask=is_column[:, None] & inside[None, :], other=0.0)
        a, b = a.to(TYPE).to(tl.float32), b.to(TYPE).to(tl.float32)
        total += tl.sum(a[:, None, :] * b[None, :, :], axis=2)
    return total


@triton.jit
def multiply_vectors(
    x, weight, scale, bias, residual, out, parts, m, n, k, x_row, w_column, w_step, out_row, residual_row, alpha, share,
    TYPE: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr, SPLIT: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """As `multiply_tiles` for up to BLOCK_M rows; programs along axes: blocks of columns, splits of k."""
    rows = tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    split = tl.program_id(1)
    first = split * share
    last = tl.minimum(first + share, k)
    total = _sum_vectors(
        x, weight, rows, columns, is_row, is_column, first, last, x_row, w_column, w_step,
        TYPE, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    up = total
    if GATED:
        up = _sum_vectors(
            x, weight, rows, columns + n, is_row, is_column, first, last, x_row, w_column, w_step,
            TYPE, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
    if SPLIT:
        _store_parts(parts, split, total, up, rows, columns, m, n, mask, GATED)
    else:
        _finish_block(
            out, residual, total, up, rows, columns, n, is_column, mask, scale, bias, alpha, out_row, residual_row,
            ACTIVATION, GATED, HAS_SCALE, HAS_BIAS, HAS_RESIDUAL,
        )  # fmt: skip


@triton.jit
def add_parts(
    parts, scale, bias, residual, out, m, n, out_row, residual_row, alpha,
    SPLITS: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add the parts of split sums, in order, and apply the epilogue; programs along axes: columns, rows."""
    rows = tl.program_id(1) + tl.zeros([1], tl.int32)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_column = columns < n
    mask = is_column[None, :]
    width = 2 * n if GATED else n
    there = parts + rows.to(tl.int64)[:, None] * width + columns[None, :]
    total = tl.zeros([1, BLOCK_N], tl.float32)
    up = tl.zeros([1, BLOCK_N], tl.float32)
    for split in range(SPLITS):
        total += tl.load(there + split * m * width, mask=mask, other=0.0)
        if GATED:
            up += tl.load(there + split * m * width + n, mask=mask, other=0.0)
    _finish_block(
        out, residual, total, up, rows, columns, n, is_column, mask, scale, bias, alpha, out_row, residual_row,
        ACTIVATION, GATED, HAS_SCALE, HAS_BIAS, HAS_RESIDUAL,
    )  # fmt: skip


# --- plans -----------------------------------------------------------------------------------------------------------


class Product(NamedTuple):
    """A product of matrices, [m, k] @ [k, n], as its operands lie; distances are in elements.

    Attributes:
        n: columns of the result; a gated layer's weight has twice as many.
        x_row, x_step: from one row, or one summand, of x to the next.
        w_column, w_step: from one column, or one summand, of the weight to the next.
        type: element type in which numbers are multiplied.
        batch: sizes of one or two batch axes; `x_batch`, `w_batch` and `out_batch` are distances along them.
    """

    x: Tensor
    weight: Tensor
    out: Tensor
    bias: Tensor | None
    residual: Tensor | None
    m: int
    n: int
    k: int
    x_row: int
    x_step: int
    w_column: int
    w_step: int
    residual_row: int = 0
    alpha: float = 1.0
    activation: str = "none"
    gated: bool = False
    type: str = "float32"
    batch: tuple[int, int] = (1, 1)
    x_batch: tuple[int, int] = (0, 0)
    w_batch: tuple[int, int] = (0, 0)
    out_batch: tuple[int, int] = (0, 0)

    def describe(self, arithmetic: str) -> str:
        """The class of its sizes, the types of both factors and what else decides how fast a configuration is."""
        factors = [self.x.dtype, self.weight.family or self.weight.dtype, f"{arithmetic}-{self.type}"]
        batch = {"batch": math.prod(self.batch)} if self.batch != (1, 1) else {}
        return describe_sizes(factors + ["gated"] * self.gated, **batch, m=self.m, n=self.n, k=self.k)


_PRECISIONS = {"narrow": "tf32", "three_tf32": "tf32x3"}  # of `tl.dot`, which ignores it for numbers of 16 bits
_TRITON_TYPES = {"float32": tl.float32, "float16": tl.float16, "bfloat16": tl.bfloat16}


def _product_type(x: Tensor, request: Request) -> str:
    """The type that numbers are multiplied in: the elements' own, or what the op asks for."""
    return "bfloat16" if request.attributes["compute"] == "bfloat16" else x.dtype


def _find_layer(request: Request) -> Product | NeedsDense | None:
    """The product of a linear or gated layer; `NEEDS_DENSE` if x or the residual are not rows; None if refused."""
    x, weight = request.need(0), request.need(1)
    gated = request.op == "gated_linear"
    transposed = request.attributes["transpose_weight"]
    if x.dtype not in _TRITON_TYPES or (
        weight.encoding and weight.encoding.is_integer and not _scales_columns(weight, transposed)
    ):
        return None
    residual = None if gated else request.find(3)
    x_rows, residual_rows = as_rows(x), as_rows(residual) if residual else None
    if x_rows is None or (residual is not None and residual_rows is None):
        return NEEDS_DENSE
    columns, steps = weight.strides if transposed else weight.strides[::-1]
    n = request.output.shape[-1]
    return Product(
        x, weight, request.output, request.find(2), residual,
        m=x_rows.number, n=n, k=x_rows.width, x_row=x_rows.stride, x_step=1, w_column=columns, w_step=steps,
        residual_row=residual_rows.stride if residual_rows else 0,
        alpha=request.attributes.get("alpha", 1.0), activation=request.attributes["activation"], gated=gated,
        type=_product_type(x, request),
    )  # fmt: skip


def _scales_columns(weight: Tensor, transposed: bool) -> bool:
    """True if each column of the product has one scale."""
    return weight.encoding is not None and weight.encoding.axis == (0 if transposed else 1)


@kernel("linear", "gated_linear", variant="vector", encodings=_ENCODINGS, compute=_COMPUTE)
def plan_vector_layer(request: Request) -> Answer:
    """Up to four rows."""
    product = _find_layer(request)
    if not isinstance(product, Product):
        return product
    return _plan_vectors(product, request) if product.m <= _VECTOR_ROWS else None


@kernel("linear", "gated_linear", variant="tiles", encodings=_ENCODINGS, compute=_COMPUTE)
def plan_layer(request: Request) -> Answer:
    """Any number of rows."""
    product = _find_layer(request)
    return _plan_tiles(product, request) if isinstance(product, Product) else product


@kernel("matmul", variant="tiles", encodings=_ENCODINGS, compute=_COMPUTE)
def plan_matmul(request: Request) -> Answer:
    """Batches of products; the strides of both operands are free, so nothing is copied."""
    a, b, out = request.need(0), request.need(1), request.output
    transposed = request.attributes["transpose_b"]
    if a.dtype not in _TRITON_TYPES or (
        b.encoding and b.encoding.is_integer and not (len(b.shape) == 2 and _scales_columns(b, transposed))
    ):
        return None
    leading = out.shape[:-2]
    batches = [_leading_strides(one, leading) for one in (a, b, out)]
    sizes, strides = join_axes(leading, batches)
    if len(sizes) > 2:
        return NEEDS_DENSE if not request.copied else None
    sizes, strides = [1, *sizes][-2:], [[0, *one][-2:] for one in strides]
    x_row, x_step = a.strides[-2:][::-1] if request.attributes["transpose_a"] else a.strides[-2:]
    w_column, w_step = b.strides[-2:] if transposed else b.strides[-2:][::-1]
    k = a.shape[-2] if request.attributes["transpose_a"] else a.shape[-1]
    pairs = [(one[0], one[1]) for one in strides]
    product = Product(
        a, b, out, None, None, m=out.shape[-2], n=out.shape[-1], k=k,
        x_row=x_row, x_step=x_step, w_column=w_column, w_step=w_step,
        alpha=request.attributes["alpha"], type=_product_type(a, request),
        batch=(sizes[0], sizes[1]), x_batch=pairs[0], w_batch=pairs[1], out_batch=pairs[2],
    )  # fmt: skip
    return _plan_tiles(product, request)


def _leading_strides(tensor: Tensor, leading: tuple[int, ...]) -> tuple[int, ...]:
    layout = tensor.layout._replace(shape=tensor.shape[:-2], strides=tensor.strides[:-2])
    return broadcast_strides(tensor._replace(layout=layout), leading)


def _epilogue(product: Product) -> dict[str, Any]:
    """Arguments of the epilogue, which all kernels share."""
    scale, bias, residual = product.weight.scale, product.bias, product.residual
    return {
        "scale": scale.pointer() if scale else None,
        "bias": bias.pointer() if bias else None,
        "residual": residual.pointer() if residual else None,
        "out": product.out.pointer(),
        "m": product.m,
        "n": product.n,
        "out_row": product.n,
        "residual_row": product.residual_row,
        "alpha": float(product.alpha),
        "ACTIVATION": product.activation,
        "GATED": product.gated,
        "HAS_SCALE": scale is not None,
        "HAS_BIAS": bias is not None,
        "HAS_RESIDUAL": residual is not None,
    }


def choose_splits(product: Product, block_k: int, programs: int, multiprocessors: int) -> tuple[int, int]:
    """In how many parts a product without batch is summed, and the summands of each part.

    Parts are worth it while at most half of the multiprocessors have one of the `programs` blocks. Then so many are
    chosen that two programs run on each. A part is written and read again as float32, so all parts have no more bytes
    than the operands.
    """
    m, n, k = product.m, product.n * (2 if product.gated else 1), product.k
    operands = m * k * dtypes.dtype(product.x.dtype).size + n * k * dtypes.dtype(product.weight.dtype).size
    most = operands // max(2 * 4 * m * n, 1)
    requested = min(2 * multiprocessors // max(programs, 1), k // (2 * block_k), most, _MOST_SPLITS)
    if 2 * programs > multiprocessors or requested < 2:
        return 1, max(k, 1)
    share = count_blocks(count_blocks(k, requested), block_k) * block_k
    return count_blocks(k, share), share


def _plan_vectors(product: Product, request: Request) -> Launches:
    rule = next(one for one in VECTORS if one.block_m >= product.m)
    candidates = [one for one in (*VECTORS, *MORE_VECTORS) if one.block_m == rule.block_m]
    choice = request.choose(multiply_vectors, product.describe("vector"), candidates, rule)
    blocks = max(count_blocks(product.n, choice.block_n), 1)
    splits, share = choose_splits(product, choice.block_k, blocks, request.device.multiprocessors)
    arguments = _epilogue(product) | {
        "x": product.x.pointer(),
        "weight": product.weight.pointer(),
        "parts": Scratch(0, "float32") if splits > 1 else None,
        "k": product.k,
        "x_row": product.x_row,
        "w_column": product.w_column,
        "w_step": product.w_step,
        "share": share,
        "TYPE": _TRITON_TYPES[product.type],
        "SPLIT": splits > 1,
        "BLOCK_M": choice.block_m,
        "BLOCK_N": choice.block_n,
        "BLOCK_K": choice.block_k,
    }
    launch = Launch(multiply_vectors, (blocks, splits), arguments, _options(choice))
    return _with_parts(product, launch, splits)


def choose_arithmetic(product: Product, request: Request) -> str:
    """A key of `TILES`: in which arithmetic a product is computed."""
    if product.type != "float32":
        return "narrow"
    if request.device.allow_tf32:
        return "tf32"
    return "three_tf32" if product.weight.encoding is None else "two_tf32"  # all encodings here have 11 bits or fewer


def choose_tiles(product: Product, request: Request, arithmetic: str) -> Tiling:
    """The configuration of `tiles` for a product."""
    tiles = TILES[arithmetic]
    first = next((one for one in tiles if one.block_m >= product.m), tiles[-1])
    known = (one for one in (*tiles, *MORE_TILES[arithmetic]) if one.block_m <= first.block_m)
    candidates = list(dict.fromkeys(_narrow_if_gated(one, product, arithmetic) for one in known))
    is_timed = arithmetic == "narrow" and not product.gated and product.batch == (1, 1)
    if is_timed and TIMED_ROWS[0] < product.m <= TIMED_ROWS[1]:
        choices = FEWER_ROWS[:1] if product.k >= SPLIT_FROM else FEWER_ROWS  # long sums are split instead
        rule = _choose_by_blocks(choices, product, request.device.multiprocessors)
    elif arithmetic == "three_tf32" and product.m > TIMED_ROWS[0]:
        choices = FLOAT_ROWS if product.w_step == 1 else FLOAT_ROWS[-1:]
        choices = tuple(_narrow_if_gated(one, product, arithmetic) for one in choices)
        rule = _choose_by_blocks(choices, product, request.device.multiprocessors)
    else:
        rule = _narrow_if_gated(first, product, arithmetic)
    return request.choose(multiply_tiles, product.describe(arithmetic), candidates, rule)


def _choose_by_blocks(choices: Sequence[Tiling], product: Product, multiprocessors: int) -> Tiling:
    """The first choice that has one block or more for every two multiprocessors; the last one if none has."""
    for choice in choices:
        blocks = count_blocks(product.m, choice.block_m) * count_blocks(product.n, choice.block_n)
        if 2 * blocks * math.prod(product.batch) >= multiprocessors:
            return choice
    return choices[-1]


def _narrow_if_gated(choice: Tiling, product: Product, arithmetic: str) -> Tiling:
    """The choice, with fewer columns if two blocks of sums do not fit into the registers."""
    most = _MOST_GATED_SUMS
    if arithmetic == "three_tf32":  # the two smaller products have an accumulator of their own
        most = min(most, _MOST_GATED_SUMS_OF_WARP * choice.warps)
    while product.gated and choice.block_m * choice.block_n > most:
        choice = choice._replace(block_n=choice.block_n // 2)
    return choice


def _plan_tiles(product: Product, request: Request) -> Launches | None:
    if math.prod(product.batch) > MOST_PROGRAMS:
        return None
    arithmetic = choose_arithmetic(product, request)
    choice = choose_tiles(product, request, arithmetic)
    blocks = max(count_blocks(product.m, choice.block_m) * count_blocks(product.n, choice.block_n), 1)
    batch = max(math.prod(product.batch), 1)
    multiprocessors = request.device.multiprocessors
    splits, share = 1, product.k
    if batch == 1:
        splits, share = choose_splits(product, choice.block_k, blocks, multiprocessors)
    arguments = _epilogue(product) | {
        "x": product.x.pointer(),
        "weight": product.weight.pointer(),
        "parts": Scratch(0, "float32") if splits > 1 else None,
        "k": product.k,
        "batch_1": product.batch[1],
        **{
            f"{name}_batch_{axis}": getattr(product, f"{name}_batch")[axis]
            for name in ("x", "w", "out")
            for axis in (0, 1)
        },
        "x_row": product.x_row,
        "x_step": product.x_step,
        "w_column": product.w_column,
        "w_step": product.w_step,
        "share": share,
        "TYPE": _TRITON_TYPES[product.type],
        "PRECISION": _PRECISIONS.get(arithmetic, arithmetic),
        "SPLIT": splits > 1,
        "GROUP": _GROUP,
        "BLOCK_M": choice.block_m,
        "BLOCK_N": choice.block_n,
        "BLOCK_K": choice.block_k,
    }
    programs = min(blocks, 2 * multiprocessors) if splits == 1 else blocks
    launch = Launch(multiply_tiles, (programs, batch, splits), arguments, _options(choice))
    return _with_parts(product, launch, splits)


def _options(choice: Tiling) -> dict[str, int]:
    return {"num_warps": choice.warps, "num_stages": choice.stages}


_ADD_COLUMNS = 256


def _with_parts(product: Product, launch: Launch, splits: int) -> Launches:
    """The launch, and if it sums in parts the one that adds them."""
    if splits == 1:
        return Launches((launch,))
    arguments = _epilogue(product) | {"parts": Scratch(0, "float32"), "SPLITS": splits, "BLOCK_N": _ADD_COLUMNS}
    add = Launch(add_parts, (count_blocks(product.n, _ADD_COLUMNS), product.m), arguments, {"num_warps": 4})
    width = product.n * (2 if product.gated else 1)
    return Launches((launch, add), 4 * splits * product.m * width)
