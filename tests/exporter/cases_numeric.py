"""Linear algebra, activations, normalisations, attention and reductions: every keyword."""

import torch

from tests.exporter.cases import case, f32, flags, i64, positive, special

NAN = float("nan")
CASES = []

# --- linear algebra ---------------------------------------------------------------------------------------------

SHAPES = [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4))]
SHAPES += [((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((2, 0), (0, 4)), ((0, 3), (3, 4))]
CASES += [case("matmul", (f32(*a), f32(*b))) for a, b in SHAPES]
CASES += [
    case("mm", (f32(2, 3), f32(3, 4))),
    case("bmm", (f32(5, 2, 3), f32(5, 3, 4))),
    case("mv", (f32(2, 3), f32(3))),
    case("dot", (f32(3), f32(3))),
    case("outer", (f32(3), f32(4))),
    case("outer", (i64(3), f32(4))),
    case("linear", (f32(2, 5, 3), f32(4, 3), f32(4)), lambda op, x, w, b: op(x, w, b), lambda op, x, w, _b: op(x, w)),
    case("linear", (f32(3), f32(4, 3), f32(4)), lambda op, x, w, b: op(x, w, b), lambda op, x, w, _b: op(x, w)),
    case("linear", (f32(2, 3), f32(3))),
    *(
        case(
            "bilinear",
            (f32(*rows, 3), f32(*rows, 2), f32(4, 3, 2), f32(4)),
            lambda op, a, b, w, bias: op(a, b, w, bias),
            lambda op, a, b, w, _bias: op(a, b, w),
        )
        for rows in ((5,), (2, 5), ())
    ),
    case("linear", (f32(3), f32(3), f32())),
    case("linear", (f32(2, 3), f32(4, 3), f32(1))),
]
SCALED = (
    lambda op, c, a, b: op(c, a, b),
    lambda op, c, a, b: op(c, a, b, beta=0.5),
    lambda op, c, a, b: op(c, a, b, alpha=-2),
    lambda op, c, a, b: op(c, a, b, beta=3, alpha=0.25),
    lambda op, c, a, b: op(c * NAN, a, b, beta=0),
)
CASES += [case("addmm", (f32(*c), f32(2, 3), f32(3, 4)), *SCALED) for c in ((4,), (2, 4), (2, 1), (1,), ())]
CASES += [case("addmv", (f32(*c), f32(2, 3), f32(3)), *SCALED) for c in ((2,), (1,), ())]
CASES += [case("baddbmm", (f32(*c), f32(5, 2, 3), f32(5, 3, 4)), *SCALED) for c in ((5, 2, 4), (4,), (2, 1))]
CASES += [case("addbmm", (f32(*c), f32(5, 2, 3), f32(5, 3, 4)), *SCALED) for c in ((2, 4), (4,))]

# --- activations and what returns its argument ------------------------------------------------------------------

CASES += [case("gelu", (f32(9) * 2,), *(lambda op, a, k=k: op(a, approximate=k) for k in ("none", "tanh")))]
CASES += [
    case(
        "rrelu_with_noise_functional",
        (f32(2, 9), f32(2, 9)),
        lambda op, a, n: op(a, n)[0],
        lambda op, a, n: op(a, n, lower=-0.5, upper=2.0, training=False, generator=None)[0],
    )
]
for name in ("softmax.int", "log_softmax.int"):
    CASES += [
        case(
            name,
            (f32(2, 3, 4),),
            lambda op, a: op(a, -1),
            lambda op, a: op(a, 0),
            lambda op, a: op(a, 1, torch.float64),
        ),
        case(name, (f32(4, dtype=torch.bfloat16),), lambda op, a: op(a, 0, dtype=torch.float32)),
        case(name, (i64(4),), lambda op, a: op(a, 0, torch.float32)),
        case(name, (f32(),), lambda op, a: op(a, -1)),
        case(name, (torch.full((2, 3), -float("inf")),), lambda op, a: op(a, 1)),
    ]
CASES += [
    case(n, (f32(2, 3),), lambda op, a: op(a, -2, False), lambda op, a: op(a, 1, False))
    for n in ("_softmax", "_log_softmax")
]
for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
    CASES += [case(name, (f32(2, 3),), lambda op, a: op(a, 0.5, False), lambda op, a: op(a, 0.0, True))]
CASES += [case(n, (f32(2, 3),)) for n in ("detach", "detach_", "alias", "lift_fresh_copy", "contiguous", "clone")]
FORMATS = tuple(lambda op, a, f=f: op(a, memory_format=f) for f in (torch.contiguous_format, torch.channels_last))
CASES += [case(n, (f32(2, 3, 4, 5),), *FORMATS) for n in ("contiguous", "clone")]

# --- normalisations ---------------------------------------------------------------------------------------------

NORM = (f32(2, 3, 4), f32(4), f32(4))
BF16 = (f32(2, 4, dtype=torch.bfloat16), f32(4), f32(4))
CASES += [
    case(
        "layer_norm",
        NORM,
        lambda op, x, w, b: op(x, [4], w, b),
        lambda op, x, w, _b: op(x, [4], w, None, 0.1),
        lambda op, x, _w, b: op(x, [4], None, b, 1e-3, False),
        lambda op, x, _w, _b: op(x, [3, 4]),
    ),
    case("layer_norm", BF16, lambda op, x, w, b: op(x, [4], w, b)),
    case(
        "native_layer_norm",
        NORM,
        lambda op, x, w, b: op(x, [4], w, b, 0.1)[0],
        lambda op, x, _w, _b: op(x, [3, 4], None, None, 1e-5)[0],
    ),
    case("rms_norm", NORM[:2], lambda op, x, w: op(x, [4], w, 0.1), lambda op, x, _w: op(x, [3, 4])),
    case("rms_norm", (f32(3, 4) * 1e-3,), lambda op, x: op(x, [4])),
    case("rms_norm", (f32(3, 4, dtype=torch.float64) * 1e-8,), lambda op, x: op(x, [4])),
    case("rms_norm", (f32(3, 4, dtype=torch.bfloat16) * 1e-3,), lambda op, x: op(x, [4])),
    case(
        "_fused_rms_norm", NORM[:2], lambda op, x, w: op(x, [4], w, 0.1)[0], lambda op, x, _w: op(x, [4], None, None)[0]
    ),
]

# --- the engine's own operators -----------------------------------------------------------------------------------

SCAN = (f32(2, 3, 5), f32(2, 3, 5), f32(3, 4), f32(2, 4, 5), f32(2, 4, 5), f32(3), f32(2, 3, 5), f32(3))
MIXED = tuple(t.bfloat16() if t.dim() == 3 else t for t in SCAN)
CASES += [
    case(
        "engine::selective_scan",
        SCAN,
        lambda op, *five_and_others: op(*five_and_others[:5]),
        lambda op, *all_: op(*all_, True),
        lambda op, *all_: op(*all_[:5], None, all_[6], None, True),
        lambda op, *all_: op(*all_[:6], delta_bias=all_[7]),
    ),
    case("engine::selective_scan", MIXED, lambda op, *all_: op(*all_, True)),
]

# --- attention --------------------------------------------------------------------------------------------------

QUERY, KEY, VALUE = f32(2, 4, 3, 8), f32(2, 4, 5, 8), f32(2, 4, 5, 6)
SHARED = flags(3, 5)
SHARED[1] = False  # a row that sees no key
ADDED = torch.zeros(2, 1, 3, 5).masked_fill(~SHARED, -float("inf")) + f32(2, 1, 3, 5)
CASES += [
    case(
        "scaled_dot_product_attention",
        (QUERY, KEY, VALUE, SHARED, ADDED),
        lambda op, q, k, v, _m, _a: op(q, k, v),
        lambda op, q, k, v, m, _a: op(q, k, v, m),
        lambda op, q, k, v, _m, a: op(q, k, v, a),
        lambda op, q, k, v, _m, _a: op(q, k, v, None, 0.0, True),
        lambda op, q, k, v, _m, _a: op(k, q, v[:, :, :3], is_causal=True),  # more queries than keys
        lambda op, q, k, v, _m, _a: op(q[..., :0], k[..., :0], v),
        lambda op, q, k, v, _m, _a: op(q, k, v, scale=0.7),
        lambda op, q, k, v, _m, a: op(q, k, v, a, scale=1.0),
        lambda op, q, k, v, _m, _a: op(q, k[:, :2], v[:, :2], enable_gqa=True),
        lambda op, q, k, v, _m, _a: op(q, k[:, :1], v[:, :1], enable_gqa=True),
        lambda op, q, k, v, _m, _a: op(q, k, v, enable_gqa=True),
    ),
    case(  # a mask and is_causal: torch refuses both together in some of its kernels, in this one both count
        "scaled_dot_product_attention",
        (f32(2, 4, 3, 8), KEY, KEY, torch.eye(3, 5, dtype=torch.bool) | flags(3, 5)),
        lambda op, q, k, v, m: op(q, k, v, m, is_causal=True),
    ),
    case("scaled_dot_product_attention", (f32(3, 8), f32(5, 8), f32(5, 8))),
    case("scaled_dot_product_attention", (f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), SHARED)),
    case("scaled_dot_product_attention", (f32(2, 2, 3, 8), f32(1, 2, 5, 8), f32(2, 1, 5, 8))),
    case("scaled_dot_product_attention", (f32(2, 1, 3, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 8))),
    case("scaled_dot_product_attention", (f32(2, 2, 3, 8), f32(2, 1, 5, 8), f32(2, 1, 5, 8))),
    case("scaled_dot_product_attention", (f32(2, 2, 2, 3, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 8))),
    case("scaled_dot_product_attention", (QUERY, KEY[:, :, :0], VALUE[:, :, :0])),
]

# --- reductions -------------------------------------------------------------------------------------------------

TENSORS = (f32(2, 3, 4), i64(2, 3, 4), f32(), f32(2, 0, 4))
DIMS = (
    lambda op, a: op(a, None),
    lambda op, a: op(a, []),
    lambda op, a: op(a, [-1]),
    lambda op, a: op(a, [0], True),
    lambda op, a: op(a, [-1, 0], keepdim=True),
)
RANK_0 = (lambda op, a: op(a, None), lambda op, a: op(a, [-1]), lambda op, a: op(a, [0], True))


def _dims(tensor):
    return DIMS if tensor.dim() else RANK_0


DOUBLE = (lambda op, a: op(a, [0], False, dtype=torch.float64),)
CASES += [case("sum.dim_IntList", (t,), *_dims(t), *DOUBLE) for t in (*TENSORS, flags(2, 3, 4))]
CASES += [
    case("sum", (t,), lambda op, a: op(a), lambda op, a: op(a, dtype=torch.float64)) for t in (*TENSORS, flags(4))
]
CASES += [case("mean.dim", (t,), *_dims(t), *DOUBLE) for t in (TENSORS[0], *TENSORS[2:])]
CASES += [case("mean.dim", (i64(3, 4),), *DOUBLE)]
CASES += [
    case("mean", (t,), lambda op, a: op(a), lambda op, a: op(a, dtype=torch.float64))
    for t in (TENSORS[0], *TENSORS[2:])
]
ONE = (lambda op, a: op(a, -1), lambda op, a: op(a, 0, True))
CASES += [case("prod.dim_int", (t,), *ONE, *(lambda op, a: op(a, 0, dtype=torch.float64),)) for t in TENSORS]
CASES += [case("prod", (t,), lambda op, a: op(a), lambda op, a: op(a, dtype=torch.float64)) for t in TENSORS]
CASES += [
    case(name, (t,), lambda op, a: op(a, -1), lambda op, a: op(a, 0, dtype=torch.float64))
    for name in ("cumsum", "cumprod")
    for t in (*TENSORS, flags(3, 4))
]
CASES += [
    case("diff", (t,), lambda op, a: op(a), lambda op, a: op(a, 2, 0), lambda op, a: op(a, 0), lambda op, a: op(a, 9))
    for t in (f32(3, 4), i64(3, 4), flags(3, 4), f32(3, 0))
]
CASES += [
    case(
        "diff",
        (f32(3, 4), f32(3, 2), i64(3, 1)),
        lambda op, a, b, _: op(a, 1, -1, b),
        lambda op, a, b, c: op(a, 1, 1, c, b),
        lambda op, a, b, _: op(a, 2, 1, None, b),
        lambda op, a, b, c: op(a, 0, 1, b, c),
        lambda op, a, _, c: op(c, 1, 1, None, a),
    )
]
for name in ("any", "all"):
    mostly = f32(2, 3, 4)
    mostly[0] = 0.0 if name == "any" else NAN
    sparse = (mostly, i64(2, 3, low=0, high=2), flags(2, 3), i64(2, 3, low=0, high=2, dtype=torch.uint8), f32())
    CASES += [case(name, (t,)) for t in sparse]
    CASES += [case(f"{name}.dim", (t,), *ONE) for t in sparse]
    CASES += [case(f"{name}.dims", (t,), *_dims(t)) for t in sparse]

DISTINCT = torch.randperm(24, generator=torch.Generator().manual_seed(1)).reshape(2, 3, 4)
WITH_NAN = DISTINCT.float()
WITH_NAN[1, 1, 2] = NAN
EXTREMES = (WITH_NAN, DISTINCT, f32(), i64(2, 3, 4, low=0, high=2), flags(3, 4))
for name in ("max", "min"):
    CASES += [
        case(f"a{name}", (t,), *(RANK_0[1:] if t.dim() == 0 else DIMS[1:] if t.dim() == 3 else DIMS[2:4]))
        for t in EXTREMES
    ]
    CASES += [case(name, (t,)) for t in EXTREMES]
    CASES += [case(f"{name}.dim", (t,), *ONE) for t in EXTREMES[:3]]
    CASES += [
        case(f"arg{name}", (t,), lambda op, a: op(a), *ONE, lambda op, a: op(a, None, True)) for t in EXTREMES[:4]
    ]

for name in ("var", "std", "var_mean", "std_mean"):
    for tensor in (f32(2, 3, 4), positive(1, 4) + 1e3):
        CASES += [
            case(name, (tensor,), lambda op, a: op(a), lambda op, a: op(a, False)),
            case(
                f"{name}.dim",
                (tensor,),
                lambda op, a: op(a, [-1]),
                lambda op, a: op(a, [0, -1], False, True),
                lambda op, a: op(a, None, True),
            ),
            case(
                f"{name}.correction",
                (tensor,),
                lambda op, a: op(a),
                lambda op, a: op(a, [-1], correction=0),
                lambda op, a: op(a, [1], correction=2, keepdim=True),
                lambda op, a: op(a, [], correction=0.5),
                lambda op, a: op(a, [0], correction=5),
            ),
        ]
    CASES += [case(f"{name}.correction", (f32(),), lambda op, a: op(a, correction=0))]
CASES += [case("amax", (special()[1:],))]
CASES += [
    case(
        "_cdist_forward",
        (a, b),
        *(lambda op, a, b, p=p: op(a, b, p, None) for p in (2.0, 1.0, 0.0, 3.0, float("inf"))),
        lambda op, a, b: op(a, b, 2.0, 2),
    )
    for a, b in ((f32(4, 3), f32(5, 3)), (f32(2, 4, 3), f32(2, 5, 3)))
]
CASES += [
    case(
        "linalg_vector_norm",
        (t,),
        *(lambda op, a, p=p: op(a, p, [-1], True) for p in (2, 1, 0, 3, 0.5, float("inf"), -float("inf"))),
        lambda op, a: op(a),
        lambda op, a: op(a, 2, [0, 1]),
        lambda op, a: op(a, 2, None, True, dtype=torch.float64),
    )
    for t in (f32(3, 4), f32(2, 3, 4))
]
