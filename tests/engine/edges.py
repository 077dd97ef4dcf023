"""Operations and the tensors at the edges of what they take, for test_edges.py."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # its customary name

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I64, I32, I16, I8, U8, BOOL = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool
FLOATS, INTEGERS = (F32, BF16, F64, F16), (I64, I32, U8, I16, I8)
NUMBERS = (F32, I64, BF16, I32, F64, U8, F16)
EACH = (F32, U8, BF16, I64, F64, BOOL)

# Name -> sizes of a tensor in memory, and a view of it.
MATRICES = {
    "one element": ((1, 1), lambda x: x),
    "no rows": ((0, 5), lambda x: x),
    "special": ((7, 33), lambda x: x),
    "one row": ((1, 17), lambda x: x),
    "transposed": ((37, 6), lambda x: x.mT),
    "repeated row": ((1, 19), lambda x: x.expand(5, 19)),
    "overlapping": ((40,), lambda x: x.unfold(0, 9, 2)),
    "one column": ((9, 1), lambda x: x),
    "sliced": ((6, 40), lambda x: x[1:, 3:36:2]),
    "repeated column": ((7, 1), lambda x: x.expand(7, 18)),
    "reversed": ((5, 21), lambda x: x.flip(0, 1)),
}
PICTURES = {
    "one pixel": ((1, 4, 1, 1), lambda x: x),
    "no pictures": ((0, 4, 5, 6), lambda x: x),
    "special": ((2, 4, 7, 9), lambda x: x),
    "channels last": ((2, 6, 11, 4), lambda x: x.permute(0, 3, 1, 2)),
    "repeated": ((1, 4, 1, 9), lambda x: x.expand(2, 4, 6, 9)),
    "overlapping": ((1, 4, 20), lambda x: x.unfold(2, 8, 2)),
    "transposed": ((1, 4, 11, 6), lambda x: x.mT),
    "sliced": ((2, 5, 9, 20), lambda x: x[1:, 1:, 1:, 1::2]),
    "reversed": ((1, 4, 5, 9), lambda x: x.flip(1, 2, 3)),
}


def weight(like, *sizes):
    """Constants."""
    return torch.linspace(-1, 1, int(np.prod(sizes)), dtype=F64).reshape(sizes).to(like)


def both(function, **options):
    """Over the last axis and over the first."""
    return lambda x, _y, _i: (function(x, dim=-1, **options), function(x, dim=0, **options))


def resized(mode, **options):
    """By interpolation."""
    return lambda x, _y, _i: F.interpolate(x, mode=mode, **options)


def sampled(mode, padding):
    """At points of which some lie outside."""
    return lambda x, y, _i: F.grid_sample(
        x, torch.stack([y[:, 0], y[:, 1] * 2], -1), mode, padding, align_corners=False
    )


def top(x, _y, _i):
    """Which of equal elements is meant is not specified: what lies at the positions counts."""
    counts = [(axis, k) for axis in (0, 1) for k in {min(1, x.shape[axis]), x.shape[axis] // 2, x.shape[axis]}]
    found = [(axis, x.topk(k, axis, largest)) for axis, k in counts for largest in (True, False)]
    return [(values, x.gather(axis, indices)) for axis, (values, indices) in found]


# Name -> a function of x, y and positions along the last axis, all of one shape, and the element types of x and y.
CASTS = {
    **{str(to): (lambda x, y, i, to=to: x.to(to), (*FLOATS, *INTEGERS, BOOL)) for to in (*FLOATS, BOOL)},
    **{str(to): (lambda x, y, i, to=to: x.to(to), (*INTEGERS, BOOL)) for to in INTEGERS},
    "to integers": (lambda x, y, i: [x.nan_to_num(0).clamp(0, 9).to(to) for to in INTEGERS], FLOATS),
}
ACTIVATIONS = (F.relu, F.gelu, F.silu, torch.sigmoid, torch.tanh, F.hardswish, F.hardsigmoid, F.relu6, F.leaky_relu,
               F.elu, F.selu, F.mish, F.softplus, F.softsign, F.hardshrink, F.logsigmoid, F.tanhshrink,
               torch.nan_to_num)  # fmt: skip
FUNCTIONS = (torch.exp, torch.expm1, torch.sin, torch.erf, torch.atan, torch.floor, torch.round, torch.exp2, torch.log,
             torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.sinh, torch.asinh, torch.tan)  # fmt: skip
POINTWISE = {
    "activations": (lambda x, y, i: [f(x) for f in ACTIVATIONS], FLOATS),
    "functions": (lambda x, y, i: [f(x) for f in FUNCTIONS], FLOATS),
    "gelu by tanh": (lambda x, y, i: F.gelu(x, approximate="tanh"), FLOATS),
    "signs": (lambda x, y, i: (x.abs(), -x, x.sign(), x.square(), x * 3 + y), NUMBERS),
    "clamp": (lambda x, y, i: (x.clamp(1, 7), x.isnan(), x.isinf()), NUMBERS),
    "division": (lambda x, y, i: (x // 7, x % 7, x.fmod(3)), NUMBERS),
    "bits": (lambda x, y, i: (x << 2, x >> 1, x & 15, x | y, x ^ y, ~x), INTEGERS),
    "shifts": (lambda x, y, i: (x << i.to(x) * 5, x >> i.to(x) * 5), INTEGERS),
    "flags": (lambda x, y, i: (x & ~y, x | y, x ^ y), (BOOL,)),
    "comparisons": (lambda x, y, i: (x > 0, x == y, x < y, x >= y, x != y), EACH),
    "extremes": (lambda x, y, i: (torch.maximum(x, y), torch.minimum(x, y)), NUMBERS),
    "choice": (lambda x, y, i: (torch.where(i > 3, x, y), x.masked_fill(i > 3, 1)), EACH),
    "broadcast": (lambda x, y, i: (x + y[:1], x * y[:, :1], x[:, None] - y[None]), NUMBERS),
    "two": (lambda x, y, i: (torch.atan2(x, y), torch.lerp(x, y, 0.3), x / y, F.silu(x) * y), FLOATS),
    "powers": (lambda x, y, i: (x**0.5, x**2, x**3, x.abs() ** 1.7, x.abs() ** y), (F32, F64)),
    "gates": (lambda x, y, i: (F.glu(torch.cat([x, y], -1)), F.prelu(x, weight(x, 1))), (F32, BF16)),
}
LAYOUT = {
    "copies": (
        lambda x, y, i: (x.clone(), x.mT.contiguous(), x[None].permute(2, 1, 0).contiguous(), x.flatten()),
        EACH,
    ),
    "flips": (lambda x, y, i: (x.flip(0), x.flip(1), x.flip(0, 1), torch.rot90(x)), EACH),
    "rolls": (lambda x, y, i: (x.roll(3, -1), x.roll(-2, 0), x.roll((1, 40), (0, 1)), x.roll(5)), EACH),
    "pads": (lambda x, y, i: (F.pad(x, (1, 2)), F.pad(x, (0, 3, 2, 1)), F.pad(x, (2, -1))), EACH),
    "triangles": (lambda x, y, i: (x.triu(), x.tril(), x.triu(3), x.tril(-2), x.triu(-50), x.tril(50)), EACH),
    "diagonals": (lambda x, y, i: (x.diagonal().contiguous(), x.diagonal(-1).clone(), x.diag_embed()), EACH),
    "joins": (lambda x, y, i: (torch.cat([x, y]), torch.cat([x, y, x[:, :1]], 1), torch.stack([x, y], -1)), EACH),
    "repeats": (lambda x, y, i: (x.repeat(2, 3), x.repeat_interleave(2, -1), x.repeat_interleave(3, 0)), EACH),
    "writes": (lambda x, y, i: (x.slice_scatter(y[:, ::2], 1, 0, None, 2), x.slice_scatter(y[:1], 0, 0, 1)), EACH),
    "windows": (lambda x, y, i: (x.unfold(-1, 1, 3).contiguous(), [p.contiguous() for p in x.chunk(3, -1)]), EACH),
    "rotary pairs": (lambda x, y, i: torch.stack([-x, y], -1).flatten(-2), EACH[:5]),
}
REDUCTIONS = {
    "sums": (lambda x, y, i: (x.sum(), x.sum(-1), x.sum(0), x.sum((0, 1), keepdim=True)), EACH),
    "means": (lambda x, y, i: (x.mean(), x.mean(-1), x.mean(0)), FLOATS),
    "extremes": (lambda x, y, i: (x.amax(-1), x.amin(-1), torch.aminmax(x, dim=-1)), EACH),
    "extremes over the first axis": (lambda x, y, i: (x.amax(0), x.amin(0)), EACH),
    "extremes of all": (lambda x, y, i: (x.max(), x.min()), EACH),
    "with index": (lambda x, y, i: (x.max(-1), x.min(-1), x.argmax(-1), x.argmin(-1)), NUMBERS),
    "with index over the first axis": (lambda x, y, i: (x.max(0), x.min(0), x.argmax(0), x.argmax()), NUMBERS),
    "products": (lambda x, y, i: (x[:, :9].prod(-1), x[:9].prod(0)), (F32, I64, F64, BOOL)),
    "any and all": (lambda x, y, i: (x.any(-1), x.all(0), x.any(), x.all(), x.any(0)), EACH),
    "norms": (lambda x, y, i: [torch.linalg.vector_norm(x, p, d) for p in (0, 1, 2, 3) for d in (0, 1)], (F32, F64)),
    "logsumexp": (both(torch.logsumexp), FLOATS),
    "variances": (lambda x, y, i: (x.var(-1), x.std(0), x.var(0, correction=0), torch.var_mean(x, -1)), (F32, F64)),
}
NORMS = {
    "softmax": (both(torch.softmax), FLOATS),
    "log_softmax": (both(torch.log_softmax), FLOATS),
    "layer_norm": (
        lambda x, y, i: (F.layer_norm(x, x.shape[1:]), F.layer_norm(x, x.shape[1:], *weight(x, 2, x.shape[1]))),
        FLOATS,
    ),
    "rms_norm": (lambda x, y, i: F.rms_norm(x, x.shape[1:], weight(x, x.shape[1])), FLOATS),
    "batch_norm": (
        lambda x, y, i: F.batch_norm(x, weight(x, x.shape[1]), weight(x, x.shape[1]).abs() + 1),
        (F32, BF16),
    ),
    "unit length": (both(F.normalize), (F32, F64)),
    "standard score": (lambda x, y, i: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), (F32, F64)),
    "cosine": (lambda x, y, i: F.cosine_similarity(x, y), (F32, F64)),
    "cross entropy": (lambda x, y, i: F.cross_entropy(x, i[:, 0]), (F32, F64)),
    "response": (lambda x, y, i: F.local_response_norm(x[None], 5), (F32,)),
}
SCANS = {
    "sums": (both(torch.cumsum), (*EACH, I32, F16)),
    "products": (both(torch.cumprod), (F32, I64, F64)),
    "differences": (lambda x, y, i: (x.diff(), x.diff(dim=0), x.diff(2)), NUMBERS),
}
ORDERING = {
    "sort": (lambda x, y, i: (x.sort(-1).values, x.sort(0, descending=True).values), (*EACH, F16, I32)),
    "stable sort": (both(torch.sort, stable=True), (*EACH, F16, I32)),
    "stable sort down": (both(torch.sort, stable=True, descending=True), (*EACH, F16, I32)),
    "order": (both(torch.argsort, stable=True), NUMBERS),
    "topk": (top, NUMBERS),
    "k-th": (lambda x, y, i: (x.kthvalue(x.shape[1] // 2 + 1).values, x.median(-1).values), NUMBERS),
    "k-th of columns": (lambda x, y, i: (x.kthvalue(x.shape[0], 0).values, x.median(0).values), NUMBERS),
}
INDEXING = {
    "columns": (lambda x, y, i: (x[:, i[:1, 0]], x[:, -i[-1:, 0] - 1], x.index_select(-1, i[:1].flatten())), EACH),
    "embedding": (lambda x, y, i: (F.embedding(i, x.mT), F.embedding(i.int(), x.mT.clone())), EACH),
    "elements": (lambda x, y, i: (x.gather(-1, i), x.mT.gather(0, i.mT), torch.take_along_dim(x, i, -1)), EACH),
    "take": (lambda x, y, i: torch.take(x, i), EACH),
    "pairs": (lambda x, y, i: (x[torch.arange(x.shape[0])[:, None], i], x[torch.arange(x.shape[0]), i[:, 0]]), EACH),
    "scatter": (
        lambda x, y, i: (x.scatter_add(-1, i, y), x.mT.scatter_add(0, i.mT, y.mT), x.scatter(-1, i, 1)),
        NUMBERS,
    ),
    "writes": (
        lambda x, y, i: (x.index_copy(1, i[:1, 0], y[:, :1]), x.mT.index_put((i[:1, 0],), y.mT[:1])) if len(x) else x,
        EACH,
    ),
    "sums": (
        lambda x, y, i: (
            x.index_add(1, i[:1].flatten(), y[:, : i[:1].numel()]),
            x.mT.index_put((i[0],), y.mT, accumulate=True) if len(x) else x,
        ),
        NUMBERS,
    ),
    "reductions": (
        lambda x, y, i: [
            x.index_reduce(1, i[:1].flatten(), y[:, : i[:1].numel()], how) for how in ("amax", "amin", "mean", "prod")
        ],
        (F32, F64),
    ),
    "one hot": (lambda x, y, i: F.one_hot(i, 40), (F32,)),
}
PRODUCTS = {
    "matrices": (lambda x, y, i: (x @ y.mT, x.mT @ y, F.linear(x, y), F.linear(x, y, y[:, 0])), FLOATS),
    "vectors": (lambda x, y, i: (x.mT @ y[:, 0], torch.dot(x.flatten(), y.flatten()), (x * y).sum(-1)), FLOATS),
    "batches": (lambda x, y, i: (torch.bmm(x[None], y.mT[None]), torch.bmm(x[:, :, None], y[:, None])), FLOATS),
    "attention": (lambda x, y, i: F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None]), FLOATS),
    "causal": (lambda x, y, i: F.scaled_dot_product_attention(x[None], y[None], x[None], is_causal=True), (F32, BF16)),
    "masked": (lambda x, y, i: F.scaled_dot_product_attention(x[None], y[None], y[None], (x @ y.mT)[None] < 3), (F32,)),
    "einsum": (lambda x, y, i: (torch.einsum("bi,bj->bij", x, y), torch.einsum("bi,bi->b", x, y)), (F32, F64)),
    "linear": (lambda x, y, i: F.linear(x, weight(x, 13, x.shape[1]), weight(x, 13)).relu(), FLOATS),
}
POOLING = {
    "maximum": (
        lambda x, y, i: (F.max_pool2d(x, 1), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 5, 1, 2)),
        (F32, BF16, F64),
    ),
    "maximum, dilated": (lambda x, y, i: F.max_pool2d(x, 2, 1, 1, 2), (F32, F64)),
    "average": (
        lambda x, y, i: (F.avg_pool2d(x, 1), F.avg_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 2, 2, 1, True)),
        (F32, BF16, F64),
    ),
    "average within": (lambda x, y, i: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (F32, BF16, F64)),
    "adaptive": (lambda x, y, i: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (2, 5))), (F32, BF16)),
    "one axis": (lambda x, y, i: (F.max_pool1d(x.flatten(2), 3, 1, 1), F.avg_pool1d(x.flatten(2), 1, 2)), (F32, F64)),
    "pooled volume": (lambda x, y, i: (F.max_pool3d(x[None], 1, 2), F.avg_pool3d(x[None], 1, 1)), (F32, F64)),
    "all pixels": (
        lambda x, y, i: (x.mean((2, 3)), x.amax((2, 3)), x.sum((0, 2, 3)), F.adaptive_avg_pool2d(x, 1)),
        FLOATS,
    ),
}
RESAMPLING = {
    "nearest": (resized("nearest", scale_factor=2), (F32, BF16, U8)),
    "nearest to": (resized("nearest", size=(3, 13)), (F32, U8)),
    "nearest-exact": (resized("nearest-exact", size=(3, 13)), (F32, U8)),
    "bilinear": (resized("bilinear", scale_factor=2, align_corners=False), (F32, BF16)),
    "bilinear by corners": (resized("bilinear", size=(5, 1), align_corners=True), (F32,)),
    "antialias": (resized("bilinear", size=(2, 3), antialias=True), (F32,)),
    "bicubic": (resized("bicubic", size=(5, 13), align_corners=False), (F32,)),
    "area": (resized("area", size=(1, 2)), (F32,)),
    "linear": (lambda x, y, i: F.interpolate(x.flatten(2), size=11, mode="linear"), (F32,)),
    "points": (sampled("bilinear", "zeros"), (F32,)),
    "nearest points": (sampled("nearest", "border"), (F32,)),
    "cubic points": (sampled("bicubic", "reflection"), (F32,)),
}
CONVOLUTIONS = {
    "1 x 1": (lambda x, y, i: F.conv2d(x, weight(x, 5, 4, 1, 1), weight(x, 5)), (F32, BF16, F64)),
    "3 x 3": (lambda x, y, i: F.conv2d(x, weight(x, 5, 4, 3, 3), weight(x, 5), 1, 1), (F32, BF16)),
    "stride": (lambda x, y, i: F.conv2d(x, weight(x, 8, 4, 3, 3), None, 2, 1), (F32, BF16)),
    "dilated": (lambda x, y, i: F.conv2d(x, weight(x, 8, 4, 3, 3), None, 1, 2, 2), (F32, BF16)),
    "1 x 7": (lambda x, y, i: F.conv2d(x, weight(x, 3, 4, 1, 7), None, 1, (0, 3)), (F32,)),
    "patches": (lambda x, y, i: F.conv2d(F.pad(x, (0, 3, 0, 3)), weight(x, 17, 4, 4, 4), None, 4), (F32,)),
    "depthwise": (lambda x, y, i: F.conv2d(x, weight(x, 8, 1, 3, 3), weight(x, 8), 1, 1, 1, 4), (F32, BF16)),
    "groups": (lambda x, y, i: F.conv2d(x, weight(x, 6, 2, 3, 3), None, 2, 1, 1, 2), (F32, BF16)),
    "signal": (lambda x, y, i: F.conv1d(x.flatten(2), weight(x, 7, 4, 3), None, 1, 1), (F32, F64)),
    "volume": (lambda x, y, i: F.conv3d(x[:, None], weight(x, 3, 1, 3, 3, 3), None, 1, 1), (F32,)),
    "transposed": (lambda x, y, i: F.conv_transpose2d(x, weight(x, 4, 3, 3, 3), weight(x, 3), 2, 1, 1), (F32, BF16)),
}
MAPS = {
    "softmax": (lambda x, y, i: (x.softmax(1), x.log_softmax(2)), FLOATS),
    "group_norm": (lambda x, y, i: (F.group_norm(x, 2, *weight(x, 2, 4)), F.silu(F.group_norm(x, 4))), (F32, BF16)),
    "batch_norm": (lambda x, y, i: F.batch_norm(x, weight(x, 4), weight(x, 4).abs() + 1), (F32, BF16)),
    "layer_norm": (lambda x, y, i: F.layer_norm(x.permute(0, 2, 3, 1), (4,), *weight(x, 2, 4)), (F32, BF16)),
    "pads": (lambda x, y, i: (F.pad(x, (1, 0, 2, 1), "replicate"), F.pad(x, (1, 1, 1, 1), "circular")), (F32, BF16)),
    "reflection": (lambda x, y, i: F.pad(x, (2, 1, 1, 0), "reflect"), (F32, BF16)),
    "patches": (lambda x, y, i: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1), (F32,)),
    "shuffles": (lambda x, y, i: (F.pixel_shuffle(x, 2), F.channel_shuffle(x, 2)), EACH),
    "channels": (lambda x, y, i: (x.permute(0, 2, 3, 1).contiguous(), x[:, [0, 3, -1]], torch.cat([x, y], 1)), EACH),
    "over channels": (lambda x, y, i: (x.argmax(1), x.max(1), x.topk(2, 1).values, x.sum(1)), NUMBERS),
    "running sum": (lambda x, y, i: (x.cumsum(1), x.cumsum(2)), NUMBERS),
}
FAMILIES = {
    "casts": (MATRICES, CASTS), "pointwise": (MATRICES, POINTWISE), "layout": (MATRICES, LAYOUT),
    "reductions": (MATRICES, REDUCTIONS), "norms": (MATRICES, NORMS), "scans": (MATRICES, SCANS),
    "ordering": (MATRICES, ORDERING), "indexing": (MATRICES, INDEXING), "products": (MATRICES, PRODUCTS),
    "pooling": (PICTURES, POOLING), "resampling": (PICTURES, RESAMPLING), "convolutions": (PICTURES, CONVOLUTIONS),
    "maps": (PICTURES, MAPS),
}  # fmt: skip
# What eager refuses.
ABSENT = {
    "extremes over the first axis": "no rows",
    "extremes of all": "no rows",
    "with index over the first axis": "no rows",
    "k-th of columns": "no rows",
    "pooled volume": "no pictures",
    "reflection": "one pixel",
}

# Positions below 5 of rows or below 7 of columns, or divisors -> what of them eager refuses in every place.
POSITIONS = {
    "rows": (lambda x, i: x[i], (-6, 5)),
    "columns": (lambda x, i: x[:, i] + 1, (-8, 7)),
    "pairs": (lambda x, i: x[i, i], (-6, 5)),
    "index_select": (lambda x, i: x.index_select(1, i), (-1, 7)),
    "embedding": (lambda x, i: F.embedding(i, x), (-1, 5)),
    "embedding of int32": (lambda x, i: F.embedding(i.int(), x), (-1, 5)),
    "mean of bags": (lambda x, i: F.embedding(i[None], x).mean(1), (-1, 5)),
    "gather": (lambda x, i: x.gather(0, i[:, None]), (-1, 5)),
    "gather of rows": (lambda x, i: x.gather(0, i[:, None].expand(-1, 7)), (-1, 5)),
    "take": (torch.take, (-36, 35)),
    "index_add": (lambda x, i: x.index_add(0, i, x[:4]), (-6, 5)),  # torch's decomposition takes -1 for the last
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:4]), (-6, 5)),
    "index_put": (lambda x, i: x.index_put((i,), x[:4]), (-6, 5)),
    "accumulation": (lambda x, i: x.index_put((i,), x[:4], accumulate=True), (-6, 5)),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x[:4], "amax"), (-1, 5)),
    "scatter": (lambda x, i: x.scatter(1, i[None], 1.0), (-1, 7)),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[:, None].expand(-1, 7), x[:4]), (-1, 5)),
    "histogram": (lambda x, i: torch.zeros(5, dtype=I64).scatter_add(0, i, torch.ones_like(i)), (-1, 5)),
    "one_hot": (lambda x, i: F.one_hot(i, 5), (-1, 5)),
    "cross entropy": (lambda x, i: F.cross_entropy(x[:4], i), (-1, 7)),
    "quotient": (lambda x, i: 9 // i, (0,)),
    "remainder": (lambda x, i: (i.int() % i.int(), i.to(U8) // i.to(U8)), (0,)),
}

# What eager does not compute: a function, and the sizes of its operand.
REFUSED = {
    "extreme of nothing": (lambda x: x.amax(1), (3, 0)),
    "extremes of nothing": (lambda x: x.aminmax(dim=0), (0, 3)),
    "largest of nothing": (lambda x: x.max(0), (0, 3)),
    "position of nothing": (lambda x: x.argmax(1), (3, 0)),
    "position in nothing": (lambda x: x.argmin(), (0, 3)),
    "more than there are": (lambda x: x.topk(4, 1), (2, 3)),
    "k-th of nothing": (lambda x: x.kthvalue(1, 0), (0, 3)),
    "0th": (lambda x: x.kthvalue(0, 1), (2, 3)),
    "no such axis": (lambda x: x.sum(2), (2, 3)),
    "no such row": (lambda x: x[2], (2, 3)),
    "unlike sizes": (lambda x: x + x.mT, (2, 3)),
    "a window larger than its picture": (lambda x: F.max_pool2d(x[None], 3), (2, 2)),
    "a kernel larger than its picture": (lambda x: F.conv2d(x[None], weight(x, 1, 1, 3, 3)), (2, 2)),
    "reflection of too little": (lambda x: F.pad(x, (3, 0), "reflect"), (2, 3)),
}
