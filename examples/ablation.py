# %% [markdown]
# What does each optimisation of the engine earn on a model?
#
# Each pass is left out in turn, and the program without it is compared with the full one: kernel calls, working memory
# and time. Open this file as a notebook (VS Code, Spyder, Jupytext) or run `python examples/ablation.py`.
#
# For intervals and a verdict on noise use `enginebench ablate examples/own_model.py:factory`: it alternates between
# processes, and this table does not.

# %%
import time
from statistics import median

import torch
from torch import nn

import engine

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu", dropout=0.0)
model = nn.Sequential(layer, nn.LayerNorm(64)).eval()
x = torch.randn(2, 16, 64)
with torch.inference_mode():
    expected = model(x)


# %%
def measure(config: engine.Config, calls: int = 30) -> tuple[int, int, float]:
    """Kernel calls, bytes of working memory, and the median time of a call in microseconds."""
    program = engine.compile(exported, (x,), config)
    torch.testing.assert_close(program(x), expected, rtol=1e-4, atol=1e-5)  # a switch must not change the result
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        program(x)
        seconds.append(time.perf_counter() - start)
    report = program.report()
    return report.launches, report.arena_bytes, median(seconds) * 1e6


# %%
exported = torch.export.export(model, (x,))  # once; engine.compile takes an ExportedProgram, too
passes = [switch.name for switch in engine.switches() if switch.kind == "pass"]
changed = {name for name, changes in engine.compile(exported, (x,)).report().passes if changes}

# %%
launches, arena, full = measure(engine.Config())
print(f"{'without':<24}{'launches':>10}{'arena bytes':>14}{'time':>12}")
print(f"{'(nothing left out)':<24}{launches:>10}{arena:>14}{full:>9.1f} us")
for name in passes:
    if name not in changed:
        continue  # the pass found nothing to do in this model
    launches, arena, microseconds = measure(engine.Config(disable=(name,)))
    print(f"{name:<24}{launches:>10}{arena:>14}{microseconds:>9.1f} us  {microseconds / full:.2f}x")
