"""Programs whose sizes differ from call to call: one program against eager at every size, files, guards, the cache."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine.errors import ConfigError, EngineError, ProgramError, ShapeError
from suites import models
from tests import messages
from tests.files import saved_with
from tests.modules import Call

SEQUENCE = Dim("sequence", min=4, max=64)
BATCH = Dim("batch", min=2, max=8)


class Network(nn.Module):
    """Linear, attention, norm, slices from both ends, a position table, a reshape that merges sizes."""

    def __init__(self):
        super().__init__()
        self.position = nn.Embedding(64, 16)
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        batch, length, width = x.shape
        x = x + self.position(torch.arange(length))
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = self.norm(y.transpose(1, 2).reshape(batch, length, width) + x)
        return self.head(y[:, -1]), y[:, 1:].flatten(0, 1), y[:, 2:].mean(1)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Network().eval()


@functools.cache
def compiled(network, config=None):
    """One program for all tests: none of them changes more than the plans that it keeps."""
    return engine.compile(network, (torch.randn(3, 10, 16),), config, dynamic_shapes={"x": {0: BATCH, 1: SEQUENCE}})


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("size", [(2, 4), (3, 10), (8, 64), (5, 33)])
def test_one_program_serves_every_size(network, target, size):
    program = compiled(network, engine.Config(target=target))
    x = torch.randn(*size, 16)
    for got, expected in zip(program(x), network(x), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [pytest.param((2, 5), marks=pytest.mark.long), (7, 40)])
def test_it_computes_what_a_program_of_that_size_computes(network, size):
    x = torch.randn(*size, 16)
    for one, other in zip(compiled(network)(x), engine.compile(network, (x,))(x), strict=True):
        assert torch.equal(one, other)


def test_nothing_is_taken_for_granted_beside_the_ranges(network):
    report = compiled(network).report()
    assert report.guards == ()
    assert report.sizes == ("batch=3 of 2..8", "sequence=10 of 4..64")


def test_the_report_is_for_the_sizes_asked_for(network):
    program = compiled(network)
    assert program.report(sequence=20).flops > program.report().flops
    with messages.raises(ConfigError):
        program.report(length=3)
    with messages.raises(ShapeError):
        program.report(sequence=65)
    assert program.report(sequence=np.int64(20)).sizes[1] == "sequence=20 of 4..64"


@pytest.mark.parametrize("size", ["4", 4.0, None, True, np.ones(2)])
@pytest.mark.parametrize("fallback", [None, "torch"])
def test_a_size_to_report_for_is_a_whole_number(network, size, fallback):
    program = compiled(network, engine.Config(fallback=fallback))
    with messages.raises(ConfigError):
        program.report(batch=size)


@pytest.mark.parametrize(
    "argument",
    [
        torch.randn(3, 65, 16),
        torch.randn(1, 10, 16),
        torch.randn(3, 10, 17),
        torch.randn(3, 10),
        np.zeros((3, 10, 16)),
        [1.0],
    ],
)
def test_arguments_that_do_not_fit_are_named(network, argument):
    with messages.raises(ShapeError):
        compiled(network)(argument)


def test_sizes_that_must_be_equal_are_checked():
    class Sum(nn.Module):
        def forward(self, x, y):
            return x + y

    axis = {0: Dim("n", max=100)}
    program = engine.compile(Sum().eval(), (torch.randn(4), torch.randn(4)), dynamic_shapes={"x": axis, "y": axis})
    assert torch.equal(program(torch.ones(7), torch.ones(7)), torch.full((7,), 2.0))
    with messages.raises(ShapeError):
        program(torch.ones(7), torch.ones(6))


def test_a_derived_size_is_checked():
    class Halves(nn.Module):
        def forward(self, x):
            return x.reshape(2, -1).sum(0)

    half = Dim("half", min=2, max=50)
    program = engine.compile(Halves().eval(), (torch.randn(8),), dynamic_shapes={"x": {0: 2 * half}})
    x = torch.randn(12)
    torch.testing.assert_close(program(x), x.reshape(2, -1).sum(0))
    with messages.raises(ShapeError):
        program(torch.randn(13))


class Pair(nn.Module):
    def forward(self, xs, y):
        return xs[0] * 2 + xs[1].sum() + y.sum()


class Keys(nn.Module):
    def forward(self, parts):
        return parts["A one"] * 2 + parts["b"].sum()


class Several(nn.Module):
    def forward(self, *xs):
        return xs[0] * 2 + xs[1].sum()


ROWS, OTHER = {0: Dim("rows", min=2, max=32)}, {0: Dim("other", min=2, max=32)}
LONG, SHORT = torch.ones(8, 3), torch.ones(6, 3)
NESTED = {
    "tuple": (Pair, ((LONG, SHORT), LONG.clone()), {"xs": (ROWS, OTHER), "y": ROWS}),
    "tuple, by position": (Pair, ((LONG, SHORT), LONG.clone()), ((ROWS, OTHER), ROWS)),
    "tuple of lists": (Pair, ((LONG, SHORT), LONG.clone()), {"xs": ([ROWS[0], None], [OTHER[0], None]), "y": ROWS}),
    "dict": (Keys, ({"A one": LONG, "b": SHORT},), {"parts": {"A one": ROWS, "b": OTHER}}),
    "several": (Several, (LONG, SHORT), {"xs": (ROWS, OTHER)}),
    "several, by position": (Several, (LONG, SHORT), ((ROWS, OTHER),)),
}


@pytest.mark.parametrize(("model", "arguments", "shapes"), NESTED.values(), ids=NESTED.keys())
def test_sizes_of_parts_have_the_names_that_the_user_gave(model, arguments, shapes):
    program = engine.compile(model().eval(), arguments, dynamic_shapes=shapes)
    assert program.report(rows=4, other=5).sizes == ("rows=4 of 2..32", "other=5 of 2..32")


def test_the_latest_plans_are_kept(network):
    program = compiled(network, engine.Config(plans=2))
    for length in (6, 4, 5, 4):
        program(torch.randn(2, length, 16))
    assert [sizes for sizes, _ in program._plans.items()] == [(2, 5), (2, 4)]
    kept = dict(program._plans.items())[2, 4]
    program(torch.randn(2, 4, 16))
    assert dict(program._plans.items())[2, 4] is kept


@pytest.mark.parametrize("plans", [0, True, 1.5, "many"])
def test_plans_is_a_number(plans):
    with messages.raises(ConfigError):
        engine.Config(plans=plans)


def test_weights_are_packed_once_for_all_sizes(network):
    program = compiled(network, engine.Config(plans=3))  # a program of this test alone: nothing is packed before
    before = program.report().packed_bytes
    for length in (4, 17, 64):
        program(torch.randn(2, length, 16))
    assert program.report().packed_bytes == before


def test_a_size_that_cannot_differ_is_refused():
    class Fixed(nn.Module):
        def forward(self, x):
            return x * float(x.shape[0])

    with messages.raises(engine.EngineError):
        engine.compile(Fixed().eval(), (torch.randn(4),), dynamic_shapes={"x": {0: Dim("n", max=10)}})


ANY_ROWS = {"x": {0: Dim("n", min=4, max=40)}}
WITH_POSITIONS = {
    "windows side by side": lambda x: x.unfold(0, 2, 2),
    "windows that overlap": lambda x: x.unfold(0, 3, 1),
    "windows of each window": lambda x: x.unfold(0, 4, 2).unfold(1, 2, 1),
    "backwards": lambda x: x.flip(0),
    "backwards in both axes": lambda x: x.flip([0, 1]),
}


@pytest.mark.parametrize("target", ["cpu", pytest.param("interpreter", marks=pytest.mark.long)])
@pytest.mark.parametrize("function", WITH_POSITIONS.values(), ids=WITH_POSITIONS.keys())
def test_positions_follow_the_size_of_the_call(function, target):
    model = Call(function).eval()
    program = engine.compile(model, (torch.randn(8, 3),), engine.Config(target=target), dynamic_shapes=ANY_ROWS)
    for rows in (4, 5, 8, 11, 40):
        x = torch.randn(rows, 3)
        assert torch.equal(program(x), model(x))


def test_a_call_that_is_worked_out_for_one_size_is_named_with_it():
    model = Call(lambda x: torch.slice_scatter(x, x[::2] * 2, 0, 0, None, 2)).eval()
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model, (torch.randn(8, 3),), dynamic_shapes=ANY_ROWS)


def test_a_number_that_is_no_formula_of_sizes_is_named_as_what_is_unsupported():
    model, x = Call(lambda x: x * (2 * x.shape[0] > 20)).eval(), torch.randn(8, 3)
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model, (x,), dynamic_shapes=ANY_ROWS)
    program = engine.compile(model, (x,), engine.Config(fallback="torch"), dynamic_shapes=ANY_ROWS)
    longer = torch.randn(11, 3)
    torch.testing.assert_close(program(longer), model(longer))


def test_a_size_that_is_rounded_is_named_with_the_size_that_it_comes_from():
    model = Call(lambda x: x[: round(x.shape[0] / 2)] * 2).eval()
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model, (torch.randn(8, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))


def test_arithmetic_on_a_number_from_a_tensor_is_not_blamed_on_sizes():
    model = Call(lambda x: x * (x.sum().item() * 0.5)).eval()
    with messages.raises(engine.UnsupportedOp) as raised:
        engine.compile(model, (torch.randn(8, 3),), dynamic_shapes=ANY_ROWS)
    assert "sizes" not in str(raised.value)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(lambda n: n, marks=pytest.mark.long),
        lambda n: 2 * n + 1,
        lambda n: 1 / n,
        pytest.param(lambda n: 2 * n > 20, marks=pytest.mark.long),
    ],
)
def test_a_number_that_follows_from_sizes_is_refused_as_a_result(number):
    model, x = Call(lambda x: (x * 2, number(x.shape[0]))).eval(), torch.randn(8, 3)
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model, (x,), dynamic_shapes=ANY_ROWS)
    program = engine.compile(model, (x,), engine.Config(fallback="torch"), dynamic_shapes=ANY_ROWS)
    assert program(torch.randn(11, 3))[1] == number(11)


@pytest.mark.parametrize(
    "spec", [{"y": {0: BATCH}}, {"x": {7: BATCH}}, {"x": {0: "batch"}}, ({2: Dim("n", min=1, max=8)},), 5]
)
def test_a_mistake_in_dynamic_shapes_names_input_and_axis(network, spec):
    with messages.raises(engine.EngineError):
        engine.compile(network, (torch.randn(3, 10, 16),), dynamic_shapes=spec)


@pytest.mark.filterwarnings("ignore::engine.GuardWarning")
def test_a_checked_graph_may_compare_sizes_of_a_call():
    """The diagonal of a matrix [n, 8] is a slice of its n*8 elements, which is there for n up to 8."""

    class Diagonal(nn.Module):
        def forward(self, x):
            return x.diagonal(0, -1, 0) * 2

    plain, checked = (
        engine.compile(
            Diagonal().eval(), (torch.randn(6, 4, 8),), engine.Config(verify=on), dynamic_shapes={"x": {0: BATCH}}
        )
        for on in (False, True)
    )
    x = torch.randn(4, 4, 8)
    torch.testing.assert_close(checked(x), Diagonal()(x))
    assert checked.run_digest == plain.run_digest


def test_arrays_of_numpy_are_no_example_inputs(network):
    with messages.raises(engine.ShapeError):
        engine.compile(network, (np.zeros((3, 10, 16), np.float32),))


@pytest.mark.parametrize("spec", [{"y": {0: BATCH}}, ({0: BATCH}, {0: BATCH}), {"x": {7: BATCH}}, 5])
def test_dynamic_shapes_that_do_not_fit_the_model_are_refused(network, spec):
    with pytest.raises(engine.EngineError):
        engine.compile(network, (torch.randn(3, 10, 16),), dynamic_shapes=spec)


def test_a_file_serves_every_size_without_torch(network, tmp_path):
    program = compiled(network)
    program.save(tmp_path / "n.engine")
    x = torch.randn(4, 21, 16)
    np.save(tmp_path / "x.npy", x.numpy())
    for number, part in enumerate(program(x)):
        np.save(tmp_path / f"y{number}.npy", part.numpy())
    code = f"""
import sys, numpy as np, engine
program = engine.load({str(tmp_path / "n.engine")!r})
x = np.load({str(tmp_path / "x.npy")!r})
for number, part in enumerate(program(x)):
    assert np.array_equal(part, np.load({str(tmp_path)!r} + f"/y{{number}}.npy")), number
assert "torch" not in sys.modules
try:
    program(np.zeros((4, 65, 16), np.float32))
except engine.ShapeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "sequence = 65: compiled for 4 to 64" in done.stdout
    loaded = engine.load(tmp_path / "n.engine")
    assert loaded.digest == program.digest
    assert repr(loaded) == "<Program Network(x: float32[batch, sequence, 16])>"


def add_an_input_without_a_type(header):
    header["inputs"].append(len(header["types"]))
    header["signature"]["input_names"].append("another")


def vary_a_constant(header):
    """One of 16 elements, which is batch + 13 for the example."""
    shapes = [header["types"][int(value)][1] for value in header["constants"]]
    next(shape for shape in shapes if shape[0] == 16)[0] = {"size": [[["batch"], 1], [[], 13]]}


def test_a_file_with_damaged_sizes_is_refused(network, tmp_path):
    program = compiled(network)
    for number, change in enumerate(
        [
            lambda h: h["sizes"].update(batch=[5, 2, 3]),
            lambda h: h["sizes"].pop("batch"),
            lambda h: h["guards"].append(["<=", [], True]),
            lambda h: h["types"][0][1].__setitem__(0, {"size": [[[["//", [], []]], 1]]}),
            lambda h: h["types"][0][1].__setitem__(0, {"size": [[["batch"], -1]]}),
            add_an_input_without_a_type,
            vary_a_constant,
        ]
    ):
        path = tmp_path / f"{number}.engine"
        saved_with(program, path, change)
        with pytest.raises(ProgramError):
            engine.load(path)


def test_types_that_follow_for_the_example_alone_are_found_when_a_call_brings_other_sizes(network, tmp_path):
    def say_three_for_batch(header):
        made = {value for i in header["instructions"] for value in i["outputs"]}
        for value in made:
            shape = header["types"][value][1]
            shape[:] = [3 if size == {"size": [[["batch"], 1]]} else size for size in shape]

    saved_with(compiled(network), tmp_path / "n.engine", say_three_for_batch)
    program = engine.load(tmp_path / "n.engine")
    program(np.zeros((3, 21, 16), np.float32))
    with messages.raises(ShapeError):
        program(np.zeros((4, 21, 16), np.float32))


@pytest.mark.parametrize(
    "name",
    [
        "transformer-tiny",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("bert-tiny", "gpt2-tiny", "qwen3-tiny")),
    ],
)
def test_models_of_the_suites_with_symbolic_batch_and_length(name):
    model, inputs = models.get(name).build()
    args = inputs if isinstance(inputs[0], torch.Tensor) else inputs[0]
    batch, sequence = Dim("batch", min=1, max=16), Dim("sequence", min=1, max=32)

    def resized(value, size):
        shape = (*size, *value.shape[2:])
        if value.dtype.is_floating_point:
            return torch.randn(shape)
        return (
            torch.randint(0, int(value.max()) + 1, shape) if value.max() > 1 else torch.ones(shape, dtype=value.dtype)
        )

    example = tuple(resized(value, (3, 12)) for value in args)
    program = engine.compile(model, example, dynamic_shapes=tuple({0: batch, 1: sequence} for _ in example))
    assert program.report().guards == ()
    for size in ((1, 1), (1, 9), (5, 1), (5, 31), (16, 32)):
        call = tuple(resized(value, size) for value in args)
        got, expected = program(*call), model(*call)
        flat = torch.utils._pytree.tree_leaves
        for one, other in zip(flat(got), flat(expected), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [pytest.param("resnet18-tiny", marks=pytest.mark.long), "efficientnet-lite0-tiny"])
def test_convolution_networks_with_symbolic_batch(name):
    model, (pixels,) = models.get(name).build()
    example = torch.randn(3, *pixels.shape[1:])
    program = engine.compile(model, (example,), dynamic_shapes=({0: Dim("batch", min=1, max=16)},))
    assert program.report().guards == ()
    for batch in (1, 4, 16):
        x = torch.randn(batch, *pixels.shape[1:])
        flat = torch.utils._pytree.tree_leaves
        for one, other in zip(flat(program(x)), flat(model(x)), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class AddsInput(nn.Module):
    """A convolution of images of one pixel, to which its input is added: the sum looks like a bias where batch is 1."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return x * self.norm(self.conv(x)) + x


@pytest.mark.parametrize("choice", [{"precision": "bf16"}, {"recipe": {"*": "int8_weight"}}, {"recipe": {"0": "fp16"}}])
def test_a_precision_beside_a_guard_on_the_size_of_a_convolution(choice):
    model = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1)).eval()
    with messages.warns(engine.GuardWarning):
        program = engine.compile(
            model, (torch.randn(2, 3, 9),), engine.Config(**choice), dynamic_shapes=({2: Dim("t")},)
        )
    x = torch.randn(2, 3, 14)
    torch.testing.assert_close(program(x), model(x), rtol=2e-2, atol=2e-2)  # of narrow weights


def test_a_rewrite_that_is_refused_restricts_no_size():
    torch.manual_seed(0)
    model = AddsInput().eval()
    example = (torch.randn(3, 4, 1, 1),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = engine.compile(model, example, dynamic_shapes=({0: Dim("batch", min=1, max=8)},))
    assert program.report().guards == ()
    for batch in (1, 2, 8):
        x = torch.randn(batch, 4, 1, 1)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def compile_linear(dim, size):
    """A linear layer that takes sizes of `dim`, compiled for an example of `size`."""
    model = nn.Sequential(nn.Linear(4, 4, bias=False)).eval()
    return engine.compile(model, (torch.ones(size, 4),), dynamic_shapes=({0: dim},))


@pytest.mark.parametrize(
    ("dim", "size"), [(Dim("b", max=2) + 1, 3), (Dim("b", max=5) + 1, 3), (Dim("b", min=1) * 2, 4)]
)
def test_sizes_that_torch_excludes_are_warned_of(dim, size):
    with messages.warns(engine.GuardWarning):
        program = compile_linear(dim, size)
    least = 3 if size == 3 else 4
    assert len(program(torch.ones(least, 4))) == least
    with pytest.raises(ShapeError):
        program(torch.ones(least - 1, 4))


@pytest.mark.parametrize(
    "dim", [Dim("b", max=9), Dim("b", min=1), Dim("b", min=2, max=9) + 1, 2 * Dim("b", min=2), Dim("b", min=3) - 1]
)
def test_sizes_that_the_program_takes_are_not_warned_of(dim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_linear(dim, 4)


def test_an_example_of_a_derived_size_of_1_is_named_as_the_cause():
    with messages.raises(EngineError):
        compile_linear(Dim("b", min=2, max=4) - 1, 1)
