"""A model of your own, for the engine and for the benchmark.

python examples/own_model.py
enginebench run examples/own_model.py:factory --size width=64,256
enginebench run examples/own_suite.toml
"""

import torch
from torch import nn

import engine


def factory(width: int = 64, depth: int = 2, batch: int = 8) -> tuple[nn.Module, torch.Tensor]:
    """Return the model and its inputs. The parameters are options, such as ``--set width=256``."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
    return nn.Sequential(*layers), torch.randn(batch, width)


def main() -> None:
    """Compile the model, compare it with PyTorch, and print what the engine made of it."""
    model, x = factory()
    model.eval()

    program = engine.compile(model, (x,))
    with torch.inference_mode():
        expected = model(x)
    error = (program(x) - expected).norm() / expected.norm()
    print(f"relative error against eager: {error:.1e}")

    report = program.report()
    print(f"{report.nodes} operations in {report.launches} kernel calls, {report.arena_bytes} bytes of working memory")
    print(program.profile(x))  # where the time of a call goes


if __name__ == "__main__":
    main()
