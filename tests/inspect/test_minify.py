"""The smallest part of a model that fails: what is left, of which sizes and values, and that it fails by itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import engine
from engine.errors import ComparisonError, ConfigError
from engine.inspect.minify import minify
from tests import messages
from tests.inspect.planted import cases
from tests.inspect.planted.plant import read_faults

FAULTS = [one for one in read_faults() if not (one.is_native or isinstance(getattr(cases, one.case)()[1], list))]
QUICK = ("batch-norm-leaves-the-bias-of-the-convolution-unscaled",)  # each takes 10 s and more


class Deep(nn.Module):
    """Layers before and behind the only one that fails."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(6))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) + x
            if number == 3:
                x = torch.cumsum(x, 1)
        return x.softmax(-1), x.sum()


MODEL, X = Deep().eval(), torch.randn(5, 24, generator=torch.Generator().manual_seed(0))


def minify_subject(fault, kind=None):
    return minify(MODEL, (X,), kind or fault, subject="tests.inspect.subject:run", options={"fault": fault})


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # of torch, which copies x there
@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.long, id=one.name) for one in FAULTS]
)
def test_few_calls_are_left_of_the_model_of_a_fault(fault, monkeypatch):
    monkeypatch.setenv("PLANTED", fault.name)
    model, inputs = getattr(cases, fault.case)()
    kind = "nan" if fault.kind == "nan" else "wrong"
    config = engine.Config(**fault.config)
    found = minify(model, inputs, kind, candidate=config, setup=["tests.inspect.planted.trial"])
    assert found.calls[0] <= 5, str(found)
    assert found.passing != found.case


def test_the_call_that_fails_is_left_with_small_sizes_and_plain_values():
    found = minify_subject("error")
    nodes, sizes, forms = found.case.to_json()
    assert (nodes, sizes) == (["cumsum"], [(5, 1), (24, 1)])
    assert forms == {"add_3": "ones"}
    assert found.calls == (1, 21)
    assert found.failure == "KeyError: 'cumsum'"
    assert "cumsum" not in str(found.passing)


def test_sizes_are_cut_as_far_as_it_fails():
    found = minify_subject("wrong")
    assert dict(found.case.sizes)[24] == 3
    assert found.calls[0] == 1


@pytest.mark.parametrize(("fault", "kind"), [("", "wrong"), ("error", "crash"), ("wrong", "nan")])
def test_what_does_not_fail_so_is_said(fault, kind):
    with pytest.raises(ComparisonError, match="it does not fail") as refused:
        minify_subject(fault, kind)
    messages.check(str(refused.value))


def test_another_kind_of_failure_is_refused():
    with pytest.raises(ConfigError, match="expected wrong, nan") as refused:
        minify(MODEL, (X,), "slow")
    messages.check(str(refused.value))
