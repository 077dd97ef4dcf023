"""What each op refuses, and that the refusal names the op, what was expected and what came."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops import TABLE, Op, TensorType
from engine.ops.table import TABLE as DECLARED
from engine.ops.table import Attribute, declare
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

# op, input types, attributes, what the message must say beside the op's name
REFUSED = [
    ("exp", [i64(2)], {}, "'x' of a float, got int64[2]"),
    ("neg", [boolean(2)], {}, "a float or an integer, got bool[2]"),
    ("relu", [boolean(2)], {}, "bool[2]"),
    ("gelu", [i64(2)], {}, "int64[2]"),
    ("bitwise_not", [f32(2)], {}, "an integer or bool, got float32[2]"),
    ("isnan", [i64(2)], {}, "int64[2]"),
    ("exp", [None], {}, "'x' to be present"),
    ("add", [f32(2), f64(2)], {}, "'b' of float32 as the first operand, got float64[2]"),
    ("add", [f32(2), f32(3)], {}, "shapes that broadcast, got float32[2], float32[3]"),
    ("add", [f32(*[1] * 9), f32()], {}, "rank 8 at most"),
    ("sub", [boolean(2), boolean(2)], {}, "bool[2]"),
    ("div", [i64(2), i64(2)], {}, "int64[2]"),
    ("pow", [boolean(2), boolean(2)], {}, "bool[2]"),
    ("floor_div", [boolean(2), boolean(2)], {}, "bool[2]"),
    ("remainder", [boolean(2), boolean(2)], {}, "bool[2]"),
    ("bitwise_and", [f32(2), f32(2)], {}, "float32[2]"),
    ("eq", [f32(2), i64(2)], {}, "int64[2]"),
    ("where", [f32(2), f32(2), f32(2)], {}, "'condition' of bool, got float32[2]"),
    ("where", [boolean(2), f32(2), f64(2)], {}, "float64[2]"),
    ("where", [boolean(2), f32(3), f32()], {}, "broadcast"),
    ("matmul", [f32(2, 3), f32(2, 3)], {}, "inner sizes that agree: 3 of a, got 2 of b"),
    ("matmul", [f32(3), f32(3, 2)], {}, "'a' of rank 2 to 8, got float32[3]"),
    ("matmul", [f32(3, 2), f32(2)], {}, "'b' of rank 2 to 8, got float32[2]"),
    ("matmul", [i64(2, 2), i64(2, 2)], {}, "int64[2, 2]"),
    ("matmul", [f32(2, 2), f64(2, 2)], {}, "float64[2, 2]"),
    ("matmul", [f32(2, 2, 2), f32(3, 2, 2)], {}, "broadcast"),
    ("matmul", [f32(2, 3), f32(3, 4)], {"transpose_b": True}, "3 of a, got 4 of b"),
    ("linear", [f32(2, 5), f32(6, 4), None, None], {}, "last size 4"),
    ("linear", [f32(2, 5), f32(6, 5), None, None], {"transpose_weight": False}, "last size 6"),
    ("linear", [f32(), f32(6, 5), None, None], {}, "'x' of rank 1 to 8"),
    ("linear", [f32(2, 5), f32(1, 6, 5), None, None], {}, "'weight' of rank 2, got float32[1, 6, 5]"),
    ("linear", [f32(2, 5), f32(6, 5), f32(1), None], {}, "'bias' of shape [6], got float32[1]"),
    ("linear", [f32(2, 5), f32(6, 5), f64(6), None], {}, "'bias' of float32"),
    ("linear", [f32(2, 5), f32(6, 5), None, f32(6)], {}, "'residual' of shape [2, 6], got float32[6]"),
    ("gated_linear", [f32(2, 5), f32(6, 4), None], {}, "a weight of 5 by twice the features, got float32[6, 4]"),
    ("gated_linear", [f32(2, 5), f32(7, 5), None], {}, "a weight of 5 by twice the features, got float32[7, 5]"),
    ("gated_linear", [f32(2, 5), f32(6, 5), f32(3)], {}, "'bias' of shape [6], got float32[3]"),
    ("conv", [f32(4, 6), KERNEL, None, None], PLAIN, "'x' of rank 3 to 5, got float32[4, 6]"),
    ("conv", [i64(2, 4, 6, 7), KERNEL, None, None], PLAIN, "'x' of a float"),
    ("conv", [IMAGE, f32(6, 4, 3), None, None], PLAIN, "'weight' of rank 4, got float32[6, 4, 3]"),
    ("conv", [IMAGE, f64(6, 4, 3, 3), None, None], PLAIN, "'weight' of float32"),
    ("conv", [IMAGE, f32(6, 3, 3, 3), None, None], PLAIN, "groups that divide the channels of float32[2, 4, 6, 7]"),
    ("conv", [IMAGE, f32(6, 2, 3, 3), None, None], PLAIN | {"groups": 0}, "got 0 and weight"),
    ("conv", [IMAGE, f32(5, 2, 3, 3), None, None], PLAIN | {"groups": 2}, "got 2 and weight float32[5, 2, 3, 3]"),
    ("conv", [f32(2, 0, 6, 7), f32(6, 0, 3, 3), None, None], PLAIN, "one channel and one tap at least"),
    ("conv", [IMAGE, f32(6, 4, 0, 3), None, None], PLAIN, "one channel and one tap at least"),
    ("conv", [IMAGE, f32(6, 4, 7, 3), None, None], PLAIN, "a kernel within the padded input's 6, got one that reaches"),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"dilation": (3, 1)}, "reaches over 7"),
    (
        "conv",
        [IMAGE, KERNEL, None, None],
        PLAIN | {"stride": (1,)},
        "stride of 2 number(s), one a spatial axis, got [1]",
    ),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"stride": (0, 1)}, "stride of 1 or more, got [0, 1]"),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"dilation": (0, 1)}, "dilation of 1 or more"),
    ("conv", [IMAGE, KERNEL, None, None], PLAIN | {"high": (-1, 0)}, "high of 0 or more, got [-1, 0]"),
    ("conv", [IMAGE, KERNEL, f32(4), None], PLAIN, "'bias' of shape [6], got float32[4]"),
    ("conv", [IMAGE, KERNEL, None, f32(6, 4, 5)], PLAIN, "'residual' of shape [2, 6, 4, 5], got float32[6, 4, 5]"),
    ("conv_transpose", [IMAGE, f32(3, 6, 3, 3), None, None], PLAIN, "groups that divide the channels"),
    (
        "conv_transpose",
        [IMAGE, f32(4, 6, 3, 3), None, None],
        PLAIN | {"groups": 3},
        "got 3 and weight float32[4, 6, 3, 3]",
    ),
    ("conv_transpose", [IMAGE, f32(4, 6, 3, 3), None, None], PLAIN | {"low": (-1, 0)}, "low of 0 or more"),
    (
        "conv_transpose",
        [IMAGE, f32(4, 6, 3, 3), None, None],
        PLAIN | {"low": (8, 0)},
        "a result with elements, got sizes [0, 9]",
    ),
    ("conv_transpose", [f32(2, 4, 0, 7), f32(4, 6, 3, 3), None, None], PLAIN, "a result with elements"),
    ("conv_transpose", [IMAGE, f32(4, 3, 3, 3), f32(3), None], PLAIN | {"groups": 2}, "'bias' of shape [6]"),
    # What attributes imply is bounded like a tensor, also where the result is small.
    (
        "conv",
        [f32(1, 1, 1, 4), f32(1, 1, 2, 2), None, None],
        {"stride": (1, 1), "low": (FAR, FAR), "high": (0, 0), "dilation": (FAR, FAR)},
        "a padded input of less than 2**48 bytes",
    ),
    (
        "conv_transpose",
        [f32(1, 1, 2, 2), f32(1, 1, 2, 2), None, None],
        {"stride": (1, 1), "low": (HUGE, HUGE), "high": (HUGE, HUGE), "dilation": (2 * HUGE, 2 * HUGE)},
        "a result before its ends are cut off of less than 2**48 bytes",
    ),
    (
        "conv_transpose",
        [f32(1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1), None, None],
        {name: (number,) * 3 for name, number in (("stride", 1 << 22), ("low", 0), ("high", 0), ("dilation", 1))},
        "the product of the strides, of less than 2**48 bytes",
    ),
    (
        "avg_pool",
        [f32(1, 1, 1, 1)],
        {"kernel": (HUGE, HUGE), "stride": (1, 1), "low": (HUGE - 1, HUGE - 1), "high": (0, 0)},
        "a window of less than 2**48",
    ),
    (
        "max_pool",
        [f32(1, 1, 1, 1)],
        {"kernel": (2, 2), "stride": (1, 1), "low": (HUGE, HUGE), "high": (0, 0), "dilation": (HUGE, HUGE)},
        "a padded input of less than 2**48 bytes",
    ),
    (
        "max_pool",  # the only window begins in x and reaches far behind it
        [f32(1, 1, 1, 1)],
        WINDOW | SPREAD | {"kernel": (2, 2), "dilation": (HUGE, HUGE), "stride": (FAR, FAR), "ceil_mode": True},
        "all windows together of less than 2**48 bytes",
    ),
    ("attention", [*[f32(1, 1, 1 << 24, 0)] * 3, None], {"scale": 1.0}, "scores of less than 2**48 bytes"),
    (
        "selective_scan",
        [*[f32(1 << 22, 0, 1 << 12)] * 2, f32(1 << 12, 1 << 12), *[f32(1 << 22, 0, 1 << 12)] * 2, *[None] * 3],
        {},
        "a state of less than 2**48 bytes",
    ),
    ("resample", [f32(1 << 20), i64(1 << 23, 1 << 23), f32(1 << 23, 1 << 23)], {"axis": 0}, "the taps read"),
    ("index_put", [f32(1, HUGE), f32(), i64(HUGE)], {"axes": (0,)}, "indexed elements of less than 2**48 bytes"),
    ("full", [], {"shape": (0, 1 << 24, 1 << 24), "value": 0.0, "dtype": "bool"}, "a result of less than 2**48 bytes"),
    ("var", [f32(2, 2)], {"axes": (0,), "correction": float("nan")}, "a correction that is a number, got nan"),
    ("tril", [f32(2, 2)], {"diagonal": (1 << 48) + 1}, "a diagonal between"),
    ("triu", [f32(2, 2)], {"diagonal": -(1 << 62)}, "a diagonal between"),
    ("max_pool", [f32(4, 6)], WINDOW | SPREAD, "'x' of rank 3 to 5"),
    ("max_pool", [i64(2, 4, 6, 7)], WINDOW | SPREAD, "'x' of a float"),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (7, 3)}, "a kernel within the padded input's 6"),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (9, 3), "stride": (3, 1), "ceil_mode": True}, "a kernel within"),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"kernel": (3,)}, "kernel of 2 number(s)"),
    ("max_pool", [IMAGE], WINDOW | SPREAD | {"low": (3, 0)}, "less padding than the window's [3, 3]"),
    ("max_pool", [IMAGE], WINDOW | {"dilation": (0, 1)}, "dilation of 1 or more"),
    ("max_pool", [f32(2, 4, 0, 7)], WINDOW | SPREAD | {"low": (2, 0), "high": (2, 0)}, "with elements along each"),
    ("avg_pool", [IMAGE], WINDOW | {"stride": (1, 0)}, "stride of 1 or more"),
    ("avg_pool", [IMAGE], WINDOW | {"divisor": -1}, "a divisor of 1 or more"),
    (
        "avg_pool",
        [IMAGE],
        WINDOW | {"kernel": (3, 8)},
        "a kernel within the padded input's 7, got one that reaches over 8",
    ),
    ("pad", [f32(2, 3)], {"low": (1,), "high": (1,)}, "low and high of 0 or more for each axis of float32[2, 3]"),
    ("pad", [f32(2, 3)], {"low": (1, -1), "high": (1, 0)}, "low and high of 0 or more"),
    (
        "pad",
        [f32(3)],
        {"low": (3,), "high": (0,), "mode": "reflect"},
        "reflect padding of 2 at most along an axis of 3",
    ),
    ("pad", [f32(3)], {"low": (0,), "high": (4,), "mode": "circular"}, "circular padding of 3 at most"),
    ("pad", [f32(0)], {"low": (0,), "high": (1,), "mode": "replicate"}, "replicate padding of 0 at most"),
    ("pad", [f32(0)], {"low": (0,), "high": (1,), "mode": "reflect"}, "reflect padding of 0 at most"),
    ("selective_scan", [f32(5, 3), *SCAN[1:]], {}, "'x' of rank 3"),
    ("selective_scan", [SCAN[0], f32(2, 5, 1), *SCAN[2:]], {}, "'delta' of shape [2, 5, 3]"),
    ("selective_scan", [*SCAN[:2], f32(2, 4), *SCAN[3:]], {}, "'a' with a row for each of the 3 channels"),
    ("selective_scan", [*SCAN[:3], f32(2, 4, 5), *SCAN[4:]], {}, "'b' of shape [2, 5, 4]"),
    ("selective_scan", [*SCAN[:4], f64(2, 5, 4), *SCAN[5:]], {}, "'c' of float32"),
    ("selective_scan", [*SCAN[:5], f32(5), None, None], {}, "'skip' of shape [3]"),
    ("selective_scan", [*SCAN[:5], None, f32(2, 5, 4), None], {}, "'gate' of shape [2, 5, 3]"),
    ("selective_scan", [*SCAN[:5], None, None, i64(3)], {}, "'bias' of float32"),
    ("rope", [i64(4), i64(4), i64(4)], {}, "'x' of a float"),
    ("rope", [f32(2, 5), f32(5), f32(5)], {}, "an even last axis"),
    ("rope", [f32(2, 4), f32(4), f64(4)], {}, "'sin' of float32"),
    ("rope", [f32(2, 4), f32(1), f32(4)], {}, "'cos' that broadcasts to [2, 4] along other axes than the last"),
    ("rope", [f32(2, 4), f32(4), f32(3, 4)], {}, "broadcast"),
    ("rope", [f32(1, 4), f32(4), f32(3, 4)], {}, "'sin' that broadcasts to [1, 4]"),
    ("resample", [i64(5), i64(2, 2), f32(2, 2)], {"axis": 0}, "'x' of a float"),
    ("resample", [f32(5), f32(2, 2), f32(2, 2)], {"axis": 0}, "'index' of int64 or int32"),
    ("resample", [f32(5), i64(2), f32(2)], {"axis": 0}, "'index' of rank 2"),
    ("resample", [f32(5), i64(2, 2), f32(2, 3)], {"axis": 0}, "'weight' of shape [2, 2], got float32[2, 3]"),
    ("resample", [f32(5), i64(2, 2), i64(2, 2)], {"axis": 0}, "'weight' of a float"),
    ("resample", [f32(5), i64(2, 2), f32(2, 2)], {"axis": 1}, "axis 1"),
    ("attention", [Q, f32(2, 4, 7, 6), K, None], {"scale": 1.0}, "keys of width 8"),
    ("attention", [Q, f32(2, 3, 7, 8), f32(2, 3, 7, 8), None], {"scale": 1.0}, "3 key heads divide"),
    ("attention", [Q, f32(2, 0, 7, 8), f32(2, 0, 7, 8), None], {"scale": 1.0}, "0 key heads divide"),
    ("attention", [Q, K, f32(2, 4, 6, 8), None], {"scale": 1.0}, "value heads and rows"),
    ("attention", [Q, f32(1, 4, 7, 8), f32(1, 4, 7, 8), None], {"scale": 1.0}, "equal leading axes [2]"),
    ("attention", [f32(5, 8), f32(7, 8), f32(7, 8), None], {"scale": 1.0}, "rank 3 to 8"),
    ("attention", [Q, K, K, i64(5, 7)], {"scale": 1.0}, "'mask' of bool or float32, got int64[5, 7]"),
    ("attention", [Q, bf16(2, 4, 7, 8), K, None], {"scale": 1.0}, "'key' of float32 as the first operand"),
    ("attention", [Q, K, bf16(2, 4, 7, 8), None], {"scale": 1.0}, "'value' of float32 as the first operand"),
    ("attention", [bf16(2, 4, 5, 8), K, K, None], {"scale": 1.0}, "'key' of bfloat16 as the first operand"),
    ("attention", [f64(2, 4, 5, 8), *[bf16(2, 4, 7, 8)] * 2, None], {"scale": 1.0}, "'key' of float64"),
    ("attention", [Q, K, K, f64(5, 7)], {"scale": 1.0}, "float64[5, 7]"),
    ("attention", [Q, K, K, boolean(7, 5)], {"scale": 1.0}, "broadcast"),
    ("attention", [Q, K, K, boolean(3, 1, 1, 5, 7)], {"scale": 1.0}, "mask that broadcasts to [2, 4, 5, 7]"),
    ("layer_norm", [f32(2, 5), f32(4), None, None], {"axes": 1, "epsilon": 0.1}, "'weight' of shape [5], got float32"),
    ("layer_norm", [f32(2, 5), None, f32(2, 5), None], {"axes": 1, "epsilon": 0.1}, "'bias' of shape [5]"),
    ("layer_norm", [f32(2, 5), None, None, None], {"axes": 3, "epsilon": 0.1}, "1 to 2 trailing axes"),
    ("layer_norm", [f32(2, 5), None, None, None], {"axes": 0, "epsilon": 0.1}, "got 0"),
    ("layer_norm", [f32(2, 5), None, None, f32(5)], {"axes": 1, "epsilon": 0.1}, "'addend' of shape [2, 5]"),
    ("layer_norm", [f32(2, 5), None, None, f64(2, 5)], {"axes": 1, "epsilon": 0.1}, "'addend' of float32"),
    ("rms_norm", [f32(2, 5), f64(5), None], {"axes": 1, "epsilon": 0.1}, "float64[5]"),
    ("rms_norm", [f32(2, 5), None, f32(1, 5)], {"axes": 1, "epsilon": 0.1}, "'addend' of shape [2, 5]"),
    ("softmax", [f32(2, 5)], {"axis": 2}, "an axis of float32[2, 5], got axis 2"),
    ("softmax", [f32()], {"axis": 0}, "axis 0"),
    ("log_softmax", [i64(2)], {"axis": 0}, "int64[2]"),
    ("sum", [f32(2, 5)], {"axes": (2,)}, "axis 2"),
    ("sum", [boolean(2)], {"axes": (0,)}, "bool[2]"),
    ("mean", [i64(2)], {"axes": (0,)}, "int64[2]"),
    ("var", [i64(2)], {"axes": (0,)}, "int64[2]"),
    ("amax", [f32(2, 0)], {"axes": (1,)}, "at least one element to reduce, got float32[2, 0]"),
    ("argmax", [f32(0)], {"axis": 0}, "at least one element"),
    ("argmin", [boolean(3)], {"axis": 0}, "bool[3]"),
    ("cumsum", [f32()], {"axis": 0}, "axis 0"),
    ("reshape", [f32(2, 3)], {"shape": (4, 2)}, "a shape of 6 elements for float32[2, 3], got [4, 2]"),
    ("reshape", [f32(2, 3)], {"shape": (-1, 2)}, "[-1, 2]"),
    ("reshape", [f32(2, 3)], {"shape": (-2, -3)}, "[-2, -3]"),
    ("reshape", [f32(1)], {"shape": (1,) * 9}, "rank 8 at most"),
    ("permute", [f32(2, 3)], {"axes_order": (0, 0)}, "every axis of float32[2, 3] once, got [0, 0]"),
    ("permute", [f32(2, 3)], {"axes_order": (0,)}, "[0]"),
    ("expand", [f32(2, 3)], {"shape": (4, 3)}, "a shape that float32[2, 3] broadcasts to, got [4, 3]"),
    ("expand", [f32(2, 3)], {"shape": (3,)}, "[3]"),
    ("expand", [f32(1)], {"shape": (-1,)}, "[-1]"),
    ("slice", [f32(4)], {"axis": 0, "start": -1, "stop": 3}, "0 <= start <= stop <= 4"),
    ("slice", [f32(4)], {"axis": 0, "start": 3, "stop": 2}, "(3, 2, 1)"),
    ("slice", [f32(4)], {"axis": 0, "start": 0, "stop": 5}, "(0, 5, 1)"),
    ("slice", [f32(4)], {"axis": 0, "start": 0, "stop": 4, "step": 0}, "step >= 1"),
    ("slice", [f32(4)], {"axis": 1, "start": 0, "stop": 4}, "axis 1"),
    ("concat", [], {"axis": 0}, "'x' to be present"),
    ("concat", [f32(2, 3), f32(3, 3)], {"axis": 1}, "'xs[1]' of the sizes of float32[2, 3] on every axis but 1"),
    ("concat", [f32(2, 3), f32(3)], {"axis": 0}, "'xs[1]' of rank 2, got float32[3]"),
    ("concat", [f32(2), f64(2)], {"axis": 0}, "float64[2]"),
    ("concat", [f32(2)], {"axis": 1}, "axis 1"),
    ("full", [], {"shape": (-1,), "value": 0.0, "dtype": "float32"}, "sizes >= 0, got [-1]"),
    ("arange", [], {"length": -1, "dtype": "int64"}, "length >= 0, got -1"),
    ("arange", [], {"length": 1, "dtype": "bool"}, "bool"),
    ("tril", [f32(3)], {"diagonal": 0}, "'x' of rank 2 to 8, got float32[3]"),
    ("embedding", [f32(4, 5), f32(2)], {}, "'ids' of int64 or int32, got float32[2]"),
    ("embedding", [f32(), i64(2)], {}, "'table' of rank 1 to 8"),
    ("gather", [f32(4, 5), i64(4)], {"axis": 1}, "'index' of rank 2, got int64[4]"),
    ("gather", [f32(4, 5), i64(5, 5)], {"axis": 1}, "no larger than float32[4, 5]"),
    ("gather", [f32(4, 5), boolean(4, 5)], {"axis": 1}, "bool[4, 5]"),
    ("index_select", [f32(4, 5), i64(2, 2)], {"axis": 1}, "'index' of rank 1, got int64[2, 2]"),
    ("index_select", [f32(4, 5), i64(2)], {"axis": 2}, "axis 2"),
    ("cumprod", [boolean(3)], {"axis": 0}, "bool[3]"),
    ("argsort", [f32(4, 5)], {"axis": 2, "count": 1}, "axis 2"),
    ("argsort", [f32(4, 5)], {"axis": 1, "count": 6}, "a count of 0 to the size of axis 1 of float32[4, 5], got 6"),
    ("argsort", [f32(4, 5)], {"axis": 1, "count": -1}, "got -1"),
    ("scatter", [f32(4, 5), i64(4, 2), f32(4, 2)], {"axis": 2}, "axis 2"),
    ("scatter", [f32(4, 5), f32(4, 2), f32(4, 2)], {"axis": 1}, "int64 or int32"),
    ("scatter", [f32(4, 5), i64(2), f32(2)], {"axis": 1}, "'index' of rank 2, got int64[2]"),
    ("scatter", [f32(4, 5), i64(5, 2), f32(5, 2)], {"axis": 1}, "on every axis but 1, got int64[5, 2]"),
    ("scatter", [f32(4, 5), i64(4, 3), f32(4, 2)], {"axis": 1}, "'index' no larger than 'source'"),
    ("scatter", [f32(4, 5), i64(4, 2), i64(4, 2)], {"axis": 1}, "'source' of float32"),
    ("scatter", [boolean(4), i64(2), boolean(2)], {"axis": 0, "reduce": "amax"}, "for reduce='amax', got bool[4]"),
    ("index_put", [f32(4, 5), f32(), i64(2)], {"axes": (0, 1)}, "got 1 indices"),
    ("index_put", [f32(4, 5), f32(3), i64(2)], {"axes": (1,)}, "shapes that broadcast"),
    ("index_put", [f32(4, 5), f32(6, 4, 2), i64(2)], {"axes": (1,)}, "'values' that broadcast to [4, 2]"),
    ("index_put", [f32(4, 5), i64(), i64(2)], {"axes": (1,)}, "'values' of float32"),
    ("index", [f32(4, 5), i64(2)], {"axes": (0, 1)}, "got 1 indices"),
    ("index", [f32(4, 5)], {"axes": ()}, "one at least, got 0 indices"),
    ("index", [f32(4, 5), boolean(4)], {"axes": (0,)}, "bool[4]"),
    ("index", [f32(4, 5), i64(2), i64(3)], {"axes": (0, 1)}, "broadcast"),
    ("index", [f32(4, 5), i64(2)], {"axes": (2,)}, "axis 2"),
    ("expand_depthwise", [f64(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 2, 2), None], PLAIN, "float64[1, 3, 4, 3]"),
    ("expand_depthwise", [f32(3, 4, 3), f32(5, 3), None, f32(5, 1, 2), None], PLAIN, "'x' of rank 4"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5), None, f32(5, 1, 2, 2), None], PLAIN, "'expand' of rank 2"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 4), None, f32(5, 1, 2, 2), None], PLAIN, "x of last size 4"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), f32(4), f32(5, 1, 2, 2), None], PLAIN, "'bias' of shape [5]"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(10, 1, 2, 2), None], PLAIN, "each of the 5 channels"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 2, 2, 2), None], PLAIN, "groups that divide"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 4, 2), None], PLAIN, "a kernel within"),
    ("expand_depthwise", [f32(1, 3, 4, 3), f32(5, 3), None, f32(5, 1, 2, 2), f32(1)], PLAIN, "'bias' of shape [5]"),
    ("embedding_norm", [f32(9, 5), None, *NONE], {"epsilon": 0.1}, "'first_ids' to be present"),
    ("embedding_norm", [f64(9, 5), i64(3), *NONE], {"epsilon": 0.1}, "float64[9, 5]"),
    ("embedding_norm", [f32(9), i64(3), *NONE], {"epsilon": 0.1}, "'first' of rank 2, got float32[9]"),
    ("embedding_norm", [f32(9, 5, 2), i64(3), *NONE], {"epsilon": 0.1}, "'first' of rank 2"),
    ("embedding_norm", [f32(9, 5), i64(3), f32(3, 1), *NONE[1:]], {"epsilon": 0.1}, "terms of [5] columns"),
    ("embedding_norm", [f32(9, 5), i64(3), f32(), *NONE[1:]], {"epsilon": 0.1}, "terms of [5] columns"),
    ("embedding_norm", [f32(9, 5), i64(3), f32(9, 4), i64(3), *NONE[2:]], {"epsilon": 0.1}, "terms of [5] columns"),
    ("embedding_norm", [f32(9, 5), i64(3), None, i64(3), *NONE[2:]], {"epsilon": 0.1}, "'second' to be present"),
    ("embedding_norm", [f32(9, 5), i64(3), None, None, f32(5), *NONE[3:]], {"epsilon": 0.1}, "'second' to be present"),
    ("embedding_norm", [f32(9, 5), i64(3), f32(4, 5), *NONE[1:]], {"epsilon": 0.1}, "broadcast"),
    ("embedding_norm", [f32(9, 5), i64(3), *NONE[:5], f32(5)], {"epsilon": 0.1, "norm": "rms_norm"}, "no bias"),
    ("embedding_norm", [f32(9, 5), i64(3), *NONE[:4], f32(4), None], {"epsilon": 0.1}, "'weight' of shape [5]"),
    ("pointwise", [], {"program": (("relu", 0),)}, "1 to 32 inputs"),
    ("quantize", [i64(2)], {"scale": 1.0}, "a float"),
    *(("quantize", [f32(2)], {"scale": scale}, "a scale that is finite") for scale in BAD_SCALES),
    ("quantize", [f32(2)], {"scale": 1.0, "dtype": "int16"}, "int8 or uint8"),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": 128}, "from -128 to 127"),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": -129}, "from -128 to 127"),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": -1, "dtype": "uint8"}, "from 0 to 255"),
    ("quantize", [f32(2)], {"scale": 1.0, "zero": 256, "dtype": "uint8"}, "from 0 to 255"),
    ("dequantize", [f32(2)], {"scale": 1.0}, "int8 or uint8"),
    *(("dequantize", [TensorType("int8", (2,))], {"scale": scale}, "a scale that is finite") for scale in BAD_SCALES),
    ("dequantize", [TensorType("int8", (2,))], {"scale": 1.0, "dtype": "int32"}, "of a float"),
    ("dequantize", [TensorType("int8", (2,))], {"scale": 1.0, "zero": 128}, "from -128 to 127"),
    ("dequantize", [TensorType("uint8", (2,))], {"scale": 1.0, "zero": -1}, "from 0 to 255"),
    ("pointwise", [f32(2)] * 33, {"program": (("relu", 0),)}, "1 to 32 inputs"),
    ("pointwise", [f32(2), None], {"program": (("add", 0, 1),)}, "all present"),
    ("pointwise", [f32(2)], {"program": ()}, "1 to 128 steps"),
    ("pointwise", [f32(2)], {"program": tuple(("relu", i) for i in range(129))}, "1 to 128 steps"),
    ("pointwise", [f32(2)], {"program": (("relu", 1),)}, "operands made before"),
    ("pointwise", [f32(2)], {"program": (("relu", 0, 0),)}, "1 operands"),
    ("pointwise", [f32(2), f32(2)], {"program": (("relu", 0),)}, "to be read"),
    ("pointwise", [f32(2)], {"program": (("relu", 0), ("exp", 0))}, "to be read"),
    ("pointwise", [f32(2), f32(3, 2)], {"program": (("relu", 0), ("add", 2, 1))}, "every step to make float32[3, 2]"),
    ("pointwise", [f64(2)], {"program": (("relu", 0),)}, "every step to make float32[2]"),
    ("pointwise", [boolean(2), boolean(2)], {"program": (("add", 0, 1),)}, "every step to make float32[2]"),
]


@pytest.mark.parametrize(("op", "types", "attributes", "says"), REFUSED)
def test_refusal_names_op_expectation_and_what_came(op, types, attributes, says):
    declared = TABLE[op]
    with pytest.raises(ValueError, match=f"^{op}: expected ") as caught:
        declared.infer(types, declared.complete(attributes))
    assert says in str(caught.value)


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
            with pytest.raises(ValueError, match=f"^{op.name}: expected .* to be present"):
                op.infer([None if i == position else t for i, t in enumerate(types)], first.complete())


@pytest.mark.parametrize(
    ("op", "count"), [("add", 1), ("add", 3), ("linear", 2), ("attention", 3), ("full", 1), ("index", 0)]
)
def test_wrong_number_of_inputs_is_refused(op, count):
    with pytest.raises(ValueError, match=f"^{op} takes inputs"):
        TABLE[op].check_arity(count)


@pytest.mark.parametrize(("op", "count"), [("add", 2), ("linear", 4), ("concat", 1), ("concat", 9), ("index", 4)])
def test_right_number_of_inputs_is_taken(op, count):
    TABLE[op].check_arity(count)


@pytest.mark.parametrize(
    ("op", "given", "says"),
    [
        ("softmax", {}, "softmax needs attribute 'axis'"),
        ("softmax", {"axis": 0, "dim": 1}, r"softmax has no attribute \['dim'\]"),
        ("softmax", {"axis": -1}, "axis=-1"),
        ("softmax", {"axis": "0"}, "axis='0'"),
        ("gelu", {"approximate": "erf"}, "approximate='erf'"),
        ("cast", {"dtype": "complex64"}, "dtype='complex64'"),
        ("sum", {"axes": (1, 0)}, "axes"),
        ("sum", {"axes": (0, 0)}, "axes"),
        ("sum", {"axes": (-1,)}, "axes"),
        ("sum", {"axes": 0}, "axes=0"),
        ("reshape", {"shape": 3}, "shape=3"),
        ("matmul", {"alpha": "1"}, "alpha='1'"),
        ("matmul", {"transpose_a": 1}, "transpose_a=1"),
        ("pointwise", {"program": "relu"}, "program='relu'"),
        ("pointwise", {"program": (("system", 0),)}, "system"),
        ("pointwise", {"program": ("relu",)}, "relu"),
        ("pointwise", {"program": (("relu", -1),)}, "-1"),
        ("pointwise", {"program": (("relu", True),)}, "True"),
        ("pointwise", {"program": (("relu", 0.0),)}, "0.0"),
        ("pointwise", {"program": (([], 0),)}, "program"),
        ("pointwise", {"program": (("where", 0, 0, 0, 0),)}, "where"),
    ],
)
def test_wrong_attributes_are_refused(op, given, says):
    with pytest.raises(ValueError, match=says):
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
    with pytest.raises(ValueError, match="'add' is declared twice"):
        declare(Op("add", "pointwise", ("a",), TABLE["add"].infer, np.add, {"x": Attribute("int")}))
    assert before == DECLARED


# --- what only data can show ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["floor_div", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
def test_integer_division_by_zero_is_an_error(op, dtype):
    with pytest.raises(ZeroDivisionError, match=f"^{op}: integer division by zero"):
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
    with pytest.raises(IndexError, match=f"^{op}: index {bad} is outside of"):
        TABLE[op].reference(np.zeros(4, np.float32), np.array([0, bad, 1]), **attributes)


@pytest.mark.parametrize("bad", [-2, 4])
def test_a_tap_out_of_range_is_an_error_that_names_it(bad):
    with pytest.raises(IndexError, match=rf"^resample: index {bad} is outside of \[-1, 4\)"):
        TABLE["resample"].reference(np.zeros(4, np.float32), np.array([[0, bad]]), np.ones((1, 2), np.float32), axis=0)


@pytest.mark.parametrize("bad", [(1.5, 1), ("1", 1), (True, 1), (1 << 31, 1), (1,) * 9, 1])
def test_a_list_of_ints_holds_ints_of_32_bits_only(bad):
    with pytest.raises(ValueError, match=r"attribute stride=.* is not of kind ints"):
        TABLE["conv"].complete(PLAIN | {"stride": bad})


@pytest.mark.parametrize(
    ("op", "others", "name"),
    [("avg_pool", WINDOW, "divisor"), ("softmax", {}, "axis"), ("full", {"shape": (1,), "dtype": "float32"}, "value")],
)
def test_a_bool_is_no_number(op, others, name):
    with pytest.raises(ValueError, match=rf"attribute {name}=True is not of kind"):
        TABLE[op].complete(others | {name: True})


@pytest.mark.parametrize("bad", [1 << 63, -(1 << 70)])
def test_an_int_has_64_bits(bad):
    with pytest.raises(ValueError, match=r"attribute divisor=.* is not of kind int"):
        TABLE["avg_pool"].complete(WINDOW | {"divisor": bad})
