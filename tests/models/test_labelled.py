"""Labelled pictures through networks with real weights: the engine finds the classes that eager finds."""

from __future__ import annotations

import pytest
import torch

import engine
from suites import models
from suites.models.nets import labelled

# Of so many pictures eager finds this class rightly: what the published weights are known for. Fewer would mean that
# pictures or weights are read wrongly, and agreement on noise says nothing.
LEAST = {"resnet50-imagenet": 0.9, "efficientnet-lite0": 0.85, "cifar10-cnn": 0.75}
# Largest difference of two scores over the largest score. Other orders of summation make 1e-6 (measured); convolution
# by transforms may cost a digit or two more. A tap or a channel in a wrong place makes 1e-2.
TOLERANCE = 1e-4


@pytest.mark.parametrize("name", labelled.LABELLED)
def test_the_engine_finds_the_classes_that_eager_finds(name):
    reason = models.get(name).unavailable() or labelled.lacks(name)
    if reason:
        pytest.skip(reason)
    model, _ = models.get(name).build()
    pictures, classes = labelled.labelled(name)
    with torch.no_grad():
        expected = model(pictures)
    found = engine.compile(model, (pictures,))(pictures)
    assert (expected.argmax(1).numpy() == classes).mean() >= LEAST[name]
    assert torch.equal(found.argmax(1), expected.argmax(1))
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max()
