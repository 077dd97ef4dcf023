"""Weights of convolutions are decoded where no fast kernel reads them; results keep their bits."""

from __future__ import annotations

import numpy as np
import pytest

from engine.encodings import FAMILIES
from engine.graph import verify
from engine.passes import PASSES
from tests.graphs import ops
from tests.passes.test_encoded import begin, results

EACH = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilation": (1, 1)}
STORED = [name for name, one in FAMILIES.items() if one.per != "group"]


def stored(graph, family, *shape, seed=0):
    data = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return graph.encode(graph.constant(data, f"w{seed}"), FAMILIES[family].along(0))


def convolution(family, compute, groups=1, *, channels_last=True):
    graph, x = begin(2, 5, 6, 8)
    channels = 8 if channels_last else 5
    weight = stored(graph, family, 10 if channels_last else 5, channels // groups, 3, 3)
    how = {**EACH, "groups": groups, "compute": compute, "channels_last": channels_last}
    graph.outputs = [graph.emit("conv", [x, weight, None, None], **how)]
    return graph


def run(graph):
    """Number of decoded weights. The results are the same before and behind, bit for bit."""
    x = np.random.default_rng(9).normal(size=graph.inputs[0].shape).astype(np.float32)
    before = results(graph, x)
    count = PASSES["decode_convolutions"].run(graph)
    verify.graph(graph)
    for old, new in zip(before, results(graph, x), strict=True):
        np.testing.assert_array_equal(old, new)
    return count


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("family", STORED)
def test_a_convolution_of_elements_reads_them_decoded(family, groups):
    graph = convolution(family, "element", groups)
    assert run(graph) == 1
    (node,) = graph.nodes
    assert node.operand("weight").is_plain


@pytest.mark.parametrize(("groups", "channels_last"), [(2, True), (1, False)])
def test_casts_round_the_other_factor_where_no_kernel_does(groups, channels_last):
    graph = convolution("bfloat16", "bfloat16", groups, channels_last=channels_last)
    assert run(graph) == 1
    assert ops(graph) == ["cast", "cast", "conv"]
    assert graph.nodes[-1].attributes["compute"] == "element"


@pytest.mark.parametrize(("family", "compute"), [("bfloat16", "bfloat16"), ("float16", "bfloat16")])
def test_other_convolutions_stay_as_they_are(family, compute):
    """There is a kernel; integers are multiplied; elements would be rounded."""
    graph = convolution(family, compute)
    assert run(graph) == 0
    assert not graph.nodes[0].operand("weight").is_plain


def test_other_types_of_values_stay_as_they_are():
    graph, x = begin(2, 5, 6, 8)
    wide = graph.emit("cast", [x], dtype="float64")
    weight = graph.encode(graph.constant(np.ones((4, 8, 3, 3)), "w"), FAMILIES["bfloat16"])
    graph.outputs = [graph.emit("conv", [wide, weight, None, None], **EACH, channels_last=True)]
    assert PASSES["decode_convolutions"].run(graph) == 0


def test_a_weight_that_two_convolutions_read_is_decoded_once():
    graph, x = begin(2, 5, 6, 8)
    weight = stored(graph, "int8_channel", 8, 8, 3, 3)
    y = graph.emit("conv", [x, weight, None, None], **EACH, channels_last=True)
    graph.outputs = [graph.emit("conv", [y, weight, None, None], **EACH, channels_last=True)]
    assert run(graph) == 2
    first, second = (node.operand("weight") for node in graph.nodes)
    assert first is second


def test_linears_stay_encoded():
    graph, x = begin(3, 8)
    graph.outputs = [graph.emit("linear", [x, stored(graph, "int8_channel", 4, 8), None, None], transpose_weight=True)]
    assert run(graph) == 0
