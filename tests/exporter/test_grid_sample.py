"""`grid_sample` at coordinates that are not finite. torch's own decomposition gives 0 there, eager does not."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from engine.exporter import export
from tests.exporter.cases import f32
from tests.exporter.evaluate import call

EDGES = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e5, -1e5)  # 3e38 is infinite in pixels


class Sample(nn.Module):
    def __init__(self, mode, padding, align_corners):
        super().__init__()
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}

    def forward(self, image, grid):
        return functional.grid_sample(image, grid, **self.options)


def make_grid(dtype=torch.float32):
    """[1, 2, 11, 2]: inside of the image, and at each of EDGES in x, in y and in both."""
    grid = f32(22, 2) * 0.6
    edges = torch.tensor(EDGES)
    grid[:7, 0] = edges
    grid[7:14, 1] = edges
    grid[14:21] = edges[:, None]
    return grid.reshape(1, 2, 11, 2).to(dtype)


OPTIONS = itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True), (1, 5)
)
# Each value once at least, and each padding with the mode that reads four pixels.
SHORT = (
    ("bilinear", "zeros", False, 5),
    ("bilinear", "border", True, 1),
    ("bilinear", "reflection", True, 5),
    ("nearest", "zeros", True, 1),
    ("bicubic", "border", False, 5),
)


@pytest.mark.parametrize(
    ("mode", "padding", "align_corners", "height"),
    [one if one in SHORT else pytest.param(*one, marks=pytest.mark.long) for one in OPTIONS],
)
def test_coordinates_that_are_not_finite_give_what_torch_gives(mode, padding, align_corners, height):
    model = Sample(mode, padding, align_corners).eval()
    inputs = f32(1, 3, height, 6), make_grid()
    torch.testing.assert_close(call(export(model, (inputs, {})), *inputs), model(*inputs), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "padding", ["zeros", *(pytest.param(p, marks=pytest.mark.long) for p in ("border", "reflection"))]
)
def test_half_precision_has_its_nans_in_the_same_places(padding, dtype):
    model = Sample("bilinear", padding, align_corners=False).eval()
    inputs = f32(1, 3, 5, 6).to(dtype), make_grid(dtype)
    found, expected = call(export(model, (inputs, {})), *inputs), model(*inputs)
    assert torch.equal(found.isnan(), expected.isnan())
