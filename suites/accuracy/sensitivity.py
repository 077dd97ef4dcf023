"""Quantises one layer at a time, and all layers but one: which layers a precision harms most.

Only the engine takes part, because it alone has recipes. Its float32 program is what all are compared with.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

import numpy as np
import torch

import engine
from engine.exporter import export_with_torch
from engine.suggest import unknown
from suites import models
from suites.accuracy.datasets import Dataset
from suites.accuracy.estimates import Estimate, mean
from suites.accuracy.evaluate import find_fault, join, list_types, select_scored
from suites.accuracy.tasks import Scores
from suites.backends.base import flatten
from suites.harness.errors import UsageError

MEASURES = ("KL", "1 - cosine")
"""What layers are ranked by: the first one if the task has it."""


@dataclass(frozen=True)
class Layer:
    """What a layer contributes.

    Attributes:
        name: of the layer.
        alone: the measure if only this layer has the precision.
        without: the measure if all layers but this one have it.
    """

    name: str
    alone: Estimate
    without: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        return {"layer": self.name, "alone": self.alone.to_dict(), "without": self.without.to_dict()}


@dataclass(frozen=True)
class Sensitivity:
    """The layers of a model; the most sensitive layer comes first.

    Attributes:
        precision: what the layers are stored in.
        measure: one of `MEASURES`.
        whole: the measure if all layers have the precision.
        layers: each layer that was asked for, except those in `plain`.
        plain: layers whose weights stay in float32 whatever a recipe says.
        types: element types of the weights of the model.
    """

    precision: str
    measure: str
    whole: Estimate
    layers: Sequence[Layer]
    plain: Sequence[str] = ()
    types: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        rest = {"precision": self.precision, "measure": self.measure, "whole": self.whole.to_dict()}
        return {**rest, "layers": [one.to_dict() for one in self.layers], "plain": list(self.plain)}


def measure(
    model: str,
    dataset: Dataset,
    precision: str,
    threads: int,
    progress: Callable[[str], None],
    pattern: str = "*",
) -> Sensitivity:
    """The sensitivity of the layers of a model.

    Args:
        model: a name that `suites.models` knows.
        dataset: its task and inputs; only the inputs of the first shape are used.
        precision: of the layers; a name of `Config.precision`.
        threads: of the engine.
        progress: called with a line before each layer.
        pattern: which layers to try, as in a recipe.

    Raises:
        UsageError: no layer matches the pattern, the model has no layers with a precision, or its outputs cannot be
            compared.
    """
    part = dataset.parts[0]
    module, _ = models.get(model).build(**part.arguments)
    exported = export_with_torch(module, part.chunks[0]).program
    names = engine.list_layers(exported, part.chunks[0])
    chosen = [name for name in names if fnmatchcase(name, pattern)]
    if not names:
        raise UsageError(f"{model}: no layer has a weight whose precision can be chosen")
    if not chosen:
        raise UsageError(f"--layers: {unknown('layer', pattern, names)}")

    is_plain = [True]  # of the last program: no weight has another type than in the model

    def run(recipe: Mapping[str, str] | None) -> list[list[torch.Tensor]]:
        config = engine.Config(threads=threads, recipe=recipe)
        with warnings.catch_warnings():  # the table says which layers these are
            warnings.simplefilter("ignore", engine.PlainWeightsWarning)
            program = engine.compile(exported, part.chunks[0], config)
        is_plain[0] = all(label != "precision=recipe" for label, _ in program.report().passes)
        calls = [flatten(program(*inputs)) for inputs in part.chunks]
        return [[output.float().clone() for output in _get_scored(model, outputs)] for outputs in calls]

    exact = run(None)

    def score(recipe: Mapping[str, str]) -> tuple[str, Estimate]:
        found: list[Scores] = []
        for number, (inputs, outputs, right) in enumerate(zip(part.chunks, run(recipe), exact, strict=True)):
            found.append(dataset.task.score_outputs(number, inputs, outputs, right))
        return _rank(join(found))

    progress(f"{f'all {len(names)} layers' if len(names) > 1 else 'the only layer'} in {precision}")
    kind, whole = score({"*": precision})
    layers, plain = list[Layer](), list[str]()
    for number, name in enumerate(chosen):
        progress(f"{name} ({number + 1} of {len(chosen)})")
        alone = score({escape(name): precision})[1]
        if is_plain[0] and precision != "fp32":
            plain.append(name)
            continue
        without = score({escape(name): "fp32", "*": precision})[1] if len(names) > 1 else Estimate(0.0)
        layers.append(Layer(name, alone, without))
    layers.sort(key=lambda one: -one.alone.value)
    return Sensitivity(precision, kind, whole, layers, plain, list_types(module))


def _get_scored(model: str, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs that are scored. UsageError if one is missing, empty or not finite."""
    if fault := find_fault(outputs):
        raise UsageError(f"{model}: the engine's program {fault}")
    return [outputs[number] for number in select_scored(outputs)]


def _rank(scores: Scores) -> tuple[str, Estimate]:
    """The measure that layers are ranked by, and its mean over the chunks."""
    if "KL" in scores:
        return "KL", mean(scores["KL"])
    return "1 - cosine", mean(np.maximum(1 - scores["cosine"], 0.0))
