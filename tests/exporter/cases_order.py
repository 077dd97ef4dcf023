"""Sorting, selection, and writes by positions or masks: every keyword, rank 0, no elements, repeated positions."""

import torch

from tests.exporter.cases import case, f32, flags, i64, special

CASES = []
RANK_0, EMPTY = f32(), f32(2, 0)
SAME = torch.tensor([[2, 1, 2, 1, 2], [0, 0, 0, 0, 0]])

# --- order ------------------------------------------------------------------------------------------------------

DIMS = (
    lambda op, a: op(a),
    lambda op, a: op(a, 0),
    lambda op, a: op(a, -1, True),
    lambda op, a: op(a, descending=True),
)
STABLE = tuple(
    lambda op, a, d=d, down=down: op(a, stable=True, dim=d, descending=down) for d in (0, -1) for down in (False, True)
)
CASES += [case("sort", (tensor,), *DIMS) for tensor in (f32(4, 5), f32(4, 5, dtype=torch.bfloat16), RANK_0, EMPTY)]
CASES += [
    *(case("sort.stable", (tensor,), *STABLE) for tensor in (SAME, flags(3, 9), special()[None], RANK_0)),
    case("sort.stable", (SAME,), lambda op, a: op(a, stable=True), lambda op, a: op(a.float(), stable=False)[0]),
    case(
        "topk",
        (f32(3, 40),),
        lambda op, a: op(a, 3),
        lambda op, a: op(a, 2, 0),
        lambda op, a: op(a, 3, -1, False),
        lambda op, a: op(a, 9, 1, True, True),
        lambda op, a: op(a, 0),
        lambda op, a: op(a, 3, sorted=False)[0].sum(-1),  # whose order is free
    ),
    case("topk", (special(),), lambda op, a: op(a, 3), lambda op, a: op(a, 2, largest=False)),
    case("topk", (torch.randperm(30).reshape(5, 6),), lambda op, a: op(a, 2), lambda op, a: op(a, 6, 1, False)),
    case("topk", (RANK_0,), lambda op, a: op(a, 1)),
    case(
        "kthvalue",
        (f32(3, 5),),
        lambda op, a: op(a, 2),
        lambda op, a: op(a, 1, 0),
        lambda op, a: op(a, 5, -1, True),
    ),
    case("kthvalue", (RANK_0,), lambda op, a: op(a, 1), lambda op, a: op(a, 1, 0, True)),
    *(
        case("median.dim", (tensor,), lambda op, a: op(a, 0), lambda op, a: op(a, -1, True))
        for tensor in (torch.randperm(30).reshape(5, 6).float(), f32(3, 1), RANK_0)
    ),
    case("median.dim", (torch.stack([special(), special().abs()]),), lambda op, a: op(a, 1), lambda op, a: op(a, 0)[0]),
    *(case("median", (tensor,), lambda op, a: op(a)) for tensor in (f32(4, 5), special(), RANK_0)),
]

EDGES, AMONG = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]), torch.cat([special(), torch.tensor([0.5, 2.0, -1.0])])
SIDES = (
    lambda op, *given: op(*given),
    lambda op, *given: op(*given, right=True),
    lambda op, *given: op(*given, out_int32=True),
)
OF_SORTED = (
    lambda op, e, v: op(e, v, side="right"),
    lambda op, e, v: op(e.flip(-1), v, sorter=torch.arange(e.shape[-1] - 1, -1, -1).expand(e.shape).contiguous()),
)
CASES += [
    *(case("bucketize.Tensor", (value, EDGES), *SIDES) for value in (AMONG, f32(3, 4), RANK_0, EMPTY)),
    case("bucketize.Tensor", (f32(4), f32(0)), *SIDES),
    case("bucketize.Tensor", (i64(9, low=-9, high=9), torch.tensor([-(2**63), -3, 4, 2**63 - 1])), *SIDES),
    case("bucketize.Scalar", (0.5, EDGES), *SIDES),
    case("searchsorted.Tensor", (EDGES, AMONG), *SIDES, *OF_SORTED),
    case("searchsorted.Tensor", (f32(2, 3, 17).sort(-1)[0], f32(2, 3, 4)), *SIDES, *OF_SORTED),
    case("searchsorted.Scalar", (EDGES, 0.5), *SIDES, *OF_SORTED),
    case("histc", (torch.cat([AMONG, f32(40)]),), *(lambda op, a, n=n: op(a, n, -1, 2) for n in (1, 3, 64))),
    case("histc", (f32(3, 9),), lambda op, a: op(a, min=-1.5, max=1.0)),
]
BAG_TABLE, ROWS, STARTS = f32(7, 3), i64(9, low=0, high=7), torch.tensor([0, 2, 2, 5])
BAGS = (
    lambda op, w, i, o: op(w, i, o)[0],
    lambda op, w, i, o: op(w, i, o, False, 1)[0],
    lambda op, w, i, o: op(w, i, o, False, 2)[0],
    lambda op, w, i, o: op(w, i, o, mode=0, per_sample_weights=w[i, 0], sparse=True)[0],
    lambda op, w, i, o: op(w, i, o, mode=2, include_last_offset=True)[0],
    *(lambda op, w, i, o, mode=mode: op(w, i, o, mode=mode, padding_idx=3)[0] for mode in (0, 1, 2)),
    lambda op, w, i, o: op(w, i, o, scale_grad_by_freq=True)[0],
)
CASES += [
    case(name, (BAG_TABLE, rows, starts), *BAGS)
    for name in ("_embedding_bag_forward_only", "_embedding_bag")
    for rows, starts in ((ROWS, STARTS), (ROWS.int(), STARTS.int()))
]

# --- along one axis ---------------------------------------------------------------------------------------------

TABLE, PLACES = f32(4, 6), torch.stack([torch.randperm(6)[:3] for _ in range(4)])  # none twice in a row
REPEATED = i64(4, 9, low=0, high=6)
BY_ROW, BY_COLUMN = (lambda op, a, i, s: op(a, 1, i, s)), (lambda op, a, i, s: op(a, -1, i, s))
CASES += [
    case("scatter.src", (TABLE, PLACES, f32(4, 5)), BY_ROW, BY_COLUMN),
    case(
        "scatter.src", (TABLE, torch.randperm(4)[:3, None].repeat(1, 2), f32(3, 2)), lambda op, a, i, s: op(a, 0, i, s)
    ),
    case("scatter.src", (i64(4, 6), PLACES, i64(4, 3)), BY_ROW),
    case("scatter.src", (f32(), torch.tensor(0), f32()), lambda op, a, i, s: op(a, 0, i, s)),
    case("scatter.src", (f32(3), i64(0, low=0, high=1), f32(0)), lambda op, a, i, s: op(a, 0, i, s)),
    case("scatter.value", (TABLE, REPEATED), lambda op, a, i: op(a, 1, i, 2.5), lambda op, a, i: op(a, -1, i, -1)),
    case("scatter.value", (flags(4, 6), REPEATED), lambda op, a, i: op(a, 1, i, True)),
    case("scatter.value", (f32(), torch.tensor(0)), lambda op, a, i: op(a, 0, i, 2.5)),
    case("scatter_add", (TABLE, REPEATED, f32(4, 9)), BY_ROW, BY_COLUMN),
    case("scatter_add", (TABLE, i64(9, 5, low=0, high=4), f32(9, 6)), lambda op, a, i, s: op(a, 0, i, s)),
    case("scatter_add", (i64(4, 6), REPEATED, i64(4, 9)), BY_ROW),
    case("scatter_add", (f32(), torch.tensor(0), f32()), lambda op, a, i, s: op(a, 0, i, s)),
    case(
        "scatter.reduce",
        (TABLE, REPEATED, f32(4, 9)),
        *(lambda op, a, i, s, r=r: op(a, 1, i, s, reduce=r) for r in ("add", "multiply")),
    ),
    case(
        "scatter.value_reduce",
        (TABLE, REPEATED),
        *(lambda op, a, i, r=r: op(a, -1, i, 1.5, reduce=r) for r in ("add", "multiply")),
    ),
]
REDUCE = tuple(
    lambda op, a, i, s, r=r, own=own: op(a, 1, i, s, r, include_self=own)
    for r in ("sum", "prod", "mean", "amax", "amin")
    for own in (True, False)
)
CASES += [
    case("scatter_reduce.two", (TABLE, REPEATED, f32(4, 9)), *REDUCE),
    case("scatter_reduce.two", (i64(4, 6), REPEATED, i64(4, 9)), *REDUCE),
    case(
        "scatter_reduce.two",
        (flags(4, 6), REPEATED, flags(4, 9)),
        *(
            lambda op, a, i, s, r=r, own=own: op(a, 1, i, s, r, include_self=own)
            for r in ("sum", "prod", "amax", "amin")
            for own in (True, False)
        ),
    ),
    case("scatter.value_reduce", (flags(4, 6), REPEATED), lambda op, a, i: op(a, 1, i, 3, reduce="multiply")),
    case("scatter_reduce.two", (f32(3), i64(2, low=0, high=3), f32(2)), lambda op, a, i, s: op(a, 0, i, s, "amax")),
]
BY_SLICE = tuple(
    lambda op, a, i, s, d=d, r=r, own=own: op(a, d, i, s, r, include_self=own)
    for d, r in ((1, "prod"), (-1, "mean"), (1, "amax"), (1, "amin"))
    for own in (True, False)
)
CASES += [
    case("index_reduce", (TABLE, i64(9, low=0, high=6), f32(4, 9)), *BY_SLICE),
    case("index_reduce", (i64(4, 6), i64(9, low=0, high=6, dtype=torch.int32), i64(4, 9)), *BY_SLICE),
    case(
        "index_reduce", (f32(4, 6, 3), i64(5, low=0, high=4), f32(5, 6, 3)), lambda op, a, i, s: op(a, 0, i, s, "amax")
    ),
]
CASES += [case("one_hot", (i64(*s, low=0, high=5),), lambda op, a: op(a, 5)) for s in ((), (2, 3))]
CASES += [case("one_hot", (i64(2, 3, low=0, high=5),), lambda op, a: op(a, num_classes=7))]

# --- at any axes, or by a mask ----------------------------------------------------------------------------------

CUBE, TWICE, ONCE = f32(4, 5, 6), torch.tensor([0, 2, -4]), torch.tensor([3, -3, 0])
MASK, BACK = flags(4, 5), flags(6)
for name in ("index_put", "_unsafe_index_put"):
    CASES += [
        case(
            name,
            (CUBE, ONCE, f32(3, 5, 6), f32(4, 5, 3)),
            lambda op, a, i, v, _w: op(a, [i], v),
            lambda op, a, i, _v, w: op(a, [None, None, i], w),
            lambda op, a, i, v, _w: op(a, [i, None, i.flip(0)], v[:, :, 0]),
            lambda op, a, i, v, _w: op(a, [None, i, i], v[0, :4, :3]),
            lambda op, a, i, v, _w: op(a, [i, i[:, None]], v[0, 0]),
            lambda op, a, i, v, _w: op(a, [i.int()], v[0, 0, 0]),
        ),
        case(
            name,
            (CUBE, TWICE, f32(3, 5, 6)),
            lambda op, a, i, v: op(a, [i], v, True),
            lambda op, a, i, v: op(a, [i], v[:1], accumulate=True),
        ),
        case(name, (i64(4), TWICE, i64(3)), lambda op, a, i, v: op(a, [i], v, True)),
        case(
            name,
            (CUBE, MASK, BACK, f32(6)),
            lambda op, a, m, _b, v: op(a, [m], v),
            lambda op, a, m, _b, v: op(a, [m], v[0]),
            lambda op, a, m, _b, v: op(a, [m], v[:1, None], True),
            lambda op, a, _m, b, v: op(a, [None, None, b], v[0], True),
        ),
    ]
