"""The C library as a target. Importing it declares the CPU's own passes."""

from engine.targets.cpu import passes

__all__ = ["passes"]
