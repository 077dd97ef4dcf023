"""Cases of every op, as data. Torch-free; any target can be tested on them.

The reference, the native kernels and whatever comes later are tested over the same list: `CASES`.
"""

from __future__ import annotations

import numpy as np

from engine import dtypes
from engine.ops import TABLE
from tests.ops import cases_fused, cases_spatial
from tests.ops.case import (
    ANY,
    BITS,
    BROADCASTS,
    FEW,
    FLOATS,
    INTS,
    NUMBERS,
    SHAPES,
    SMALL_INTS,
    SPECIAL,
    Case,
    Maker,
    any_of,
    eighths,
    flags,
    given,
    integers,
    into,
    normal,
    pairs,
)

CASES: list[Case] = [*cases_spatial.CASES, *cases_fused.CASES]
case = into(CASES)


# --- pointwise --------------------------------------------------------------------------------------------------

UNARY = {
    **dict.fromkeys(("neg", "abs", "sign", "relu"), NUMBERS),
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh"), FLOATS),
    **dict.fromkeys(("sigmoid", "erf", "silu", "floor", "ceil", "round", "trunc", "isnan", "isinf"), FLOATS),
    **dict.fromkeys(("exp2", "log2", "log10", "tan", "asin", "acos", "atan", "sinh", "cosh"), FLOATS),
    **dict.fromkeys(("asinh", "acosh", "atanh", "erfc"), FLOATS),
    "logical_not": ANY,
    "bitwise_not": BITS,
}
for _op, _allowed in UNARY.items():
    for _dtype in _allowed:
        case(_op, _dtype, any_of(5, 13, dtype=_dtype))
    for _name, _shape in SHAPES.items():
        case(_op, _name, any_of(*_shape, dtype=_allowed[0]))
    if _allowed[0] == "float32":
        case(_op, "special", given(SPECIAL))
        case(_op, "special_float64", given(SPECIAL, "float64"))

for _form in ("none", "tanh"):
    case("gelu", f"{_form}_special", given(SPECIAL), approximate=_form)
    for _dtype in FLOATS:
        case("gelu", f"{_form}_{_dtype}", normal(5, 13, dtype=_dtype, scale=2), approximate=_form)
    for _name, _shape in SHAPES.items():
        case("gelu", f"{_form}_{_name}", normal(*_shape), approximate=_form)

for _from in ANY:
    for _to in ANY:
        # small non-negative values: what does not fit in the target has no defined result
        _make = {
            "float": lambda d: given([0.0, 0.4, 0.5, 1.5, 2.99, 100.0], d),
            "int": lambda d: given([0, 1, 2, 100], d),
            "bool": lambda d: given([False, True], d),
        }[dtypes.dtype(_from).kind]
        case("cast", f"{_from}_to_{_to}", _make(_from), dtype=_to)
case("cast", "negative", given([-2.7, -0.3, -1.0]), dtype="int32")
case("cast", "nan_is_true", given([np.nan, -0.0, np.inf]), dtype="bool")
case("cast", "overflow", given([1e39, -1e300, np.nan], "float64"), dtype="float32")
case("cast", "scalar", given(3), dtype="int64")
case("cast", "empty", normal(0, 2), dtype="float16")

ARITHMETIC = {
    **dict.fromkeys(("add", "mul", "maximum", "minimum"), ANY),
    "sub": NUMBERS,
    "div": FLOATS,
    **dict.fromkeys(("floor_div", "remainder", "fmod", "pow"), NUMBERS),
    **dict.fromkeys(("atan2", "copysign"), FLOATS),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"), ANY),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), BITS),
}
DIVIDES = ("floor_div", "remainder", "fmod")


def _second(op: str, shape: tuple[int, ...], dtype: str) -> Maker:
    """A second operand that an integer may be divided by, or raised to, where the op does so."""
    if dtypes.dtype(dtype).kind == "int" and op in (*DIVIDES, "pow"):
        return integers(*shape, low=1, high=4, dtype=dtype)
    return any_of(*shape, dtype=dtype)


for _op, _allowed in ARITHMETIC.items():
    for _dtype in _allowed:
        case(_op, _dtype, any_of(5, 13, dtype=_dtype), _second(_op, (5, 13), _dtype))
    for _name, (_a, _b) in BROADCASTS.items():
        case(_op, _name, any_of(*_a, dtype=_allowed[0]), _second(_op, _b, _allowed[0]))
    if _allowed[0] == "float32":
        case(_op, "special", *pairs(FEW, "float32"))
    if "int64" in _allowed:
        _nonzero = [v for v in SMALL_INTS if v or _op not in DIVIDES]
        case(_op, "signs", given([[v] for v in SMALL_INTS], "int32"), given([_nonzero], "int32"))
        if _op in DIVIDES:  # a quotient that does not fit wraps; the processor's own division would trap
            case(_op, "lowest_by_minus_one", given([-(2**31), -(2**31) + 1], "int32"), given(-1, "int32"))
        case(_op, "wraps", given([127, -128, 100], "int8"), given([1, 3, 100], "int8"))

for _op in ("shift_left", "shift_right"):
    for _dtype in INTS:
        case(_op, _dtype, any_of(5, 13, dtype=_dtype), integers(5, 13, low=0, high=9, dtype=_dtype))
    for _dtype in ("int8", "int64"):
        case(
            _op,
            f"widths_{_dtype}",
            given([[-9], [-1], [0], [1], [100]], _dtype),
            given([[-1, 0, 1, 6, 7, 8, 63, 64]], _dtype),
        )
    case(_op, "scalar", given(3, "int64"), given(2, "int64"))
    case(_op, "empty", integers(2, 0), integers(2, 1, low=0))

for _dtype in ANY:
    case("where", _dtype, flags(5, 13), any_of(5, 13, dtype=_dtype), any_of(5, 13, dtype=_dtype))
case("where", "broadcast", flags(4, 1), normal(3, 1, 7), normal(7))
case("where", "scalars", flags(4, 5), given(0.0), given(-np.inf))
case("where", "scalar_condition", given(True, "bool"), normal(3), normal(2, 1))
case("where", "not_taken", given([True, False], "bool"), given([1.0, np.nan]), given([np.nan, 2.0]))
case("where", "empty", flags(0, 3), normal(1, 3), normal(3))

# --- matmul -----------------------------------------------------------------------------------------------------

for _dtype in FLOATS:
    case("matmul", _dtype, normal(5, 7, dtype=_dtype), normal(7, 6, dtype=_dtype))
    case("linear", _dtype, normal(5, 7, dtype=_dtype), normal(6, 7, dtype=_dtype), normal(6, dtype=_dtype), None)
for _ta in (False, True):
    for _tb in (False, True):
        _a, _b = ((9, 17) if _ta else (17, 9)), ((33, 9) if _tb else (9, 33))
        _flags = {"transpose_a": _ta, "transpose_b": _tb}
        case("matmul", f"transposed_{_ta:d}{_tb:d}", normal(*_a), normal(*_b), alpha=0.125, **_flags)
        case("matmul", f"batched_{_ta:d}{_tb:d}", normal(2, 3, *_a), normal(3, *_b), **_flags)
for _label, _a, _b in (
    ("one_row", (1, 64), (64, 50)),
    ("one_column", (50, 64), (64, 1)),
    ("outer", (7, 1), (1, 9)),
    ("tiles", (70, 130), (130, 67)),
    ("broadcast_both", (2, 1, 4, 5), (3, 5, 6)),
    ("matrix_by_batch", (4, 5), (2, 2, 5, 3)),
    ("no_rows", (0, 5), (5, 3)),
    ("no_columns", (2, 5), (5, 0)),
    ("no_inner", (2, 3, 0), (2, 0, 4)),
    ("no_batch", (0, 3, 4), (4, 2)),
):
    case("matmul", _label, normal(*_a), normal(*_b))
case("matmul", "nan_and_inf", given([[np.nan, 1.0], [np.inf, 0.0], [1.0, 2.0]]), given([[1.0, 0.0], [2.0, 1.0]]))
case("matmul", "negative_alpha", normal(4, 4), normal(4, 4), alpha=-1.5)

for _activation in TABLE["linear"].attributes["activation"].choices:
    for _label, _bias, _residual in (("", False, False), ("_bias", True, False), ("_all", True, True)):
        case(
            "linear",
            _activation + _label,
            normal(3, 11, 19),
            normal(37, 19),
            normal(37) if _bias else None,
            normal(3, 11, 37) if _residual else None,
            activation=_activation,
        )
for _transposed in (True, False):
    for _label, _x, _n in (
        ("vector", (24,), 33),
        ("one_row", (1, 24), 33),
        ("one_output", (5, 24), 1),
        ("tiles", (2, 66, 130), 131),
        ("no_rows", (0, 6), 4),
        ("no_inputs", (3, 0), 4),
        ("no_outputs", (3, 4), 0),
    ):
        _weight = (_n, _x[-1]) if _transposed else (_x[-1], _n)
        case(
            "linear",
            f"{_label}_{_transposed:d}",
            normal(*_x),
            normal(*_weight),
            normal(_n),
            normal(*_x[:-1], _n),
            transpose_weight=_transposed,
            alpha=0.5,
        )
case("linear", "residual_only", normal(4, 5), normal(6, 5), None, normal(4, 6), activation="relu")
case("linear", "above_relu6", normal(4, 5, scale=9), normal(40, 5), None, None, activation="relu6")
case("linear", "nan_relu6", given([[np.nan, 1.0], [np.inf, 2.0]]), normal(3, 2), None, None, activation="relu6")
case("linear", "nan", given([[np.nan, 1.0], [1.0, 2.0]]), normal(3, 2), normal(3), None, activation="relu")
for _activation in TABLE["gated_linear"].attributes["activation"].choices:
    for _transposed in (True, False):
        _weight = (74, 19) if _transposed else (19, 74)
        _how = {"activation": _activation, "transpose_weight": _transposed}
        case("gated_linear", f"{_activation}_{_transposed:d}", normal(3, 11, 19), normal(*_weight), normal(74), **_how)
case("gated_linear", "no_bias", normal(5, 7), normal(12, 7), None)
case("gated_linear", "float64", normal(5, 7, dtype="float64"), normal(12, 7, dtype="float64"), None)
case("gated_linear", "vector", normal(24), normal(66, 24), normal(66))
case("gated_linear", "no_rows", normal(0, 6), normal(8, 6), None)
case("gated_linear", "no_columns", normal(3, 6), normal(0, 6), None)
case("gated_linear", "no_depth", normal(3, 0), normal(8, 0), normal(8))
case("gated_linear", "nan", given([[np.nan, 1.0], [1.0, 2.0]]), normal(6, 2), normal(6), activation="relu")

# --- attention --------------------------------------------------------------------------------------------------

_Q, _KV = (2, 4, 5, 8), (2, 4, 7, 8)
for _causal in (False, True):
    for _rows in ("zero", "nan"):
        _how = {"scale": 0.35, "causal": _causal, "masked_rows": _rows}
        _end = f"_{'causal' if _causal else 'full'}_{_rows}"
        case("attention", "plain" + _end, normal(*_Q), normal(*_KV), normal(*_KV), None, **_how)
        case("attention", "bool" + _end, normal(*_Q), normal(*_KV), normal(*_KV), flags(2, 1, 5, 7), **_how)
        case("attention", "added" + _end, normal(*_Q), normal(*_KV), normal(*_KV), normal(4, 5, 7), **_how)
        _gone = given([[[[False] * 7]], [[[True, False, True, True, False, True, False]]]], "bool")
        case("attention", "rows_gone" + _end, normal(*_Q), normal(*_KV), normal(*_KV), _gone, **_how)
        _minus = given([[-np.inf] * 7, [0.0] * 7, [0.5, -np.inf, 1, 2, 3, 4, -np.inf], [-np.inf] * 7, [50.0] * 7])
        case("attention", "minus_inf" + _end, normal(*_Q), normal(*_KV), normal(*_KV), _minus, **_how)
        case("attention", "grouped" + _end, normal(2, 6, 5, 8), normal(2, 2, 7, 8), normal(2, 2, 7, 3), None, **_how)
        case(
            "attention", "more_queries" + _end, normal(1, 2, 9, 4), normal(1, 2, 3, 4), normal(1, 2, 3, 4), None, **_how
        )
for _dtype in FLOATS:
    _three = [normal(*s, dtype=_dtype) for s in (_Q, _KV, _KV)]
    case("attention", _dtype, *_three, normal(1, 1, 1, 7, dtype=_dtype), scale=0.35)
for _queries in (1, 5):
    _kept = [normal(2, 2, 7, width, dtype="bfloat16") for width in (8, 6)]
    case("attention", f"kept_{_queries}", normal(2, 4, _queries, 8), *_kept, flags(2, 1, 1, 7), scale=0.35)
for _label, _q, _k, _v in (
    ("rank3", (4, 5, 8), (4, 7, 8), (4, 7, 6)),
    ("rank5", (2, 1, 4, 3, 8), (2, 1, 2, 7, 8), (2, 1, 2, 7, 5)),
    ("wide", (1, 2, 70, 67), (1, 2, 131, 67), (1, 2, 131, 35)),
    ("one_query", (3, 4, 1, 16), (3, 1, 40, 16), (3, 1, 40, 16)),
    ("one_query_of_many_keys", (1, 2, 1, 8), (1, 1, 1100, 8), (1, 1, 1100, 6)),
    ("no_queries", (2, 4, 0, 8), (2, 4, 7, 8), (2, 4, 7, 8)),
    ("no_batch", (0, 4, 5, 8), (0, 4, 7, 8), (0, 4, 7, 8)),
    ("no_width", (2, 2, 3, 0), (2, 2, 4, 0), (2, 2, 4, 5)),
):
    case("attention", _label, normal(*_q), normal(*_k), normal(*_v), None, scale=0.25, causal=_label == "wide")
    case("attention", f"{_label}_out", normal(*_q), normal(*_k), normal(*_v), None, scale=0.25, transpose_output=True)
for _rows in ("zero", "nan"):
    _q, _k, _v = normal(2, 2, 3, 4), normal(2, 2, 0, 4), normal(2, 2, 0, 5)
    case("attention", f"no_keys_{_rows}", _q, _k, _v, None, scale=1.0, masked_rows=_rows)
for _dtype in FLOATS:
    case("rope", _dtype, *(normal(*_s, dtype=_dtype) for _s in ((2, 3, 5, 8), (1, 1, 5, 8), (1, 1, 5, 8))))
case("rope", "own_angles", normal(2, 5, 6), normal(2, 5, 6), normal(6))
case("rope", "rank_1", normal(2), normal(2), normal(2))
case("rope", "special", given(SPECIAL[:24]), normal(24), normal(24))
case("rope", "empty", normal(2, 0, 4), normal(1, 4), normal(4))
_SCAN = ((2, 5, 3), (2, 5, 3), (3, 4), (2, 5, 4), (2, 5, 4))
for _dtype in FLOATS:
    _five, _rest = ([normal(*_s, dtype=_dtype) for _s in _all] for _all in (_SCAN, ((3,), (2, 5, 3), (3,))))
    case("selective_scan", _dtype, *_five, *_rest, softplus=True)
    case("selective_scan", f"{_dtype}_alone", *_five, None, None, None)
_five, _skip, _gate, _bias = [normal(*_s) for _s in _SCAN], normal(3), normal(2, 5, 3), normal(3)
case("selective_scan", "skip", *_five, _skip, None, None)
case("selective_scan", "gate", *_five, None, _gate, None)
case("selective_scan", "bias", *_five, None, None, _bias, softplus=True)
case(
    "selective_scan",
    "long",
    *(normal(1, 70, 37) for _ in range(2)),
    given(-np.linspace(0.01, 3, 37 * 16).reshape(37, 16)),  # states that grew would cancel
    *(normal(1, 70, 16) for _ in range(2)),
    normal(37),
    normal(1, 70, 37),
    normal(37),
    softplus=True,
)
case(
    "selective_scan",
    "large_steps",
    normal(1, 4, 2),
    given([[[19.9, 20.1], [25, -30], [100, -100], [0, 60]]]),
    given([[-1.0, -0.01], [-3, -0.0]]),
    normal(1, 4, 2),
    normal(1, 4, 2),
    None,
    None,
    None,
    softplus=True,
)
case(
    "selective_scan",
    "nan",
    given([[[1.0, 2], [np.nan, 3], [4, 5]]]),
    *(normal(*_s) for _s in ((1, 3, 2), (2, 1), (1, 3, 1), (1, 3, 1))),
    normal(2),
    None,
    None,
)
for _label, _n, _s, _d, _h in (
    ("no_batch", 0, 2, 3, 4),
    ("no_length", 2, 0, 3, 4),
    ("no_channels", 2, 3, 0, 4),
    ("no_states", 2, 3, 5, 0),
):
    _five = [normal(*shape) for shape in ((_n, _s, _d), (_n, _s, _d), (_d, _h), (_n, _s, _h), (_n, _s, _h))]
    case("selective_scan", _label, *_five, normal(_d), normal(_n, _s, _d), None, softplus=True)
case("attention", "scalar_mask", normal(*_Q), normal(*_KV), normal(*_KV), given(0.5), scale=0.3)
case("attention", "nan_query", given([[[np.nan, 1], [0, 1]]]), normal(1, 3, 2), normal(1, 3, 2), None, scale=1.0)
case("attention", "large", normal(*_Q, scale=40), normal(*_KV, scale=40), normal(*_KV), None, scale=1.0)

# --- norm -------------------------------------------------------------------------------------------------------

for _op, _operands in (("layer_norm", ("weight", "bias", None)), ("rms_norm", ("weight", None))):
    for _dtype in FLOATS:
        _affine = [_name and normal(33, dtype=_dtype) for _name in _operands]
        case(_op, _dtype, normal(4, 33, dtype=_dtype, scale=3), *_affine, axes=1, epsilon=1e-5)
    for _label, _shape, _axes in (
        ("vector", (19,), 1),
        ("two_axes", (3, 4, 9), 2),
        ("all_axes", (3, 4, 9), 3),
        ("one", (5, 1), 1),
        ("wide", (3, 2, 200), 1),
        ("no_rows", (0, 6), 1),
        ("no_columns", (3, 0), 1),
    ):
        _affine = [_name and normal(*_shape[-_axes:]) for _name in _operands]
        case(_op, _label, normal(*_shape), *_affine, axes=_axes, epsilon=1e-6)
        case(_op, f"{_label}_plain", normal(*_shape), *[None] * len(_operands), axes=_axes, epsilon=0.1)
    _rows = given([[1.0, np.nan, 2.0], [np.inf, 1.0, 2.0], [0.0, 0.0, 0.0]])
    case(_op, "special", _rows, *[None] * len(_operands), axes=1, epsilon=1e-5)
    case(_op, "offset", given(1e4 + np.arange(32.0).reshape(2, 16)), *[None] * len(_operands), axes=1, epsilon=1e-5)
    # Eighths below 8: their sums are exact in every type, so that rounding them or not makes no difference.
    for _label, _shape, _axes, _dtype in (
        *((f"sum_{_name}", (4, 33), 1, _name) for _name in FLOATS),
        ("sum_two_axes", (3, 4, 9), 2, "float32"),
        ("sum_no_columns", (3, 0), 1, "float32"),
    ):
        _affine = [normal(*_shape[-_axes:], dtype=_dtype) for _ in _operands[1:]]
        _x, _addend = eighths(*_shape, dtype=_dtype), eighths(*_shape, dtype=_dtype)
        case(_op, _label, _x, *_affine, _addend, axes=_axes, epsilon=1e-5)
    _addend = given([[1.0, 0.0, 2.0], [-np.inf, 1.0, 2.0], [np.nan, 0.0, 0.0]])
    case(_op, "sum_special", _rows, *[None] * len(_operands[1:]), _addend, axes=1, epsilon=1e-5)
case("layer_norm", "weight_only", normal(4, 7), normal(7), None, None, axes=1, epsilon=1e-5)
case("layer_norm", "bias_only", normal(4, 7), None, normal(7), None, axes=1, epsilon=1e-5)
case("layer_norm", "sum_only", eighths(4, 7), None, None, eighths(4, 7), axes=1, epsilon=1e-5)

for _dtype in FLOATS:
    _affine = [normal(12, dtype=_dtype), normal(12, dtype=_dtype)]
    case("group_norm", _dtype, normal(2, 12, 5, 7, dtype=_dtype, scale=3), *_affine, groups=4, epsilon=1e-5)
    _x = normal(2, 5, 7, 12, dtype=_dtype, scale=3)
    case("group_norm", f"last_{_dtype}", _x, *_affine, groups=4, epsilon=1e-5, channels_last=True)
for _label, _shape, _groups in (
    ("one_group", (2, 6, 17), 1),
    ("each_channel", (2, 6, 3, 3), 6),
    ("one_place", (3, 70, 1, 1), 5),
    ("odd_channels", (1, 105, 4), 35),
    ("features", (5, 9), 3),
    ("solid", (2, 4, 3, 4, 5), 2),
    ("one_element", (2, 1, 1), 1),
    ("wide", (1, 2, 70, 130), 1),
    ("no_images", (0, 4, 3), 2),
    ("no_places", (2, 4, 0), 2),
):
    for _last in (False, True):
        _x = normal(*(_shape[0], *_shape[2:], _shape[1]) if _last else _shape)
        _how = {"groups": _groups, "epsilon": 1e-3, "channels_last": _last}
        case("group_norm", f"{_label}_{_last}", _x, normal(_shape[1]), normal(_shape[1]), **_how)
        case("group_norm", f"{_label}_{_last}_plain", _x, None, None, **_how)
_images = np.array(
    [[[1.0, np.nan], [3.0, 4.0], [5.0, np.inf], [0.0, 1.0], [2.0, 2.0], [2.0, 2.0], [1.0, 3.0], [2.0, 7.0]]]
)
for _last in (False, True):
    _how = {"groups": 4, "channels_last": _last}
    _given = given(np.moveaxis(_images, 1, -1) if _last else _images)
    case("group_norm", f"special_{_last}", _given, None, None, epsilon=1e-5, **_how)
    case("group_norm", f"no_epsilon_{_last}", _given, None, normal(8), epsilon=0.0, **_how)
    case("group_norm", f"weight_only_{_last}", _given, normal(8), None, epsilon=0.1, **_how)
_x = given(1e4 + np.arange(32.0).reshape(1, 4, 8))
case("group_norm", "offset", _x, None, None, groups=2, epsilon=1e-5)

for _op in ("softmax", "log_softmax"):
    for _dtype in FLOATS:
        case(_op, _dtype, normal(4, 33, dtype=_dtype, scale=3), axis=1)
    for _axis in range(3):
        case(_op, f"axis{_axis}", normal(3, 5, 17), axis=_axis)
    for _label, _shape, _axis in (
        ("vector", (19,), 0),
        ("one", (5, 1), 1),
        ("no_rows", (0, 6), 1),
        ("none", (3, 0), 1),
    ):
        case(_op, _label, normal(*_shape), axis=_axis)
    case(_op, "large", normal(3, 40, scale=1e4), axis=1)
    _inf = np.inf
    case(_op, "special", given([[_inf, 1, 2], [-_inf, 1, 2], [-_inf] * 3, [np.nan, 1, 2], [_inf, _inf, 0]]), axis=1)

# --- reduce -----------------------------------------------------------------------------------------------------

REDUCTIONS = {
    **dict.fromkeys(("sum", "prod", "amax", "amin"), NUMBERS),
    "mean": FLOATS,
    "var": FLOATS,
    **dict.fromkeys(("any", "all"), ANY),
}
for _op, _allowed in REDUCTIONS.items():
    for _dtype in _allowed:
        case(_op, _dtype, any_of(3, 11, dtype=_dtype), axes=(1,))
    for _keep in (False, True):
        for _axes in ((), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
            _label = f"axes_{''.join(map(str, _axes)) or 'none'}_{_keep:d}"
            case(_op, _label, normal(4, 5, 7), axes=_axes, keepdims=_keep)
    case(_op, "scalar", normal(), axes=())
    case(_op, "no_results", normal(0, 3), axes=(1,))
    case(_op, "special", given([FEW, FEW[1:] + FEW[1:2], FEW[3:] * 1 + FEW[3:6]]), axes=(1,))
    if _op not in ("amax", "amin"):
        case(_op, "nothing", normal(3, 0), axes=(1,))
for _correction in (0.0, 1.0, 2.0, 2.5):
    case("var", f"correction_{_correction}", normal(3, 2), axes=(1,), correction=_correction)
case("var", "one", normal(3, 1), axes=(1,), correction=1.0)
case("var", "offset", given(1e4 + np.arange(32.0).reshape(2, 16)), axes=(1,))
case("any", "zeros", given([[0.0, -0.0], [0.0, np.nan]]), axes=(1,))
case("sum", "wraps", given([[100, 100], [-100, -100]], "int8"), axes=(1,))

for _op in ("argmax", "argmin"):
    for _dtype in NUMBERS:
        case(_op, _dtype, any_of(3, 11, dtype=_dtype), axis=1)
    for _axis in range(3):
        for _keep in (False, True):
            case(_op, f"axis{_axis}_{_keep:d}", normal(4, 5, 7), axis=_axis, keepdims=_keep)
    case(_op, "ties", given([[1, 3, 3, 1], [2, 2, 2, 2]]), axis=1)
    case(_op, "nan", given([[1.0, np.nan, 5.0, np.nan], [np.inf, -np.inf, np.inf, -np.inf]]), axis=1)
    case(_op, "no_results", normal(0, 3), axis=1)

for _op in ("cumsum", "cumprod"):
    for _dtype in NUMBERS:
        case(_op, _dtype, any_of(3, 11, dtype=_dtype), axis=1)
    for _axis in range(3):
        case(_op, f"axis{_axis}", normal(4, 5, 7), axis=_axis)
    case(_op, "nothing", normal(3, 0), axis=1)
    case(_op, "special", given([1.0, np.inf, 2.0, -np.inf, 3.0]), axis=0)
case("cumprod", "wraps", given([100, 100, 3], "int8"), axis=0)

# --- order ------------------------------------------------------------------------------------------------------

for _down in (False, True):
    for _dtype in ANY:  # integers and flags repeat, so that the order of equals shows
        case("argsort", f"{_dtype}_{_down:d}", any_of(3, 11, dtype=_dtype), axis=1, count=11, descending=_down)
    for _axis in range(3):
        _count = (4, 5, 7)[_axis]
        case("argsort", f"axis{_axis}_{_down:d}", normal(4, 5, 7), axis=_axis, count=_count, descending=_down)
    case("argsort", f"special_{_down:d}", given([FEW, [0.0, -0.0] * 5]), axis=1, count=10, descending=_down)
    for _count in (0, 1, 12, 13, 99):  # a heap selects up to an eighth of them
        case("argsort", f"first{_count}_{_down:d}", integers(2, 99), axis=1, count=_count, descending=_down)
    case("argsort", f"ends_{_down:d}", given([3, -(2**63), 2**63 - 1, 0], "int64"), axis=0, count=4, descending=_down)
    case("argsort", f"first_of_special_{_down:d}", given(SPECIAL), axis=0, count=3, descending=_down)
case("argsort", "one", normal(3, 1), axis=1, count=1)
case("argsort", "nothing", normal(3, 0), axis=1, count=0)
case("argsort", "no_lines", normal(0, 3), axis=1, count=2)

# --- shape ------------------------------------------------------------------------------------------------------

for _dtype in ANY:
    case("reshape", _dtype, any_of(4, 6, dtype=_dtype), shape=(3, 8))
    case("permute", _dtype, any_of(4, 6, dtype=_dtype), axes_order=(1, 0))
    case("expand", _dtype, any_of(4, 1, dtype=_dtype), shape=(4, 6))
    case("slice", _dtype, any_of(4, 6, dtype=_dtype), axis=1, start=1, stop=5)
    case("concat", _dtype, any_of(4, 6, dtype=_dtype), any_of(4, 3, dtype=_dtype), axis=1)
    case("copy", _dtype, any_of(4, 6, dtype=_dtype))
    case("flip", _dtype, any_of(4, 37, dtype=_dtype), axes=(1,))
    case("windows", _dtype, any_of(4, 6, dtype=_dtype), axis=1, size=3, step=2)
for _label, _from_shape, _to_shape in (
    ("to_scalar", (1, 1), ()),
    ("from_scalar", (), (1, 1, 1)),
    ("flatten", (2, 3, 4), (24,)),
    ("ones", (2, 1, 3), (1, 6, 1)),
    ("empty", (0, 3), (5, 0, 2)),
    ("rank8", (256,), (2,) * 8),
):
    case("reshape", _label, normal(*_from_shape), shape=_to_shape)
for _order in ((2, 0, 1), (0, 2, 1), (2, 1, 0), (0, 1, 2)):
    case("permute", f"order_{''.join(map(str, _order))}", normal(3, 17, 5), axes_order=_order)
case("permute", "scalar", normal(), axes_order=())
case("permute", "rank4", normal(2, 5, 3, 4), axes_order=(0, 2, 1, 3))
case("permute", "empty", normal(2, 0, 3), axes_order=(1, 2, 0))
for _label, _from_shape, _to_shape in (
    ("front", (3,), (2, 4, 3)),
    ("scalar", (), (2, 3)),
    ("middle", (2, 1, 3), (2, 5, 3)),
    ("to_empty", (2, 1), (2, 0)),
    ("same", (2, 3), (2, 3)),
):
    case("expand", _label, normal(*_from_shape), shape=_to_shape)
for _label, _axis, _start, _stop, _step in (
    ("rows", 0, 1, 3, 1),
    ("columns", 1, 2, 9, 1),
    ("steps", 1, 0, 9, 2),
    ("late_steps", 1, 3, 9, 4),
    ("whole", 1, 0, 9, 1),
    ("nothing", 1, 4, 4, 1),
    ("nothing_at_end", 1, 9, 9, 3),
    ("long_step", 1, 2, 9, 100),
):
    case("slice", _label, normal(4, 9), axis=_axis, start=_start, stop=_stop, step=_step)
case("slice", "middle_axis", normal(2, 7, 3), axis=1, start=1, stop=6, step=2)
case("concat", "one", normal(3, 4), axis=0)
case("concat", "three", normal(2, 3, 4), normal(2, 1, 4), normal(2, 5, 4), axis=1)
case("concat", "front", normal(2, 3), normal(4, 3), axis=0)
case("concat", "empty_part", normal(2, 3), normal(2, 0), normal(2, 2), axis=1)
case("concat", "empty_all", normal(0, 3), normal(0, 2), axis=1)
case("copy", "scalar", normal())
for _axes in ((), (0,), (1,), (2,), (0, 2), (0, 1, 2)):
    case("flip", f"axes_{''.join(map(str, _axes))}", normal(3, 17, 5), axes=_axes)
case("flip", "empty", normal(2, 0, 3), axes=(0, 1))
case("flip", "scalar", normal(), axes=())
case("windows", "apart", normal(2, 11, 3), axis=1, size=2, step=4)
case("windows", "whole", normal(4, 3), axis=0, size=4, step=7)
case("windows", "of_nothing", normal(3, 4), axis=0, size=0, step=2)
case("windows", "empty", normal(0, 4), axis=1, size=2)
case("copy", "empty", normal(0, 3))

# --- create -----------------------------------------------------------------------------------------------------

for _dtype in ANY:
    case("full", _dtype, shape=(3, 4), value=1.0, dtype=_dtype)
    for _op in ("tril", "triu"):
        case(_op, _dtype, any_of(4, 6, dtype=_dtype), diagonal=0)
case("full", "minus_inf", shape=(2, 2), value=-np.inf, dtype="float32")
case("full", "nan", shape=(2,), value=np.nan, dtype="float64")
case("full", "scalar", shape=(), value=2.5, dtype="float32")
case("full", "empty", shape=(0, 2), value=2.5, dtype="float32")
case("full", "cut", shape=(2,), value=-2.7, dtype="int32")
for _dtype in NUMBERS:
    case("arange", _dtype, start=1.0, step=2.0, length=9, dtype=_dtype)
case("arange", "default", length=5, dtype="int64")
case("arange", "fraction", start=-0.5, step=0.25, length=7, dtype="float32")
case("arange", "down", start=3.0, step=-1.0, length=7, dtype="int64")
case("arange", "empty", length=0, dtype="int64")
for _op in ("tril", "triu"):
    for _diagonal in (-9, -1, 1, 9):
        case(_op, f"diagonal_{_diagonal}", normal(4, 6), diagonal=_diagonal)
    case(_op, "batched", normal(2, 3, 5, 5), diagonal=0)
    case(_op, "empty", normal(2, 0, 5), diagonal=0)
    case(_op, "special", given([[np.nan, np.inf], [np.nan, np.inf]]), diagonal=0)

# --- index ------------------------------------------------------------------------------------------------------

for _dtype in ANY:
    case("embedding", _dtype, any_of(7, 5, dtype=_dtype), integers(4, 3, low=0, high=7))
    case("gather", _dtype, any_of(4, 6, dtype=_dtype), integers(4, 3, low=0, high=6), axis=1)
    case("index_select", _dtype, any_of(4, 6, dtype=_dtype), integers(9, low=0, high=6), axis=1)
    case("index", _dtype, any_of(4, 6, dtype=_dtype), integers(9, low=-6, high=6), axes=(1,))
_ids32 = integers(3, low=0, high=4, dtype="int32")
case("embedding", "indices_int32", normal(4, 5), _ids32)
case("embedding", "scalar_id", normal(4, 5), integers(low=0, high=4))
case("embedding", "no_ids", normal(4, 5), integers(0, 2, low=0, high=4))
case("embedding", "no_table", normal(0, 5), integers(0, low=0, high=1))
case("embedding", "vector", normal(4), integers(2, 3, low=0, high=4))
case("embedding", "rank3", normal(4, 2, 3), integers(2, 3, low=0, high=4))
case("gather", "indices_int32", normal(4), _ids32, axis=0)
case("gather", "front", normal(4, 6), integers(7, 5, low=0, high=4), axis=0)
case("gather", "smaller", normal(4, 6, 3), integers(2, 9, 1, low=0, high=6), axis=1)
case("gather", "empty", normal(4, 6), integers(4, 0, low=0, high=6), axis=1)
case("index_select", "indices_int32", normal(4, 6), _ids32, axis=0)
case("index_select", "middle", normal(3, 5, 4), integers(7, low=0, high=5), axis=1)
case("index_select", "empty", normal(3, 5), integers(0, low=0, high=5), axis=1)
_three, _column, _row = integers(3, low=-4, high=4), integers(3, 1, low=-4, high=4), integers(1, 2, low=-4, high=4)
_three_of_two = integers(3, low=-2, high=2)
case("index", "two_axes", normal(4, 4, 3), _three, _three, axes=(0, 1))
case("index", "last_two", normal(3, 4, 4), _column, _row, axes=(1, 2))
case("index", "apart", normal(4, 5, 4), _column, _row, axes=(0, 2))
case("index", "apart_middle", normal(2, 4, 5, 4), _three, _three, axes=(1, 3))
case("index", "scalar_index", normal(3, 4, 5), integers(low=-4, high=4), axes=(1,))
case("index", "scalar_apart", normal(4, 3, 4), integers(low=-4, high=4), _three, axes=(0, 2))
case("index", "matrix", normal(3, 4, 5), integers(2, 3, low=-4, high=4), axes=(1,))
case("index", "indices_int32", normal(4, 6), _ids32, axes=(0,))
case("index", "empty", normal(4, 6), integers(0, low=0, high=4), axes=(0,))

# --- write ------------------------------------------------------------------------------------------------------

for _reduce in TABLE["scatter"].attributes["reduce"].choices:
    for _dtype in ANY if _reduce in ("none", "sum") else NUMBERS:
        _places = integers(4, 3, low=0, high=6)
        case("scatter", f"{_reduce}_{_dtype}", any_of(4, 6, dtype=_dtype), _places, any_of(4, 3, dtype=_dtype), axis=1,
             reduce=_reduce)  # fmt: skip
    case(
        "scatter", f"{_reduce}_front", normal(4, 6), integers(9, 5, low=0, high=4), normal(9, 7), axis=0, reduce=_reduce
    )
    case("scatter", f"{_reduce}_smaller", normal(4, 6, 3), integers(2, 9, 1, low=0, high=6), normal(3, 9, 2), axis=1,
         reduce=_reduce)  # fmt: skip
    case("scatter", f"{_reduce}_special", given(FEW), given([*range(9, -1, -1), 3, 4], "int64"),
         given([np.nan, *FEW, 1.0]), axis=0, reduce=_reduce)  # fmt: skip
case("scatter", "indices_int32", normal(4), _ids32, normal(3), axis=0)
case("scatter", "no_indices", normal(4, 6), integers(4, 0, low=0, high=6), normal(4, 2), axis=1)
case("scatter", "empty", normal(0, 6), integers(0, 2, low=0, high=6), normal(0, 2), axis=1)
case("scatter", "large", normal(70, 130), integers(70, 200, low=0, high=130), normal(70, 200), axis=1, reduce="sum")
for _add in (False, True):
    for _dtype in ANY:
        _places = integers(9, low=-6, high=6) if _add else given([-1, 0, 3, 1], "int64")
        case("index_put", f"{_dtype}_{_add:d}", any_of(4, 6, dtype=_dtype), any_of(4, 9 if _add else 4, dtype=_dtype),
             _places, axes=(1,), accumulate=_add)  # fmt: skip
    for _label, _x, _values, _indices, _axes in (
        ("two_axes", normal(4, 4, 3), normal(3, 3), [_three, _three], (0, 1)),
        ("last_two", normal(3, 4, 4), normal(3, 3, 2), [_column, _row], (1, 2)),
        ("apart", normal(4, 5, 4), normal(3, 2, 5), [_column, _row], (0, 2)),
        ("scalar_apart", normal(4, 3, 4), normal(3), [integers(low=-4, high=4), _three], (0, 2)),
        ("one_value", normal(4, 6), normal(), [_ids32], (0,)),
        ("row_of_values", normal(4, 6), normal(1, 6), [_ids32], (0,)),
        ("no_indices", normal(4, 6), normal(0, 6), [integers(0, low=0, high=4)], (0,)),
        ("empty", normal(4, 0), normal(3, 0), [_ids32], (0,)),
        ("more_axes_than_most", normal(*[2] * 8), normal(3), [_three_of_two] * 8, tuple(range(8))),
    ):
        case("index_put", f"{_label}_{_add:d}", _x, _values, *_indices, axes=_axes, accumulate=_add)

for _label, _x in (
    *((name, normal(*shape)) for name, shape in SHAPES.items() if shape),
    *((f"special_{n}", given([[float(n), -3.5, 1e-45, 0.0], [*SPECIAL[n : n + 3], 1.0]])) for n in range(3)),
    ("tiny", normal(4, 19, scale=1e-38)),
    ("zeros", given([[0.0] * 5, [1.0] * 5])),
):
    case("quantize_rows", _label, _x)
for _dtype in FLOATS:
    case("quantize", _dtype, normal(5, 13, dtype=_dtype), scale=0.02)
    case("dequantize", _dtype, integers(5, 13, low=-128, high=128, dtype="int8"), scale=0.02, dtype=_dtype)
for _to, _zero in (("int8", -128), ("int8", 127), ("int8", 5), ("uint8", 0), ("uint8", 255), ("uint8", 128)):
    case("quantize", f"special_{_to}_{_zero}", given(SPECIAL), scale=0.5, zero=_zero, dtype=_to)
    case("dequantize", f"ends_{_to}_{_zero}", given([*range(0, 128, 9), 127], _to), scale=1e-3, zero=_zero)
for _label, _shape in SHAPES.items():
    case("quantize", _label, normal(*_shape), scale=0.01, dtype="uint8", zero=100)
    case("dequantize", _label, integers(*_shape, low=0, high=256, dtype="uint8"), scale=0.01, zero=100)
