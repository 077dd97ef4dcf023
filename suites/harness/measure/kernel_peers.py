"""What torch is asked for beside each kernel: the case that the C test program describes, and its time by torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine import dtypes, torch_ops
from suites.torch_internals import multiply_bytes, multiply_int8

PRODUCTS = ("linear", "gated_linear", "matmul", "attention", "conv", "conv_transpose", "expand_depthwise")
_CHANNELS_LAST = 34  # of the numbers of conv and conv_transpose: EB_INT_CONV_CHANNELS_LAST of csrc/ops.h
_INDEXED = ("embedding", "index_select", "index", "gather", "scatter")  # by their second operand
_POSITIVE = ("log", "pow")  # no result below 0; torch, too, is given what the test program gives itself


@dataclass(frozen=True)
class Case:
    """What one line `case` of the test program says."""

    op: str
    name: str
    flops: float
    read: float  # bytes
    written: float
    ints: tuple[int, ...]
    operands: tuple[str, ...]  # "f32:2,3", "bool:4" or "-"

    @classmethod
    def parse(cls, line: str) -> Case:
        """The case of a line."""
        _, op, name, flops, read, written, ints, operands = line.split("\t")
        taken = written if op in _INDEXED else read  # of a table as much as comes out
        numbers, names = map(int, filter(None, ints.split(","))), filter(None, operands.strip().split(";"))
        return cls(op, name, float(flops), float(taken), float(written), tuple(numbers), tuple(names))

    @property
    def bytes(self) -> float:
        """Read and written."""
        return self.read + self.written


def _multiply(c: Case, x: Tensor, weight: Tensor, rows: Tensor | None, scale: Tensor | None) -> Tensor:
    """X times W. `rows` and `scale` are what the integers of x and of the weight are multiplied by."""
    if rows is not None and scale is not None:
        return multiply_bytes(x, weight) * scale * rows
    if scale is not None:
        return multiply_int8(x, weight, scale)
    return functional.linear(x, weight if c.ints[0] else weight.T)


def _linear(
    c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None, rows: Tensor | None, scale: Tensor | None = None
) -> Tensor:
    if scale is not None:
        return _multiply(c, x, weight, rows, scale) + bias
    y = functional.linear(x, weight if c.ints[0] else weight.T, bias)
    return functional.gelu(y) if c.ints[1] else y


def _gated_linear(
    c: Case, x: Tensor, weight: Tensor, _bias: None, rows: Tensor | None, scale: Tensor | None = None
) -> Tensor:
    gate, up = _multiply(c, x, weight, rows, scale).chunk(2, -1)
    return functional.silu(gate) * up


def _conv(c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None) -> Tensor:
    """Of an image as it lies, with its channels last or first; `high` equals `low`. Lists are of eight."""
    first = x.permute(0, 3, 1, 2) if c.ints[_CHANNELS_LAST] else x
    groups = first.shape[1] // weight.shape[1]
    return functional.conv2d(first, weight, bias, c.ints[0:2], c.ints[8:10], groups=groups).relu_()


def _pool(c: Case, x: Tensor, function: Callable[..., Tensor]) -> Tensor:
    """Of an image as `_conv`; channels_last is the last of the numbers."""
    first = x.permute(0, 3, 1, 2) if c.ints[-1] else x
    return function(first, c.ints[0:2], c.ints[8:10], c.ints[16:18])


def _expand_depthwise(c: Case, x: Tensor, expand: Tensor, before: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `_conv`, twice; both with ReLU6."""
    between = functional.hardtanh_(functional.conv2d(x.permute(0, 3, 1, 2), expand[:, :, None, None], before), 0.0, 6.0)
    y = functional.conv2d(between, weight, bias, c.ints[0:2], c.ints[8:10], groups=weight.shape[0])
    return functional.hardtanh_(y, 0.0, 6.0)


def _conv_transpose(c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None) -> Tensor:
    """As `_conv`; what `low` has more than `high` is torch's output padding."""
    stride, low, high = c.ints[0:2], c.ints[8:10], c.ints[16:18]
    more, groups = [a - b for a, b in zip(low, high, strict=True)], c.ints[32]
    first = x.permute(0, 3, 1, 2)
    return functional.conv_transpose2d(first, weight, bias, stride, low, more, groups).relu_()


def _channels_first(x: Tensor, axis: int) -> Tensor:
    """An image that is turned along or padded at `axis`: of those cases 3 is the one with channels on axis 1."""
    return x if axis == 3 else x.permute(0, 3, 1, 2)


def _resample(c: Case, x: Tensor, index: Tensor, _weight: Tensor) -> Tensor:
    first, axis = _channels_first(x, c.ints[0]), c.ints[0]
    size = list(first.shape[2:])
    size[axis - 2 if axis == 3 else axis - 1] = index.shape[0]
    return functional.interpolate(first, size, mode="bicubic" if index.shape[1] == 4 else "bilinear")


def _pad(c: Case, x: Tensor) -> Tensor:
    """One pixel around pictures."""
    first = _channels_first(x, 3 if c.ints[3] else 1)
    return functional.pad(first, (1, 1, 1, 1), ("constant", "reflect", "replicate", "circular")[c.ints[16]])


def _matmul(c: Case, a: Tensor, b: Tensor) -> Tensor:
    return (a.mT if c.ints[0] else a) @ (b.mT if c.ints[1] else b)


def _attention(c: Case, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    grouped = q.shape[-3] != k.shape[-3]
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(c.ints[0]), enable_gqa=grouped)


def _rope(_c: Case, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cosines + torch.cat([-high, low], -1) * sines


def _selective_scan(c: Case, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c_: Tensor, *others: Tensor) -> Tensor:
    skip, gate, bias = others
    first = [t.mT for t in (x, delta, b, c_, gate)]
    return torch_ops.selective_scan(*first[:2], a, *first[2:4], skip, first[4], bias, bool(c.ints[0]))


def _quantize_rows(_c: Case, x: Tensor) -> Tensor:
    scale = (x.abs().amax(-1, keepdim=True) / 127).clamp_min(2.0**-126)
    return torch.round(x * (1 / scale)).to(torch.int8)


def _axes(c: Case, x: Tensor) -> list[int]:
    return [axis for axis in range(x.ndim) if c.ints[0] >> axis & 1]


def _sum(x: Tensor, addend: Tensor | None) -> Tensor:
    return x if addend is None else x + addend


def _created(case: Case) -> int:
    """How many int64 an op without operands writes."""
    return int(case.written) // 8


# What torch is asked for where the op has no function of the same name that takes the operands alone.
_TORCH: dict[str, Callable[..., Tensor]] = {
    "linear": _linear,
    "gated_linear": _gated_linear,
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": partial(_pool, function=functional.max_pool2d),
    "avg_pool": partial(_pool, function=functional.avg_pool2d),
    "expand_depthwise": _expand_depthwise,
    "resample": _resample,
    "pad": _pad,
    "attention": _attention,
    "layer_norm": lambda _c, x, weight, bias, more: functional.layer_norm(_sum(x, more), weight.shape, weight, bias),
    "rms_norm": lambda _c, x, weight, more: functional.rms_norm(_sum(x, more), weight.shape, weight),
    "group_norm": lambda c, x, *affine: functional.group_norm(x.movedim(-1, 1) if c.ints[1] else x, c.ints[0], *affine),
    "rope": _rope,
    "selective_scan": _selective_scan,
    "softmax": lambda c, x: torch.softmax(x, c.ints[0]),
    "gelu": lambda _c, x: functional.gelu(x),
    "quantize_rows": _quantize_rows,
    "pointwise": lambda _c, x, scale, bias, gate: torch.relu(x * scale + bias) * gate - x,
    "copy": lambda _c, x: x.clone(),
    "sum": lambda c, x: x.sum(_axes(c, x)),
    "amax": lambda c, x: x.amax(_axes(c, x)),
    "var": lambda c, x: x.var(_axes(c, x)),
    "argmax": lambda c, x: x.argmax(c.ints[0]),
    "full": lambda c: torch.full((_created(c),), 1, dtype=torch.int64),
    "arange": lambda c: torch.arange(1, _created(c) + 1),
    "embedding": lambda _c, table, ids: functional.embedding(ids, table),
    "index_select": lambda c, x, ids: x.index_select(c.ints[0], ids),
    "index": lambda _c, x, ids: x[ids],
    "gather": lambda c, x, ids: x.gather(c.ints[0], ids),
    "index_put": lambda _c, x, values, *ids: x.index_put(ids, values),
    "scatter": lambda c, x, ids, source: x.scatter(c.ints[0], ids, source),
    "cast": lambda c, x: x.to(getattr(torch, dtypes.DTYPES[c.ints[0]].name)),
}


def _operand(text: str) -> Tensor | None:
    """A tensor of ordinary numbers of the dtype and shape of `text`; a mask lets everything through."""
    if text == "-":
        return None
    dtype, _, axes = text.partition(":")
    shape = [int(n) for n in axes.split(",") if n]
    if dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    declared = next(d for d in dtypes.DTYPES if d.code.lower() == dtype)
    x = torch.rand(shape) * 2 - 1
    return (
        x.to(getattr(torch, declared.name)) if declared.kind == "float" else (x * 100).to(getattr(torch, declared.name))
    )


def torch_timer(case: Case) -> Callable[[], float]:
    """A function that returns the seconds of a warm run by torch: the mean of as many as take two milliseconds."""
    operands: list[Any] = [_operand(text) for text in case.operands]
    if case.op in ("conv", "conv_transpose") and case.ints[_CHANNELS_LAST]:  # the weight, as torch wants it beside that
        operands[1] = operands[1].contiguous(memory_format=torch.channels_last)
    if case.op in _INDEXED:
        data, ids = operands[0], operands[1]
        axis = case.ints[0] if case.op in ("index_select", "gather", "scatter") else 0
        operands[1] = torch.randint(data.shape[axis], ids.shape)
    if case.op == "index_put":
        sizes = operands[0].shape
        operands[2:] = [torch.randint(n, ids.shape) for n, ids in zip(sizes, operands[2:], strict=False)]
    for name, dtype in (("bf16:", torch.bfloat16), ("f16:", torch.float16)):
        if case.op in PRODUCTS and any(text.startswith(name) for text in case.operands):
            operands = [None if x is None else x.to(dtype) for x in operands]  # torch multiplies factors of one type
    if case.op in _POSITIVE:
        operands = [None if x is None else x.abs() for x in operands]
    function = _TORCH.get(case.op)
    call = partial(function, case, *operands) if function else partial(getattr(torch, case.op), *operands)

    def seconds() -> float:
        repeats = 1
        with torch.inference_mode():
            call()
            while True:
                start = time.thread_time()
                for _ in range(repeats):
                    call()
                spent = time.thread_time() - start
                if spent >= 2e-3:
                    return spent / repeats
                repeats *= 2

    return seconds
