"""One program for batches and sequences of any size within a range.

python examples/dynamic_shapes.py
"""

import torch
from torch import nn

import engine


class Encoder(nn.Module):
    """Token ids and a mask to one vector for each text."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 32)
        self.linear = nn.Linear(32, 32)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Int64 [batch, sequence] and float32 [batch, sequence] to float32 [batch, 32]."""
        hidden = torch.tanh(self.linear(self.embedding(ids))) * mask[..., None]
        return hidden.sum(1) / mask.sum(1, keepdim=True)


def inputs(batch: int, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids, and a mask that leaves out the last token of each text."""
    mask = torch.ones(batch, sequence)
    mask[:, -1] = 0
    return torch.randint(0, 100, (batch, sequence)), mask


def main() -> None:
    """Compile once, call with several sizes, and see what happens outside of the range."""
    model = Encoder().eval()
    batch, sequence = torch.export.Dim("batch", min=1, max=16), torch.export.Dim("sequence", min=2, max=512)
    sizes = {0: batch, 1: sequence}
    # The example must not have a size of 0 or 1 where the size may vary: torch treats those as fixed.
    program = engine.compile(model, inputs(2, 8), dynamic_shapes={"ids": sizes, "mask": sizes})

    for rows, columns in ((1, 7), (4, 100), (16, 512)):
        ids, mask = inputs(rows, columns)
        with torch.inference_mode():
            torch.testing.assert_close(program(ids, mask), model(ids, mask), rtol=1e-4, atol=1e-5)
        report = program.report(batch=rows, sequence=columns)  # each combination of sizes has a memory plan
        print(f"batch {rows}, sequence {columns}: {report.arena_bytes} bytes of working memory")

    try:
        program(*inputs(17, 8))
    except engine.ShapeError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
