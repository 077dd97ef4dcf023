"""The engine as a backend of torch.compile: graph breaks, changing sizes and weights stay as torch has them.

python examples/torch_compile.py
"""

import torch
from torch import nn

from engine import dynamo


class Gate(nn.Module):
    """A module with a graph break: its control flow depends on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 [batch, 32] to float32 [batch, 32]."""
        hidden = torch.relu(self.first(x))
        if hidden.sum() > 0:  # torch.export refuses this; Dynamo compiles the parts before and after it
            hidden = hidden * 2
        result: torch.Tensor = self.second(hidden)
        return result


def main() -> None:
    """Compile, compare with eager, and list the programs."""
    model = Gate().eval()
    fast = torch.compile(model, backend="engine", options={"threads": 1})  # fields of engine.Config by name
    with torch.inference_mode():  # the engine computes no gradients
        for batch in (4, 8):
            x = torch.randn(batch, 32)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    for report in dynamo.reports():
        print(f"program with {report.launches} kernel calls, {report.fallback_nodes} calls left to torch")


if __name__ == "__main__":
    main()
