"""``path.py:factory``: a model of the user's own file."""

from __future__ import annotations

import pytest
import torch

from suites import models
from tests import messages

pytestmark = pytest.mark.usefixtures("import_in_process")

GOOD = """
import torch

class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, ids):
        return self.linear(x) + ids.sum()

def make():
    return Twice(), (torch.randn(2, 4), torch.tensor([1, 2, 3]))

def one():
    return torch.nn.ReLU(), torch.ones(3)

def text():
    return "model"

def half():
    return torch.nn.ReLU(), ("x",)

def broken():
    raise ZeroDivisionError("by design")

number = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def test_a_factory_is_a_model(file):
    before = torch.get_rng_state()
    spec = models.get(f"{file}:make")
    model, inputs = spec.build()
    assert torch.equal(torch.get_rng_state(), before)
    assert model(*inputs).shape == (2, 3)
    again, same = spec.build()
    assert all(torch.equal(a, b) for a, b in zip(inputs, same, strict=True))
    assert torch.equal(model.linear.weight, again.linear.weight)


def test_a_lone_tensor_is_one_input(file):
    model, inputs = models.get(f"{file}:one").build()
    assert isinstance(inputs, tuple)
    assert model(*inputs).tolist() == [1, 1, 1]


def test_a_model_of_a_file_can_be_exported(file):
    model, inputs = models.get(f"{file}:make").build()
    torch.export.export(model, inputs)


@pytest.mark.parametrize("factory", ["mak", "number", "text", "half", "broken"])
def test_a_faulty_factory_is_named_with_its_fault(file, factory):
    with messages.raises(models.ModelError):
        models.get(f"{file}:{factory}").build()


@pytest.mark.parametrize("entry", ["Twice", "later", "linear"])
def test_a_name_that_is_no_function_of_the_file_is_refused_without_building(file, entry):
    file.write_text(f"{GOOD}\nasync def later():\n    return make()\n")
    with messages.raises(models.UnknownModel):
        models.get(f"{file}:{entry}")


def test_a_factory_may_be_defined_in_any_way(tmp_path):
    (tmp_path / "mine.py").write_text(f"{GOOD}\nglobals()['an' + 'other'] = lambda: one()\n")
    assert models.get(f"{tmp_path}/mine.py:another").build()[1][0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["nowhere.py:make", "nowhere.py", "nowhere.py:"])
def test_a_path_without_file_or_factory_is_refused_at_once(name):
    with messages.raises(models.UnknownModel):
        models.get(name)
