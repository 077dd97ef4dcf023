"""Models of the suites, exported once for all tests of a process: torch.export takes most of the time of compiling."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram

from engine.exporter import export_with_torch
from suites import models


class ExportedModel(NamedTuple):
    """A model, which no test may change, its inputs, and the program that `engine.compile` takes in its place."""

    model: torch.nn.Module
    inputs: tuple[Any, ...]
    program: ExportedProgram


@lru_cache(maxsize=32)
def export_model(name: str, **options: Any) -> ExportedModel:
    """A model of the suites and its program, after the decompositions that `engine.compile` asks torch for."""
    model, inputs = models.get(name).build(**options)
    return ExportedModel(model, inputs, export_with_torch(model, inputs).program)
