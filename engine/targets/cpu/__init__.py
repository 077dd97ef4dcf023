"""The C library as a target. Only this folder imports `engine._native`, and of the engine only the table of targets
imports this folder. The import declares the passes of the cpu.
"""

from engine.targets.cpu import passes
from engine.targets.cpu.target import CPU

__all__ = ["CPU", "passes"]
