"""View rules against what NumPy does with the same strides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from engine.ops import TABLE, Layout, TensorType

BUFFER = np.arange(4096, dtype=np.int64)
VIEWS = {"reshape", "permute", "expand", "slice", "windows"}
bounded = settings(max_examples=150)


def array_of(layout: Layout) -> np.ndarray:
    """What `layout` shows of BUFFER."""
    return as_strided(BUFFER[layout.offset :], layout.shape, [8 * stride for stride in layout.strides], writeable=False)


def view(op: str, layout: Layout, **attributes) -> Layout | None:
    declared = TABLE[op]
    complete = declared.complete(attributes)
    (type_,) = declared.infer([TensorType("int64", layout.shape)], complete)
    assert declared.view is not None
    return declared.view(layout, complete, type_.shape)


def check(op: str, layout: Layout, **attributes) -> Layout | None:
    """The rule's answer, having made sure that it shows the reference's elements, in the buffer itself."""
    expected = TABLE[op].reference(array_of(layout), **TABLE[op].complete(attributes))
    answer = view(op, layout, **attributes)
    if answer is not None:
        assert answer.shape == expected.shape
        shown = array_of(answer)
        np.testing.assert_array_equal(shown, expected)
        if shown.size:
            assert np.shares_memory(shown, BUFFER)
    return answer


def numpy_shares(layout: Layout, shape: Sequence[int]) -> bool:
    """Whether NumPy reshapes without a copy."""
    source = array_of(layout)
    return np.shares_memory(source.reshape(shape), source)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A dense value, then sliced, permuted and expanded at random."""
    layout = Layout.dense(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    for axis in range(len(layout.shape)):
        if draw(st.booleans()):
            stop = draw(st.integers(1, layout.shape[axis]))
            start = draw(st.integers(0, stop - 1))
            answer = check("slice", layout, axis=axis, start=start, stop=stop, step=draw(st.integers(1, 3)))
            assert answer is not None
            layout = answer
    answer = check("permute", layout, axes_order=draw(st.permutations(range(len(layout.shape)))))
    assert answer is not None
    if draw(st.booleans()):
        shape = [draw(st.sampled_from([2, 3])) if size == 1 and draw(st.booleans()) else size for size in answer.shape]
        answer = check("expand", answer, shape=[*draw(st.lists(st.sampled_from([1, 2]), max_size=1)), *shape])
        assert answer is not None
    return answer


@st.composite
def shapes_of(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A shape of `size` elements, ones strewn in."""
    shape: list[int] = []
    while size > 1:
        factor = draw(st.sampled_from([f for f in range(2, size + 1) if size % f == 0]))
        shape.append(factor)
        size //= factor
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


@bounded
@given(st.data())
def test_reshape_is_a_view_exactly_where_numpy_needs_no_copy(data):
    layout = data.draw(layouts())
    shape = data.draw(shapes_of(math.prod(layout.shape)))
    answer = check("reshape", layout, shape=shape)
    assert (answer is not None) == numpy_shares(layout, shape)


def test_only_the_four_rearranging_ops_have_view_rules():
    assert {op.name for op in TABLE.values() if op.view is not None} == VIEWS


@pytest.mark.parametrize(
    ("layout", "shape", "is_view"),
    [
        (Layout((2, 3), (3, 1)), (6,), True),
        (Layout((2, 3), (3, 1), 5), (3, 2), True),
        (Layout((3, 2), (1, 3)), (6,), False),  # a transposed matrix
        (Layout((3, 2), (1, 3)), (3, 1, 2, 1), True),  # ... keeps its axes
        (Layout((4, 6), (10, 1), 2), (4, 2, 3), True),  # columns cut out: rows may be divided
        (Layout((4, 6), (10, 1), 2), (24,), False),  # ... not joined
        (Layout((4, 6), (10, 1), 2), (2, 2, 6), True),
        (Layout((4, 6), (10, 1), 2), (8, 3), False),
        (Layout((2, 3), (0, 1)), (6,), False),  # expanded in front
        (Layout((2, 3), (0, 0)), (6,), True),  # one element everywhere
        (Layout((2, 4, 3), (12, 3, 1)), (2, 12), True),
        (Layout((2, 4, 3), (3, 6, 1)), (2, 12), False),
        (Layout((2, 4, 3), (3, 6, 1)), (2, 2, 2, 3), True),
        (Layout((1, 5), (999, 2)), (5, 1), True),  # the stride of an axis of size 1 means nothing
        (Layout((5, 1), (1, 77)), (1, 1, 5), True),
        (Layout((), ()), (1, 1), True),
        (Layout((1, 1), (9, 9), 4), (), True),
        (Layout((0, 3), (3, 1)), (7, 0), True),
        (Layout((2, 0), (5, 7)), (0,), True),
    ],
)
def test_reshape_by_example(layout, shape, is_view):
    assert (check("reshape", layout, shape=shape) is not None) is is_view


@pytest.mark.parametrize(
    ("how", "offset", "strides", "shape"),
    [
        ({"axis": 0, "start": 1, "stop": 3}, 7 + 10, (10, 1), (2, 6)),
        ({"axis": 1, "start": 2, "stop": 6, "step": 3}, 7 + 2, (10, 3), (4, 2)),
        ({"axis": 1, "start": 6, "stop": 6}, 7, (10, 1), (4, 0)),  # nothing: no offset behind the end
    ],
)
def test_slice_moves_the_offset_and_multiplies_the_stride(how, offset, strides, shape):
    assert check("slice", Layout((4, 6), (10, 1), 7), **how) == Layout(shape, strides, offset)


def test_expand_repeats_by_stride_zero_and_keeps_the_other_strides():
    assert check("expand", Layout((4, 1), (2, 5), 3), shape=(2, 4, 6)) == Layout((2, 4, 6), (0, 2, 0), 3)
    assert check("expand", Layout((1, 3), (5, 1)), shape=(1, 3)) == Layout((1, 3), (5, 1))
    assert check("expand", Layout((1,), (1,)), shape=(0,)) == Layout((0,), (0,))


@bounded
@given(layouts(), st.data())
def test_windows_overlap_in_the_buffer(layout, data):
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    size, step = data.draw(st.integers(0, layout.shape[axis])), data.draw(st.integers(1, 3))
    assert check("windows", layout, axis=axis, size=size, step=step) is not None


def test_permute_takes_strides_along():
    assert check("permute", Layout((2, 3, 4), (50, 7, 1), 2), axes_order=(2, 0, 1)) == Layout((4, 2, 3), (1, 50, 7), 2)


@pytest.mark.parametrize(
    ("layout", "dense"),
    [
        (Layout.dense((2, 3, 4)), True),
        (Layout((2, 3), (1, 2)), False),
        (Layout((1, 3), (77, 1)), True),
        (Layout((2, 3), (4, 1)), False),
        (Layout((0, 3), (9, 9)), True),
        (Layout((), (), 5), True),
        (Layout((2, 3), (0, 1)), False),
    ],
)
def test_dense_means_row_major_without_gaps(layout, dense):
    assert layout.is_dense is dense


def test_a_step_past_the_end_makes_no_stride_that_c_cannot_hold():
    layout = Layout.dense((3, 4))
    for step in (4, 1 << 62):
        answer = check("slice", layout, axis=0, start=1, stop=3, step=step)
        assert answer is not None
        assert max(answer.strides) <= 12
