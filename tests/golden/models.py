"""The models of the files in this folder, and how the files were written.

    python -m tests.golden.models

The files are never written again with the same format version: they show that later engines read what earlier ones
wrote. A new format version gets new files.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import engine

FOLDER = Path(__file__).resolve().parent
VERSIONS = (4, 5, 6)
"""Format versions of the files."""
MAX_LENGTH = 12


def file(name: str, version: int = VERSIONS[-1]) -> Path:
    """The file ``program``, ``decoder``, ``images`` or ``encoded`` of a format version; from 5 on ``numbers``, too."""
    return FOLDER / f"{name}-{version}.engine"


def set_weights(model: nn.Module) -> nn.Module:
    """`model` in eval mode with weights that depend on no random generator; each is a multiple of 1/64."""
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            values = (torch.arange(weight.numel()) * 37 + 11 * number) % 101 - 50
            weight.copy_((values / 64).reshape(weight.shape))
    return model.eval().requires_grad_(False)


class Small(nn.Module):
    """A packed weight, plain constants of several types, an infinite attribute, sizes that vary, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.up = nn.Linear(16, 40)
        self.down = nn.Linear(40, 16).to(torch.bfloat16)
        self.register_buffer("keep", torch.tensor([True, False] * 8))
        self.register_buffer("total", torch.zeros(16))

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.up(self.table(ids)))
        x = self.down(x.to(torch.bfloat16)).float() * scale
        self.total.add_(x[0, 0])
        largest = nn.functional.pad(x, (1, 0), value=float("-inf")).amax(-1)
        return {"rows": x.flatten(0, 1), "largest": largest, "kept": torch.where(self.keep, x, 0.0)[:, 1:]}


class Tied(nn.Module):
    """A language model for `engine.compile_decoder`: the weighted sum of the embeddings of a text so far.

    The table of embeddings is also the weight of the last layer, so a kernel reads it plain and another one packed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.mix = nn.Linear(16, 16)
        self.register_buffer("seen", torch.zeros(1, MAX_LENGTH, 16))

    def forward(self, ids: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        places = position[0] + torch.arange(ids.shape[1])
        self.seen.index_copy_(1, places, self.mix(self.table(ids)))
        kept = (torch.arange(MAX_LENGTH) < lengths[0])[None, :, None]
        weights = (torch.arange(MAX_LENGTH) + 1)[None, :, None]
        return torch.where(kept, self.seen * weights, 0.0).sum(1) @ self.table.weight.t()


class Images(nn.Module):
    """Convolutions, one of them computed with the 1 x 1 in front of it;
    chains of pointwise ops; a tail of linear layers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.expand = nn.Conv2d(8, 32, 1)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.norm = nn.BatchNorm2d(32)
        self.project = nn.Conv2d(32, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(image))
        x = x + self.project(self.norm(torch.relu(self.depthwise(torch.relu(self.expand(x))))))
        x = nn.functional.max_pool2d(torch.exp(-x.abs()) * 2 + x.sin(), 2)
        return self.head(x.mean((2, 3)))


class Encoded(nn.Module):
    """Weights that `Config.precision` ``int4_weight`` stores as groups of 4 bits, or as channels of 8 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 64)
        self.up = nn.Linear(64, 40)
        self.down = nn.Linear(40, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.table(ids))))


class Numbers(nn.Module):
    """Numbers that are formulas of sizes, one of them a float, and an interpolation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sum(-1, keepdim=True) / x.shape[-1] + x * x.shape[-1] ** -0.5
        return nn.functional.interpolate(y.clamp(max=x.shape[-1] - 7), scale_factor=1.5, mode="linear")


def image() -> torch.Tensor:
    """Input of `Images`: float32 [1, 3, 192, 192]."""
    return ((torch.arange(3 * 192 * 192) * 29 % 255) / 255).reshape(1, 3, 192, 192)


def example() -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of `Small`: ids int64 [batch, length], scale float32 []."""
    return torch.arange(12).reshape(3, 4) % 10, torch.tensor(2.0)


def main() -> None:
    """Write the files."""
    batch, length = torch.export.Dim("batch", min=2, max=8), torch.export.Dim("length", min=3, max=9)
    sizes = {"ids": {0: batch, 1: length}, "scale": None}
    engine.compile(set_weights(Small()), example(), dynamic_shapes=sizes).save(file("program"))
    engine.compile(set_weights(Images()), (image(),)).save(file("images"))
    engine.compile_decoder(set_weights(Tied()), MAX_LENGTH).save(file("decoder"))
    encoded = engine.Config(target="interpreter", precision="int4_weight")
    sized = {"x": {2: torch.export.Dim("length", min=2, max=90)}}
    engine.compile(Numbers().eval(), (torch.ones(1, 3, 8),), dynamic_shapes=sized).save(file("numbers"))
    engine.compile(set_weights(Encoded()), (torch.arange(10),), config=encoded).save(file("encoded"))


if __name__ == "__main__":
    main()
