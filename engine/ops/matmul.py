"""Products of matrices: the batched product, and the linear layer with its epilogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.encodings import Stored
from engine.ops.arithmetic import COMPUTE, FLOAT_COMPUTE, check_product, factor_type, product
from engine.ops.check import (
    FLOATS,
    broadcast_of,
    cast_array,
    of_dtype,
    of_rank,
    of_same_dtype,
    of_shape,
    optional,
    present,
    result,
    widened,
    wrong,
)
from engine.ops.pointwise import ACTIVATION_FLOPS, gelu_none, gelu_tanh, relu, relu6, sigmoid, silu
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "relu": relu,
    "gelu": gelu_none,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "relu6": relu6,
}


def _swapped(shape: tuple[int, ...], swap: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


def _infer_matmul(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    a = of_rank("matmul", "a", of_dtype("matmul", "a", present("matmul", inputs, 0, "a"), FLOATS), 2)
    b = of_rank("matmul", "b", of_same_dtype("matmul", "b", present("matmul", inputs, 1, "b"), a.dtype), 2)
    *batch_a, m, k = _swapped(a.shape, attributes["transpose_a"])
    *batch_b, k_b, n = _swapped(b.shape, attributes["transpose_b"])
    if k != k_b:
        raise wrong("matmul", f"inner sizes that agree: {k} of a", f"{k_b} of b ({a} and {b})")
    batch = broadcast_of("matmul", [TensorType(a.dtype, tuple(batch_a)), TensorType(a.dtype, tuple(batch_b))])
    return result("matmul", a.dtype, (*batch, m, n))


def _matmul_reference(
    a: np.ndarray,
    b: np.ndarray,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
    compute: str = "element",
) -> np.ndarray:
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    with np.errstate(all="ignore"):
        y = product(left, b, compute, transposed=transpose_b)
        return cast_array(y if alpha == 1 else alpha * y, a.dtype)


def _matmul_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    a = present("matmul", inputs, 0, "a")
    k = a.shape[-2] if attributes["transpose_a"] else a.shape[-1]
    return outputs[0].size * (2 * k + (attributes["alpha"] != 1))


declare(
    Op(
        "matmul",
        "matmul",
        ("a", "b"),
        _infer_matmul,
        _matmul_reference,
        {
            "transpose_a": Attribute("bool", False),
            "transpose_b": Attribute("bool", False),
            "alpha": Attribute("float", 1.0),
            "compute": FLOAT_COMPUTE,
        },
        flops=_matmul_flops,
        encoded={"b": "transpose_b"},
        doc="alpha * (A @ B) over the last two axes; the axes before them broadcast",
    )
)


def _infer_linear(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_rank("linear", "x", factor_type("linear", inputs, attributes, 4), 1)
    weight = of_same_dtype("linear", "weight", present("linear", inputs, 1, "weight"), x.dtype)
    k, n = _swapped(of_rank("linear", "weight", weight, 2, 2).shape, attributes["transpose_weight"])
    if x.shape[-1] != k:
        raise wrong("linear", f"x of last size {k}, as weight {weight} says", x)
    shape = (*x.shape[:-1], n)
    for position, name, expected in ((2, "bias", (n,)), (3, "residual", shape)):
        operand = optional(inputs, position)
        if operand is not None:
            of_shape("linear", name, of_same_dtype("linear", name, operand, x.dtype), expected)
    return result("linear", x.dtype, shape)


def _check_linear(inputs: Types, attributes: Attributes) -> None:
    check_product("linear", inputs, attributes, transposed=attributes["transpose_weight"])


def _linear_reference(
    x: np.ndarray,
    weight: np.ndarray | Stored,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    scale: np.ndarray | None = None,
    *,
    transpose_weight: bool,
    activation: str,
    alpha: float,
    compute: str = "element",
) -> np.ndarray:
    with np.errstate(all="ignore"):
        y = product(x, weight, compute, transposed=transpose_weight, scale=scale)
        if alpha != 1:
            y = y.dtype.type(alpha) * y
        for addend in (bias, residual):
            if addend is not None:
                y = y + addend.astype(y.dtype)
        return cast_array(ACTIVATIONS[activation](widened(y)), x.dtype if scale is None else y.dtype)


def _linear_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    k = present("linear", inputs, 0, "x").shape[-1]
    addends = sum(optional(inputs, position) is not None for position in (2, 3))
    epilogue = (attributes["alpha"] != 1) + addends + ACTIVATION_FLOPS[attributes["activation"]]
    return outputs[0].size * (2 * k + epilogue)


declare(
    Op(
        "linear",
        "matmul",
        ("x", "weight", "bias?", "residual?", "scale?"),
        _infer_linear,
        _linear_reference,
        {
            "transpose_weight": Attribute("bool", True),
            "activation": Attribute("choice", "none", tuple(ACTIVATIONS)),
            "alpha": Attribute("float", 1.0),
            "compute": COMPUTE,
        },
        flops=_linear_flops,
        inplace=(3,),  # the residual is read at the index that is written, and nowhere else
        encoded={"weight": "transpose_weight"},
        check_encoded=_check_linear,
        doc="activation(alpha * x @ W + bias + residual); x [..., K], W [N, K] if transpose_weight else [K, N], "
        "bias [N], residual [..., N]; for compute=int8 x is bytes with scale [..., 1]",
    )
)


def _infer_gated_linear(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_rank("gated_linear", "x", factor_type("gated_linear", inputs, attributes, 3), 1)
    weight = of_same_dtype("gated_linear", "weight", present("gated_linear", inputs, 1, "weight"), x.dtype)
    k, both = _swapped(of_rank("gated_linear", "weight", weight, 2, 2).shape, attributes["transpose_weight"])
    if x.shape[-1] != k or both % 2:
        raise wrong("gated_linear", f"a weight of {x.shape[-1]} by twice the features", weight)
    bias = optional(inputs, 2)
    if bias is not None:
        of_shape("gated_linear", "bias", of_same_dtype("gated_linear", "bias", bias, x.dtype), (both,))
    return result("gated_linear", x.dtype, (*x.shape[:-1], both // 2))


def _check_gated_linear(inputs: Types, attributes: Attributes) -> None:
    check_product("gated_linear", inputs, attributes, transposed=attributes["transpose_weight"])


def _gated_linear_reference(
    x: np.ndarray,
    weight: np.ndarray | Stored,
    bias: np.ndarray | None,
    scale: np.ndarray | None = None,
    *,
    transpose_weight: bool,
    activation: str,
    compute: str = "element",
) -> np.ndarray:
    with np.errstate(all="ignore"):
        y = product(x, weight, compute, transposed=transpose_weight, scale=scale)
        if bias is not None:
            y = y + bias.astype(y.dtype)
        gate, up = np.split(widened(y), 2, axis=-1)
        return cast_array(ACTIVATIONS[activation](gate) * up, x.dtype if scale is None else y.dtype)


def _gated_linear_flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    k = present("gated_linear", inputs, 0, "x").shape[-1]
    biases = 0 if optional(inputs, 2) is None else 2
    return outputs[0].size * (4 * k + biases + ACTIVATION_FLOPS[attributes["activation"]] + 1)


declare(
    Op(
        "gated_linear",
        "matmul",
        ("x", "weight", "bias?", "scale?"),
        _infer_gated_linear,
        _gated_linear_reference,
        {
            "transpose_weight": Attribute("bool", True),
            "activation": Attribute("choice", "silu", tuple(ACTIVATIONS)),
            "compute": COMPUTE,
        },
        flops=_gated_linear_flops,
        encoded={"weight": "transpose_weight"},
        check_encoded=_check_gated_linear,
        doc="activation(x @ G + g) * (x @ U + u), the gated layer of SwiGLU and its kin (Shazeer 2020); weight is G "
        "and U one after the other, [2N, K] if transpose_weight else [K, 2N], bias g and u, [2N]; "
        "for compute=int8 x is bytes with scale [..., 1]",
    )
)
