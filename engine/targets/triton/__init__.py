"""GPUs through Triton. The rest of the engine reaches this package by the table of targets alone."""

from engine.targets.triton.target import TRITON

__all__ = ["TRITON"]
