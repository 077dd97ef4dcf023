"""`resnext50` and `regnet-y`: ResNeXt-50 32 x 4d and RegNet-Y 1.6GF in their published sizes; weights are random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.models._pictures import normal
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

Sizes = tuple[tuple[int, int, int, int, int], ...]
"""Of each stage: repeats, stride, width, channels, groups."""

RESNEXT50: Sizes = ((3, 1, 128, 256, 32), (4, 2, 256, 512, 32), (6, 2, 512, 1024, 32), (3, 2, 1024, 2048, 32))
REGNET_Y: Sizes = ((2, 2, 48, 48, 2), (6, 2, 120, 120, 5), (17, 2, 336, 336, 14), (2, 2, 888, 888, 37))
# A block with and one without a projection beside it; groups that fill a vector, and wider ones.
TINY_RESNEXT: Sizes = ((1, 1, 8, 16, 2), (2, 2, 16, 32, 4))
TINY_REGNET: Sizes = ((1, 2, 24, 24, 2), (2, 2, 36, 36, 3))


def _spec(name: str, summary: str, stem: tuple[int, int], sizes: Sizes, labels: int, size: int) -> ModelSpec:
    def make(_arguments: Arguments) -> nn.Module:
        from suites.models.nets.grouped import GroupedResNet, Stage

        return GroupedResNet(stem, [Stage(*stage) for stage in sizes], labels, squeezes=name.startswith("regnet"))

    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=normal,
        shape_keys={"batch": 1, "size": size},
        limits={"size": (32, None)},
    )


MODELS = (
    _spec("resnext50", "ResNeXt-50 32 x 4d, real sizes; random weights", (64, 7), RESNEXT50, 1000, 224),
    _spec(
        "resnext50-tiny",
        "the same kind of blocks, three narrow ones, for tests; random weights",
        (8, 7),
        TINY_RESNEXT,
        10,
        32,
    ),
    _spec("regnet-y", "RegNet-Y 1.6GF, real sizes; random weights", (32, 3), REGNET_Y, 1000, 224),
    _spec(
        "regnet-y-tiny",
        "the same kind of blocks, three narrow ones, for tests; random weights",
        (8, 3),
        TINY_REGNET,
        10,
        32,
    ),
)
