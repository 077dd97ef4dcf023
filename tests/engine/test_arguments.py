"""Arguments by position and by name: bound as Python does, refused with the names of all parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from engine.program import container
from tests import messages
from tests.files import saved_with

X = torch.linspace(-2, 2, 24).reshape(3, 8)
MLP = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


class Parameters(nn.Module):
    """Positional parameters of every kind, and one that has only a name."""

    def forward(self, pair, factor, x, *, shift):
        return (pair[0] - pair[1]) * factor + x * shift


@pytest.mark.parametrize("config", [engine.Config(), engine.Config(fallback="torch")], ids=["engine", "torch"])
def test_arguments_are_bound_by_position_or_by_name_as_python_does(config, tmp_path):
    class Model(Parameters):
        def forward(self, pair, factor, x, *, shift):
            result = super().forward(pair, factor, x, shift=shift)
            return result if config.fallback is None else torch.lgamma(result)

    one, other, x, shift = torch.randn(4, 3, 8)
    model = Model().eval()
    program = engine.compile(model, (((one, other), 2, x), {"shift": shift}), config)
    programs = [program]
    if config.fallback is None:
        program.save(tmp_path / "p.engine")
        programs.append(engine.load(tmp_path / "p.engine"))
    expected = model((one, other), 2, x, shift=shift)
    for each in programs:
        for args, kwargs in (
            (((one, other), 2, x), {}),
            (((one, other), 2), {"x": x}),
            (((one, other),), {"x": x, "factor": 2}),
            ((), {"x": x, "factor": 2, "pair": (one, other)}),
        ):
            torch.testing.assert_close(each(*args, **kwargs, shift=shift), expected, rtol=1e-5, atol=1e-5)
        with messages.raises(engine.ShapeError):
            each((one, other), 2, pair=x, shift=shift)


def test_a_program_of_varying_sizes_is_called_by_name():
    rows = torch.export.Dim("rows", min=2, max=8)
    program = engine.compile(MLP, (X,), dynamic_shapes={"input": {0: rows}})
    for count in (2, 5):
        assert torch.equal(program(input=X[:1].repeat(count, 1)), program(X[:1].repeat(count, 1)))


def test_a_file_without_names_of_parameters_has_those_of_its_tensors(tmp_path):
    program = engine.compile(MLP, (X,))
    saved_with(program, tmp_path / "p.engine", lambda header: header.pop("parameters"))
    loaded = engine.load(tmp_path / "p.engine")
    assert loaded.graph.signature.parameters == ()
    assert torch.equal(loaded(input=X), program(X))


@pytest.mark.parametrize("names", [["input", "other"], [3], "input"])
def test_a_file_with_names_that_do_not_fit_is_refused(names, tmp_path):
    saved_with(engine.compile(MLP, (X,)), tmp_path / "p.engine", lambda header: header.update(parameters=names))
    with messages.raises(engine.ProgramError):
        engine.load(tmp_path / "p.engine")


def test_too_little_memory_is_not_called_damage_of_the_file():
    with messages.raises(engine.ProgramError), container.convert_errors("p.engine"):
        raise MemoryError
