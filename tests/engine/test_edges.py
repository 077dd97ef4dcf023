"""Inputs at the edges of what operations take, against eager torch on each instruction set: axes without elements, one
element, lengths that are no multiple of a vector, views of every kind, NaN and infinities, indices out of range.

A family of operations is exported once, each operation on a few tensors that take turns: an export takes longest here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import engine
from engine.targets.cpu import native
from tests.engine.edges import ABSENT, BF16, BOOL, F16, F32, F64, FAMILIES, POSITIONS, REFUSED, U8
from tests.modules import Function

# As in test_native_ops.py; of other types, which are moved or computed exactly, nothing may differ.
TOLERANCE = {F32: 2e-5, F64: 1e-12, F16: 2e-3, BF16: 1.6e-2}


def values(sizes, dtype, seed, special):
    """Small numbers; with NaN, infinities, both zeros, equal elements and the limits of integers where asked for."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        low, high = {BOOL: (0, 2), U8: (0, 256)}.get(dtype, (-9, 10))
        x = torch.randint(low, high, sizes, generator=generator).to(dtype)
        if special and dtype is not BOOL:
            x.view(-1)[8:10] = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max])
        return x
    x = torch.randn(sizes, generator=generator)
    if special:
        rows = x.view(-1, sizes[-1])
        rows[1, 5], rows[2, 7], rows[2, 2], rows[4, 1], rows[3] = np.nan, np.inf, -np.inf, -np.inf, np.nan
        rows[4, 3::3], rows[5, ::4], rows[5, 1::4], rows[6, 2] = np.inf, 0.0, -0.0, 1e-40
    return x.to(dtype)


class Rows(nn.Module):
    """Functions of a family, each on a view of its own operands."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, operands):
        return [f(*map(view, some)) for (_, f, view), some in zip(self.calls, operands, strict=True)]


@lru_cache(maxsize=1)
def compiled(family, share, folder):
    """Labels, operands, what eager computes, and where the program is."""
    views, rows = FAMILIES[family]
    calls, operands, expected = [], [], []
    for number, (name, (function, dtypes)) in enumerate(rows.items()):
        others = [view for view in views if view not in ("special", ABSENT.get(name))]
        turns = [others[(number + turn * 3) % len(others)] for turn in range(4)]
        types = [dtypes[(number + turn) % len(dtypes)] for turn in range(4)]
        if share == "some":
            chosen = [("special", dtypes[0]), (turns[0], types[0])]
        else:
            chosen = [*(("special", dtype) for dtype in dtypes[1:3]), *zip(turns[1:], types[1:], strict=True)]
        for where, dtype in chosen:
            sizes, view = views[where]
            x, y = (values(sizes, dtype, seed, where == "special" and seed == 1) for seed in (1, 2))
            i = torch.randint(max(view(x).shape[-1], 1), sizes, generator=torch.Generator().manual_seed(3))
            calls.append((f"{name}, {where}, {dtype}", function, view))
            operands.append((x, y, i))
            # Dense operands: eager's median of a repeated column reads outside of its memory. The definition of
            # attention: eager's faster way computes 0 for a query that has NaN. No oneDNN: where the processor has AMX,
            # its GELU of an infinity is NaN.
            with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
                expected.append(function(*(view(operand).contiguous() for operand in (x, y, i))))
    path = folder / f"{family}-{share}"
    engine.compile(Rows(calls).eval(), (operands,), engine.Config(threads=1)).save(path)
    return [label for label, *_ in calls], operands, expected, path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For programs."""
    return tmp_path_factory.mktemp("programs")


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:.*degrees of freedom", "ignore:TF32 acceleration")
@pytest.mark.parametrize("isa", native.kernel_isas())
@pytest.mark.parametrize("share", ["some", pytest.param("others", marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES)
def test_edges_are_as_eager_has_them(family, share, isa, folder):
    labels, operands, expected, path = compiled(family, share, folder)
    found = engine.load(path, config=engine.Config(isa=isa, threads=1))(operands)
    wrong = []
    for label, *pair in zip(labels, found, expected, strict=True):
        for ours, eager in zip(*map(torch.utils._pytree.tree_leaves, pair), strict=True):
            tolerance = TOLERANCE.get(eager.dtype, 0)
            try:
                torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance, equal_nan=True)
            except AssertionError as error:
                wrong.append(f"{label}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_out_of_range_are_an_error_wherever_they_stand(name, tmp_path):
    function, wrong = POSITIONS[name]
    x, right = values((5, 7), F32, 1, special=False), torch.tensor([4, 1, 3, 2])
    engine.compile(Function(function).eval(), (x, right), engine.Config(threads=1)).save(tmp_path / "p")
    expected = function(x, right)
    for isa in native.kernel_isas():
        program = engine.load(tmp_path / "p", config=engine.Config(isa=isa, threads=1))
        for bad in (*wrong, *((1 << 40, -(1 << 40)) if len(wrong) > 1 and "int32" not in name else ())):
            for place in (0, 3):
                given = right.clone()
                given[place] = bad
                with pytest.raises((IndexError, RuntimeError)):
                    function(x, given)
                with pytest.raises(engine.ExecutionError):
                    program(x, given)
            torch.testing.assert_close(program(x, right), expected)  # the next call is right again


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_not_compiled(name):
    function, sizes = REFUSED[name]
    with pytest.raises((IndexError, RuntimeError)):
        function(torch.ones(sizes))
    with pytest.raises(engine.EngineError):
        engine.compile(Function(function).eval(), (torch.ones(sizes),))


def mixed(x, y, i):
    """Some of each family."""
    moved = (x.mT.clone(), x.gather(-1, i), x.sort(-1).values, x.to(BF16))
    return (*moved, x.relu(), x + y, x.sum(0), x.softmax(-1), x.cumsum(0), x @ y.mT)


def test_inputs_may_lie_in_any_way(tmp_path):
    """Also with negative strides, which NumPy has and torch has not."""
    sizes = (5, 18)
    whole = [values(sizes, F32, seed, special=False) for seed in (1, 2)]
    i = torch.randint(18, sizes, generator=torch.Generator().manual_seed(3))
    engine.compile(Function(mixed).eval(), (*whole, i), engine.Config(threads=1)).save(tmp_path / "p")
    large = values((40, 40), F32, 4, special=False)
    views = {
        "transposed": large[:18, :5].mT,
        "sliced": large[1:11:2, 3:39:2],
        "repeated row": large[:1, :18].expand(sizes),
        "repeated column": large[:5, :1].expand(sizes),
        "one number": large[0, 0].expand(sizes),
        "overlapping": large[0].as_strided(sizes, (3, 1), 2),
        "overlapping columns": large[0].as_strided(sizes, (1, 2), 1),
    }
    arrays = {"reversed": large.numpy()[4::-1, 17::-1], "rows reversed": large.numpy()[20:10:-2, :18]}
    for isa in native.kernel_isas():
        program = engine.load(tmp_path / "p", config=engine.Config(isa=isa, threads=1))
        for view in views.values():
            for x, y in ((view, whole[1]), (whole[0], view), (view, view)):
                found, expected = program(x, y, i), mixed(x.contiguous(), y.contiguous(), i)
                torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
        for array in arrays.values():
            found = program(array, whole[1].numpy()[:, ::-1], i.numpy()[::-1])
            dense = [torch.from_numpy(a.copy()) for a in (array, whole[1].numpy()[:, ::-1], i.numpy()[::-1])]
            for ours, eager in zip(found, mixed(*dense), strict=True):
                np.testing.assert_allclose(np.asarray(ours, np.float64), eager.double().numpy(), 2e-5, 2e-5)
