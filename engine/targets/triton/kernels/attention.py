"""Attention: scores, softmax and weighted values in one pass over the keys, without storing a score.

Both kernels take blocks of keys in order, and keep for each query the largest score so far, the sum of the weights and
the sum of the weighted values in float32; a larger score scales the two sums down (online softmax, Milakov and
Gimelshein 2018; attention in tiles, Dao et al. 2022). Scores are in units of log2(e), because GPUs have an instruction
for 2^x.

`tiles` gives a block of queries of one head to each program. With `causal` it skips the blocks beyond the diagonal, and
begins with the longest programs.

`split` is for few queries and long keys, where the bytes of keys and values decide the time. All query rows of the
heads that share keys are in one program, so keys are read once and not once for each head. The keys are cut into parts,
so that there are about two programs for each multiprocessor; a second launch adds up the parts. With a mask, a program
reads only the keys between the first and the last one that take part: of a cache of 2048 rows of which 100 are filled,
100 rows, and the mask.

Float32 numbers beside bfloat16 keys or values are multiplied as three products of bfloat16, which are exact, because
three numbers of 8 bits hold the 24 of a float32. By the data sheet of an H100, a third of its 990 * 10^12 bfloat16
operations a second is five times the 67 * 10^12 of float32 without tensor cores. docs/gpu-results.md says what was
measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import triton
import triton.language as tl

from engine.targets.plan import NEEDS_DENSE
from engine.targets.triton.configurations import describe_sizes
from engine.targets.triton.kernel_table import Answer, Request, Tensor, kernel
from engine.targets.triton.kernels._layouts import SplitAxes, broadcast_strides, plan_walk
from engine.targets.triton.launch import Launch, Launches, Scratch, count_blocks, next_power_of_two

_LOG2_E = math.log2(math.e)
_SCALE_OF_MASK: tl.constexpr = tl.constexpr(_LOG2_E)


# --- on the device ---------------------------------------------------------------------------------------------------


@triton.jit
def _load_rows(base, row, step, inside, column, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, EDGE: tl.constexpr):
    """Rows `row` of a matrix of COLUMNS columns, as [rows, WIDTH]; zeros beyond, and with EDGE if not `inside`."""
    pointers = base + row.to(tl.int64)[:, None] * step + column[None, :]
    if EDGE:
        allowed = inside[:, None]
        if COLUMNS != WIDTH:
            allowed = allowed & (column < COLUMNS)[None, :]
        loaded = tl.load(pointers, mask=allowed, other=0)
    elif COLUMNS == WIDTH:
        loaded = tl.load(pointers)
    else:
        loaded = tl.load(pointers, mask=(column < COLUMNS)[None, :], other=0)
    return loaded


@triton.jit
def _multiply(a, b, acc, PRECISION: tl.constexpr):
    """`acc` + a @ b. Beside bfloat16 `b`, float32 `a` is cut into three bfloat16 numbers, whose sum it is."""
    if a.dtype == tl.float32 and b.dtype == tl.bfloat16:
        high = a.to(tl.bfloat16)
        rest = tl.where(tl.abs(a) == float("inf"), 0.0, a - high.to(tl.float32))
        middle = rest.to(tl.bfloat16)
        low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        acc = tl.dot(low, b, acc)
        acc = tl.dot(middle, b, acc)
        acc = tl.dot(high, b, acc)
    else:
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    return acc


@triton.jit
def _absorb(scores, values, acc, top, total, EXACT: tl.constexpr, PRECISION: tl.constexpr):
    """Take keys into the sums; a NaN score makes `total` NaN. Weights get the type of `values` unless EXACT."""
    new_top = tl.maximum(top, tl.max(scores, 1))
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(scores - shift[:, None])
    fade = tl.exp2(top - shift)
    total = total * fade + tl.sum(weights, 1)
    if not EXACT:
        weights = weights.to(values.dtype)
    return _multiply(weights, values, acc * fade[:, None], PRECISION), new_top, total


@triton.jit
def _sweep(
    queries,  # [rows, WIDTH_D]
    acc, top, total,  # float32 [rows, WIDTH_E], [rows] and [rows]
    k, v, k_t, v_t,
    mask_rows, m_t,  # pointer to the mask of key 0 for each row, and the distance to that of the next key
    row_inside,
    place,  # number of each query among those of its head
    begin, end,
    limit,  # keys from here on take no part
    factor,
    D: tl.constexpr, E: tl.constexpr, WIDTH_D: tl.constexpr, WIDTH_E: tl.constexpr, KEYS: tl.constexpr,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, EDGE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take keys `begin` to `end` into the sums. EDGE: some may lie beyond `limit`, or the diagonal if CAUSAL."""
    d, e = tl.arange(0, WIDTH_D), tl.arange(0, WIDTH_E)
    # Numbers from 0 on: a loop from `begin` hides from the compiler how the rows of a computed `begin` are aligned.
    for number in range(tl.cdiv(end - begin, KEYS)):
        t = begin + number * KEYS + tl.arange(0, KEYS)
        inside = t < limit
        keys = _load_rows(k, t, k_t, inside, d, D, WIDTH_D, EDGE)
        scores = _multiply(queries, tl.trans(keys), tl.zeros([queries.shape[0], KEYS], tl.float32), PRECISION) * factor
        if MASK != "none":
            pointers = mask_rows[:, None] + t.to(tl.int64)[None, :] * m_t
            allowed = tl.load(pointers, mask=row_inside[:, None] & inside[None, :], other=0)
            if MASK == "bool":
                scores = tl.where(allowed, scores, float("-inf"))
            else:
                scores += allowed.to(tl.float32) * _SCALE_OF_MASK
        if EDGE:
            scores = tl.where(inside[None, :], scores, float("-inf"))
        if EDGE and CAUSAL:
            scores = tl.where(t[None, :] <= place[:, None], scores, float("-inf"))
        values = _load_rows(v, t, v_t, inside, e, E, WIDTH_E, EDGE)
        acc, top, total = _absorb(scores, values, acc, top, total, queries.dtype == tl.float32, PRECISION)
    return acc, top, total


@triton.jit
def _divide(acc, total, NAN_ROWS: tl.constexpr):
    """The weighted values over the sum of the weights. A row without any weight gives NaN with NAN_ROWS, else 0."""
    is_empty = (total == 0.0)[:, None]
    result = acc / tl.where(is_empty, 1.0, total[:, None])
    if NAN_ROWS:
        result = tl.where(is_empty, float("nan"), result)
    return result


@triton.jit
def attend_tiles(
    q, k, v, mask, out, factor, heads,
    share,  # heads that use the same keys
    queries, keys,  # of a head or group
    # Strides of the batch, of heads or groups, and of rows; the mask has one of columns as well.
    q_b, q_h, q_s, k_b, k_h, k_t, v_b, v_h, v_t, m_b, m_h, m_s, m_t, o_b, o_h, o_s,
    D: tl.constexpr, E: tl.constexpr, WIDTH_D: tl.constexpr, WIDTH_E: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, NAN_ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of ROWS queries of one head, and all keys that take part."""
    blocks = tl.cdiv(queries, ROWS)
    number = tl.program_id(0)
    block = number % blocks
    if CAUSAL:
        block = blocks - 1 - block  # the last queries see the most keys
    head = (number // blocks % heads).to(tl.int64)
    batch = (number // blocks // heads).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    inside = row < queries
    d, e = tl.arange(0, WIDTH_D), tl.arange(0, WIDTH_E)
    of_queries = _load_rows(q + batch * q_b + head * q_h, row, q_s, inside, d, D, WIDTH_D, True)
    of_keys = k + batch * k_b + head // share * k_h
    of_values = v + batch * v_b + head // share * v_h
    mask_rows = mask + batch * m_b + head * m_h + row.to(tl.int64) * m_s
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, WIDTH_E], tl.float32)
    end = keys
    whole = keys // KEYS * KEYS
    if CAUSAL:
        end = tl.minimum(keys, (block + 1) * ROWS)
        whole = tl.minimum(whole, block * ROWS // KEYS * KEYS)  # up to there each query of the block sees each key
    acc, top, total = _sweep(
        of_queries, acc, top, total, of_keys, of_values, k_t, v_t, mask_rows, m_t,
        inside, row, 0, whole, keys, factor,
        D, E, WIDTH_D, WIDTH_E, KEYS, MASK, CAUSAL, False, PRECISION,
    )  # fmt: skip
    acc, top, total = _sweep(
        of_queries, acc, top, total, of_keys, of_values, k_t, v_t, mask_rows, m_t,
        inside, row, whole, end, keys, factor,
        D, E, WIDTH_D, WIDTH_E, KEYS, MASK, CAUSAL, True, PRECISION,
    )  # fmt: skip
    made = _divide(acc, total, NAN_ROWS).to(out.dtype.element_ty)
    places = out + batch * o_b + head * o_h + row.to(tl.int64)[:, None] * o_s + e[None, :]
    tl.store(places, made, mask=inside[:, None] & (e < E)[None, :])


@triton.jit
def _find_live(mask_rows, row_inside, begin, end, m_t, ROWS: tl.constexpr, KEYS: tl.constexpr, MASK: tl.constexpr):
    """The first key from `begin` to `end` that the mask lets take part for any row, and the one after the last."""
    first = tl.full([ROWS, KEYS], 0, tl.int32) + end
    last = tl.full([ROWS, KEYS], 0, tl.int32) + begin
    for start in range(begin, end, KEYS):
        t = (start + tl.arange(0, KEYS))[None, :]
        inside = row_inside[:, None] & (t < end)
        allowed = tl.load(mask_rows[:, None] + t.to(tl.int64) * m_t, mask=inside, other=0)
        if MASK == "added":
            allowed = allowed.to(tl.float32) != float("-inf")
        is_live = inside & (allowed != 0)
        first = tl.minimum(first, tl.where(is_live, t, end))
        last = tl.maximum(last, tl.where(is_live, t + 1, begin))
    return tl.min(tl.min(first, 1), 0), tl.max(tl.max(last, 1), 0)


@triton.jit
def attend_split(
    q, k, v, mask, out,
    sums, tops, totals,  # float32 [batch, groups, parts, rows, E], and two of [batch, groups, parts, rows]
    factor, groups, share, queries, keys, parts,
    of_part,  # keys of a part: a multiple of KEYS
    q_b, q_h, q_s, k_b, k_h, k_t, v_b, v_h, v_t, m_b, m_h, m_s, m_t, o_b, o_h, o_s,
    D: tl.constexpr, E: tl.constexpr, WIDTH_D: tl.constexpr, WIDTH_E: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr,
    MASK: tl.constexpr, NAN_ROWS: tl.constexpr, IS_WHOLE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One part of the keys of a group, and ROWS of the queries of its heads. With IS_WHOLE there is one part only."""
    number, rows = tl.program_id(0), share * queries
    part, block = number % parts, number // parts % tl.cdiv(rows, ROWS)
    pair = number // parts // tl.cdiv(rows, ROWS)
    group, batch = (pair % groups).to(tl.int64), (pair // groups).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    head, place = group * share + row // queries, row % queries
    d, e = tl.arange(0, WIDTH_D), tl.arange(0, WIDTH_E)
    q_rows = q + batch * q_b + head * q_h + place.to(tl.int64) * q_s
    of_queries = tl.load(q_rows[:, None] + d[None, :], mask=inside[:, None] & (d < D)[None, :], other=0)
    of_keys, of_values = k + batch * k_b + group * k_h, v + batch * v_b + group * v_h
    mask_rows = mask + batch * m_b + head * m_h + place.to(tl.int64) * m_s
    begin = part * of_part
    end = tl.minimum(begin + of_part, keys)
    if MASK != "none":
        first, end = _find_live(mask_rows, inside, begin, end, m_t, ROWS, KEYS, MASK)
        begin = first // KEYS * KEYS
    whole = begin + tl.maximum(end - begin, 0) // KEYS * KEYS
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, WIDTH_E], tl.float32)
    acc, top, total = _sweep(
        of_queries, acc, top, total, of_keys, of_values, k_t, v_t, mask_rows, m_t,
        inside, place, begin, whole, end, factor,
        D, E, WIDTH_D, WIDTH_E, KEYS, MASK, False, False, PRECISION,
    )  # fmt: skip
    acc, top, total = _sweep(
        of_queries, acc, top, total, of_keys, of_values, k_t, v_t, mask_rows, m_t,
        inside, place, whole, end, end, factor,
        D, E, WIDTH_D, WIDTH_E, KEYS, MASK, False, True, PRECISION,
    )  # fmt: skip
    stored = inside[:, None] & (e < E)[None, :]
    if IS_WHOLE:
        made = _divide(acc, total, NAN_ROWS).to(out.dtype.element_ty)
        o_rows = out + batch * o_b + head * o_h + place.to(tl.int64) * o_s
        tl.store(o_rows[:, None] + e[None, :], made, mask=stored)
    else:
        at = (pair.to(tl.int64) * parts + part) * rows + row
        tl.store(sums + at[:, None] * E + e[None, :], acc, mask=stored)
        tl.store(tops + at, top, mask=inside)
        tl.store(totals + at, total, mask=inside)


@triton.jit
def add_parts(
    sums, tops, totals, out, groups, share, queries, parts, o_b, o_h, o_s,
    E: tl.constexpr, WIDTH_E: tl.constexpr, PARTS: tl.constexpr, STEP: tl.constexpr, NAN_ROWS: tl.constexpr,
):  # fmt: skip
    """One row of the result from what `attend_split` made of each part of the keys, STEP parts at a time."""
    rows = share * queries
    row, pair = tl.program_id(0) % rows, (tl.program_id(0) // rows).to(tl.int64)
    group, batch = pair % groups, pair // groups
    head, place = group * share + row // queries, row % queries
    part, e = tl.arange(0, PARTS), tl.arange(0, WIDTH_E)
    start = pair * parts * rows + row
    top = tl.max(tl.load(tops + start + part * rows, mask=part < parts, other=float("-inf")), 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    total = tl.zeros([STEP], tl.float32)
    acc = tl.zeros([STEP, WIDTH_E], tl.float32)
    for first in range(0, parts, STEP):
        number = first + tl.arange(0, STEP)
        inside = number < parts
        at = start + number * rows
        weights = tl.exp2(tl.load(tops + at, mask=inside, other=float("-inf")) - shift)
        total += weights * tl.load(totals + at, mask=inside, other=0)
        stored = inside[:, None] & (e < E)[None, :]
        acc += weights[:, None] * tl.load(sums + at[:, None] * E + e[None, :], mask=stored, other=0)
    made = _divide(tl.sum(acc, 0)[None, :], tl.sum(total, 0)[None], NAN_ROWS).to(out.dtype.element_ty)
    places = out + batch * o_b + head * o_h + place * o_s + e[None, :]
    tl.store(places, made, mask=(e < E)[None, :])


# --- plans -----------------------------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """A configuration of a kernel, for rows of keys and values of at most `width`, padded to a power of two.

    A program takes `rows` queries (`split` fewer where there are fewer) and `keys` at a time; `num_stages` blocks of
    keys are on their way at the same time.
    """

    width: int
    rows: int
    keys: int
    num_warps: int
    num_stages: int


# How numbers are multiplied -> configurations, narrow ones first, and small ones first among equals. "narrow" is
# float32 beside bfloat16. None spills registers on sm_90.
_HALF_TILES = (Tile(64, 64, 64, 4, 3), Tile(64, 128, 128, 8, 3), Tile(128, 64, 64, 4, 3), Tile(128, 128, 64, 8, 3))
TILES: Mapping[str, tuple[Tile, ...]] = {
    "half": (*_HALF_TILES, Tile(256, 64, 64, 8, 2), Tile(512, 64, 16, 8, 2)),
    "narrow": (*_HALF_TILES, Tile(256, 32, 32, 8, 2), Tile(512, 32, 16, 8, 2)),
    "ieee": (
        Tile(64, 32, 32, 4, 2),
        Tile(64, 64, 32, 8, 2),
        Tile(128, 32, 64, 8, 2),
        Tile(128, 64, 64, 16, 2),
        Tile(256, 32, 32, 8, 2),
        Tile(512, 16, 16, 8, 2),
    ),
    "tf32": (Tile(64, 64, 64, 8, 2), Tile(128, 64, 64, 8, 2), Tile(256, 32, 32, 8, 2), Tile(512, 16, 16, 8, 2)),
}
_HALF_PARTS = (Tile(64, 64, 64, 4, 3), Tile(128, 64, 64, 8, 3))
PARTS: Mapping[str, tuple[Tile, ...]] = {
    "half": (*_HALF_PARTS, Tile(256, 64, 64, 8, 2), Tile(512, 32, 32, 8, 2)),
    "narrow": (*_HALF_PARTS, Tile(256, 32, 32, 8, 2), Tile(512, 32, 32, 8, 2)),
    "ieee": (Tile(64, 32, 64, 8, 2), Tile(128, 32, 64, 8, 2), Tile(256, 32, 32, 8, 2), Tile(512, 16, 16, 8, 2)),
    "tf32": (Tile(64, 32, 64, 8, 2), Tile(128, 32, 32, 8, 2), Tile(256, 32, 32, 8, 2), Tile(512, 16, 16, 4, 2)),
}
_MORE_HALF = (
    Tile(64, 64, 128, 4, 3),
    Tile(64, 128, 64, 8, 3),
    Tile(128, 128, 64, 8, 2),
)
MORE_TILES: Mapping[str, tuple[Tile, ...]] = {
    "half": (*_MORE_HALF, Tile(128, 64, 128, 8, 2), Tile(128, 128, 128, 8, 2)),
    "narrow": _MORE_HALF,
    "ieee": (Tile(64, 32, 64, 8, 2), Tile(128, 16, 64, 8, 2)),
    "tf32": (Tile(64, 128, 64, 8, 2), Tile(128, 64, 32, 8, 2)),
}
"""Further configurations of `tiles`, which only a measurement chooses."""
_MORE_HALF_PARTS = (Tile(64, 64, 128, 4, 3), Tile(64, 64, 64, 8, 3), Tile(128, 64, 64, 4, 3), Tile(128, 64, 128, 8, 2))
MORE_PARTS: Mapping[str, tuple[Tile, ...]] = {
    "half": _MORE_HALF_PARTS,
    "narrow": _MORE_HALF_PARTS,
    "ieee": (Tile(64, 32, 32, 4, 2), Tile(128, 32, 32, 8, 2)),
    "tf32": (Tile(64, 32, 32, 4, 2), Tile(128, 32, 64, 8, 2)),
}
"""Further configurations of `split`, which only a measurement chooses."""
_KIND = {"float16": "half", "bfloat16": "half", "float32": "narrow"}  # of queries, beside keys of 16 bits
_SMALLEST = 16  # rows of a block that tensor cores multiply
_MAX_PARTS = 64
_FEW_QUERIES = 16  # of a head: `split` whatever the keys
_MANY_KEYS = 1024  # from here on `split` also for more queries, if there are too few programs otherwise
_MAX_LAUNCHES = 16  # more of them cost more than copies


class Problem(NamedTuple):
    """A step in the kernels' terms.

    Attributes:
        operands: query, key, value, mask (the query, if there is none) and result.
        walk: the leading axes of the operands.
        groups: of the keys and values; `heads` are of the queries.
        keys: of each group; `queries` are of each head.
        widths: of keys and of values, padded to powers of two.
        arguments: those that both kernels have, the pointers left out.
    """

    operands: tuple[Tensor, ...]
    walk: SplitAxes
    heads: int
    groups: int
    queries: int
    keys: int
    widths: tuple[int, int]
    arguments: Mapping[str, Any]

    @property
    def batch(self) -> int:
        """Size of the axis before the heads, in one launch."""
        return self.walk.sizes[0]

    @property
    def kind(self) -> str:
        """How numbers are multiplied: a key of the tables of configurations."""
        query, key, *_others = self.operands
        return str(self.arguments["PRECISION"]) if key.dtype == "float32" else _KIND[query.dtype]

    def list_fitting(self, table: Mapping[str, tuple[Tile, ...]]) -> list[Tile]:
        """The configurations for the narrowest rows that are wide enough; none if the rows are too wide for all."""
        known = table[self.kind]
        width = min((one.width for one in TILES[self.kind] if one.width >= max(self.widths)), default=0)
        return [one for one in known if one.width == width]

    def describe(self) -> str:
        """The class of its sizes, how numbers are multiplied and what else decides how fast a configuration is."""
        more = [self.kind, f"mask-{self.arguments['MASK']}"]
        sizes = {"groups": self.groups * self.batch, "heads": self.heads * self.batch}
        return describe_sizes(more, **sizes, queries=self.queries, keys=self.keys, width=max(self.widths))

    def pointers(self, starts: tuple[int, ...]) -> dict[str, Any]:
        names = ("q", "k", "v", "mask", "out")
        return {name: one.pointer(start) for name, one, start in zip(names, self.operands, starts, strict=True)}


def _strides_of(request: Request, operands: tuple[Tensor, ...]) -> list[tuple[int, ...]]:
    """Strides of each operand along all axes of the scores, those of keys and values in place of heads and queries."""
    query, key, value, mask, output = operands
    found = [query.strides, key.strides, value.strides, (0,) * len(query.shape), output.strides]
    if request.find(3) is not None:
        found[3] = broadcast_strides(mask, (*query.shape[:-1], key.shape[-2]))
    if request.attributes["transpose_output"]:
        *lead, row, head, column = output.strides
        found[4] = (*lead, head, row, column)
    return found


def _pose(request: Request) -> Problem | Answer:
    """The step in the kernels' terms, or the answer that says why there is none."""
    query, key, value = (request.need(position) for position in range(3))
    mask, output, attributes = request.find(3), request.output, request.attributes
    if query.dtype == "float64":
        return None
    if not math.prod(output.shape):
        return Launches(())
    operands = (query, key, value, mask or query, output)
    if any(one.strides[-1] != 1 and one.shape[-1] > 1 for one in (query, key, value, output)):
        return NEEDS_DENSE
    strides = _strides_of(request, operands)
    walk = plan_walk(query.shape[:-3], [own[:-3] for own in strides], 1)
    if len(walk.starts) > _MAX_LAUNCHES and not request.copied:
        return NEEDS_DENSE
    heads, queries, d = query.shape[-3:]
    groups, keys, e = value.shape[-3:]
    widths = (max(next_power_of_two(d), _SMALLEST), max(next_power_of_two(e), _SMALLEST))
    kind = "none" if mask is None else "bool" if mask.dtype == "bool" else "added"
    arguments: dict[str, Any] = {
        "factor": attributes["scale"] * _LOG2_E,
        "share": heads // groups,
        "queries": queries,
        "keys": keys,
        "m_t": strides[3][-1],
        "D": d,
        "E": e,
        "WIDTH_D": widths[0],
        "WIDTH_E": widths[1],
        "MASK": kind,
        "NAN_ROWS": attributes["masked_rows"] == "nan" and keys > 0,
        "PRECISION": "tf32" if request.device.allow_tf32 else "ieee",
    }
    for letter, names, outer, own in zip(
        "qkvmo", ("bhs", "bht", "bht", "bhs", "bhs"), walk.strides, strides, strict=True
    ):
        arguments |= {f"{letter}_{name}": step for name, step in zip(names, (*outer, *own[-3:-1]), strict=True)}
    return Problem(operands, walk, heads, groups, queries, keys, widths, arguments)


def _is_split(problem: Problem, request: Request) -> bool:
    """True if few queries meet keys that are worth a cut into parts."""
    if request.attributes["causal"]:  # then few queries see few keys
        return False
    if problem.queries <= _FEW_QUERIES:
        return True
    programs = count_blocks(problem.queries, 64) * problem.heads * problem.batch
    return problem.keys >= _MANY_KEYS and 2 * programs <= request.device.multiprocessors


@kernel("attention", variant="split")
def plan_split(request: Request) -> Answer:
    """A program takes a part of the keys of a group; a second launch adds up the parts."""
    problem = _pose(request)
    if not isinstance(problem, Problem):
        return problem
    known = problem.list_fitting(PARTS)
    if not known or not _is_split(problem, request):
        return None
    candidates = [*known, *problem.list_fitting(MORE_PARTS)]
    tile = request.choose(attend_split, problem.describe(), candidates, known[0])
    rows = problem.heads // problem.groups * problem.queries
    block = min(max(next_power_of_two(rows), _SMALLEST), tile.rows)
    programs = count_blocks(rows, block) * problem.groups * problem.batch
    blocks = max(count_blocks(problem.keys, tile.keys), 1)
    requested = min(count_blocks(2 * request.device.multiprocessors, programs), blocks, _MAX_PARTS)
    of_part = count_blocks(blocks, requested) * tile.keys
    parts = max(count_blocks(problem.keys, of_part), 1)
    options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    cells = problem.batch * problem.groups * parts * rows if parts > 1 else 0
    e = problem.arguments["E"]
    own = {
        "sums": Scratch(0, "float32"),
        "tops": Scratch(4 * cells * e, "float32"),
        "totals": Scratch(4 * cells * (e + 1), "float32"),
        "groups": problem.groups,
        "parts": parts,
    }
    split = {**problem.arguments, **own, "of_part": of_part, "ROWS": block, "KEYS": tile.keys, "IS_WHOLE": parts == 1}
    added = ("share", "queries", "o_b", "o_h", "o_s", "E", "WIDTH_E", "NAN_ROWS")
    add = {name: problem.arguments[name] for name in added} | own | {"PARTS": next_power_of_two(parts), "STEP": 4}
    launches = []
    for starts in problem.walk.starts:
        pointers = problem.pointers(starts)
        launches.append(Launch(attend_split, (programs * parts,), pointers | split, options))
        if parts > 1:
            grid = (problem.batch * problem.groups * rows,)
            launches.append(Launch(add_parts, grid, {"out": pointers["out"], **add}, {"num_warps": 4}))
    return Launches(tuple(launches), 4 * cells * (e + 2))


@kernel("attention", variant="tiles")
def plan_tiles(request: Request) -> Answer:
    """A program takes a block of the queries of a head."""
    problem = _pose(request)
    if not isinstance(problem, Problem):
        return problem
    known, causal = problem.list_fitting(TILES), request.attributes["causal"]
    if not known:
        return None
    pairs = problem.heads * problem.batch
    filling = [t for t in known if count_blocks(problem.queries, t.rows) * pairs >= request.device.multiprocessors]
    sizes = problem.describe() + " causal" * causal
    candidates = [*known, *problem.list_fitting(MORE_TILES)]
    tile = request.choose(attend_tiles, sizes, candidates, filling[-1] if filling else known[0])
    arguments = {"heads": problem.heads, "CAUSAL": causal, "ROWS": tile.rows, "KEYS": tile.keys}
    options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    grid = (count_blocks(problem.queries, tile.rows) * pairs,)
    launches = (
        Launch(attend_tiles, grid, {**problem.pointers(starts), **problem.arguments, **arguments}, options)
        for starts in problem.walk.starts
    )
    return Launches(tuple(launches))
