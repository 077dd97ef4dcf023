"""The right outputs of a quantised case: the model with weights and activations as a precision stores them.

Restates the rule of `engine.passes.precision` and the arithmetic of `engine.ops.arithmetic` over the ATen calls of an
eager run, so a mistake in a pass or a kernel of the engine is not repeated here. Only `engine.encodings` is shared, and
has tests of its own.

A weight is a floating-point tensor that does not depend on the inputs and meets a tensor that does:

    call            weight                  a scale for each      int4: groups along
    mm, addmm       second factor [K, N]    column                K
    mv              matrix [N, K]           row                   K
    convolution     [O, C / groups, *S]     output channel        (int8 instead)
    embedding       table [rows, width]     row                   width

Linear layers, `matmul` and `conv2d` consist of these calls. A batch of one product, which `einsum` makes, counts as
`mm`. A parameter with two axes that ``table[ids]`` or `index_select` reads is a table of an embedding. Transposed
convolutions and batched products keep their weights. A matrix whose summed axis is not a multiple of 32 is stored as
int8 as well. For ``int8_dynamic`` an embedding and a convolution are decoded only. ``int8_weight_tensor`` has one scale
for each weight.

A recipe gives each weight a precision of its own. It may be ``bf16`` or ``fp16``, which round the weight. Products in
``bf16`` also round what the weight meets: this is done in the float32 run alone, so that its error says how much the
rounding changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from engine import dtypes
from engine.encodings import INT4, INT8_CHANNEL, INT8_TENSOR, Encoding
from engine.exporter.torch_internals import TorchDispatchMode, tree_map
from suites.backends.base import to_numpy
from suites.harness.judge.layers import Layers

GROUP = 32
"""Elements that share a scale in ``int4_weight``."""
_FLOATS = (torch.float64, torch.float32)
_ROUNDED = {"bf16": "bfloat16", "fp16": "float16"}
"""Precision of a recipe -> the type that weights are rounded to."""


class Weight(NamedTuple):
    """Where a call has its weight.

    Attributes:
        position: of the weight among the arguments.
        other: of the tensor that it meets.
        channel: axis with a scale for each index.
        summed: axis that groups are along.
    """

    position: int
    other: int
    channel: int
    summed: int


_aten = torch.ops.aten
WEIGHTS: dict[Any, Weight] = {
    _aten.mm.default: Weight(1, 0, 1, 0),
    _aten.addmm.default: Weight(2, 1, 1, 0),
    _aten.mv.default: Weight(0, 1, 0, 1),
    _aten.convolution.default: Weight(1, 0, 0, 1),
    _aten.embedding.default: Weight(0, 1, 0, 1),
}
"""ATen call -> its weight."""


class Quantised(TorchDispatchMode):
    """While entered, weights are read as `precision` stores them, and ``int8_dynamic`` quantises what they meet.

    The caller switches off torch's fused encoder layer and attention (`fused`). Each is one call that takes all weights
    of the layer and has no decomposition, so its weights would be read as they are.

    Args:
        precision: a quantised one.
        inputs: the tensors that the model is called with.
        layers: entered already; it gives each weight a precision instead of `precision`.
    """

    def __init__(self, precision: str, inputs: Sequence[torch.Tensor], layers: Layers | None = None) -> None:
        super().__init__()
        self._precision = precision
        self._layers = layers
        self._varying = {id(tensor): tensor for tensor in inputs}  # the tensors too, so that no id is used again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in WEIGHTS:
            with self:  # in inference mode linear and matmul arrive whole
                folded = self._fold(func, args)
                result = func.decompose(*args, **kwargs) if folded is None else folded
            if result is not NotImplemented:
                return result
        place = WEIGHTS.get(func)
        if place is not None and self._is_weight(func, place, args):
            result = self._read(func, place, args, kwargs)
        else:
            result = func(*args, **kwargs)
        found: list[bool] = []
        tree_map(lambda one: found.append(id(one) in self._varying), [args, kwargs])
        if any(found):
            tree_map(self._note, result)
        return result

    def _fold(self, func: Any, args: Any) -> torch.Tensor | None:
        """The result of a call that is made of calls in `WEIGHTS`; None for others."""
        if func is _aten.matmul.default:
            return self._fold_matmul(*args)
        if func is _aten.bmm.default:
            a, b = args
            is_weight = len(b) == 1 and id(a) in self._varying and id(b) not in self._varying
            return torch.mm(a[0], b[0])[None] if is_weight else None
        if func in (_aten.index.Tensor, _aten.index_select.default):
            return _fold_index(*(args if func is _aten.index.Tensor else (args[0], [None] * args[1] + [args[2]])))
        return None

    def _fold_matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        """A @ B as one product of matrices where one of both is a weight; None elsewhere.

        Torch may make a batched product of it. A weight from the left counts where it meets a transpose, W @ x^T.
        """
        is_left, is_right = (one.ndim == 2 and id(one) not in self._varying for one in (a, b))
        if is_right and id(a) in self._varying:
            return torch.mm(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
        if is_left and id(b) in self._varying and b.ndim > 1 and b.stride(-1) > b.stride(-2):
            rows = b.mT
            return torch.mm(rows.reshape(-1, rows.shape[-1]), a.t()).reshape(*rows.shape[:-1], a.shape[0]).mT
        return None

    def _note(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self._varying[id(value)] = value
        return value

    def _is_weight(self, func: Any, place: Weight, args: Any) -> bool:
        weight, other = args[place.position], args[place.other]
        varies = id(other) in self._varying and id(weight) not in self._varying
        is_transposed = func is _aten.convolution.default and args[6]
        return varies and not is_transposed and weight.dtype in _FLOATS

    def _read(self, func: Any, place: Weight, args: Any, kwargs: Any) -> Any:
        """The result of a call whose weight is stored in few bits."""
        weight = args[place.position]
        precision = self._precision if self._layers is None else self._layers.precision_of(weight)
        if precision == "fp32":
            return func(*args, **kwargs)
        if precision in _ROUNDED:
            return self._read_rounded(func, place, args, kwargs, precision)
        encoding = encoding_of(precision, tuple(weight.shape), place)
        components = encoding.encode(to_numpy(weight))
        changed = list(args)
        if precision != "int8_dynamic" or func in (_aten.embedding.default, _aten.convolution.default):
            changed[place.position] = torch.from_numpy(encoding.decode(components, "float32")).to(weight.dtype)
            return func(*changed, **kwargs)
        x = args[place.other]
        shape = (1, -1) if func is _aten.mv.default else (x.shape[0], -1)
        whole, scale = _quantise(x.reshape(shape))
        changed[place.other] = whole.reshape(x.shape)
        changed[place.position] = torch.from_numpy(encoding.integers(components)).double()
        return _scaled(func, changed, kwargs, scale, torch.from_numpy(components["scale"]).double()).to(x.dtype)

    def _read_rounded(self, func: Any, place: Weight, args: Any, kwargs: Any, precision: str) -> Any:
        """The result of a call whose weight is rounded, and in the float32 run what a product in bfloat16 reads."""
        dtype, changed = _ROUNDED[precision], list(args)
        changed[place.position] = _rounded(args[place.position], dtype)
        x = args[place.other]
        is_grouped = func is _aten.convolution.default and args[8] != 1  # multiplies decoded weights in float32
        if precision == "bf16" and x.dtype is torch.float32 and not is_grouped:
            changed[place.other] = _rounded(x, dtype)
        return func(*changed, **kwargs)


def _quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers [R, K] and scales [R, 1] of rows [R, K], both as float64."""
    x = x.float()
    most = x.abs().amax(1, keepdim=True)
    scale = (most / 127).clamp_min(2.0**-126)
    usable = most.isfinite()
    whole = torch.where(usable, x * (1 / scale), torch.zeros_like(x)).round()
    return whole.double(), torch.where(usable, scale, torch.full_like(scale, torch.nan)).double()


def _fold_index(table: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Rows of a parameter with two axes as an embedding; None for everything else."""
    is_table = isinstance(table, torch.nn.Parameter) and table.ndim == 2 and len(indices) == 1
    ids = indices[0] if is_table else None
    if ids is None or ids.dtype in (torch.bool, torch.uint8):
        return None
    return torch.nn.functional.embedding(torch.where(ids < 0, ids + len(table), ids), table)


def _rounded(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """The nearest numbers of a narrower type. By NumPy, because the float64 run lifts every cast of torch."""
    return torch.from_numpy(to_numpy(tensor).astype(dtypes.dtype(dtype).numpy).astype(np.float64)).to(tensor.dtype)


def encoding_of(precision: str, shape: tuple[int, ...], place: Weight) -> Encoding:
    """How a weight of `shape` is stored."""
    if precision == "int4_weight" and len(shape) == 2 and shape[place.summed] % GROUP == 0:
        return INT4[GROUP].along(place.summed)
    return INT8_TENSOR if precision == "int8_weight_tensor" else INT8_CHANNEL.along(place.channel)


def _scaled(func: Any, args: list[Any], kwargs: Any, rows: torch.Tensor, channels: torch.Tensor) -> torch.Tensor:
    """The result of a call on integers, scaled for each row and channel, with its bias added after that; float64."""
    if func is _aten.addmm.default:
        product = args[1] @ args[2] * rows * channels
        return kwargs.get("beta", 1) * args[0].double() + kwargs.get("alpha", 1) * product
    result: torch.Tensor = func(*args) * (rows * channels).squeeze(0 if func is _aten.mv.default else ())
    return result
