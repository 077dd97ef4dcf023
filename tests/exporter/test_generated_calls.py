"""Calls on generated shapes (sizes 0 and 1, rank 0), axes (negative) and element types, against eager torch.

Each example goes through exporter, interpreter and native target. The fixed cases have the corners of keywords; here
it is the combinations that nobody thought of.
"""

import pytest
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from torch.nn import functional

import engine
from tests.modules import Function

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32)
TOLERANCE = {torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}  # as in coverage.py, for its reasons
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4).map(tuple)


def tensor(draw, shape, dtype):
    """Distinct small numbers in random order (no ties, no NaN); flags for bool."""
    count = torch.Size(shape).numel()
    seed = draw(st.integers(0, 99))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).reshape(shape)
    if dtype is torch.bool:
        return order % 2 == 0
    centred = order - count // 2
    return centred.to(dtype) if dtype in INTS else (centred / 8).to(dtype)


def check(function, *inputs):
    """Both targets compute what eager torch does. Arguments that eager refuses are drawn anew; none else fails."""
    try:
        expected = function(*inputs)
    except (RuntimeError, IndexError, NotImplementedError):
        reject()
    exported = torch.export.export(Function(function).eval(), inputs, strict=False)
    for target in ("interpreter", "cpu"):
        program = engine.compile(exported, inputs, engine.Config(target=target))
        pairs = (torch.utils._pytree.tree_leaves(one) for one in (program(*inputs), expected))
        for ours, theirs in zip(*pairs, strict=True):
            tolerance = TOLERANCE.get(theirs.dtype, 1e-6)
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=tolerance, atol=tolerance)


def generated(examples):
    """Few examples: each is compiled."""
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck))


ALONG_ONE_AXIS = {
    "sort": lambda x, d: torch.sort(x, dim=d),
    "sort down": lambda x, d: torch.sort(x, dim=d, descending=True, stable=True),
    "argsort": lambda x, d: torch.argsort(x, dim=d, stable=True),
    "topk": lambda x, d: torch.topk(x, min(2, x.shape[d] if x.ndim else 1), d)[0],
    "cumsum": torch.cumsum,
    "cumprod": lambda x, d: torch.cumprod(x[..., :3] if x.ndim else x, d),
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "logsumexp": torch.logsumexp,
    "sum": lambda x, d: x.sum(d, keepdim=True),
    "mean": lambda x, d: x.mean(d),
    "prod": lambda x, d: x[..., :3].prod(d) if x.ndim else x.prod(d),
    "amax": lambda x, d: x.amax(d),
    "min": lambda x, d: x.min(d)[0],
    "any": lambda x, d: x.any(d),
    "all": lambda x, d: x.all(d, True),
    "argmax": lambda x, d: x.argmax(d),
    "var": lambda x, d: x.var(d, correction=0),
    "norm": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "flip": lambda x, d: x.flip([d]),
    "roll": lambda x, d: x.roll(2, d),
    "unbind": lambda x, d: x.unbind(d),
    "chunk": lambda x, d: x.chunk(2, d),
    "narrow": lambda x, d: x.narrow(d, -1, 1),
    "unsqueeze": lambda x, d: x.unsqueeze(d),
    "squeeze": lambda x, d: x.squeeze(d),
    "repeat_interleave": lambda x, d: x.repeat_interleave(2, d),
    "stack": lambda x, d: torch.stack([x, x], d),
    "cat": lambda x, d: torch.cat([x, x], d),
    "unfold": lambda x, d: x.unfold(d, 1, 1),
    "glu": functional.glu,
}


def mark_others(names, *short):
    """NAMES; those that are not SHORT are long: their handlers share code with one that is."""
    assert set(short) <= set(names)
    return [name if name in short else pytest.param(name, marks=pytest.mark.long) for name in names]


SHORT = (
    "sort",
    "topk",
    "cumsum",
    "softmax",
    "mean",
    "amax",
    "argmax",
    "var",
    "flip",
    "unbind",
    "cat",
    "repeat_interleave",
)


@pytest.mark.filterwarnings(r"ignore:var\(\). degrees of freedom is <= 0:UserWarning")  # what it gives is compared
@pytest.mark.parametrize("name", mark_others(ALONG_ONE_AXIS, *SHORT))
@generated(4)
@given(data=st.data(), shape=SHAPES, dtype=st.sampled_from([*FLOATS, *INTS, torch.bool]))
def test_along_one_axis(name, data, shape, dtype):
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    check(lambda x: ALONG_ONE_AXIS[name](x, dim), tensor(data.draw, shape, dtype))


OF_TWO = {
    "add": torch.add,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "eq": torch.eq,
    "logical_xor": torch.logical_xor,
    "where": lambda a, b: torch.where(a > 0, a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, 2),
    "remainder": lambda a, b: torch.remainder(a, b.abs() + 1),
    "fmod": lambda a, b: torch.fmod(a, b.abs() + 1),
    "floor_divide": lambda a, b: torch.div(a, b.abs() + 1, rounding_mode="floor"),
    "bitwise_and": torch.bitwise_and,
    "shift": lambda a, b: a.int() << (b.long() & 3),  # eager torch shifts floats too, torch.export does not
}


@pytest.mark.parametrize("name", mark_others(OF_TWO, "add", "eq", "where", "floor_divide", "bitwise_and"))
@generated(4)
@given(
    data=st.data(), shape=SHAPES, dtypes=st.lists(st.sampled_from([*FLOATS, *INTS, torch.bool]), min_size=2, max_size=2)
)
def test_of_two_operands_that_broadcast_and_promote(name, data, shape, dtypes):
    other = tuple(1 if data.draw(st.booleans()) else size for size in shape)[data.draw(st.integers(0, 2)) :]
    check(OF_TWO[name], tensor(data.draw, shape, dtypes[0]), tensor(data.draw, other, dtypes[1]))


AT_POSITIONS = {
    "gather": lambda x, d, i, _s: x.gather(d, i),
    "scatter": lambda x, d, i, s: x.scatter(d, i, s),
    "scatter value": lambda x, d, i, _s: x.scatter(d, i, 2),
    "scatter_add": lambda x, d, i, s: x.scatter_add(d, i, s),
    "scatter_reduce": lambda x, d, i, s: x.scatter_reduce(d, i, s, "amax", include_self=False),
    "index_select": lambda x, d, i, _s: x.index_select(d, i.reshape(-1)[:2]),
    "index_add": lambda x, d, i, _s: x.index_add(d, i.reshape(-1)[:1], x.narrow(d, 0, 1)),
    "index_put": lambda x, _d, i, s: x.index_put((i.reshape(-1)[:1] % x.shape[0],), s[:1], accumulate=True),
}


@pytest.mark.parametrize("name", mark_others(AT_POSITIONS, "gather", "scatter_reduce", "index_put"))
@generated(4)
@given(data=st.data(), shape=SHAPES.filter(lambda s: s and 0 not in s), dtype=st.sampled_from([*FLOATS, *INTS]))
def test_at_positions(name, data, shape, dtype):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    places = tensor(data.draw, shape, torch.int64).argsort(dim)  # none twice in a line
    inputs = tensor(data.draw, shape, dtype), places, tensor(data.draw, shape, dtype)
    check(lambda x, i, s: AT_POSITIONS[name](x, dim, i, s), *inputs)
