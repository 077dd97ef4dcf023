"""Cases of convolutions, pooling, padding and resampling, for the list in `cases.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.ops import TABLE
from tests.ops.case import ANY, FEW, FLOATS, Case, any_of, eighths, given, integers, into, normal

CASES: list[Case] = []
case = into(CASES)


def _spatial(axes: int, **changed: Any) -> dict[str, Any]:
    """The attributes of a conv over `axes` spatial axes: stride and dilation 1 and no padding, but for `changed`."""
    plain = {"stride": (1,) * axes, "low": (0,) * axes, "high": (0,) * axes, "dilation": (1,) * axes}
    return {**plain, **changed}


_X, _W = (2, 4, 6, 7), (6, 4, 3, 2)
for _dtype in FLOATS:
    _how = _spatial(2, stride=(2, 1), low=(1, 0), high=(1, 1), activation="relu")
    case("conv", _dtype, *[normal(*s, dtype=_dtype) for s in (_X, _W, (6,), (2, 6, 3, 7))], **_how)
for _label, _x, _weight, _how in (
    ("plain", _X, _W, _spatial(2)),
    ("pointwise", _X, (5, 4, 1, 1), _spatial(2)),
    ("one_axis", (2, 4, 9), (6, 4, 3), _spatial(1, stride=(2,), low=(2,), high=(1,))),
    ("three_axes", (1, 2, 4, 3, 5), (3, 2, 2, 3, 2), _spatial(3, low=(1, 0, 0), high=(0, 1, 2), stride=(1, 2, 3))),
    ("dilated", (1, 3, 8, 9), (2, 3, 3, 3), _spatial(2, dilation=(2, 3), low=(2, 3), high=(2, 3))),
    ("grouped", (2, 6, 5, 5), (4, 3, 3, 3), _spatial(2, groups=2, low=(1, 1), high=(1, 1))),
    ("depthwise", (2, 6, 5, 5), (12, 1, 3, 3), _spatial(2, groups=6, stride=(2, 2), low=(0, 1), high=(1, 1))),
    ("whole_input", (2, 3, 4, 5), (2, 3, 4, 5), _spatial(2)),
    ("only_padding", (1, 2, 1, 1), (3, 2, 3, 3), _spatial(2, low=(2, 2), high=(2, 2))),
    ("empty_axis", (1, 2, 0), (3, 2, 2), _spatial(1, low=(1,), high=(2,))),
    ("no_batch", (0, 4, 6, 7), _W, _spatial(2)),
):
    case("conv", _label, normal(*_x), normal(*_weight), normal(_weight[0]), None, **_how)
for _activation in TABLE["conv"].attributes["activation"].choices:
    case("conv", _activation, normal(1, 3, 6), normal(2, 3, 2), None, None, **_spatial(1), activation=_activation)
case("conv", "residual", normal(1, 3, 6), normal(2, 3, 2), None, normal(1, 2, 5), **_spatial(1), activation="silu")
case("conv", "above_relu6", normal(1, 3, 9, scale=9), normal(2, 3, 2), None, None, **_spatial(1), activation="relu6")
case("conv", "special", given([[FEW, FEW[::-1]]]), normal(2, 2, 3), None, None, **_spatial(1, low=(1,), high=(1,)))
_infinite = given([[[1.0, np.inf], [0.0, 2.0]]])
case("conv", "infinite_weight", normal(1, 2, 4), _infinite, None, None, **_spatial(1, low=(1,)))

for _label, _x, _weight, _residual, _how in (
    ("last", (2, 6, 7, 4), (6, 4, 3, 2), (2, 3, 7, 6), _spatial(2, stride=(2, 1), low=(1, 0), high=(1, 1))),
    ("last_wide", (1, 9, 16, 20), (40, 20, 3, 3), (1, 9, 16, 40), _spatial(2, low=(1, 1), high=(1, 1))),
    ("last_grouped", (2, 5, 5, 6), (4, 3, 3, 3), (2, 5, 5, 4), _spatial(2, groups=2, low=(1, 1), high=(1, 1))),
    ("last_one_axis", (2, 9, 4), (6, 4, 3), (2, 6, 6), _spatial(1, stride=(2,), low=(2,), high=(2,))),
):
    _how = {**_how, "activation": "relu", "channels_last": True}
    case("conv", _label, normal(*_x), normal(*_weight), normal(_weight[0]), normal(*_residual), **_how)

for _dtype in FLOATS:
    _how = _spatial(2, stride=(2, 3), low=(1, 0), high=(0, 1), activation="relu")
    _shapes = ((2, 4, 3, 4), (4, 5, 3, 2), (5,), (2, 5, 6, 10))
    case("conv_transpose", _dtype, *[normal(*s, dtype=_dtype) for s in _shapes], **_how)
for _label, _x, _weight, _how in (
    ("plain", (2, 4, 3, 4), (4, 5, 3, 2), _spatial(2)),
    ("one_axis", (2, 3, 5), (3, 2, 4), _spatial(1, stride=(2,), low=(1,), high=(1,))),
    ("three_axes", (1, 2, 2, 3, 2), (2, 3, 2, 2, 3), _spatial(3, stride=(1, 2, 3), low=(1, 0, 1))),
    ("dilated", (1, 3, 4, 5), (3, 2, 3, 3), _spatial(2, dilation=(2, 3), stride=(3, 2), high=(1, 2))),
    ("grouped", (2, 6, 4, 3), (6, 2, 2, 2), _spatial(2, groups=3, stride=(2, 1))),
    ("depthwise", (2, 4, 4, 3), (4, 1, 3, 3), _spatial(2, groups=4, stride=(2, 2), low=(1, 1), high=(1, 1))),
    ("appended", (1, 2, 3), (2, 3, 2), _spatial(1, stride=(4,), high=(-3,))),
    ("stride_over_gaps", (1, 2, 3), (2, 3, 1), _spatial(1, stride=(3,))),
    ("no_batch", (0, 2, 3), (2, 3, 2), _spatial(1)),
):
    _bias = normal(_weight[1] * _how.get("groups", 1))
    case("conv_transpose", _label, normal(*_x), normal(*_weight), _bias, None, **_how)
case("conv_transpose", "no_bias", normal(1, 2, 3), normal(2, 3, 2), None, None, **_spatial(1))
for _activation in TABLE["conv_transpose"].attributes["activation"].choices:
    _how = _spatial(1, stride=(2,), activation=_activation)
    case("conv_transpose", _activation, normal(1, 3, 6), normal(3, 2, 3), None, normal(1, 2, 13), **_how)
_infinite = given([[[1.0, np.inf, 0.0]], [[2.0, -1.0, -np.inf]]])
case("conv_transpose", "infinite_weight", normal(1, 2, 4), _infinite, None, None, **_spatial(1, stride=(2,)))
case("conv_transpose", "special", given([[FEW, FEW[::-1]]]), normal(2, 2, 3), None, None, **_spatial(1, stride=(2,)))
for _label, _x, _weight, _residual, _how in (
    ("last", (2, 6, 7, 4), (4, 5, 4, 4), (2, 12, 14, 5), _spatial(2, stride=(2, 2), low=(1, 1), high=(1, 1))),
    ("last_wide", (1, 5, 9, 20), (20, 40, 3, 3), (1, 10, 18, 40), _spatial(2, stride=(2, 2), low=(1, 1), high=(0, 0))),
    ("last_grouped", (2, 5, 5, 6), (6, 2, 2, 2), (2, 10, 10, 4), _spatial(2, stride=(2, 2), groups=2)),
    ("last_one_axis", (2, 9, 4), (4, 6, 5), (2, 28, 6), _spatial(1, stride=(3,), low=(1,))),
):
    _how = {**_how, "activation": "relu", "channels_last": True}
    _bias = normal(_residual[-1])
    case("conv_transpose", _label, normal(*_x), normal(*_weight), _bias, normal(*_residual), **_how)

for _op, _only in (("max_pool", {"dilation": (1, 1)}), ("avg_pool", {})):
    for _dtype in FLOATS:
        _how = {"kernel": (3, 2), "stride": (2, 1), "low": (1, 0), "high": (1, 1), **_only}
        case(_op, _dtype, normal(2, 3, 6, 7, dtype=_dtype), **_how)
    for _ceil in (False, True):
        # The last window reaches past the padding, or would begin behind it.
        _how = {"kernel": (3, 2), "stride": (2, 3), "low": (0, 1), "high": (0, 1), "ceil_mode": _ceil, **_only}
        case(_op, f"ceil_{_ceil:d}", normal(2, 3, 6, 8), **_how)
        case(_op, f"ceil_narrow_{_ceil:d}", normal(1, 2, 4, 5), **_how)
    _how = {"kernel": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), **_only}
    case(_op, "no_padding", normal(2, 3, 4, 6), **_how)
    case(_op, "no_batch", normal(0, 3, 4, 6), **_how)
    case(_op, "last", normal(2, 6, 7, 20), **{**_how, "low": (1, 0), "high": (1, 0)}, channels_last=True)
    case(
        _op,
        "last_one_axis",
        normal(2, 7, 3),
        kernel=(3,),
        stride=(2,),
        low=(1,),
        high=(1,),
        channels_last=True,
        **{k: v[:1] for k, v in _only.items()},
    )
    case(_op, "special", given([[[FEW, FEW[::-1]]]]), **_how)
_how = {"kernel": (3,), "stride": (2,), "low": (1,), "high": (1,)}
case("max_pool", "one_axis", normal(2, 3, 9), **_how, dilation=(1,))
case("avg_pool", "one_axis", normal(2, 3, 9), **_how)
_how = {"kernel": (2, 1, 3), "stride": (1, 2, 3), "low": (1, 0, 1), "high": (0, 0, 1)}
case("max_pool", "three_axes", normal(1, 2, 3, 4, 7), **_how, dilation=(1, 1, 1))
case("max_pool", "dilated", normal(1, 2, 4, 5, 8), **{**_how, "high": _how["low"]}, dilation=(2, 1, 3), ceil_mode=True)
case("avg_pool", "three_axes", normal(1, 2, 3, 4, 7), **_how)
for _ceil in (False, True):
    _how = {"kernel": (3, 3), "stride": (2, 2), "low": (1, 0), "high": (1, 0), "ceil_mode": _ceil}
    case("avg_pool", f"padding_left_out_{_ceil:d}", normal(1, 2, 5, 6), **_how, count_padding=False)
    case("avg_pool", f"divisor_{_ceil:d}", normal(1, 2, 5, 6), **_how, divisor=7)
_how = {"kernel": (3, 3), "stride": (2, 1), "low": (1, 0), "high": (0, 2)}
case("avg_pool", "uneven_padding_left_out", normal(1, 2, 6, 6), **_how, count_padding=False)

for _dtype in ANY:
    case("pad", f"constant_{_dtype}", any_of(2, 3, dtype=_dtype), low=(0, 2), high=(1, 0), value=1.0)
for _mode in TABLE["pad"].attributes["mode"].choices:
    case("pad", _mode, normal(2, 4, 5), low=(0, 3, 4), high=(0, 2, 1), mode=_mode)
    case("pad", f"{_mode}_numbers", integers(3, 3, dtype="int8"), low=(2, 0), high=(0, 2), mode=_mode)
    case("pad", f"{_mode}_no_padding", normal(2, 3), low=(0, 0), high=(0, 0), mode=_mode)
    case("pad", f"{_mode}_no_rows", normal(0, 3), low=(0, 1), high=(0, 2), mode=_mode)
case("pad", "scalar", normal(), low=(), high=())
case("pad", "minus_inf", normal(3), low=(1,), high=(2,), value=-np.inf)
case("pad", "made_of_nothing", normal(2, 0), low=(0, 2), high=(0, 1), value=0.5)
case("pad", "all_axes", normal(1, 2, 1, 2, 1), low=(1, 0, 2, 1, 0), high=(0, 1, 0, 1, 2), value=-1.5)

_index = given([[0, 1], [1, -1], [-1, -1], [4, 0], [2, 2]], "int64")
for _dtype in FLOATS:
    case("resample", _dtype, normal(2, 5, 3, dtype=_dtype), _index, normal(5, 2, dtype=_dtype), axis=1)
case("resample", "wide_weight", normal(4, 5, dtype="float16"), _index, normal(5, 2), axis=1)
case("resample", "front", normal(5, 4), integers(3, 4, low=-1, high=5, dtype="int32"), normal(3, 4), axis=0)
case("resample", "no_taps", normal(2, 5), given(np.zeros((3, 0)), "int64"), normal(3, 0), axis=1)
case("resample", "no_results", normal(2, 5), given(np.zeros((0, 2)), "int64"), normal(0, 2), axis=1)
case("resample", "of_nothing", normal(2, 0), given([[-1], [-1]], "int64"), normal(2, 1), axis=1)
case("resample", "special", given([FEW]), given([[0, 3], [1, -1], [2, 1], [5, 4]], "int64"), normal(4, 2), axis=1)

# No element of an axis is taken twice for one of the result: the test finds them by their weights.
for _mode, _size, _length, _columns, _how in (
    ("nearest", 5, 13, 1, {}),
    ("nearest", 9, 4, 1, {"step": 2.0}),
    ("nearest", 6, 12, 2, {}),
    ("nearest_exact", 7, 5, 1, {}),
    ("linear", 8, 4, 2, {}),
    ("linear", 12, 5, 3, {"dtype": "float64"}),
    ("linear", 9, 5, 1, {"align_corners": True}),
    ("cubic", 16, 4, 4, {}),
    ("smooth_linear", 11, 4, 8, {"dtype": "float64"}),
    ("smooth_cubic", 21, 4, 22, {"dtype": "float64"}),
    ("window", 10, 4, 5, {}),
    ("window", 3, 7, 2, {}),
):
    for _weights in (False, True):
        _given = {"size": _size, "length": _length, "columns": _columns, "weights": _weights, **_how}
        case("taps", f"{_mode}_{_size}_{_length}_{_weights}", mode=_mode, **_given)

# Coordinates of which no step is rounded: torch, which gets float64 here, rounds them otherwise than the definition.
for _dtype in FLOATS:
    case("grid_sample", _dtype, normal(2, 3, 4, 5, dtype=_dtype), eighths(2, 3, 2, 2, dtype=_dtype))
for _mode in TABLE["grid_sample"].attributes["mode"].choices:
    for _padding in TABLE["grid_sample"].attributes["padding"].choices:
        for _align in (False, True):
            _how = {"mode": _mode, "padding": _padding, "align_corners": _align}
            case("grid_sample", f"{_mode}_{_padding}_{_align:d}", normal(2, 3, 4, 5), eighths(2, 6, 7, 2), **_how)
            _special = given(np.array(FEW)[np.indices((len(FEW), len(FEW)))].T[None])
            case("grid_sample", f"{_mode}_{_padding}_{_align:d}_special", normal(1, 2, 3, 1), _special, **_how)
case("grid_sample", "of_special", given([[[FEW, FEW]]]), eighths(1, 4, 5, 2))
case("grid_sample", "no_images", normal(0, 3, 4, 5), normal(0, 2, 2, 2))
case("grid_sample", "no_channels", normal(2, 0, 4, 5), normal(2, 2, 2, 2))
case("grid_sample", "no_points", normal(2, 3, 4, 5), normal(2, 0, 2, 2), mode="bicubic")
