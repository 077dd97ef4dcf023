"""The C library as a target. The only importer of `engine._native`; nobody outside of this folder imports anything of
it. Importing it declares the CPU's own passes.
"""

from engine.targets.cpu import passes
from engine.targets.cpu.target import CPU

__all__ = ["CPU", "passes"]
