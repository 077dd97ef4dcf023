"""Each op's NumPy definition against torch, and its shape and dtype rule against what the definition returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from engine import dtypes
from engine.ops import TABLE
from tests.ops.case import Case, results_of, types_of
from tests.ops.cases import CASES
from tests.ops.torch_spatial import SPATIAL, activated

# Both sides compute in float64 and round once, so they differ where two nearly equal float64 fall on either side of a
# rounding border: one unit in the last place. For float64 itself: the order of summation.
RELATIVE = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 1e-12}
ABSOLUTE = {"float32": 1e-12, "float16": 2.0**-24, "bfloat16": 1e-12, "float64": 1e-12}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """As float64 where it is a float."""
    if dtypes.from_numpy(array.dtype).kind == "float":
        return torch.from_numpy(np.array(array.astype(np.float64)))
    return torch.from_numpy(np.array(array))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return np.asarray(tensor.contiguous().numpy())


def _linear(x, weight, bias, residual, _scale, *, transpose_weight, activation, alpha, compute="element"):
    assert compute == "element"  # test_arithmetic.py has the others
    y = functional.linear(x, alpha * (weight if transpose_weight else weight.T), bias)
    return activated(activation, y if residual is None else y + residual)


def _quantize(x, scale, zero, dtype):
    steps = torch.round(x.float() / torch.tensor(scale, dtype=torch.float32)).nan_to_num(0, torch.inf, -torch.inf)
    kind = getattr(torch, dtype)
    return (steps + zero).clamp(torch.iinfo(kind).min, torch.iinfo(kind).max).to(kind)


def _quantize_rows(x):
    x = x.float()
    most = x.abs().amax(-1, keepdim=True) if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)
    scale = (most / 127).clamp_min(2.0**-126)
    data = torch.where(most.isfinite(), torch.round(x * (1 / scale)), torch.zeros_like(x))
    return data.to(torch.int8), torch.where(most.isfinite(), scale, torch.full_like(scale, torch.nan))


def _gated_linear(x, weight, bias, _scale, *, transpose_weight, activation, compute):
    assert compute == "element"
    gate, up = functional.linear(x, weight if transpose_weight else weight.T, bias).chunk(2, -1)
    return activated(activation, gate) * up


def _matmul(a, b, transpose_a, transpose_b, alpha, compute):
    assert compute == "element"
    return alpha * torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def _attention(q, k, v, mask, *, scale, causal, masked_rows, transpose_output):
    if causal:
        below = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        if mask is None:
            mask = below
        else:
            mask = mask & below if mask.dtype == torch.bool else mask.masked_fill(~below, -torch.inf)
    elif mask is not None and mask.ndim < 2:
        mask = mask.expand(q.shape[-2], k.shape[-2])  # SDPA takes no smaller one
    share = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    if masked_rows == "zero":
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    else:
        scores = scale * (q @ k.mT)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        y = torch.softmax(scores, -1) @ v
    return y.transpose(-2, -3) if transpose_output else y


def _position(function):
    """torch names no rule for equal elements; the first of them is found by comparison with the extreme."""

    def apply(x, axis, keepdims):
        extreme = function(x, dim=axis, keepdim=True)
        hit = (x == extreme) | (torch.isnan(x) if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool))
        order = torch.arange(x.shape[axis], 0, -1).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        return torch.argmax(hit * order, dim=axis, keepdim=keepdims)

    return apply


def _over_axes(function):
    """torch takes an empty list of axes for all of them."""

    def apply(x, axes, keepdims, **more):
        if not axes:
            return function(x.unsqueeze(0), dim=0, keepdim=False, **more)
        return function(x, dim=axes, keepdim=keepdims, **more)

    return apply


def _one_by_one(function):
    """For functions of torch that reduce one axis only."""

    def apply(x, axes, keepdims):
        if not axes:
            return function(x.unsqueeze(0), dim=0, keepdim=False)
        for axis in reversed(axes):
            x = function(x, dim=axis, keepdim=keepdims)
        return x

    return apply


def _in_own_type(function):
    """torch sums small integers in int64; cutting that off is what wrapping gives."""
    return lambda x, **how: function(x, **how).to(x.dtype)


def _index(x, *indices, axes):
    where: list[Any] = [None] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        where[axis] = index.long()
    return torch.ops.aten.index.Tensor(x, where)  # x[i, ...] would take an i of rank 0 for an integer


def _slice(x, axis, start, stop, step):
    return x[(*[slice(None)] * axis, slice(start, stop, step))]


def _rope(x, cos, sin):
    """As complex numbers: (x1 + i x2) turned by the angle, where the angles of both halves may differ."""
    wide, cos, sin = (t.double() for t in (x, cos, sin))
    halves = torch.complex(*wide.chunk(2, -1))
    low, high = (halves * torch.complex(c, s) for c, s in zip(cos.chunk(2, -1), sin.chunk(2, -1), strict=True))
    return torch.cat([low.real, high.imag], -1).to(x.dtype)


def _selective_scan(x, delta, a, b, c, skip, gate, bias, *, softplus):
    """Without a recurrence: what position s took in has decayed by the steps from s to t when it is read at t."""
    step = delta if bias is None else delta + bias
    step = functional.softplus(step) if softplus else step
    between = step.cumsum(1)[:, :, None] - step.cumsum(1)[:, None]  # [N, t, s, D]
    taken = (step * x)[..., None] * b[:, :, None]
    seen = torch.exp(between[..., None] * a) * taken[:, None] * c[:, :, None, None]
    past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[:, :, None, None]
    y = torch.where(past, seen, 0).sum((2, 4))
    y = y if skip is None else y + skip * x
    return y if gate is None else y * functional.silu(gate)


def _norm(function):
    def apply(x, *rest, axes, epsilon):
        *affine, addend = rest
        return function(x if addend is None else x + addend, x.shape[-axes:], *affine, eps=epsilon)

    return apply


def _torch_dtype(name: str) -> torch.dtype:
    """float64 where it is a float: the other side is rounded afterwards."""
    return torch.float64 if dtypes.dtype(name).kind == "float" else getattr(torch, name)


_STEPS: dict[str, Any] = {
    "relu": functional.relu,
    "silu": functional.silu,
    "erf": torch.special.erf,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


def _pointwise(*xs, program):
    """Each step rounded to float32, whatever the inputs were widened to: that is what a program means."""
    values = list(xs)
    for name, *operands in program:
        step = _STEPS.get(name) or getattr(torch, name)
        values.append(step(*(values[o] for o in operands)).to(torch.float32).to(torch.result_type(xs[-1], xs[-1])))
    return values[-1]


def _embedding_norm(first, first_ids, second, second_ids, third, third_ids, weight, bias, *, norm, epsilon):
    """Sums are rounded to float32 whatever the tables were widened to."""
    total = first[first_ids.long()]
    for values, ids in ((second, second_ids), (third, third_ids)):
        if values is not None:
            total = total + (values if ids is None else values[ids.long()])
            total = total.to(torch.float32).to(first.dtype)
    width = total.shape[-1:]
    if norm == "layer_norm":
        return functional.layer_norm(total, width, weight, bias, epsilon)
    return functional.rms_norm(total, width, weight, epsilon)


def _expand_depthwise(x, expand, expand_bias, weight, bias, *, expand_activation, activation, **spatial):
    """What lies between is rounded to float32 whatever x was widened to."""
    between = activated(expand_activation, functional.linear(x, expand, expand_bias))
    between = between.to(torch.float32).to(x.dtype)
    how = {**spatial, "groups": weight.shape[0], "activation": activation, "channels_last": True}
    return SPATIAL["conv"](between, weight, bias, None, **how)


def _group_norm(x, weight, bias, groups, epsilon, channels_last):
    """torch refuses images of no places."""
    if x.numel() == 0:
        return x.clone()
    y = functional.group_norm(x.movedim(-1, 1) if channels_last else x, groups, weight, bias, epsilon)
    return y.movedim(1, -1) if channels_last else y


def _argsort(x, axis, count, descending):
    return torch.argsort(x, dim=axis, descending=descending, stable=True).narrow(axis, 0, count)


def _scatter(x, index, source, axis, reduce):
    if reduce == "none":
        return torch.scatter(x, axis, index.long(), source)
    if x.dtype == torch.bool:
        return torch.scatter_add(x.long(), axis, index.long(), source.long()).bool()
    return torch.scatter_reduce(x, axis, index.long(), source, reduce)


def _index_put(x, values, *indices, axes, accumulate):
    where: list[Any] = [None] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        where[axis] = index.long()
    return torch.ops.aten.index_put(x, where, values, accumulate)


TORCH: dict[str, Any] = {
    "argsort": _argsort,
    "scatter": _scatter,
    "index_put": _index_put,
    **{name: getattr(torch, name) for name in ("exp2", "log2", "log10", "tan", "asin", "acos", "atan", "sinh", "cosh")},
    **{name: getattr(torch, name) for name in ("asinh", "acosh", "atanh", "erfc", "fmod", "atan2", "copysign")},
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "cumprod": _in_own_type(lambda x, axis: x.cumprod(axis)),
    "embedding_norm": _embedding_norm,
    "expand_depthwise": _expand_depthwise,
    "pointwise": _pointwise,
    **SPATIAL,
    **{name: getattr(torch, name) for name in ("neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt")},
    **{name: getattr(torch, name) for name in ("reciprocal", "sin", "cos", "tanh", "sigmoid", "erf", "relu", "floor")},
    **{
        name: getattr(torch, name)
        for name in ("ceil", "round", "trunc", "logical_not", "bitwise_not", "isnan", "isinf")
    },
    "silu": functional.silu,
    "gelu": functional.gelu,
    "cast": lambda x, dtype: x.to(_torch_dtype(dtype)),
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "remainder")},
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "where")},
    **{name: getattr(torch, name) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: getattr(torch, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "floor_div": torch.floor_divide,
    "matmul": _matmul,
    "linear": _linear,
    "gated_linear": _gated_linear,
    "attention": _attention,
    "layer_norm": _norm(functional.layer_norm),
    "rms_norm": _norm(functional.rms_norm),
    "group_norm": _group_norm,
    "rope": _rope,
    "selective_scan": _selective_scan,
    "softmax": lambda x, axis: x.softmax(axis),
    "log_softmax": lambda x, axis: x.log_softmax(axis),
    "sum": _in_own_type(_over_axes(torch.sum)),
    "mean": _over_axes(torch.mean),
    "prod": _in_own_type(_one_by_one(torch.prod)),
    "amax": _over_axes(torch.amax),
    "amin": _over_axes(torch.amin),
    "any": _over_axes(lambda x, **how: torch.any(x.bool(), **how)),
    "all": _over_axes(lambda x, **how: torch.all(x.bool(), **how)),
    "argmax": _position(torch.amax),
    "argmin": _position(torch.amin),
    "var": _over_axes(torch.var),
    "cumsum": _in_own_type(lambda x, axis: x.cumsum(axis)),
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, axes_order: x.permute(axes_order),
    "expand": lambda x, shape: x.expand(shape),
    "slice": _slice,
    "concat": lambda *xs, axis: torch.cat(xs, axis),
    "copy": torch.clone,
    "flip": lambda x, axes: x.flip(axes),
    "windows": lambda x, axis, size, step: x.unfold(axis, size, step),
    "full": lambda shape, value, dtype: torch.full(shape, value, dtype=torch.float64).to(_torch_dtype(dtype)),
    "arange": lambda start, step, length, dtype: (start + step * torch.arange(length, dtype=torch.float64)).to(
        _torch_dtype(dtype)
    ),
    "tril": torch.tril,
    "triu": torch.triu,
    "quantize_rows": _quantize_rows,
    "quantize": _quantize,
    "dequantize": lambda x, scale, zero, dtype: (x.double() - zero) * float(np.float32(scale)),
    "embedding": lambda table, ids: table[ids.long()],
    "gather": lambda x, index, axis: torch.gather(x, axis, index.long()),
    "index_select": lambda x, index, axis: torch.index_select(x, axis, index),
    "index": _index,
}


# torch warns where n - correction <= 0; what it returns there is compared all the same.
quiet_var = pytest.mark.filterwarnings(r"ignore:var\(\). degrees of freedom is <= 0:UserWarning")


def _expected(case: Case) -> list[np.ndarray]:
    tensors = [None if a is None else to_torch(a) for a in case.inputs()]
    return [_to_numpy(one) for one in results_of(TORCH[case.op](*tensors, **case.complete()))]


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Exactly for integers and bool; floats after rounding to the type of `actual`, NaN and infinities in place."""
    assert actual.shape == expected.shape
    kind = dtypes.from_numpy(actual.dtype)
    if kind.kind != "float":
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        return
    with np.errstate(over="ignore"):
        rounded = expected.astype(actual.dtype).astype(np.float64)
    np.testing.assert_allclose(
        actual.astype(np.float64), rounded, rtol=RELATIVE[kind.name], atol=ABSOLUTE[kind.name], equal_nan=True
    )


@contextmanager
def _named(case: Case) -> Iterator[None]:
    """An error says which case it is about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"case {case.id}")
        raise


def _of_op(op: str, cases: Sequence[Case] = CASES) -> Iterator[Case]:
    return (case for case in cases if case.op == op)


@quiet_var
@pytest.mark.parametrize("op", TABLE)
def test_reference_agrees_with_torch(op):
    for case in _of_op(op):
        with _named(case):
            found = results_of(TABLE[op].reference(*case.inputs(), **case.complete()))
            for actual, expected in zip(found, _expected(case), strict=True):
                assert_same(actual, expected)


@pytest.mark.parametrize("op", TABLE)
def test_inferred_type_is_what_the_reference_returns(op):
    for case in _of_op(op):
        with _named(case):
            check_inferred_type(case)


def check_inferred_type(case: Case) -> None:
    inputs, op = case.inputs(), TABLE[case.op]
    op.check_arity(len(inputs))
    found = results_of(op.reference(*inputs, **case.complete()))
    for inferred, actual in zip(op.infer(types_of(inputs), case.complete()), found, strict=True):
        assert isinstance(actual, np.ndarray)
        assert (inferred.shape, inferred.dtype) == (actual.shape, dtypes.from_numpy(actual.dtype).name)
        assert not any(a is not None and np.shares_memory(a, actual) for a in inputs)


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_a_norm_rounds_its_sum_to_the_type_of_its_operands(op):
    # A float32 sum of 2^25 and less than 2 is 2^25; an epsilon of 0 makes the rest of the sum as large as any.
    x, addend = np.full((1, 4), 2.0**25, np.float32), np.array([[0, 1, 1.5, 4]], np.float32)
    total = np.array([[0, 0, 0, 4]], np.float32) if op == "layer_norm" else x + addend
    rest = [None] * (len(TABLE[op].inputs) - 2)
    of_sum = TABLE[op].reference(x, *rest, addend, axes=1, epsilon=0.0)
    np.testing.assert_array_equal(of_sum, TABLE[op].reference(x + addend, *rest, None, axes=1, epsilon=0.0))
    np.testing.assert_allclose(of_sum, TABLE[op].reference(total, *rest, None, axes=1, epsilon=0.0), rtol=1e-6)


# The one known difference: GELU of +inf, NaN in torch's vectorised float32 kernel; its scalar one (a vector's tail)
# and its float64 one give inf, as the definition does.
FLOAT32_CASES = [
    c
    for c in CASES
    if {"float32"} == {t.dtype for t in types_of(c.inputs()) if t is not None and "float" in t.dtype}
    and c.op != "cast"
    and c.id != "gelu-none_special"
]


@quiet_var
@pytest.mark.parametrize("op", dict.fromkeys(case.op for case in FLOAT32_CASES))
def test_nan_and_infinity_stand_where_float32_torch_puts_them(op):
    """torch in the case's own types: its float32 kernels are others than the float64 ones above."""
    for case in _of_op(op, FLOAT32_CASES):
        with _named(case):
            check_float32(case)


def check_float32(case: Case) -> None:
    inputs = case.inputs()
    attributes = case.complete()
    tensors = [None if a is None else torch.from_numpy(np.array(a)) for a in inputs]
    expected = [_to_numpy(one) for one in results_of(TORCH[case.op](*tensors, **attributes))]
    for actual, wanted in zip(results_of(TABLE[case.op].reference(*inputs, **attributes)), expected, strict=True):
        assert actual.shape == wanted.shape
        assert actual.dtype == wanted.dtype
        # float32 sums of up to some hundred terms, and float32 exp and tanh: a few dozen units in the last place
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=2e-5, equal_nan=True)


def test_every_op_has_cases_and_every_name_is_used_once():
    counts = Counter(c.op for c in CASES)
    assert set(counts) == set(TABLE) == set(TORCH)
    assert min(counts.values()) >= 4
    assert max(Counter(c.id for c in CASES).values()) == 1


def test_every_attribute_value_and_optional_input_has_a_case():
    for op in TABLE.values():
        cases = [c for c in CASES if c.op == op.name]
        for name, attribute in op.attributes.items():
            if name == "compute":  # test_arithmetic.py tests its values, with operands that they can read
                continue
            seen = {str(c.complete()[name]) for c in cases}
            wanted = attribute.choices if attribute.kind == "choice" else ()
            assert seen >= set(wanted or ()), f"{op.name}.{name}"
            assert len(seen) > 1 or attribute.kind == "dtype", f"{op.name}.{name} has one value only: {seen}"
        for position, name in enumerate(op.inputs):
            if name.endswith("?") and name != "scale?":  # of compute="int8": test_arithmetic.py, too
                present = {c.operands[position] is not None for c in cases}
                assert present == {True, False}, f"{op.name}: {name}"
