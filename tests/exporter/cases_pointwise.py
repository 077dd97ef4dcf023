"""Elementwise overloads: every keyword, mixed element types, broadcasting, numbers in place of tensors."""

import torch

from engine.exporter.aten.pointwise import (
    ARITHMETIC,
    COMPARISONS,
    IN_RESULT_TYPE,
    LOGICAL,
    PRODUCTS,
    ROUNDINGS,
    SHIFTS,
    TESTS,
)
from tests.exporter.cases import case, f32, flags, i64, nonzero, positive, special

ONLY_FLOAT = {"silu"}
ONLY_INTEGER = {"bitwise_not"}
CASES = []

# --- one operand ------------------------------------------------------------------------------------------------

for name in IN_RESULT_TYPE:
    numbers = (
        (i64(3, 4),) if name in ONLY_INTEGER else (special(), f32(3, 4), i64(3, 4))[: 2 if name in ONLY_FLOAT else 3]
    )
    CASES += [case(name, (tensor,)) for tensor in numbers]
    CASES += [case(name, (torch.tensor(2.0),))] if name not in ONLY_INTEGER else [case(name, (flags(5),))]
CASES += [case(name, (tensor,)) for name in (*ROUNDINGS, *TESTS) for tensor in (special(), i64(4))]
CASES += [case("logical_not", (tensor,)) for tensor in (special(), i64(9, low=-1, high=2), flags(5))]
CASES += [case("square", (tensor,)) for tensor in (special(), i64(4))]

# --- two operands -----------------------------------------------------------------------------------------------

BITS = ("bitwise", "__")
DIVISIONS = {"floor_div", "remainder", "fmod"}
NUMBER_FIRST = ".Scalar_Tensor"


def _operands(name, op):
    """Pairs that cover broadcasting, mixed types and integers, as far as the overload takes them."""
    whole = nonzero(3, 4) if op in DIVISIONS else i64(3, 4)
    if name.startswith(BITS):
        pairs = [(i64(3, 4), i64(4)), (flags(3, 4), flags(3, 1)), (i64(3), i64(3, dtype=torch.int32))]
        number = 6
    else:
        pairs = [
            (f32(3, 4), f32(4)),
            (special(), f32(12)),
            (f32(3, 1), whole),
            (whole, whole),
            (f32(2), torch.tensor(3)),
        ]
        pairs += [(i64(3), torch.tensor(1.5)), (f32(2, dtype=torch.float64), f32(2))]
        number = 2.5
    if name.endswith(NUMBER_FIRST):
        return [(number, pairs[0][0]), (3, pairs[-3][1])]
    if name.endswith(".Scalar"):
        return [(pairs[0][0], number), (whole, 3)]
    if name in ("mul.Tensor", "div.Tensor"):  # Python numbers arrive in a tensor's place
        pairs += [(f32(3), 2), (i64(3), 2.5)]
    return pairs


def _call(op, *operands):
    return op(*operands)


for name, op in {**PRODUCTS, "div.Tensor": "div", "div.Scalar": "div", **ARITHMETIC}.items():
    CASES += [case(name, pair) for pair in _operands(name, op)]
WIDTHS = torch.tensor([0, 1, 5, 31, 63, 64, -1])
for name in SHIFTS:
    if name.endswith(NUMBER_FIRST):
        CASES += [case(name, (-37, WIDTHS))]
    elif name.endswith("Scalar"):
        CASES += [case(name, (i64(9),), *(lambda op, a, b=b: op(a, b) for b in (0, 3, 64)))]
    else:
        CASES += [case(name, (i64(9, 1), WIDTHS)), case(name, (i64(9, dtype=torch.int32), torch.tensor(4)))]
CASES += [case(name, (a, b)) for name in ("fmax", "fmin") for a, b in ((special(), f32(12)), (f32(12), special()))]
CASES += [case(name, (i64(3, 4), f32(4))) for name in ("fmax", "fmin")]
CASES += [case(name, (i64(3, 4), i64(4))) for name in ("fmax", "fmin")]
for name in COMPARISONS:
    ties = i64(4, 5, low=0, high=3)
    CASES += [
        case(f"{name}.Tensor", (ties, i64(5, low=0, high=3))),
        case(f"{name}.Tensor", (ties, ties + 0.5)),
        case(f"{name}.Tensor", (special(), f32(12))),
        case(f"{name}.Tensor", (special(), special())),
        case(f"{name}.Tensor", (flags(4), i64(4, low=0, high=2))),
        case(f"{name}.Scalar", (ties,), lambda op, a: op(a, 1), lambda op, a: op(a, 0.5)),
        case(
            f"{name}.Scalar",
            (i64(5, low=0, high=9, dtype=torch.uint8),),
            lambda op, a: op(a, 3),
            lambda op, a: op(a, -1),
        ),
        case(f"{name}.Scalar", (flags(4),), lambda op, a: op(a, True), lambda op, a: op(a, 2)),
    ]
for name in LOGICAL:
    CASES += [case(name, (i64(3, 9, low=-1, high=2), special()[:9])), case(name, (flags(4), flags(4)))]

ALPHA = (lambda op, a, b: op(a, b), lambda op, a, b: op(a, b, alpha=3))
FRACTION = (lambda op, a, b: op(a, b, alpha=-0.5),)
for name in ("add", "sub", "rsub"):
    CASES += [
        case(f"{name}.Tensor", (f32(3, 4), f32(4)), *ALPHA, *FRACTION),
        case(f"{name}.Tensor", (i64(3, 4), i64(4)), *ALPHA),
        case(f"{name}.Tensor", (i64(3, 4), f32(3, 1)), *ALPHA, *FRACTION),
        case(
            f"{name}.Scalar",
            (f32(3, 4),),
            lambda op, a: op(a, 2),
            lambda op, a: op(a, 2.5, 3),
            lambda op, a: op(a, 1, 0.5),
        ),
        case(f"{name}.Scalar", (i64(4),), lambda op, a: op(a, 2, 3), lambda op, a: op(a, 2.5, 2)),
    ]
CASES += [
    case("add.Tensor", (flags(6), flags(6))),
    case("add.Tensor", (i64(5, low=0, high=9, dtype=torch.uint8),), lambda op, a: op(a, -1), lambda op, a: op(a, 300)),
    case("add.Tensor", (f32(4, dtype=torch.bfloat16), f32(4)), *ALPHA),
    case(
        "mul.Tensor",
        (f32(4, dtype=torch.float16), torch.tensor(1.5)),
    ),
    case("mul.Tensor", (flags(6), flags(6))),
    case("div.Tensor", (i64(4), torch.tensor([2, 0, -3, 0]))),
]

MODES = tuple(lambda op, a, b, mode=mode: op(a, b, rounding_mode=mode) for mode in (None, "floor", "trunc"))
CASES += [
    case("div.Tensor_mode", (f32(3, 4), f32(4)), *MODES),
    case("div.Tensor_mode", (i64(30), nonzero(30)), *MODES),
    case("div.Tensor_mode", (i64(30), f32(30)), *MODES),
    case(
        "div.Scalar_mode",
        (i64(30),),
        *(lambda op, a, m=m: op(a, -3, rounding_mode=m) for m in (None, "floor", "trunc")),
    ),
    case(
        "div.Scalar_mode",
        (f32(30),),
        *(lambda op, a, m=m: op(a, 0.3, rounding_mode=m) for m in (None, "floor", "trunc")),
    ),
    case("pow.Tensor_Tensor", (positive(3, 4), f32(4))),
    case("pow.Tensor_Tensor", (i64(3, 4), i64(4, low=0, high=4))),
    case("pow.Tensor_Tensor", (i64(3), f32(3).abs())),
    case(
        "pow.Tensor_Scalar", (special(),), *(lambda op, a, e=e: op(a, e) for e in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5))
    ),
    case("pow.Tensor_Scalar", (i64(5),), lambda op, a: op(a, 3), lambda op, a: op(a, 0.5)),
    case("pow.Scalar", (f32(4),), lambda op, a: op(2, a), lambda op, a: op(0.5, a)),
    case("pow.Scalar", (i64(4, low=0, high=5),), lambda op, a: op(-3, a)),
]

# --- limits, choice, casts --------------------------------------------------------------------------------------

BOUNDS = (
    lambda op, a: op(a, -0.5, 0.5),
    lambda op, a: op(a, min=0),
    lambda op, a: op(a, max=0.25),
    lambda op, a: op(a, 2, 1),
)
low, high = f32(3, 1), f32(4)
CASES += [
    *(case("clamp", (tensor,), *BOUNDS) for tensor in (special(), f32(3, 4), i64(5))),
    case("clamp.Tensor", (f32(3, 4), low, high), lambda op, a, lo, hi: op(a, lo, hi), lambda op, a, lo, _hi: op(a, lo)),
    case("clamp.Tensor", (i64(3, 4), low, high), lambda op, a, _l, h: op(a, max=h)),
    case("clamp_min", (special(),), lambda op, a: op(a, 0), lambda op, a: op(a, 0.75)),
    case("clamp_max", (special(),), lambda op, a: op(a, 0), lambda op, a: op(a, 0.75)),
    case("clamp_min.Tensor", (f32(3, 4), high)),
    case("clamp_max.Tensor", (f32(3, 4), high)),
    case("hardtanh", (special(),), lambda op, a: op(a), lambda op, a: op(a, -2, 0.5)),
    *(
        case(
            "nan_to_num",
            (tensor,),
            lambda op, a: op(a),
            lambda op, a: op(a, 2.0, posinf=1.0),
            lambda op, a: op(a, neginf=-3),
        )
        for tensor in (special(), special().to(torch.bfloat16), i64(5))
    ),
    case("relu6", (special() * 4,)),
    case("where.self", (flags(3, 4), f32(4), f32(3, 1))),
    case("where.self", (flags(3, 4), i64(4), f32(3, 1))),
    case("where.self", (flags(4), f32(4), torch.tensor(2, dtype=torch.float64))),
    case(
        "where.ScalarOther", (flags(4), f32(4)), lambda op, c, a: op(c, a, -1), lambda op, c, a: op(c, a, float("nan"))
    ),
    case("where.ScalarSelf", (flags(4), i64(4)), lambda op, c, a: op(c, 2.5, a), lambda op, c, a: op(c, 7, a)),
    case(
        "where.Scalar",
        (flags(4),),
        lambda op, c: op(c, 1, 2),
        lambda op, c: op(c, 1.5, 2),
        lambda op, c: op(c, True, False),
    ),
    case(
        "masked_fill.Scalar",
        (f32(3, 4), flags(4)),
        lambda op, a, m: op(a, m, float("-inf")),
        lambda op, a, m: op(a, m, 2),
    ),
    case("masked_fill.Scalar", (i64(3), flags(2, 3)), lambda op, a, m: op(a, m, 5)),
    case("masked_fill.Tensor", (f32(3, 4), flags(3, 1), torch.tensor(2.5))),
    case("masked_fill.Tensor", (f32(3), flags(3), torch.tensor(2))),
]
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
CAST = tuple(lambda op, a, d=d: op(a, dtype=d) for d in DTYPES)
CASES += [
    *(
        case("to.dtype", (tensor,), *CAST, lambda op, a: op(a, torch.int16, True, True))
        for tensor in (positive(5) * 9, i64(5, low=0))
    ),
    case(
        "to.device",
        (f32(3),),
        lambda op, a: op(a, "cpu", torch.float64),
        lambda op, a: op(a, torch.device("cpu"), torch.float32),
    ),
    case("to.dtype_layout", (f32(3),), *CAST, lambda op, a: op(a, layout=torch.strided, device="cpu")),
    case("_to_copy", (f32(3),), *CAST, lambda op, a: op(a, memory_format=torch.preserve_format)),
    case("to.other", (f32(3), i64(2)), lambda op, a, b: op(a, b), lambda op, a, b: op(b, a, False, True)),
    case("type_as", (f32(3), i64(2)), lambda op, a, b: op(a, b), lambda op, a, b: op(b, a)),
]
