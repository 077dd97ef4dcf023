"""Config(fallback="torch"): values against eager, what runs where, shared memory, refusals; schedules by search."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import operator
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.torch_backend.partition import segments
from tests import messages

FALLBACK = engine.Config(fallback="torch")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Mixed(nn.Module):
    """The engine has neither `cummax` nor transforms to frequencies, whose results it could not even hold."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x):
        y = torch.relu(self.first(x))
        spectrum = torch.fft.rfft(y * self.scale)
        z = torch.cummax(spectrum.abs(), -1)[0]
        return self.second(y) + z[..., :4], y


class Lgamma(nn.Module):
    """The engine has nothing of it."""

    def forward(self, x):
        return torch.lgamma(x)


@pytest.fixture(scope="module")
def mixed():
    return Mixed().eval()


@pytest.fixture(scope="module")
def program(mixed):
    return engine.compile(mixed, (drawn(2, 8),), FALLBACK)


def test_what_the_engine_has_not_is_refused_with_a_hint(mixed):
    with messages.raises(engine.UnsupportedOp):
        engine.compile(mixed, (drawn(2, 8),))


def test_segments_compute_what_eager_does(mixed, program):
    x = drawn(2, 8)
    for got, expected in zip(program(x), mixed(x), strict=True):
        torch.testing.assert_close(got, expected)
    for got, expected in zip(program(x.numpy()), mixed(x), strict=True):
        assert isinstance(got, np.ndarray)
        torch.testing.assert_close(torch.from_numpy(got), expected.detach())


class Eighths(nn.Module):
    """A weight of 8-bit floats, which NumPy and the engine do not have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", drawn(4, 8).to(torch.float8_e4m3fn))

    def forward(self, x):
        return torch.relu(x) @ self.weight.float().T


def test_a_weight_in_a_type_that_the_engine_has_not_is_in_the_report():
    model, x = Eighths().eval(), drawn(2, 8)
    program = engine.compile(model, (x,), FALLBACK)
    torch.testing.assert_close(program(x), model(x))
    assert program.report().weight_bytes == 32
    nodes = program.trace(x, keep=[*range(len(program.trace(x).nodes))]).nodes
    assert {one.statistics.dtype for node in nodes for one in node.inputs if one} == {"float32", "float8_e4m3fn"}
    program.profile(x, runs=1, roofs=False)
    model.weight = drawn(4, 8, seed=1).to(torch.float8_e4m3fn)
    assert engine.compile(model, (x,), FALLBACK).digest != program.digest


def test_the_report_says_what_torch_runs(program):
    report = program.report()
    targets = [target for target, _, _ in report.segments]
    assert targets == ["engine", "torch", "engine"]
    assert report.fallback_nodes == report.segments[1][1] >= 3
    assert "aten.cummax.default" in report.segments[1][2]
    assert ("torch aten.cummax.default", 1) in report.kernels
    assert "torch aten.cummax.default" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["fallback_nodes"] == report.fallback_nodes


def test_a_model_that_the_engine_has_is_a_usual_program():
    model = nn.Linear(4, 4).eval()
    program = engine.compile(model, (drawn(2, 4),), FALLBACK)
    assert isinstance(program, engine.Program)
    assert program.digest == engine.compile(model, (drawn(2, 4),)).digest


def test_digests_tell_programs_apart(mixed, program):
    x, other = drawn(2, 8), Mixed().eval()
    again = engine.compile(other, (x,), FALLBACK)
    assert (program.digest, program.run_digest) == (again.digest, again.run_digest)
    with torch.no_grad():
        other.second.bias += 1
    assert engine.compile(other, (x,), FALLBACK).digest != program.digest
    threads = engine.compile(mixed, (x,), engine.Config(fallback="torch", threads=2))
    assert threads.digest == program.digest
    assert threads.run_digest != program.run_digest


def test_a_profile_has_a_line_for_what_torch_runs(program):
    x = drawn(2, 8)
    profile = program.profile(x, runs=2, roofs=False)
    assert [node.op for node in profile.nodes].count("torch") == 1
    assert sum(node.time_share for node in profile.nodes) == pytest.approx(1)
    assert profile.seconds == pytest.approx(sum(t.busy_seconds + t.idle_seconds for t in profile.threads), rel=1e-6)


class Largest(nn.Module):
    def forward(self, x):
        return torch.cummax(x, -1).values


class Twice(nn.Module):
    """Three calls in a row that only torch has, two of them alike, between two that the engine has."""

    def __init__(self):
        super().__init__()
        self.begin, self.end = nn.Linear(8, 8), nn.Linear(8, 8)
        self.first, self.second = Largest(), Largest()

    def forward(self, x):
        return self.end(torch.lgamma(self.second(self.first(self.begin(x)))))


def test_a_profile_counts_the_calls_of_torch_as_the_report_does_and_names_them_in_their_line():
    x = drawn(2, 8)
    program = engine.compile(Twice().eval(), (x,), FALLBACK)
    profile = program.profile(x, runs=1, roofs=False)
    assert program.report().launches == profile.launches == 5
    assert "\n5 launches, " in str(profile)
    (line,) = [node for node in profile.nodes if node.op == "torch"]
    assert (line.launches, line.kernel) == (3, "aten.cummax.default x2, aten.lgamma.default")
    assert line.module == "first, second"
    lines = [inspect.getsourcelines(kind.forward)[1] + 1 for kind in (Largest, Twice)]
    assert line.source == ", ".join(f"torch_backend/{Path(__file__).name}:{number}" for number in lines)


def test_a_profile_has_the_roofs_also_where_torch_runs_everything():
    x = drawn(3, 8)
    program = engine.compile(Lgamma().eval(), (x,), FALLBACK)
    profile = program.profile(x, runs=2)
    assert [node.op for node in profile.nodes] == ["torch"]
    assert profile.peak_flops > 0
    assert profile.bandwidth > 0
    told = str(profile)
    assert "roofs of one core, measured now: " in told
    assert "lost to:" not in told
    (line,) = [line for line in told.splitlines() if line.startswith("torch ")]
    assert line.split()[-5:-1] == ["100.0%", "-", "-", "-"]
    assert "roofs of one core" not in str(program.profile(x, runs=2, roofs=False))


def test_it_is_not_saved_and_says_what_to_do_which_works(mixed, program, tmp_path):
    x, path = drawn(2, 8), tmp_path / "model.pt2"
    with messages.raises(engine.ProgramError):
        program.save(tmp_path / "model.engine")
    assert not list(tmp_path.iterdir())
    torch.export.save(torch.export.export(mixed, (x,)), path)
    again = engine.compile(torch.export.load(path), (x,), FALLBACK)
    assert again.report().segments == program.report().segments
    assert all(map(torch.equal, again(x), program(x)))


def test_a_trace_has_every_instruction_and_every_call_of_torch_in_order(mixed, program):
    x = drawn(2, 8)
    trace = program.trace(x, keep=range(len(program.trace(x).nodes)))
    assert [node.index for node in trace.nodes] == list(range(len(trace.nodes)))
    ops = [node.op for node in trace.nodes]
    foreign = [op for op in ops if op.startswith("aten.")]
    assert foreign == ["aten._fft_r2c.default", "aten.abs.default", "aten.cummax.default"]
    assert ops[0] == "linear"
    assert ops[-1] not in foreign
    by_op = {node.op: node for node in trace.nodes}
    hidden = torch.relu(mixed.first(x))
    spectrum = torch.fft.rfft(hidden * mixed.scale)
    np.testing.assert_allclose(by_op[foreign[0]].outputs[0].array, spectrum.detach(), rtol=1e-5, atol=1e-6)
    (of_spectrum,), of_cummax = ([one.statistics for one in by_op[foreign[k]].outputs] for k in (0, 2))
    assert (of_spectrum.dtype, of_spectrum.shape) == ("complex64", (2, 5))
    assert (of_spectrum.minimum, of_spectrum.nans) == (None, 0)
    values, positions = torch.cummax(spectrum.abs().detach(), -1)
    assert [s.dtype for s in of_cummax] == ["float32", "int64"]
    assert of_cummax[0].maximum == pytest.approx(float(values.max()), rel=1e-5)
    assert of_cummax[1].maximum == int(positions.max())
    assert "test_fallback.py" in by_op[foreign[2]].source
    assert program.trace(x, keep=[len(ops) - 1]).nodes[-1].outputs[0].array is not None
    assert not program.trace(x).kept
    assert "aten.cummax.default" in str(trace)
    assert json.loads(json.dumps(trace.to_dict()))["nodes"][0]["op"] == "linear"


def test_a_trace_of_varying_sizes_and_arrays_is_that_of_the_call(mixed):
    rows = torch.export.Dim("rows", min=2, max=8)
    program = engine.compile(mixed, (drawn(2, 8),), FALLBACK, dynamic_shapes={"x": {0: rows}})
    trace = program.trace(x=drawn(5, 8).numpy())
    assert {node.outputs[0].shape[0] for node in trace.nodes} == {5}


def test_tensors_cross_the_border_without_a_copy(program, monkeypatch):
    x = drawn(2, 8)
    first, foreign, last = program._example.segments.parts
    seen = {}

    def watched(part, name):
        def call(*tensors):
            found = part.call(*tensors)
            seen[name] = [t.data_ptr() for t in tensors], [t.data_ptr() for t in found]
            return found

        return part._replace(call=call)

    parts = [watched(part, name) for name, part in (("first", first), ("torch", foreign), ("last", last))]
    monkeypatch.setattr(program._example.segments, "parts", parts)
    program(x)
    assert seen["first"][0] == [x.data_ptr()]
    assert set(seen["torch"][0]) <= {
        *seen["first"][1],
        *(t.data_ptr() for t in program._example.segments.held.values()),
    }
    assert set(seen["last"][0]) <= {*seen["torch"][1], *seen["first"][1]}
    assert set(seen["last"][0]) & set(seen["torch"][1])


def test_weights_are_taken_as_they_are_when_compiling():
    model = Mixed().eval()
    x = drawn(2, 8)
    program, expected = engine.compile(model, (x,), FALLBACK), model(x)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.zero_()
    torch.testing.assert_close(program(x)[0], expected[0])


class Given(nn.Module):
    """Torch makes views of an input and of a weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.arange(4.0))

    def forward(self, x):
        y = torch.lgamma(x)
        return torch.ops.aten.as_strided(x, (2,), (1,)), torch.ops.aten.as_strided(self.kept, (2,), (2,)), y, y


def test_results_are_fresh_memory():
    x = drawn(4)
    program = engine.compile(Given().eval(), (x,), FALLBACK)
    before = x.clone()
    first = program(x)
    for tensor in first:
        tensor.fill_(7)
    assert torch.equal(x, before)
    for got, expected in zip(program(x), Given()(x), strict=True):
        torch.testing.assert_close(got, expected)
    assert len({tensor.data_ptr() for tensor in first}) == 4


class Found(nn.Module):
    """How many elements there are depends on the data: all that follows is torch's."""

    def forward(self, x):
        return (x + 1) * 2, torch.nonzero(x > 0).sum(0)


def test_sizes_that_depend_on_data():
    program = engine.compile(Found().eval(), (drawn(6),), FALLBACK)
    for seed in range(3):
        for got, expected in zip(program(drawn(6, seed=seed)), Found()(drawn(6, seed=seed)), strict=True):
            torch.testing.assert_close(got, expected)


@pytest.mark.filterwarnings("ignore::engine.StaleWeightsWarning")  # the test is about weights that change
def test_sizes_that_differ_from_call_to_call(mixed):
    batch, model = torch.export.Dim("batch", min=2, max=9), Mixed().eval()
    program = engine.compile(model, (drawn(3, 8),), FALLBACK, dynamic_shapes={"x": {0: batch}})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # weights are those of when it was compiled, for sizes that come later, too
    for size in (2, 9, 3):
        torch.testing.assert_close(program(drawn(size, 8))[0], mixed(drawn(size, 8))[0])
    assert program.report(batch=4).sizes == ("batch=4 of 2..9",)
    with messages.raises(engine.ShapeError):
        program(drawn(10, 8))


def test_wrong_arguments_are_refused_as_by_a_program(program):
    with messages.raises(engine.ShapeError):
        program(drawn(3, 8))
    with messages.raises(engine.ShapeError):
        program()


def anywhere(seed):
    """A module of calls that read whatever was made before, the engine's and torch's in any order."""
    generator = random.Random(seed)
    graph = torch.fx.Graph()
    made = [graph.placeholder("x")]
    foreign = graph.call_function(torch.lgamma, (made[0],))
    for _ in range(10):
        one, other = generator.choice(made), generator.choice(made)
        kind = generator.choice(("add", "sigmoid", "i0", "aminmax", "split"))
        if kind == "add":
            made.append(graph.call_function(torch.add, (one, other)))
        elif kind in ("aminmax", "split"):  # several results, of which none, one or both are used
            both = graph.call_function(getattr(torch, kind), (one, 2) if kind == "split" else (one,), {})
            lowest, highest = (graph.call_function(operator.getitem, (both, which)) for which in range(2))
            made += [graph.call_function(torch.mul, (one, graph.call_method("sum", (p,)))) for p in (lowest, highest)]
        else:
            call = torch.sigmoid if kind == "sigmoid" else torch.special.i0
            made.append(graph.call_function(call, (graph.call_function(torch.tanh, (one,)),)))
    graph.output((*made[-3:], foreign))
    return torch.fx.GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_whatever_order_of_calls_is_run_as_eager_does(seed):
    model, x = anywhere(seed), drawn(4)
    program = engine.compile(model, (x,), FALLBACK)
    assert {target for target, _, _ in program.report().segments} == {"engine", "torch"}
    for got, expected in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(got, expected)


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        self.last.copy_(x)
        return torch.lgamma(x)


def test_a_model_with_a_call_for_its_side_effect_is_refused_by_the_name_of_the_call():
    class Model(nn.Module):
        def forward(self, x):
            factor, info = torch.linalg.cholesky_ex(x)
            torch.ops.aten._linalg_check_errors(info, "cholesky", is_matrix=True)
            return torch.linalg.cross(factor, x)  # torch orders effects where it decomposes a call

    with messages.raises(engine.UnsupportedOp) as raised:
        engine.compile(Model().eval(), (torch.eye(3),), config=engine.Config(fallback="torch"))
    assert raised.value.__context__ is None  # not the error of compiling without torch


@pytest.mark.parametrize(
    "call",
    [
        torch.linalg.cholesky,
        torch.linalg.inv,
        torch.linalg.lu_factor,
        torch.inverse,
        lambda x: torch.linalg.ldl_factor(x)[0],
        lambda x: torch.linalg.matrix_power(x, -2),
        lambda x: torch.linalg.solve(x, x + 1),
        lambda x: torch.linalg.tensorinv(x, ind=1),
        lambda x: torch.linalg.tensorsolve(x, x[0]),
    ],
    ids=["cholesky", "inv", "lu_factor", "inverse", "ldl_factor", "matrix_power", "solve", "tensorinv", "tensorsolve"],
)
def test_a_call_that_checks_for_errors_runs_whole(call):
    """torch decomposes it into a computation and a check, which is a call for its side effect."""

    class Model(nn.Module):
        def forward(self, x):
            return call(x * 2)

    x = torch.eye(3) + 0.1
    program = engine.compile(Model().eval(), (x,), FALLBACK)
    torch.testing.assert_close(program(x), Model()(x))  # the same call of torch
    with pytest.raises(engine.ExecutionError, match=r"^aten\.\w+\.default at .*test_fallback\.py:\d+: "):
        program(torch.zeros(3, 3))  # singular


def test_a_model_that_writes_to_buffers_is_refused():
    with messages.raises(engine.UnsupportedOp):
        engine.compile(Remembers().eval(), (drawn(3),), FALLBACK)


def test_where_it_has_no_meaning_it_is_refused(tmp_path):
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "model.engine", config=FALLBACK)
    with messages.raises(engine.ConfigError):
        engine.compile_decoder(nn.Linear(2, 2), config=FALLBACK)


# --- torch.compile ---------------------------------------------------------------------------------------------------


@pytest.fixture
def _anew():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("_anew")
def test_inside_of_torch_compile_it_is_said_once(mixed, caplog):
    found = torch.compile(mixed, backend="engine")
    with caplog.at_level(logging.WARNING, "engine"), torch.inference_mode():
        for seed in range(2):
            torch.testing.assert_close(found(drawn(2, 8, seed=seed)), mixed(drawn(2, 8, seed=seed)))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "engine"]
    assert "on torch: " in line
    assert "aten.cummax.default: no handler" in line
    assert "test_fallback.py" in line
    (report,) = engine.dynamo.reports()
    assert report.fallback_nodes >= 3


@pytest.mark.usefixtures("_anew")
def test_inside_of_torch_compile_sizes_may_vary(mixed):
    found = torch.compile(mixed, backend="engine", dynamic=True)
    with torch.inference_mode():
        for size in (2, 5, 3, 5):
            torch.testing.assert_close(found(drawn(size, 8)), mixed(drawn(size, 8)))


@pytest.mark.usefixtures("_anew")
def test_inside_of_torch_compile_it_can_be_refused(mixed):
    found = torch.compile(mixed, backend="engine", options={"fallback": None})
    with messages.raises(engine.UnsupportedOp), torch.inference_mode():
        found(drawn(2, 8))


# --- calls for what they do ------------------------------------------------------------------------------------------

COUNTED = []


@torch.library.custom_op("enginebench_tests::count", mutates_args=())
def count(x: torch.Tensor) -> None:
    COUNTED.append(x.clone())


@count.register_fake
def _(x):
    return None


@pytest.mark.parametrize("writes", [False, True], ids=["as it is", "decomposed for a write"])
def test_a_call_that_returns_nothing_runs_in_every_call(writes):
    class Counts(nn.Module):
        def forward(self, x):
            y = x * 2
            if writes:
                y.add_(1)  # without it nothing is decomposed
            count(y)
            return y.cumsum(0)

    program = engine.compile(Counts().eval(), (drawn(3),), FALLBACK)
    COUNTED.clear()
    for seed in (1, 2):
        program(drawn(3, seed=seed))
    assert torch.equal(torch.stack(COUNTED), torch.stack([drawn(3, seed=seed) * 2 + writes for seed in (1, 2)]))


# --- strides ---------------------------------------------------------------------------------------------------------


@torch.library.custom_op("enginebench_tests::strides_of", mutates_args=())
def strides_of(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride())


@strides_of.register_fake
def _(x):
    return torch.empty(x.dim(), dtype=torch.int64)


class Reads(nn.Module):
    """Hands what `make` makes to a call of torch's that looks at strides, or finds elements by their places."""

    def __init__(self, make):
        super().__init__()
        self.make = make
        self.register_buffer("kept", torch.arange(24.0).view(4, 6)[:, ::2])

    def forward(self, x):
        y = self.make(x, self.kept)
        return strides_of(y), y.as_strided((4,), (1,)) * 2


READ = {
    "input": lambda x, _: x,
    "view of the input": lambda x, _: x[:, ::2],
    "result of the engine": lambda x, _: x * 2,
    "view of one": lambda x, _: (x * 2).t()[1:],
    "room between elements": lambda x, _: (x * 2)[:, ::2],
    "one of several": lambda x, _: (x * 2).chunk(2)[1],
    "weight": lambda _, kept: kept.t(),
}


@pytest.mark.usefixtures("_anew")
@pytest.mark.parametrize(
    ("transposed", "make"),
    [
        pytest.param(
            transposed,
            make,
            marks=() if transposed and name in ("result of the engine", "view of one", "weight") else pytest.mark.long,
            id=f"{'columns' if transposed else 'rows'}-{name}",
        )
        for transposed in (False, True)
        for name, make in READ.items()
    ],
)
def test_torch_gets_the_strides_that_it_would_have_made(make, transposed):
    model, x = Reads(make).eval(), drawn(6, 4).t() if transposed else drawn(4, 6)
    expected = model(x)
    program = engine.compile(model, (x,), FALLBACK)
    found = torch.compile(model, backend="engine")
    with torch.no_grad():
        for got in (program(x), program(x.numpy()), found(x)):
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(a), b)


@pytest.mark.parametrize("array", [np.arange(6.0)[::-1], np.arange(6.0).astype(">f8")], ids=["backwards", "big-endian"])
def test_arrays_that_torch_cannot_say_are_copied(array):
    program = engine.compile(Given().eval(), (drawn(6).double(),), FALLBACK)
    native = torch.from_numpy(array.astype("=f8", order="C"))
    torch.testing.assert_close(torch.from_numpy(program(array)[2]), torch.lgamma(native))


# --- the schedule ----------------------------------------------------------------------------------------------------


def fewest(count, before, kind):
    """The least number of segments of any order of `count` units, by search over all sets of units that ran."""

    @functools.cache
    def rest(done, now):
        if done == (1 << count) - 1:
            return 0
        ready = [u for u in range(count) if not done >> u & 1 and all(done >> o & 1 for o in before[u])]
        return min((kind[u] is not now) + rest(done | 1 << u, kind[u]) for u in ready)

    return rest(0, None)


def test_no_schedule_has_fewer_segments():
    generator = random.Random(0)
    seen = set()
    for _ in range(300):
        count = generator.randint(1, 8)
        chance = generator.choice((0.1, 0.3, 0.6))
        before = {u: {o for o in range(u) if generator.random() < chance} for u in range(count)}
        kind = {u: generator.random() < 0.5 for u in range(count)}
        found = segments(range(count), before, kind)
        order = [u for segment in found for u in segment]
        assert sorted(order) == list(range(count))
        assert all(order.index(o) < order.index(u) for u in range(count) for o in before[u])
        assert all(len({kind[u] for u in segment}) == 1 for segment in found)
        assert len(found) == fewest(count, before, kind)
        seen.add(len(found))
    assert seen >= {1, 2, 3, 4, 5}


def test_a_call_that_torch_must_run_in_the_middle_of_a_diamond_makes_no_cycle():
    before = {"a": (), "b": "a", "c": "a", "d": "bc"}
    kind = {"a": True, "b": False, "c": True, "d": True}
    assert segments("abcd", before, kind) == [["a", "c"], ["b"], ["d"]]
