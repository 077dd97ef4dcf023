"""GPUs through Triton. The rest of the engine reaches this package by the table of targets alone.

The import declares the passes of the target. It imports neither triton nor torch.
"""

from engine.targets.triton import passes
from engine.targets.triton.target import TRITON

__all__ = ["TRITON", "passes"]
