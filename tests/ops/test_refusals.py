"""What each op refuses, and that the refusal names the op, what was expected and what came."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops import TABLE, Op, TensorType
from engine.ops.table import TABLE as DECLARED
from engine.ops.table import Attribute, declare
from tests import messages
from tests.ops.case import types_of
from tests.ops.cases import CASES


def f32(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def f64(*shape: int) -> TensorType:
    return TensorType("float64", shape)


def bf16(*shape: int) -> TensorType:
    return TensorType("bfloat16", shape)


def i64(*shape: int) -> TensorType:
    return TensorType("int64", shape)


def boolean(*shape: int) -> TensorType:
    return TensorType("bool", shape)


Q, K = f32(2, 4, 5, 8), f32(2, 4, 7, 8)
IMAGE, KERNEL = f32(2, 4, 6, 7), f32(6, 4, 3, 3)
PLAIN = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}
WINDOW = {"kernel": (3, 3), "stride": (1, 1), "low": (0, 0), "high": (0, 0)}
SPREAD = {"dilation": (1, 1)}
NONE = [None] * 6
SCAN = [f32(2, 5, 3), f32(2, 5, 3), f32(3, 4), f32(2, 5, 4), f32(2, 5, 4), None, None, None]

# The last two are finite in float64, and infinite and 0 in float32.
BAD_SCALES = (0.0, -1.0, float("inf"), float("nan"), 1e39, 1e-46)
FAR = (1 << 31) - 1
HUGE = 1 << 24  # the square of it is an extent of 2**48

# op, input types, attributes
REFUSED = [
    ("exp", [i64(2)], {}),
    ("neg", [boolean(2)], {}),
    ("relu", [boolean(2)], {}),
    ("gelu", [i64(2)], {}),
    ("bitwise_not", [f32(2)], {}),
    ("isnan", [i64(2)], {}),
    ("exp", [None], {}),
    ("add", [f32(2), f64(2)], {}),
    ("add", [f32(2), f32(3)], {}),
    ("add", [f32(*[1] * 9), f32()], {}),
    ("sub", [boolean(2), boolean(2)], {}),
    ("div", [i64(2), i64(2)], {}),
    ("pow", [boolean(2), boolean(2)], {}),
    ("floor_div", [boolean(2), boolean(2)], {}),
    ("remainder", [boolean(2), boolean(2)], {}),
    ("bitwise_and", [f32(2), f32(2)], {}),
    ("eq", [f32(2), i64(2)], {}),
    ("where", [f32(2), f32(2), f32(2)], {}),
    ("where", [boolean(2), f32(2), f64(2)], {}),
    ("where", [boolean(2), f32(3), f32()], {}),
    ("matmul", [f32(2, 3), f32(2, 3)], {}),
    ("matmul", [f32(3), f32(3, 2)], {}),
    ("matmul", [f32(3, 2), f32(2)], {}),
    ("matmul", [i64(2, 2), i64(2, 2)], {}),
    ("matmul", [f32(2, 2), f64(2, 2)], {}),
    ("matmul", [f32(2, 2, 2), f32(3, 2, 2)], {}),
    ("matmul", [f32(2, 3), f32(3, 4)], {"transpose_b": True}),
    ("quantize_rows", [f64(2, 5)], {}),
    ("quantize_rows", [f32()], {}),
    ("linear", [f32(2, 5), f32(6, 4), None, None], {}),
    ("linear", [f32(2, 5), f32(6, 5), None, None], {"transpose_weight": False}),
    ("linear", [f32(), f32(6, 5), None, None], {}),
    ("linear", [f32(2, 5), f32(1, 6, 5), None, None], {}),
    ("linear", [f32(2, 5), f32(6, 5), f32(1), None], {}),
    ("linear", [f32(2, 5), f32(6, 5), f64(6), None], {}),
    ("linear", [f32(2, 5), f32(6, 5), None, f32(6)], {}),
    ("gated_linear", [f32(2, 5), f32(6, 4), None], {}),
    ("gated_linear", [f32(2, 5), f32(7, 5), None], {}),
    ("gated_linear", [f32(2, 5), f32(6, 5), f32(3)], {}),
    ("conv", [f32(4, 6), KERNEL, None, None], PLAIN),
    ("conv", [i64(2, 4, 6, 7), KERNEL, None, None], PLAIN),
    ("conv", [IMAGE, f32(6, 4, 3), None, None], PLAIN),
    ("conv", [IMAGE, f64(6, 4, 3, 3), None, None], PLAIN),
    ("conv", [IMAGE, f32(6, 3, 3, 3), None, None], PLAIN),
    ("conv", [IMAGE, f32(6, 2, 3, 3), None, None], PLAIN | {"groups": 0}),
    ("conv", [IMAGE, f32(5, 2, 3, 3), None, None], PLAIN | {"groups": 2}),
    ("conv", [f32(2, 0, 6, 7), f32(6, 0, 3, 3), None, None], PLAIN),
    ("conv", [IMAGE, f32(6, 4, 0, 3), None, None], PLAIN),
    ("conv", [IMAGE, f32(6, 4, 7, 3), None, None], PLAIN),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"dilation": (3, 1)}),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"stride": (1,)}),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"stride": (0, 1)}),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"dilation": (0, 1)}),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"high": (-1, 0)}),
    ("conv", [IMAGE, KERNEL, f32(4), None], PLAIN),
    ("conv", [IMAGE, KERNEL, None, f32(6, 4, 5)], PLAIN),
    ("conv_transpose", [IMAGE, f32(3, 6, 3, 3), None, None], PLAIN),
    ("conv_transpose", [IMAGE, f32(4, 6, 3, 3), None, None], PLAIN | {"groups": 3}),
    ("conv_transpose", [IMAGE, f32(4, 6, 3, 3), None, None], PLAIN | {"low": (-1, 0)}),
    ("conv_transpose", [IMAGE, f32(4, 6, 3, 3), None, None], PLAIN | {"low": (8, 0)}),
    ("conv_transpose", [f32(2, 4, 0, 7), f32(4, 6, 3, 3), None, None], PLAIN),
    ("conv_transpose", [IMAGE, f32(4, 3, 3, 3), f32(3), None], PLAIN | {"groups": 2}),
    # What attributes imply is bounded like a tensor, also where the result is small.
    (
        "conv",
        [f32(1, 1, 1, 4), f32(1, 1, 2, 2), None, None],
        {"stride": (1, 1), "low": (FAR, FAR), "high": (0, 0), "dilation": (FAR, FAR)},
    ),
    ("conv", [f32(1, 1, 1, 1), f32(1, 1, 1, 1), None, None], PLAIN | {"stride": (FAR, FAR)}),
    ("conv", [f32(1, 1, 1, 1), f32(1, 1, 1, 1), None, None], PLAIN | {"dilation": (FAR, FAR)}),
    (
        "conv_transpose",
        [f32(1, 1, 2, 2), f32(1, 1, 2, 2), None, None],
        {"stride": (1, 1), "low": (HUGE, HUGE), "high": (HUGE, HUGE), "dilation": (2 * HUGE, 2 * HUGE)},
    ),
    (
        "conv_transpose",
        [f32(1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1), None, None],
        {name: (number,) * 3 for name, number in (("stride", 1 << 22), ("low", 0), ("high", 0), ("dilation", 1))},
    ),
    (
        "avg_pool",
        [f32(1, 1, 1, 1)],
        {"kernel": (HUGE, HUGE), "stride": (1, 1), "low": (HUGE - 1, HUGE - 1), "high": (0, 0)},
    ),
    (
        "max_pool",
        [f32(1, 1, 1, 1)],
        {"kernel": (2, 2), "stride": (1, 1), "low": (HUGE, HUGE), "high": (0, 0), "dilation": (HUGE, HUGE)},
    ),
    ("avg_pool", [f32(1, 1, 1, 1)], WINDOW | {"kernel": (1, 1), "stride": (FAR, FAR)}),
    (
        "max_pool",  # the only window begins in x and reaches far behind it
        [f32(1, 1, 1, 1)],
        WINDOW | SPREAD | {"kernel": (2, 2), "dilation": (HUGE, HUGE), "stride": (FAR, FAR), "ceil_mode": True},
    ),
    ("attention", [*[f32(1, 1, 1 << 24, 0)] * 3, None], {"scale": 1.0}),
    (
        "selective_scan",
        [*[f32(1 << 22, 0, 1 << 12)] * 2, f32(1 << 12, 1 << 12), *[f32(1 << 22, 0, 1 << 12)] * 2, *[None] * 3],
        {},
    ),
    ("resample", [f32(1 << 20), i64(1 << 23, 1 << 23), f32(1 << 23, 1 << 23)], {"axis": 0}),
    ("index_put", [f32(1, HUGE), f32(), i64(HUGE)], {"axes": (0,)}),
    ("full", [], {"shape": (0, 1 << 24, 1 << 24), "value": 0.0, "dtype": "bool"}),
    ("var", [f32(2, 2)], {"axes": (0,), "correction": float("nan")}),
    ("tril", [f32(2, 2)], {"diagonal": (1 << 48) + 1}),
    ("triu", [f32(2, 2)], {"diagonal": -(1 << 62)}),
    ("max_pool", [f32(4, 6)], WINDOW | SPREAD),
    ("max_pool", [i64(2, 4, 6, 7)], WINDOW | SPREAD),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (7, 3)}),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (9, 3), "stride": (3, 1), "ceil_mode": True}),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (3,)}),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"low": (3, 0)}),
    ("max_pool", [IMAGE], WINDOW | {"dilation": (0, 1)}),
    ("max_pool", [f32(2, 4, 0, 7)], WINDOW | SPREAD | {"low": (2, 0), "high": (2, 0)}),
    ("avg_pool", [IMAGE], WINDOW | {"stride": (1, 0)}),
    ("avg_pool", [IMAGE], WINDOW | {"divisor": -1}),
    ("avg_pool", [IMAGE], WINDOW | {"kernel": (3, 8)}),
    ("pad", [f32(2, 3)], {"low": (1,), "high": (1,)}),
    ("pad", [f32(2, 3)], {"low": (1, -1), "high": (1, 0)}),
    ("pad", [f32(3)], {"low": (3,), "high": (0,), "mode": "reflect"}),
    ("pad", [f32(3)], {"low": (0,), "high": (4,), "mode": "circular"}),
    ("pad", [f32(0)], {"low": (0,), "high": (1,), "mode": "replicate"}),
    ("pad", [f32(0)], {"low": (0,), "high": (1,), "mode": "reflect"}),
    ("selective_scan", [f32(5, 3), *SCAN[1:]], {}),
    ("selective_scan", [SCAN[0], f32(2, 5, 1), *SCAN[2:]], {}),
    ("selective_scan", [*SCAN[:2], f32(2, 4), *SCAN[3:]], {}),
    ("selective_scan", [*SCAN[:3], f32(2, 4, 5), *SCAN[4:]], {}),
    ("selective_scan", [*SCAN[:4], f64(2, 5, 4), *SCAN[5:]], {}),
    ("selective_scan", [*SCAN[:5], f32(5), None, None], {}),
    ("selective_scan", [*SCAN[:5], None, f32(2, 5, 4), None], {}),
    ("selective_scan", [*SCAN[:5], None, None, i64(3)], {}),
    ("rope", [i64(4), i64(4), i64(4)], {}),
    ("rope", [f32(2, 5), f32(5), f32(5)], {}),
    ("rope", [f32(2, 4), f32(4), f64(4)], {}),
    ("rope", [f32(2, 4), f32(1), f32(4)], {}),
    ("rope", [f32(2, 4), f32(4), f32(3, 4)], {}),
    ("rope", [f32(1, 4), f32(4), f32(3, 4)], {}),
    ("resample", [i64(5), i64(2, 2), f32(2, 2)], {"axis": 0}),
    ("resample", [f32(5), f32(2, 2), f32(2, 2)], {"axis": 0}),
    ("resample", [f32(5), i64(2), f32(2)], {"axis": 0}),
    ("resample", [f32(5), i64(2, 2), f32(2, 3)], {"axis": 0}),
    ("resample", [f32(5), i64(2, 2), i64(2, 2)], {"axis": 0}),
    ("resample", [f32(5), i64(2, 2), f32(2, 2)], {"axis": 1}),
    ("grid_sample", [i64(1, 2, 3, 4), i64(1, 5, 6, 2)], {}),
    ("grid_sample", [f32(2, 3, 4), f32(2, 5, 2)], {}),
    ("grid_sample", [f32(1, 2, 3, 4), TensorType("float64", (1, 5, 6, 2))], {}),
    ("grid_sample", [f32(1, 2, 3, 4), f32(2, 5, 6, 2)], {}),
    ("grid_sample", [f32(1, 2, 3, 4), f32(1, 5, 6, 3)], {}),
    ("grid_sample", [f32(1, 2, 0, 4), f32(1, 5, 6, 2)], {}),
    ("attention", [Q, f32(2, 4, 7, 6), K, None], {"scale": 1.0}),
    ("attention", [Q, f32(2, 3, 7, 8), f32(2, 3, 7, 8), None], {"scale": 1.0}),
    ("attention", [Q, f32(2, 0, 7, 8), f32(2, 0, 7, 8), None], {"scale": 1.0}),
    ("attention", [Q, K, f32(2, 4, 6, 8), None], {"scale": 1.0}),
    ("attention", [Q, f32(1, 4, 7, 8), f32(1, 4, 7, 8), None], {"scale": 1.0}),
    ("attention", [f32(5, 8), f32(7, 8), f32(7, 8), None], {"scale": 1.0}),
    ("attention", [Q, K, K, i64(5, 7)], {"scale": 1.0}),
    ("attention", [Q, bf16(2, 4, 7, 8), K, None], {"scale": 1.0}),
    ("attention", [Q, K, bf16(2, 4, 7, 8), None], {"scale": 1.0}),
    ("attention", [bf16(2, 4, 5, 8), K, K, None], {"scale": 1.0}),
    ("attention", [f64(2, 4, 5, 8), *[bf16(2, 4, 7, 8)] * 2, None], {"scale": 1.0}),
    ("attention", [Q, K, K, f64(5, 7)], {"scale": 1.0}),
    ("attention", [Q, K, K, boolean(7, 5)], {"scale": 1.0}),
    ("attention", [Q, K, K, boolean(3, 1, 1, 5, 7)], {"scale": 1.0}),
    ("layer_norm", [f32(2, 5), f32(4), None, None], {"axes": 1, "epsilon": 0.1}),
    ("layer_norm", [f32(2, 5), None, f32(2, 5), None], {"axes": 1, "epsilon": 0.1}),
    ("layer_norm", [f32(2, 5), None, None, None], {"axes": 3, "epsilon": 0.1}),
    ("layer_norm", [f32(2, 5), None, None, None], {"axes": 0, "epsilon": 0.1}),
    ("layer_norm", [f32(2, 5), None, None, f32(5)], {"axes": 1, "epsilon": 0.1}),
    ("layer_norm", [f32(2, 5), None, None, f64(2, 5)], {"axes": 1, "epsilon": 0.1}),
    ("rms_norm", [f32(2, 5), f64(5), None], {"axes": 1, "epsilon": 0.1}),
    ("rms_norm", [f32(2, 5), None, f32(1, 5)], {"axes": 1, "epsilon": 0.1}),
    ("group_norm", [f32(4), None, None], {"groups": 2, "epsilon": 0.1}),
    ("group_norm", [i64(2, 4, 6), None, None], {"groups": 2, "epsilon": 0.1}),
    ("group_norm", [f32(2, 4, 6), None, None], {"groups": 3, "epsilon": 0.1}),
    ("group_norm", [f32(2, 4, 6), None, None], {"groups": 0, "epsilon": 0.1}),
    ("group_norm", [f32(2, 4, 6), None, None], {"groups": 4, "epsilon": 0.1, "channels_last": True}),
    ("group_norm", [f32(2, 4, 6), f32(6), None], {"groups": 2, "epsilon": 0.1}),
    ("group_norm", [f32(2, 4, 6), None, f64(4)], {"groups": 2, "epsilon": 0.1}),
    ("softmax", [f32(2, 5)], {"axis": 2}),
    ("softmax", [f32()], {"axis": 0}),
    ("log_softmax", [i64(2)], {"axis": 0}),
    ("sum", [f32(2, 5)], {"axes": (2,)}),
    ("sum", [boolean(2)], {"axes": (0,)}),
    ("mean", [i64(2)], {"axes": (0,)}),
    ("var", [i64(2)], {"axes": (0,)}),
    ("amax", [f32(2, 0)], {"axes": (1,)}),
    ("argmax", [f32(0)], {"axis": 0}),
    ("argmin", [boolean(3)], {"axis": 0}),
    ("cumsum", [f32()], {"axis": 0}),
    ("reshape", [f32(2, 3)], {"shape": (4, 2)}),
    ("reshape", [f32(2, 3)], {"shape": (-1, 2)}),
    ("reshape", [f32(2, 3)], {"shape": (-2, -3)}),
    ("reshape", [f32(1)], {"shape": (1,) * 9}),
    ("permute", [f32(2, 3)], {"axes_order": (0, 0)}),
    ("permute", [f32(2, 3)], {"axes_order": (0,)}),
    ("expand", [f32(2, 3)], {"shape": (4, 3)}),
    ("expand", [f32(2, 3)], {"shape": (3,)}),
    ("expand", [f32(1)], {"shape": (-1,)}),
    ("slice", [f32(4)], {"axis": 0, "start": -1, "stop": 3}),
    ("slice", [f32(4)], {"axis": 0, "start": 3, "stop": 2}),
    ("slice", [f32(4)], {"axis": 0, "start": 0, "stop": 5}),
    ("slice", [f32(4)], {"axis": 0, "start": 0, "stop": 4, "step": 0}),
    ("slice", [f32(4)], {"axis": 1, "start": 0, "stop": 4}),
    ("flip", [f32(4)], {"axes": (1,)}),
    ("windows", [f32(4)], {"axis": 0, "size": 5}),
    ("windows", [f32(4)], {"axis": 0, "size": -1}),
    ("windows", [f32(4)], {"axis": 0, "size": 2, "step": 0}),
    ("windows", [f32(4)], {"axis": 1, "size": 2}),
    ("windows", [f32(*[1] * 8)], {"axis": 0, "size": 1}),
    ("concat", [], {"axis": 0}),
    ("concat", [f32(2, 3), f32(3, 3)], {"axis": 1}),
    ("concat", [f32(2, 3), f32(3)], {"axis": 0}),
    ("concat", [f32(2), f64(2)], {"axis": 0}),
    ("concat", [f32(2)], {"axis": 1}),
    ("full", [], {"shape": (-1,), "value": 0.0, "dtype": "float32"}),
    ("arange", [], {"length": -1, "dtype": "int64"}),
    ("arange", [], {"length": 1, "dtype": "bool"}),
    ("taps", [], {"mode": "linear", "size": 4, "length": -1, "columns": 2}),
    ("taps", [], {"mode": "linear", "size": -4, "length": 1, "columns": 2}),
    ("taps", [], {"mode": "linear", "size": 4, "length": 1, "columns": 2, "dtype": "float16"}),
    ("tril", [f32(3)], {"diagonal": 0}),
    ("embedding", [f32(4, 5), f32(2)], {}),
    ("embedding", [f32(), i64(2)], {}),
    ("gather", [f32(4, 5), i64(4)], {"axis": 1}),
    ("gather", [f32(4, 5), i64(5, 5)], {"axis": 1}),
    ("gather", [f32(4, 5), boolean(4, 5)], {"axis": 1}),
    ("index_select", [f32(4, 5), i64(2, 2)], {"axis": 1}),
    ("index_select", [f32(4, 5), i64(2)], {"axis": 2}),
    ("cumprod", [boolean(3)], {"axis": 0}),
    ("argsort", [f32(4, 5)], {"axis": 2, "count": 1}),
    ("argsort", [f32(4, 5)], {"axis": 1, "count": 6}),
    ("argsort", [f32(4, 5)], {"axis": 1, "count": -1}),
    ("scatter", [f32(4, 5), i64(4, 2), f32(4, 2)], {"axis": 2}),
    ("scatter", [f32(4, 5), f32(4, 2), f32(4, 2)], {"axis": 1}),
    ("scatter", [f32(4, 5), i64(2), f32(2)], {"axis": 1}),
    ("scatter", [f32(4, 5), i64(5, 2), f32(5, 2)], {"axis": 1}),
    ("scatter", [f32(4, 5), i64(4, 3), f32(4, 2)], {"axis": 1}),
    ("scatter", [f32(4, 5), i64(4, 2), i64(4, 2)], {"axis": 1}),
    ("scatter", [boolean(4), i64(2), boolean(2)], {"axis": 0, "reduce": "amax"}),
    ("index_put", [f32(4, 5), f32(), i64(2)], {"axes": (0, 1)}),
    ("index_put", [f32(4, 5), f32(3), i64(2)], {"axes": (1,)}),
    ("index_put", [f32(4, 5), f32(6, 4, 2), i64(2)], {"axes": (1,)}),
    ("index_put", [f32(4, 5), i64(), i64(2)], {"axes": (1,)}),
    ("index", [f32(4, 5), i64(2)], {"axes": (0, 1)}),
    ("index", [f32(4, 5)], {"axes": ()}),
    ("index", [f32(4, 5), boolean(4)], {"axes": (0,)}),
    ("index", [f32(4, 5), i64(2), i64(3)], {"axes": (0, 1)}),
    ("index", [f32(4, 5), i64(2)], {"axes": (2,)}),
    ("expand_depthwise", [f64(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(3, 4, 3), f32(5, 3), None, f32(5, 1, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5), None, f32(5, 1, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 4), None, f32(5, 1, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), f32(4), f32(5, 1, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(10, 1, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 2, 2, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 4, 2), None], PLAIN),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 2, 2), f32(1)], PLAIN),
    ("embedding_norm", [f32(9, 5), None, *NONE], {"epsilon": 0.1}),
    ("embedding_norm", [f64(9, 5), i64(3), *NONE], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9), i64(3), *NONE], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5, 2), i64(3), *NONE], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), f32(3, 1), *NONE[1:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), f32(), *NONE[1:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), f32(9, 4), i64(3), *NONE[2:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), None, i64(3), *NONE[2:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), None, None, f32(5), *NONE[3:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), f32(4, 5), *NONE[1:]], {"epsilon": 0.1}),
    ("embedding_norm", [f32(9, 5), i64(3), *NONE[:5], f32(5)], {"epsilon": 0.1, "norm": "rms_norm"}),
    ("embedding_norm", [f32(9, 5), i64(3), *NONE[:4], f32(4), None], {"epsilon": 0.1}),
    ("pointwise", [], {"program": (("relu", 0),)}),
    ("quantize", [i64(2)], {"scale": 1.0}),
    *(("quantize", [f32(2)], {"scale": scale}) for scale in BAD_SCALES),
    ("quantize", [f32(2)], {"scale": 1.0, "dtype": "int16"}),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": 128}),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": -129}),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": -1, "dtype": "uint8"}),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": 256, "dtype": "uint8"}),
    ("dequantize", [f32(2)], {"scale": 1.0}),
    *(("dequantize", [TensorType("int8", (2,))], {"scale": scale}) for scale in BAD_SCALES),
    ("dequantize", [TensorType("int8", (2,))], {"scale": 1.0, "dtype": "int32"}),
    ("dequantize", [TensorType("int8", (2,))], {"scale": 1.0, "zero": 128}),
    ("dequantize", [TensorType("uint8", (2,))], {"scale": 1.0, "zero": -1}),
    ("pointwise", [f32(2)] * 33, {"program": (("relu", 0),)}),
    ("pointwise", [f32(2), None], {"program": (("add", 0, 1),)}),
    ("pointwise", [f32(2)], {"program": ()}),
    ("pointwise", [f32(2)], {"program": tuple(("relu", i) for i in range(129))}),
    ("pointwise", [f32(2)], {"program": (("relu", 1),)}),
    ("pointwise", [f32(2)], {"program": (("relu", 0, 0),)}),
    ("pointwise", [f32(2), f32(2)], {"program": (("relu", 0),)}),
    ("pointwise", [f32(2)], {"program": (("relu", 0), ("exp", 0))}),
    ("pointwise", [f32(2), f32(3, 2)], {"program": (("relu", 0), ("add", 2, 1))}),
    ("pointwise", [f64(2)], {"program": (("relu", 0),)}),
    ("pointwise", [boolean(2), boolean(2)], {"program": (("add", 0, 1),)}),
]


@pytest.mark.parametrize(("op", "types", "attributes"), REFUSED, ids=[op for op, _types, _attributes in REFUSED])
def test_refusal_names_op_expectation_and_what_came(op, types, attributes):
    declared = TABLE[op]
    with messages.raises(ValueError):
        declared.infer(types, declared.complete(attributes))


# `copy`, `cast` and logical_not take whatever there is.
ACCEPT_ALL = {"copy", "cast", "logical_not"}


def test_every_op_that_can_refuse_is_seen_refusing():
    families_of_one_rule = {op.name for op in TABLE.values() if op.family == "pointwise"} | {
        "prod",
        "any",
        "all",
        "amin",
    }
    assert {row[0] for row in REFUSED} | ACCEPT_ALL | families_of_one_rule | {"triu"} == set(TABLE)


@pytest.mark.parametrize("op", TABLE.values(), ids=lambda op: op.name)
def test_absent_required_inputs_are_refused(op):
    first = next(c for c in CASES if c.op == op.name)
    types = types_of(first.inputs())
    for position, name in enumerate(op.inputs):
        if not name.endswith(("?", "*")):
            with messages.raises(ValueError):
                op.infer([None if i == position else t for i, t in enumerate(types)], first.complete())


@pytest.mark.parametrize(
    ("op", "count"), [("add", 1), ("add", 3), ("linear", 2), ("attention", 3), ("full", 1), ("index", 0)]
)
def test_wrong_number_of_inputs_is_refused(op, count):
    with messages.raises(ValueError):
        TABLE[op].check_arity(count)


@pytest.mark.parametrize(("op", "count"), [("add", 2), ("linear", 5), ("concat", 1), ("concat", 9), ("index", 4)])
def test_right_number_of_inputs_is_taken(op, count):
    TABLE[op].check_arity(count)


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("softmax", {}),
        ("softmax", {"axis": 0, "dim": 1}),
        ("softmax", {"axis": -1}),
        ("softmax", {"axis": "0"}),
        ("gelu", {"approximate": "erf"}),
        ("cast", {"dtype": "complex64"}),
        ("sum", {"axes": (1, 0)}),
        ("sum", {"axes": (0, 0)}),
        ("sum", {"axes": (-1,)}),
        ("sum", {"axes": 0}),
        ("reshape", {"shape": 3}),
        ("matmul", {"alpha": "1"}),
        ("matmul", {"transpose_a": 1}),
        ("pointwise", {"program": "relu"}),
        ("pointwise", {"program": (("system", 0),)}),
        ("pointwise", {"program": ("relu",)}),
        ("pointwise", {"program": (("relu", -1),)}),
        ("pointwise", {"program": (("relu", True),)}),
        ("pointwise", {"program": (("relu", 0.0),)}),
        ("pointwise", {"program": (([], 0),)}),
        ("pointwise", {"program": (("where", 0, 0, 0, 0),)}),
    ],
)
def test_wrong_attributes_are_refused(op, given):
    with messages.raises(ValueError):
        TABLE[op].complete(given)


def test_attributes_reach_c_in_declaration_order():
    linear = TABLE["linear"]
    assert linear.native_attributes(linear.complete({"activation": "silu", "alpha": 0.5})) == ([1, 4, 0], [0.5])
    arange = TABLE["arange"]
    full = arange.complete({"length": 7, "dtype": "float64", "start": 2})
    assert arange.native_attributes(full) == ([7, 1], [2.0, 1.0])
    var = TABLE["var"]
    assert var.native_attributes(var.complete({"axes": (0, 2), "keepdims": True})) == ([0b101, 1], [1.0])
    assert TABLE["reshape"].native_attributes({"shape": (2, 3)}) == ([], [])


def test_an_op_cannot_be_declared_twice():
    before = dict(DECLARED)
    with messages.raises(ValueError):
        declare(Op("add", "pointwise", ("a",), TABLE["add"].infer, np.add, {"x": Attribute("int")}))
    assert before == DECLARED


# --- what only data can show ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["floor_div", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
def test_integer_division_by_zero_is_an_error(op, dtype):
    with messages.raises(ZeroDivisionError):
        TABLE[op].reference(np.array([1, 2], dtype), np.array([1, 0], dtype))


@pytest.mark.parametrize(
    ("op", "bad", "attributes"),
    [
        ("embedding", -1, {}),
        ("embedding", 4, {}),
        ("gather", -1, {"axis": 0}),
        ("gather", 4, {"axis": 0}),
        ("index_select", -1, {"axis": 0}),
        ("index_select", 4, {"axis": 0}),
        ("scatter", -1, {"axis": 0, "source": np.ones(3, np.float32), "reduce": "none"}),
        ("scatter", 4, {"axis": 0, "source": np.ones(3, np.float32), "reduce": "none"}),
        ("index", -5, {"axes": (0,)}),
        ("index", 4, {"axes": (0,)}),
    ],
)
def test_index_out_of_range_is_an_error_that_names_it(op, bad, attributes):
    with messages.raises(IndexError):
        TABLE[op].reference(np.zeros(4, np.float32), np.array([0, bad, 1]), **attributes)


@pytest.mark.parametrize("bad", [-2, 4])
def test_a_tap_out_of_range_is_an_error_that_names_it(bad):
    with messages.raises(IndexError):
        TABLE["resample"].reference(np.zeros(4, np.float32), np.array([[0, bad]]), np.ones((1, 2), np.float32), axis=0)


@pytest.mark.parametrize("bad", [(1.5, 1), ("1", 1), (True, 1), (1 << 31, 1), (1,) * 9, 1])
def test_a_list_of_ints_holds_ints_of_32_bits_only(bad):
    with messages.raises(ValueError):
        TABLE["conv"].complete(PLAIN | {"stride": bad})


@pytest.mark.parametrize(
    ("op", "others", "name"),
    [("avg_pool", WINDOW, "divisor"), ("softmax", {}, "axis"), ("full", {"shape": (1,), "dtype": "float32"}, "value")],
)
def test_a_bool_is_no_number(op, others, name):
    with messages.raises(ValueError):
        TABLE[op].complete(others | {name: True})


@pytest.mark.parametrize("bad", [1 << 63, -(1 << 70)])
def test_an_int_has_64_bits(bad):
    with messages.raises(ValueError):
        TABLE["avg_pool"].complete(WINDOW | {"divisor": bad})
