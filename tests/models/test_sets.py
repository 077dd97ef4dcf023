"""The input sets of a user's model: what is the same in all of them, what differs, and what a factory may give."""

from __future__ import annotations

import pytest
import torch

from suites import models
from suites.accuracy import datasets
from suites.harness.declare.case import BackendRef, Case
from suites.harness.judge.reference import compute
from suites.harness.measure.job import Job
from tests import messages

FACTORIES = """
import torch
from torch import nn

class Sum(nn.Module):
    def forward(self, *given):
        return sum(one.double().tanh().sum() for one in given)

class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 2)

    def forward(self, ids, x):
        return self.table(ids) + x

class Bounded(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling() or float(x.max()) == 1:
            return x + 1
        raise ValueError("no unit in sight")

def valid():
    covariance = torch.randn(3, 3)
    offsets = torch.tensor([0, 2, 2, 5])
    mask = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    return Sum(), (covariance @ covariance.T + torch.eye(3), offsets, torch.tensor([True, False]), mask)

def strided():
    memory = torch.randn(4, 6)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    return Sum(), (image, memory.T, memory[:, 1:3], torch.randn(3, 1).expand(3, 4), torch.ones(2))

def several():
    return Bag(), [(torch.tensor([n, 4 - n]), torch.full((2, 2), float(n))) for n in range(3)]

def named():
    return Bag(), [((torch.tensor([n]),), {"x": torch.ones(1, 2)}) for n in range(2)]

def traced():
    x = torch.randn(2, 4)
    return torch.jit.trace(nn.Linear(4, 3).eval(), x), x

class Largest(nn.Module):
    def forward(self, x):
        return x.argmax(-1)

def largest():
    return Largest(), torch.randn(2, 64)

def bounded():
    return Bounded(), torch.tensor([0.5, 1.0])

def out_of_range():
    return Bag(), [(torch.tensor([n]), torch.ones(1, 2)) for n in (4, 5)]

def other_shape():
    return Bag(), [(torch.zeros(2).long(), torch.ones(n, 2)) for n in (1, 2)]

def other_strides():
    return Sum(), [torch.ones(2, 3), torch.ones(3, 2).T]

def other_constants():
    return Sum(), [(torch.ones(2), n) for n in (1, 2)]

def too_many():
    return Sum(), [torch.ones(2)] * 5

def integers():
    return nn.Embedding(5, 2), torch.tensor([1, 2])

def one_alone():
    return Sum(), [torch.ones(2)]

def no_tensor():
    return Sum(), [torch.ones(2), 3]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FACTORIES)
    return path


def sets_of(file, factory, count=4):
    return [models.get(f"{file}:{factory}").inputs(seed) for seed in range(count)]


def test_what_makes_an_input_valid_stays(file):
    first, *others = sets_of(file, "valid")
    factors = set()
    for covariance, offsets, chosen, mask in others:
        factor = float(covariance[0, 0] / first[0][0, 0])
        assert 0.5 < factor < 1
        factors.add(factor)
        torch.testing.assert_close(covariance, first[0] * factor)
        torch.linalg.cholesky(covariance)
        assert torch.equal(covariance, covariance.T)
        assert torch.equal(offsets, first[1])
        assert torch.equal(chosen, first[2])
        assert torch.equal(mask, first[3])
    assert len(factors) == 3


def test_layout_and_shared_memory_are_the_same_in_all_sets(file):
    first, *others = sets_of(file, "strided")
    assert first[0].is_contiguous(memory_format=torch.channels_last)
    assert first[3].stride() == (1, 0)
    for one in others:
        assert [each.stride() for each in one] == [each.stride() for each in first]
        places = [each.untyped_storage().data_ptr() for each in one]
        assert places[1] == places[2] != places[0]
        assert places[1] != first[1].untyped_storage().data_ptr()
        factor = float(one[4][0])
        for mine, other in zip(one, first, strict=True):
            torch.testing.assert_close(mine, other * factor)


def test_every_call_gets_the_layout_of_the_factory(file, tmp_path):
    job = Job(Case(f"{file}:strided", {}), BackendRef("eager"), tmp_path)
    job.load()
    job.prepare()
    (layout,) = {tuple(each.stride() for each in one) for one in job.inputs}
    assert layout[:3] == ((60, 1, 15, 3), (1, 6), (6, 1))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_traced_model_is_called_by_position(file):
    model, inputs = models.get(f"{file}:traced").build()
    assert model(*inputs).shape == (2, 3)


def test_a_list_holds_the_sets(file):
    found = sets_of(file, "several", 5)
    assert [ids.tolist() for ids, _x in found] == [[0, 4], [1, 3], [2, 2], [0, 4], [1, 3]]
    assert [float(x[0, 0]) for _ids, x in found] == [0, 1, 2, 0, 1]
    assert [ids.tolist() for ids, _x in sets_of(file, "named", 3)] == [[0], [1], [0]]
    model, inputs = models.get(f"{file}:named").build()
    assert model(*inputs).shape == (1, 2)


@pytest.mark.parametrize(
    "factory", ["other_shape", "other_strides", "other_constants", "too_many", "one_alone", "no_tensor"]
)
def test_sets_that_are_not_alike_are_refused(file, factory):
    with messages.raises(models.ModelError):
        models.get(f"{file}:{factory}").build()


def test_the_reference_names_the_inputs_that_stay(file):
    for one in compute(Case(f"{file}:valid", {}), seeds=2):
        messages.check(one.note)
    assert compute(Case(f"{file}:several", {}), seeds=2)[0].note is None


def test_the_reference_says_where_a_kept_answer_would_not_be_found(file):
    for one in compute(Case(f"{file}:largest", {}), seeds=3):
        messages.check(one.note)
    assert compute(Case(f"{file}:largest", {}), seeds=1)[0].note is None


@pytest.mark.parametrize(("factory", "count"), [("several", 3), ("largest", 8), ("integers", 1)])
def test_accuracy_takes_each_set_once(file, factory, count):
    found = datasets.read(f"{file}:{factory}", {}, None)
    assert len(found.parts[0].chunks) == count


@pytest.mark.parametrize(("factory", "kind"), [("bounded", ValueError), ("out_of_range", IndexError)])
def test_an_error_in_a_later_set_says_how_that_was_made(file, factory, kind):
    with pytest.raises(kind) as raised:
        compute(Case(f"{file}:{factory}", {}), seeds=4)
    messages.check(raised.value.__notes__[-1])
    compute(Case(f"{file}:{factory}", {}), seeds=1)
