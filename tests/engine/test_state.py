"""Buffers that a model writes to: against eager call by call, states apart, in place or by a copy, files."""

from __future__ import annotations

import copy
import functools
import itertools
import threading

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import EngineError, ProgramError, ShapeError
from engine.graph import copy_graph, specialise
from tests import messages
from tests.files import saved_with


class Counter(nn.Module):
    """A sum that grows, and a count that begins at 3."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(3))

    def forward(self, x):
        self.total.add_(x)
        self.calls.add_(1)
        return self.total * 2, self.calls.clone()


class Swap(nn.Module):
    """Two buffers that change places; the result is what one of them held."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", -torch.arange(4.0))

    def forward(self, x):
        before = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(before + x)
        return before


class History(nn.Module):
    """The last element moves out at the front; the new one comes in behind."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(5, 2))

    def forward(self, x):
        self.kept.copy_(torch.cat([self.kept[1:], x[None]]))
        return self.kept.sum(0)


@functools.cache
def exported(network, shape=(4,)):
    """A network, exported for all tests, and its example input."""
    inputs = (torch.zeros(shape),)
    return torch.export.export(network().eval(), inputs, strict=False), inputs


CASES = [(Counter, (4,)), (Swap, (4,)), (History, (2,))]
CONFIGS = [
    engine.Config(),
    engine.Config(target="interpreter"),
    engine.Config(dispatch="per_node"),
    engine.Config(threads=2),
]


@pytest.mark.parametrize("config", CONFIGS, ids=["cpu", "interpreter", "per_node", "two_threads"])
@pytest.mark.parametrize(("network", "shape"), CASES, ids=["counter", "swap", "history"])
def test_every_call_goes_on_from_the_last_one(network, shape, config):
    model = network().eval()
    program = engine.compile(*exported(network, shape), config)
    state = program.new_state()
    for number in range(4):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(number))
        expected, got = model(x), program(x, state=state)
        flat = torch.utils._pytree.tree_leaves
        for one, other in zip(flat(got), flat(expected), strict=True):
            torch.testing.assert_close(one, other)
        for name, array in state.items():
            torch.testing.assert_close(torch.from_numpy(array), model.get_buffer(name))


class Copying(nn.Module):
    """Copies a part of its input to a buffer, which converts and broadcasts it; returns the buffer before and after."""

    def __init__(self, buffer, part):
        super().__init__()
        self.register_buffer("held", buffer)
        self.part = part

    def forward(self, x):
        before = self.held.clone()
        self.held.copy_(self.part(x))
        return before, self.held + 1


COPIED = {
    "first row": lambda x: x[0],
    "first rows": lambda x: x[:1],
    "mean": lambda x: (x * 10.0).mean(),
    "integers": lambda x: (x[0] * 10).to(torch.int32),
    "truth values": lambda x: x[0] > 0,
}


SOME = {
    (torch.float32, (2, 4), "first row"),
    (torch.int64, (2, 4), "mean"),
    (torch.int32, (4,), "truth values"),
    (torch.bool, (2, 4), "first rows"),
    (torch.bool, (4,), "mean"),
    (torch.bfloat16, (2, 4), "integers"),
    (torch.bfloat16, (4,), "first rows"),
}


@pytest.mark.parametrize(
    ("dtype", "shape", "part"),
    [
        pytest.param(*case, marks=() if case in SOME else pytest.mark.long)
        for case in itertools.product(
            (torch.float32, torch.int64, torch.int32, torch.bool, torch.bfloat16), ((4,), (2, 4)), COPIED
        )
    ],
)
def test_what_is_copied_to_a_buffer_has_its_type_and_shape(dtype, shape, part, tmp_path):
    if part == "first rows" and shape == (4,):
        part = "first row"  # eager takes no more axes than the buffer has
    model = Copying(torch.zeros(shape, dtype=dtype), COPIED[part]).eval()
    program = engine.compile(model, (torch.randn(3, 4),), engine.Config(activations="model"))
    program.save(tmp_path / "p.engine")
    eager = copy.deepcopy(model)
    states = [(one, one.new_state()) for one in (program, engine.load(tmp_path / "p.engine"))]
    for _ in range(2):
        x = torch.randn(3, 4) * 5
        expected = eager(x)
        for one, state in states:
            for got, wanted in zip(one(x, state=state), expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), wanted)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning")  # of torch's own copy of the graph
def test_a_program_of_which_torch_has_lost_a_conversion_that_is_read_is_refused():
    program = torch.export.export(Copying(torch.zeros(2, 4), COPIED["first row"]).eval(), (torch.randn(3, 4),))
    with messages.raises(EngineError):
        engine.compile(program.run_decompositions(), (torch.randn(3, 4),))


def test_the_model_is_as_it_was_and_states_are_apart():
    model = Counter().eval()
    program = engine.compile(model, (torch.zeros(4),))
    one, other = program.new_state(), program.new_state()
    program(torch.ones(4), state=one)
    program(torch.ones(4), state=one)
    program(np.ones(4, np.float32), state=other)
    assert one["total"].tolist() == [2.0] * 4
    assert other["total"].tolist() == [1.0] * 4
    assert (one["calls"], other["calls"]) == (5, 4)
    assert model.total.tolist() == [0.0] * 4
    one.reset()
    assert one["total"].tolist() == [0.0] * 4
    assert one["calls"] == 3


def test_a_call_without_its_state_is_refused():
    program = engine.compile(*exported(Counter))
    with messages.raises(ShapeError):
        program(torch.zeros(4))
    other = engine.compile(*exported(Swap))
    with messages.raises(ShapeError):
        program(torch.zeros(4), state=other.new_state())


def test_profile_and_trace_leave_the_state_as_it_is():
    program = engine.compile(*exported(Counter))
    state = program.new_state()
    program(torch.ones(4), state=state)
    program.profile(torch.ones(4), state=state, runs=2, roofs=False)
    trace = program.trace(torch.ones(4), state=state)
    assert state["total"].tolist() == [1.0] * 4
    read = next(node for node in trace.nodes if node.op == "add")
    assert read.inputs[0].statistics.maximum == 1.0
    assert read.outputs[0].statistics.maximum == 2.0


class Rows(nn.Module):
    """A table of which some rows are replaced."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(100, 4))

    def forward(self, x, at):
        self.table.index_put_((at,), x)
        return self.table[0] + 1


def test_a_write_in_place_is_said_to_move_what_it_replaces():
    arguments = torch.ones(3, 4), torch.tensor([5, 7, 9])
    program = engine.compile(Rows().eval(), arguments)
    profile = program.profile(*arguments, state=program.new_state(), runs=1, roofs=False)
    moved = {node.op: node.bytes for node in profile.nodes}
    assert moved["index_put"] == 2 * 3 * 4 * 4 + 3 * 8


def test_a_file_has_the_state(tmp_path):
    program = engine.compile(*exported(Counter))
    program.save(tmp_path / "c.engine")
    loaded = engine.load(tmp_path / "c.engine")
    state = loaded.new_state()
    loaded(np.ones(4, np.float32), state=state)
    doubled, calls = loaded(np.ones(4, np.float32), state=state)
    assert doubled.tolist() == [4.0] * 4
    assert calls == 5
    assert loaded.digest == program.digest


def test_a_file_with_a_damaged_state_is_refused(tmp_path):
    program = engine.compile(*exported(Counter))
    for number, change in enumerate(
        [
            lambda h: h["states"].append(["more", None]),
            lambda h: h["states"].__setitem__(0, ["total", 999]),
            lambda h: h["states"].__setitem__(0, ["calls", None]),
            lambda h: h.update(states=[["x", None]] * 9),
        ]
    ):
        path = tmp_path / f"{number}.engine"
        saved_with(program, path, change)
        with pytest.raises(ProgramError):
            engine.load(path)


def test_a_state_serves_one_call_at_a_time():
    program = engine.compile(*exported(Counter))
    state = program.new_state()

    def many():
        for _ in range(200):
            program(np.ones(4, np.float32), state=state)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state["total"].tolist() == [800.0] * 4


def test_a_buffer_is_written_in_place_where_nobody_reads_what_it_was():
    program = engine.compile(*exported(Counter))
    assert program.report().copies <= 2  # of the results, which are fresh memory; none of the states
    swap = engine.compile(*exported(Swap)).report()
    assert swap.copies >= 2


def test_a_state_that_would_change_its_size_is_refused_when_a_call_brings_sizes():
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=8)}}

    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total.add_(x.sum())
            return x * 2

    damaged = copy_graph(engine.compile(Sums().eval(), (torch.zeros(4),), dynamic_shapes=shapes).lowered)
    damaged.outputs = [*damaged.call_outputs, *damaged.call_inputs]
    specialise(damaged, {"n": 4})
    with messages.raises(ShapeError):
        specialise(damaged, {"n": 5})


class Grow(nn.Module):
    """Writes to its buffer first, then reads its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("other", torch.ones(3))
        self.register_buffer("total", torch.arange(6.0).reshape(2, 3))

    def forward(self, x):
        self.total.add_(1)
        self.other.mul_(2)
        return self.total.sum() + self.other.sum(), x * 2


def as_subclass(array):
    return array.view(type("Named", (np.ndarray,), {}))


def through_dlpack(array):
    return torch.from_dlpack(array).requires_grad_()


def alone(array):
    """Another array over the same memory, which has no view of `array` among its bases."""
    return np.frombuffer(memoryview(array).cast("B"), array.dtype).reshape(array.shape)


LENDERS = [lambda a: a, lambda a: a[:], as_subclass, alone, torch.from_numpy, through_dlpack, torch.tensor]


@pytest.mark.parametrize("config", CONFIGS, ids=["cpu", "interpreter", "per_node", "two_threads"])
def test_an_input_in_the_memory_of_the_state_is_read_as_it_was_at_the_call(config):
    """The state changes in place, and the result is that of eager for an input that nothing changes meanwhile."""
    model = Grow().eval()
    program = engine.compile(*exported(Grow, (2, 3)), config)
    state = program.new_state()
    for number, lend in enumerate(LENDERS):
        given = lend(state["total"])
        expected = model(torch.from_numpy(state["total"].copy()))
        for one, other in zip(program(given, state=state), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), other, msg=f"lender {number}")
        torch.testing.assert_close(torch.from_numpy(state["total"]), model.total)


def test_a_part_of_a_states_array_is_an_input_too():
    """A row is dense without being the whole array, or its beginning."""

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(12.0).reshape(3, 4))

        def forward(self, x):
            self.table.mul_(-1)
            return x + 1

    program = engine.compile(Rows().eval(), (torch.zeros(4),))
    state = program.new_state()
    for row in (state["table"][2], torch.from_numpy(state["table"])[2], state["table"][::-1][0]):
        expected = torch.as_tensor(row).clone() + 1
        assert torch.equal(torch.as_tensor(program(row, state=state)), expected)


def test_only_inputs_in_the_memory_of_the_state_are_copied():
    program = engine.compile(*exported(Grow, (2, 3)))
    state, another = program.new_state(), program.new_state()
    array, owner = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    for value in (array, owner[1:3], torch.zeros(2, 3), another["total"], torch.from_numpy(another["total"])):
        assert not state.has_memory_of(value)
        assert program._boundary.unpack((value,), {}, state)[0] is value
    assert state.has_memory_of(state["total"])
    assert state.has_memory_of(state["other"])


def test_arrays_of_a_state_are_apart_and_aligned():
    program = engine.compile(*exported(Counter))
    arrays = list(program.new_state().values())
    assert all(array.ctypes.data % 64 == 0 for array in arrays)
    assert not np.may_share_memory(*arrays)
