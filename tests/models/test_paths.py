"""``path.py:factory``: a model of the user's own file."""

from __future__ import annotations

import pytest
import torch

from suites import models
from tests import messages

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


@pytest.mark.parametrize("entry", ["Twice", "Deeper", "linear", "forward", "inner", "unbound"])
def test_a_name_that_is_a_class_or_is_bound_elsewhere_is_refused_without_building(file, entry):
    file.write_text(
        f"{GOOD}\nclass Deeper(Twice):\n    pass\n\ndef use():\n    inner = 1\n    return inner + unbound\n"
    )
    with messages.raises(models.UnknownModel):
        models.get(f"{file}:{entry}")


@pytest.mark.parametrize(
    "source",
    [
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    model: object = 1\n    inputs: object = 2\n",
        "class Pair:\n    def __new__(cls):\n        return 1, 2\n",
        "def use():\n    global Pair\n    Pair = 1\nuse()\n",
        "if True:\n    def Pair():\n        return 1, 2\n",
        "try:\n    from a import b as Pair\nexcept ImportError:\n    pass\n",
        "x = [Pair := print]\n",
        "def __getattr__(name):\n    return print\n",
        "def wrap(one):\n    return print\n@wrap\nclass Pair:\n    pass\n",
    ],
)
def test_a_name_that_may_be_a_factory_is_left_to_the_file(tmp_path, source):
    (tmp_path / "mine.py").write_text(source)
    assert models.get(f"{tmp_path}/mine.py:Pair").name.endswith(":Pair")


def test_a_file_that_does_not_compile_is_named(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("def make(:\n")
    with pytest.raises(models.ModelError, match=r"broken\.py:make.*SyntaxError"):
        models.get(f"{path}:make").build()


def test_a_file_that_fails_when_it_is_imported_is_named_with_its_line_and_its_factory_is_not(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text('raise ValueError("at import\\nsecond line")\n\n\ndef factory():\n    return None\n')
    with messages.raises(models.ModelError):
        models.get(f"{path}:factory").build()


@pytest.mark.parametrize("name", ["nowhere.py:make", "nowhere.py", "nowhere.py:"])
def test_a_path_without_file_or_factory_is_refused_at_once(name):
    with messages.raises(models.UnknownModel):
        models.get(name)
