"""Cases of ops that passes make of several, for the list in `cases.py`."""

from __future__ import annotations

import numpy as np

from engine.ops import TABLE
from tests.ops.case import (
    FEW,
    Case,
    eighths,
    flags,
    given,
    integers,
    into,
    normal,
)

CASES: list[Case] = []
case = into(CASES)

CHAIN = (("mul", 0, 1), ("add", 3, 2), ("relu", 4), ("mul", 5, 0))
MASKED = (("where", 0, 1, 2), ("neg", 3), ("exp", 4), ("sub", 4, 5))
ALL_UNARY = ("abs", "sqrt", "tanh", "sigmoid", "erf", "silu", "gelu", "gelu_tanh", "neg", "exp", "rsqrt", "reciprocal")
_word, _type, _ids = eighths(9, 19), eighths(2, 19), integers(3, 5, low=0, high=9)
_types, _shared = integers(3, 5, low=0, high=2), integers(1, 5, low=0, high=2)
_table, _none, _wide = [_word, _ids], [None, None], normal(19)
for _norm in ("layer_norm", "rms_norm"):
    _affine = [normal(19), normal(19) if _norm == "layer_norm" else None]
    for _label, _second, _third, _rest in (
        ("one_table", _none, _none, _affine),
        ("two_tables", [_type, _types], _none, _affine),
        ("three_tables", [_type, _types], [_type, _shared], _affine),
        ("table_and_rows", [_type, _types], [eighths(1, 5, 19), None], _affine),
        ("rows", [eighths(3, 5, 19), None], [eighths(19), None], _none),
        ("more_rows_than_ids", [eighths(2, 3, 5, 19), None], _none, _affine),
    ):
        case("embedding_norm", f"{_norm}_{_label}", *_table, *_second, *_third, *_rest, norm=_norm, epsilon=1e-5)
    _rows = [eighths(5, 19), None]
    case("embedding_norm", f"{_norm}_scalar_id", _word, integers(low=0, high=9), *_rows, *_none, *_none, norm=_norm,
         epsilon=0.1)  # fmt: skip
    _ids32 = integers(3, low=0, high=9, dtype="int32")
    case("embedding_norm", f"{_norm}_int32", _word, _ids32, *_none, *_none, *_none, norm=_norm, epsilon=0.1)
    _broken = given([[1.0, np.nan, 2.0], [np.inf, 1.0, 2.0], [3.0, 4.0, 6.0]])
    _all = given([0, 1, 2, 2], "int64")
    _plus = [given([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, -np.inf]]), None]
    case("embedding_norm", f"{_norm}_special", _broken, _all, *_plus, *_none, *_none, norm=_norm, epsilon=1e-5)
    case("embedding_norm", f"{_norm}_no_ids", _word, integers(0, 2, low=0, high=9), *_none, *_none, *_none, norm=_norm,
         epsilon=0.1)  # fmt: skip
    case("embedding_norm", f"{_norm}_no_columns", normal(9, 0), _ids, *_none, *_none, *_none, norm=_norm, epsilon=0.1)

_padded = {"low": (1, 0), "high": (0, 1), "dilation": (1, 1)}
for _label, _x, _kernel, _how in (
    ("plain", (1, 5, 6, 3), (3, 3), {"stride": (1, 1), **_padded}),
    ("strided", (2, 9, 8, 3), (3, 5), {"stride": (2, 3), **_padded}),
    ("dilated", (1, 9, 8, 4), (3, 2), {"stride": (1, 2), "low": (2, 3), "high": (3, 2), "dilation": (2, 3)}),
    ("only_padding", (1, 1, 2, 2), (2, 2), {"stride": (2, 2), "low": (2, 2), "high": (2, 2), "dilation": (1, 1)}),
    ("apart", (1, 9, 8, 2), (1, 2), {"stride": (4, 3), **_padded}),
    ("no_batch", (0, 5, 6, 3), (3, 3), {"stride": (1, 1), **_padded}),
):
    case("expand_depthwise", _label, normal(*_x), normal(19, _x[3]), normal(19), normal(19, 1, *_kernel), normal(19),
         expand_activation="relu6", activation="relu", **_how)  # fmt: skip
for _activation in TABLE["expand_depthwise"].attributes["activation"].choices:
    case("expand_depthwise", _activation, normal(1, 4, 5, 3), normal(40, 3), None, normal(40, 1, 2, 2), None,
         stride=(1, 1), expand_activation=_activation, activation=_activation, **_padded)  # fmt: skip

MORE_UNARY = ("sin", "cos", "expm1", "log1p", "sigmoid", "log", "round", "sign", "floor", "ceil", "trunc")
case("pointwise", "chain", normal(5, 13), normal(), normal(13), program=CHAIN)
case("pointwise", "columns", normal(4, 19), normal(4, 1), normal(19), program=CHAIN)
case("pointwise", "scalars", normal(), normal(), normal(), program=CHAIN)
case("pointwise", "empty", normal(3, 0), normal(3, 1), normal(), program=CHAIN)
case("pointwise", "longer_than_a_run", normal(2, 1031), normal(), normal(1031), program=CHAIN)
case("pointwise", "masked", flags(5, 13), normal(5, 13), normal(), program=MASKED)
case("pointwise", "masked_rows", flags(13), normal(5, 13), given(-np.inf), program=MASKED)
case("pointwise", "special", given(FEW), given(2.0), given(-1.0), program=CHAIN)
case("pointwise", "one_step", normal(7), program=(("gelu", 0),))
case("pointwise", "unary", normal(5, 13), program=tuple((name, i) for i, name in enumerate(ALL_UNARY)))
case("pointwise", "more_unary", normal(5, 13), program=tuple((name, i) for i, name in enumerate(MORE_UNARY)))
case("pointwise", "powers", normal(5, 13), given(2.0), program=(("abs", 0), ("pow", 2, 0), ("pow", 3, 1)))
case(
    "pointwise",
    "most_inputs",
    *(normal(5, 13) for _ in range(6)),
    program=(("maximum", 0, 1), ("minimum", 6, 2), ("div", 7, 3), ("sub", 8, 4), ("add", 9, 5), ("mul", 10, 6)),
)
