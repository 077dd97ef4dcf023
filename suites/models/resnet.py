"""`resnet18` and `resnet50`: transformers' residual networks in their published configurations; weights are random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.models._pictures import normal
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

# The configurations published for ImageNet; the second is also what ResNetConfig() has as defaults.
RESNET18: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
}
RESNET50: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "layer_type": "bottleneck",
}
# A block with and one without a projection beside it, at either stride.
TINY18 = RESNET18 | {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
TINY50 = RESNET50 | {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2]}


def _spec(name: str, summary: str, config: dict[str, Any], labels: int, size: int) -> ModelSpec:
    def make(_arguments: Arguments) -> nn.Module:
        from suites.models.nets.resnet import ResNet

        return ResNet(config, labels)

    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=normal,
        shape_keys={"batch": 1, "size": size},
        limits={"size": (32, None)},
        needs=("torch", "transformers"),
    )


MODELS = (
    _spec("resnet18", "ResNet-18 of transformers (v1.5), real configuration; random weights", RESNET18, 1000, 224),
    _spec("resnet50", "ResNet-50 of transformers (v1.5), real configuration; random weights", RESNET50, 1000, 224),
    _spec("resnet18-tiny", "the same kind of blocks, three narrow ones, for tests; random weights", TINY18, 10, 32),
    _spec("resnet50-tiny", "the same kind of blocks, three narrow ones, for tests; random weights", TINY50, 10, 32),
)
