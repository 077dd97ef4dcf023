"""Numbers, weights and positions that depend on the sizes of a call: one program against eager at every size."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine.errors import ProgramError, ShapeError
from engine.sizes import Real, Scope, Symbol, at, is_fixed, key_of, same
from engine.terms import symbol
from tests import messages
from tests.files import saved_with
from tests.golden import models as golden
from tests.modules import Call

F = nn.functional
LENGTH = {"x": {1: Dim("n", min=2, max=90)}}
ROWS = [torch.randn(4, n, generator=torch.Generator().manual_seed(n)) for n in (16, 2, 3, 17, 40)]
PICTURE = {"x": {2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}}
PICTURES = [
    torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(size[0]))
    for size in ((8, 10), (9, 7), (16, 5), (31, 33))
]
NUMBERS = {
    "a mean by hand": lambda x: x.sum(1) / x.shape[1],
    "a mean of halves": lambda x: x.half().sum(1) / x.shape[1],
    "a mean of all": lambda x: x.sum() / x.numel(),
    "a root": lambda x: x * x.shape[1] ** -0.5,
    "a reciprocal": lambda x: x * (1 / x.shape[1]),
    "a share": lambda x: x * (x.shape[1] / (x.shape[1] + 1)),
    "a factor": lambda x: torch.add(x, x, alpha=x.shape[1]),
    "a bound": lambda x: (x * 100).clamp(max=x.shape[1] - 1),
    "a comparison": lambda x: x * 10 < x.shape[1],
    "a choice": lambda x: torch.where(torch.arange(x.shape[1]) < x.shape[1] // 2, x, x.shape[1]),
    "a tensor": lambda x: x + torch.full((x.shape[1],), x.shape[1]) * torch.tensor(x.shape[1]),
    "a mask": lambda x: x.masked_fill(x > 0, x.shape[1]),
    "positions about the middle": lambda x: x + (torch.arange(x.shape[1]) - x.shape[1] // 2),
    "positions backwards": lambda x: x + torch.arange(x.shape[1] - 1, -1, -1),
    "positions behind": lambda x: x + torch.arange(x.shape[1], 2 * x.shape[1]),
    "positions around": lambda x: x + torch.arange(x.shape[1]) % ((x.shape[1] + 1) // 2),
}


def nested(x):
    number = x.shape[1] / 2
    for step in range(6):
        number = (number + 1) / (step + 1.5)
    return x * number


NUMBERS |= {
    "a number of many steps": nested,
    "an integer that wraps": lambda x: x.int() + x.shape[1] * 1_000_000_000,
    "a large integer": lambda x: x.long() + x.shape[1] * 1_234_567_890_123_457,
}


def upsampled(**how):
    return lambda x: F.interpolate(x, **how)


INTERPOLATED = {
    "nearest, twice": upsampled(scale_factor=2),
    "nearest, three times": upsampled(scale_factor=3),
    "nearest, half": upsampled(scale_factor=0.5),
    "nearest-exact": upsampled(scale_factor=1.5, mode="nearest-exact"),
    "bilinear, twice": upsampled(scale_factor=2, mode="bilinear"),
    "bilinear, 1.5": upsampled(scale_factor=1.5, mode="bilinear"),
    "bilinear, corners": upsampled(scale_factor=2, mode="bilinear", align_corners=True),
    "bilinear, to a size": upsampled(size=(9, 13), mode="bilinear"),
    "bilinear, to the size of another": lambda x: F.interpolate(x[..., ::2, ::2], size=x.shape[2:], mode="bilinear"),
    "bicubic": upsampled(scale_factor=2, mode="bicubic"),
    "antialiased": upsampled(scale_factor=0.5, mode="bilinear", antialias=True),
    "antialiased, bicubic": upsampled(size=(3, 5), mode="bicubic", antialias=True),
    "area": upsampled(scale_factor=0.5, mode="area"),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive mean of one axis": lambda x: F.adaptive_avg_pool2d(x, (None, 4)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (3, 5)),
}
CASES = {**{name: (f, LENGTH, ROWS) for name, f in NUMBERS.items()}}
CASES |= {name: (f, PICTURE, PICTURES) for name, f in INTERPOLATED.items()}


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_every_size(name, target, tmp_path):
    function, shapes, inputs = CASES[name]
    model, config = Call(function).eval(), engine.Config(target=target)
    program = engine.compile(model, (inputs[0],), config, dynamic_shapes=shapes)
    assert program.report().guards == ()
    program.save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p", config=config)
    for x in inputs:
        expected = model(x)
        for one in (program, loaded):
            got = torch.as_tensor(one(x))
            # Half precision has 11 bits; others differ by the order of a sum.
            narrow = expected.dtype is torch.float16
            torch.testing.assert_close(got, expected, rtol=2e-3 if narrow else 1e-5, atol=1e-3 if narrow else 1e-5)


@pytest.mark.parametrize("name", ["a mean by hand", "a bound", "a choice", "positions backwards"])
def test_triton_takes_numbers_that_depend_on_sizes(name):
    function, shapes, inputs = CASES[name]
    model = Call(function).eval()
    program = engine.compile(model, (inputs[0],), engine.Config(target="triton"), dynamic_shapes=shapes)
    for x in inputs:
        torch.testing.assert_close(torch.as_tensor(program(x)), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_number_is_rounded_to_the_narrow_type_of_what_it_is_added_to(target):
    model = Call(lambda x: x.bfloat16() + x.shape[1] / 3).eval()
    program = engine.compile(model, (ROWS[0],), engine.Config(target=target), dynamic_shapes=LENGTH)
    for x in ROWS:
        assert torch.equal(torch.as_tensor(program(x)), model(x))


BRANCHES = {
    "the larger of a quotient and 1": lambda x: x * max(x.shape[1] / 10, 1.0),
    "a rounded share": lambda x: x.new_zeros(int(x.shape[1] * 0.3)) + x.sum(),
    "a scale of attention": lambda x: F.scaled_dot_product_attention(x, x, x, scale=1 / x.shape[1]),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_on_floats_is_checked_by_each_call(name, tmp_path):
    model = Call(BRANCHES[name]).eval()
    program = engine.compile(model, (ROWS[0],), dynamic_shapes={"x": {1: Dim.DYNAMIC}})
    program.save(tmp_path / "p")
    for one in (program, engine.load(tmp_path / "p")):
        torch.testing.assert_close(torch.as_tensor(one(ROWS[0])), model(ROWS[0]))
        with messages.raises(ShapeError):
            one(ROWS[2])


def test_a_number_costs_no_launch():
    program = engine.compile(Call(NUMBERS["a mean by hand"]).eval(), (ROWS[0],), dynamic_shapes=LENGTH)
    fixed = engine.compile(Call(NUMBERS["a mean by hand"]).eval(), (ROWS[0],))
    assert program.report().launches == fixed.report().launches


def test_numbers_of_sizes_that_are_gone_are_given_back():
    config = engine.Config(plans=2)
    program = engine.compile(
        Call(INTERPOLATED["bilinear, twice"]).eval(), (PICTURES[0],), config, dynamic_shapes=PICTURE
    )
    for size in range(4, 24):
        program(torch.randn(2, 3, size, size))
    gc.collect()
    program(PICTURES[0])
    assert len(program._prepared._plain) <= 4 * (config.plans + 2)  # and those of the example and of the latest call


def test_a_division_by_a_size_that_is_zero_is_named_with_it():
    model = Call(lambda x: x * (1 / (x.shape[1] - 5))).eval()
    program = engine.compile(model, (ROWS[0],), dynamic_shapes=LENGTH)
    with messages.raises(ShapeError) as raised:
        program(torch.randn(4, 5))
    assert "n = 5" in str(raised.value)


def test_a_size_from_a_factor_that_rounds_is_refused():
    with messages.raises(engine.UnsupportedOp):
        how = {"x": {2: Dim.AUTO, 3: Dim.AUTO}}
        engine.compile(Call(upsampled(scale_factor=1.3)).eval(), (PICTURES[0],), dynamic_shapes=how)


def test_a_file_of_numbers_of_an_earlier_engine_gives_what_its_model_gives():
    program, model = engine.load(golden.file("numbers")), golden.Numbers()
    for n in (8, 2, 13):
        x = torch.arange(3.0 * n).reshape(1, 3, n) / 7
        torch.testing.assert_close(torch.as_tensor(program(x)), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "value",
    [
        {"real": ["-", 1, 2]},
        {"real": ["+", "n"]},
        {"real": ["+", True]},
        {"real": "n"},
        {"real": []},
        {"size": [[["m"], 1]]},
        {"real": ["*", *[1] * 128]},
    ],
)
def test_a_file_with_a_malformed_number_is_refused(value, tmp_path):
    def change(header):
        (full,) = (one for one in header["instructions"] if one["op"] == "full")
        full["attributes"]["value"] = value

    saved_with(
        engine.compile(Call(NUMBERS["a root"]).eval(), (ROWS[0],), dynamic_shapes=LENGTH), tmp_path / "p", change
    )
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p")


def test_a_formula_of_floats_is_compared_by_how_it_is_written():
    scope = Scope()
    scope.symbols["n"] = Symbol(1, 9, 4)
    n = scope.size(symbol("n"))
    one, other = Real("/", (1.0, n)), Real("/", (1.0, n))
    assert same(one, other)
    assert not same(one, 0.25)
    assert key_of(one) != key_of(Real("/", (2.0, n)))
    assert (at(one, {"n": 8}), str(one), is_fixed(one)) == (0.125, "(1.0 / n)", False)
    assert not scope.guards
    with scope.deciding():
        assert one == 0.25
    assert [str(guard) for guard in scope.guards] == ["n - 4 == 0"]
