"""Views, permutations, parts, joins, repeats, writes into parts, creation and indexing: every keyword."""

import torch

from tests.exporter.cases import case, f32, flags, i64

CUBE = (f32(2, 3, 4),)
RANK_0 = (f32(),)
EMPTY = (f32(2, 0, 4),)
CASES = []

# --- the same elements under another shape ----------------------------------------------------------------------

TO = (
    lambda op, a: op(a, [6, -1]),
    lambda op, a: op(a, [4, 1, 6]),
    lambda op, a: op(a, [-1]),
    lambda op, a: op(a, [2, 3, 4]),
)
CASES += [case(name, CUBE, *TO) for name in ("view", "_unsafe_view", "reshape")]
CASES += [case(name, RANK_0, lambda op, a: op(a, [1, 1]), lambda op, a: op(a, [])) for name in ("view", "reshape")]
CASES += [
    case("reshape", (f32(4, 6).t(),), *TO[:2]),
    case("reshape", EMPTY, lambda op, a: op(a, [0, 5]), lambda op, a: op(a, [-1, 3])),
]
CASES += [case(name, (f32(2, 6), f32(3, 4))) for name in ("view_as", "reshape_as")]
CASES += [
    case(
        "flatten.using_ints",
        CUBE,
        lambda op, a: op(a),
        lambda op, a: op(a, 1),
        lambda op, a: op(a, -2, -1),
        lambda op, a: op(a, 0, 1),
        lambda op, a: op(a, 1, 1),
    ),
    case("flatten.using_ints", RANK_0),
    case(
        "unflatten.int",
        (f32(2, 12),),
        lambda op, a: op(a, 1, [3, 4]),
        lambda op, a: op(a, -1, [2, -1, 3]),
        lambda op, a: op(a, 0, [1, 2]),
    ),
]
THIN = (f32(1, 3, 1, 4),)
CASES += [
    case("squeeze", THIN),
    case("squeeze.dim", THIN, lambda op, a: op(a, 0), lambda op, a: op(a, 1), lambda op, a: op(a, -2)),
    case("squeeze.dims", THIN, lambda op, a: op(a, [0, 2]), lambda op, a: op(a, [-2, 1]), lambda op, a: op(a, [])),
    case("squeeze.dim", RANK_0, lambda op, a: op(a, 0)),
    case(
        "unsqueeze",
        CUBE,
        lambda op, a: op(a, 0),
        lambda op, a: op(a, 3),
        lambda op, a: op(a, -1),
        lambda op, a: op(a, -4),
    ),
    case("unsqueeze", RANK_0, lambda op, a: op(a, 0)),
]

# --- another order of axes --------------------------------------------------------------------------------------

SWAPS = (lambda op, a: op(a, 0, 1), lambda op, a: op(a, -1, 0), lambda op, a: op(a, 1, 1))
CASES += [case(name, CUBE, *SWAPS) for name in ("transpose.int", "swapaxes", "movedim.int")]
CASES += [case(name, RANK_0, lambda op, a: op(a, 0, -1)) for name in ("transpose.int", "movedim.int")]
CASES += [case("t", (f32(*shape),)) for shape in ((), (3,), (3, 4))]
CASES += [case("numpy_T", (f32(*shape),)) for shape in ((), (3, 4), (2, 3, 4))]
CASES += [
    case("mT", CUBE),
    case(
        "permute",
        CUBE,
        lambda op, a: op(a, [2, 0, 1]),
        lambda op, a: op(a, [-1, -2, -3]),
        lambda op, a: op(a, [0, 1, 2]),
    ),
    case("permute", RANK_0, lambda op, a: op(a, [])),
    case(
        "movedim.intlist",
        CUBE,
        lambda op, a: op(a, [0, 2], [2, 0]),
        lambda op, a: op(a, [0, 1], [-1, 0]),
        lambda op, a: op(a, [-1], [1]),
    ),
]

# --- repetition -------------------------------------------------------------------------------------------------

CASES += [
    case(
        "expand",
        (f32(1, 3),),
        lambda op, a: op(a, [4, 3]),
        lambda op, a: op(a, [2, -1, -1]),
        lambda op, a: op(a, [0, 3]),
        lambda op, a: op(a, [-1, 3], implicit=True),
    ),
    case("expand", RANK_0, lambda op, a: op(a, [2, 2])),
    case("expand_as", (f32(1, 3), f32(2, 4, 3))),
    case(
        "repeat",
        (f32(2, 3),),
        lambda op, a: op(a, [2, 1]),
        lambda op, a: op(a, [3, 2]),
        lambda op, a: op(a, [4, 1, 2]),
        lambda op, a: op(a, [0, 1]),
    ),
    case("repeat", RANK_0, lambda op, a: op(a, [3]), lambda op, a: op(a, [])),
    case("tile", (f32(2, 3),), lambda op, a: op(a, [2]), lambda op, a: op(a, [3, 2]), lambda op, a: op(a, [2, 1, 1])),
]

# --- parts ------------------------------------------------------------------------------------------------------

END = 2**63 - 1
SLICES = [(0, 1), (1, 1, 3), (2, -3, -1), (-1, None, END, 2), (0, -5, 9), (2, 3, 1), (1, 2), (2, 1, None, 3), (0,)]
CASES += [
    case("slice.Tensor", (f32(5, 4, 6),), *(lambda op, a, s=s: op(a, *s) for s in SLICES)),
    case("narrow", CUBE, lambda op, a: op(a, 2, 1, 2), lambda op, a: op(a, -2, -2, 1), lambda op, a: op(a, 0, 2, 0)),
    case("select.int", CUBE, lambda op, a: op(a, 0, 1), lambda op, a: op(a, -1, -2), lambda op, a: op(a, 1, 0)),
    case("unbind.int", CUBE, lambda op, a: op(a), lambda op, a: op(a, -1), lambda op, a: op(a, 1)[1:]),
    case(
        "chunk",
        (f32(5, 7),),
        lambda op, a: op(a, 2),
        lambda op, a: op(a, 3, -1),
        lambda op, a: op(a, 9, 0),
        lambda op, a: op(a, 1),
    ),
    case("chunk", EMPTY, lambda op, a: op(a, 3, 1)),
    case(
        "split.Tensor",
        (f32(5, 7),),
        lambda op, a: op(a, 2),
        lambda op, a: op(a, 7, -1),
        lambda op, a: op(a, 3, 1),
        lambda op, a: op(a, 9),
    ),
    case("split.Tensor", EMPTY, lambda op, a: op(a, 3, 1), lambda op, a: op(a, 0, 1)),
    case("split_with_sizes", (f32(5, 7),), lambda op, a: op(a, [2, 3]), lambda op, a: op(a, [1, 0, 6], -1)),
    case("split.sizes", (f32(5, 7),), lambda op, a: op(a, [2, 3]), lambda op, a: op(a, [1, 0, 6], -1)),
]

CASES += [
    case("flip", CUBE, lambda op, a: op(a, [0]), lambda op, a: op(a, [-1, 1]), lambda op, a: op(a, [])),
    case("flip", EMPTY, lambda op, a: op(a, [0, 1])),
    case("flip", RANK_0, lambda op, a: op(a, [0])),
    case(
        "diagonal",
        CUBE,
        lambda op, a: op(a),
        lambda op, a: op(a, 1),
        lambda op, a: op(a, -1, 1, 2),
        lambda op, a: op(a, 2, -1, 0),
        lambda op, a: op(a, 9),
        lambda op, a: op(a, -1, dim1=2, dim2=1),
    ),
    case("unfold", CUBE, lambda op, a: op(a, 2, 2, 1), lambda op, a: op(a, -2, 2, 3), lambda op, a: op(a, 0, 0, 1)),
    case("unfold", RANK_0, lambda op, a: op(a, 0, 1, 1)),
    case(
        "im2col",
        (f32(2, 3, 7, 5),),
        lambda op, a: op(a, [2, 2], [1, 1], [0, 0], [1, 1]),
        lambda op, a: op(a, [3, 2], [2, 1], [1, 2], [1, 3]),
        lambda op, a: op(a[0], [2, 1], [1, 1], [0, 1], [2, 2]),
    ),
    case("col2im", (f32(1, 8, 9),), lambda op, a: op(a, [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])),
    case("col2im", (f32(2, 12, 15),), lambda op, a: op(a, [7, 5], [3, 2], [2, 1], [1, 2], [1, 3])),
    case("col2im", (f32(2, 15, 12),), lambda op, a: op(a, [8, 6], [3, 5], [1, 1], [0, 1], [2, 1])),
    case("col2im", (f32(6, 12),), lambda op, a: op(a, [7, 4], [3, 1], [1, 1], [0, 0], [2, 1])),
]

# --- joins ------------------------------------------------------------------------------------------------------

LISTS = (lambda op, a, b: op([a, b]), lambda op, a, b: op([a, b, a], -1), lambda op, a, _b: op([a], 1))
CASES += [case(name, (f32(2, 3), other), *LISTS) for name in ("cat", "stack") for other in (f32(2, 3), i64(2, 3))]
CASES += [
    case("cat", (f32(2, 3), f32(0), f32(2, 1)), lambda op, a, e, b: op([a, e, b], 1), lambda op, _a, e, _b: op([e, e])),
    case("stack", (f32(), f32()), lambda op, a, b: op([a, b])),
    case(
        "roll",
        (f32(3, 4),),
        lambda op, a: op(a, [1], [0]),
        lambda op, a: op(a, [-1, 5], [0, -1]),
        lambda op, a: op(a, [3]),
        lambda op, a: op(a, [4], [1]),
    ),
    case("roll", EMPTY, lambda op, a: op(a, [1], [1])),
]

# --- a tensor with a part replaced ------------------------------------------------------------------------------

CASES += [
    case(
        "slice_scatter",
        (f32(5, 6), f32(2, 6), f32(5, 3), i64(2, 6)),
        lambda op, a, r, _c, _i: op(a, r, 0, 1, 3),
        lambda op, a, _r, c, _i: op(a, c, 1, 0, None, 2),
        lambda op, a, _r, c, _i: op(a, c, -1, -5, END, 2),
        lambda op, a, r, _c, _i: op(a, r, start=-2),
        lambda op, a, r, _c, _i: op(a, r, end=2),
        lambda op, a, _r, _c, i: op(a, i, 0, 2, 4),
        lambda op, a, r, _c, _i: op(a, r[:0], 0, 3, 3, 2),
        lambda op, a, r, _c, _i: op(a, r[:0], 0, 3, 3),
        lambda op, a, _r, _c, _i: op(a, a * 2),
    ),
    case(
        "select_scatter",
        (f32(3, 4), f32(4), f32(3)),
        lambda op, a, r, _c: op(a, r, 0, 1),
        lambda op, a, _r, c: op(a, c, -1, -1),
    ),
    case("copy", (f32(2, 3), i64(3)), lambda op, a, b: op(a, b), lambda op, a, b: op(a, b, True)),
    case("fill.Scalar", (f32(2, 3),), lambda op, a: op(a, 2.5)),
    case("fill.Tensor", (i64(2, 3), torch.tensor(2.5))),
    case("zero", (i64(2, 3),)),
]

# --- creation ---------------------------------------------------------------------------------------------------

KEYWORDS = {"layout": torch.strided, "device": torch.device("cpu"), "pin_memory": False}
FLOATS = (f32(2, 3),)
CASES += [
    case(
        "full",
        FLOATS,
        lambda op, _a: op([2, 3], 1.5),
        lambda op, _a: op([], 7),
        lambda op, _a: op([2], True, dtype=torch.float64, **KEYWORDS),
    ),
    case(
        "scalar_tensor",
        FLOATS,
        lambda op, _a: op(1.5),
        lambda op, _a: op(2),
        lambda op, _a: op(3, dtype=torch.int64, **KEYWORDS),
    ),
    case("full_like", FLOATS, lambda op, a: op(a, 2), lambda op, a: op(a, 2, dtype=torch.int64, **KEYWORDS)),
    case("new_full", FLOATS, lambda op, a: op(a, [4], 2), lambda op, a: op(a, [], 2, dtype=torch.bool, **KEYWORDS)),
    case("full", FLOATS, lambda op, _a: op([0, 2], float("-inf")), lambda op, _a: op([2], float("nan"))),
]
for name in ("zeros", "ones"):
    CASES += [
        case(name, FLOATS, lambda op, _a: op([2, 3]), lambda op, _a: op([], dtype=torch.bool, **KEYWORDS)),
        case(
            f"{name}_like",
            FLOATS,
            lambda op, a: op(a),
            lambda op, a: op(a, dtype=torch.int32, memory_format=torch.contiguous_format, **KEYWORDS),
        ),
        case(f"new_{name}", FLOATS, lambda op, a: op(a, [4]), lambda op, a: op(a, [], dtype=torch.int64, **KEYWORDS)),
    ]
# What lies in uninitialised memory is undefined: all of it is written over.
for name, *arguments in (
    ("empty.memory_format", [2, 3]),
    ("empty_strided", [2, 3], [3, 1]),
    ("empty_permuted", [2, 3], [1, 0]),
):
    CASES += [
        case(
            name,
            FLOATS,
            lambda op, _a, given=arguments: op(*given).fill_(2),
            lambda op, _a, given=arguments: op(*given, dtype=torch.int32, **KEYWORDS).fill_(2),
        )
    ]
for name, *arguments in (("empty_like",), ("new_empty", [4]), ("new_empty_strided", [2, 3], [3, 1])):
    CASES += [
        case(
            name,
            FLOATS,
            lambda op, a, given=arguments: op(a, *given).fill_(2),
            lambda op, a, given=arguments: op(a, *given, dtype=torch.int32, **KEYWORDS).fill_(2),
        )
    ]
CASES += [
    case(
        "arange",
        FLOATS,
        lambda op, _a: op(5),
        lambda op, _a: op(4.5),
        lambda op, _a: op(3, dtype=torch.float64, **KEYWORDS),
        lambda op, _a: op(0),
    ),
    case(
        "arange.start",
        FLOATS,
        lambda op, _a: op(2, 5),
        lambda op, _a: op(-1.5, 2),
        lambda op, _a: op(1, 4, dtype=torch.int32),
    ),
    case(
        "arange.start_step",
        FLOATS,
        lambda op, _a: op(2, 9, 3),
        lambda op, _a: op(5, -1, -2),
        lambda op, _a: op(0, 1, 0.1),
        lambda op, _a: op(1, 2, dtype=torch.int64),
        lambda op, _a: op(1, 2, 0.3, dtype=torch.float64),
    ),
]
DIAGONALS = tuple(lambda op, a, d=d: op(a, d) for d in (0, 1, -2, 9))
CASES += [case(name, (tensor,), *DIAGONALS) for name in ("tril", "triu") for tensor in (f32(2, 3, 4), flags(4, 4))]

# --- indexing ---------------------------------------------------------------------------------------------------

IDS = i64(2, 5, low=0, high=6)
CASES += [
    case(
        "embedding",
        (f32(6, 4), IDS),
        lambda op, w, i: op(w, i),
        lambda op, w, i: op(w, i, 2),
        lambda op, w, i: op(w, i, -1, True, True),
    ),
    case("embedding", (f32(6, 4), torch.tensor(3))),
    case("embedding", (f32(6, 4), IDS.int())),
    case(
        "gather",
        (f32(4, 3), i64(2, 3, low=0, high=3)),
        lambda op, a, i: op(a, 0, i),
        lambda op, a, i: op(a, -1, i, sparse_grad=True),
    ),
    case("gather", (f32(), torch.tensor([0, 0])), lambda op, a, i: op(a, 0, i)),
    case("gather", (f32(3), torch.tensor(1)), lambda op, a, i: op(a, 0, i)),
    case(
        "index_select", (f32(4, 3), i64(5, low=0, high=3)), lambda op, a, i: op(a, 0, i), lambda op, a, i: op(a, -1, i)
    ),
    case("index_select", (f32(4, 3), torch.tensor(2)), lambda op, a, i: op(a, 1, i)),
    case("index_select", (f32(), torch.tensor([0])), lambda op, a, i: op(a, 0, i)),
    case(
        "index.Tensor",
        (f32(4, 5, 6), i64(3, low=-4, high=4), i64(2, 3, low=0, high=4)),
        lambda op, a, i, _j: op(a, [i]),
        lambda op, a, i, _j: op(a, [None, i]),
        lambda op, a, i, j: op(a, [i, j]),
        lambda op, a, i, j: op(a, [i, None, j]),
        lambda op, a, i, j: op(a, [None, j, i]),
        lambda op, a, i, j: op(a, [i, j, i]),
        lambda op, a, i, _j: op(a, [None, None, i.to(torch.int32)]),
    ),
    case("index.Tensor", (f32(4, 5), torch.tensor(2)), lambda op, a, i: op(a, [i]), lambda op, a, i: op(a, [None, i])),
]
