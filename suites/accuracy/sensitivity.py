"""Quantises one layer at a time, and all layers but one: which layers a precision harms most.

Only the engine takes part, because it alone has recipes. Its float32 program is what all are compared with.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape

import numpy as np
import torch

import engine
from engine.exporter import export_with_torch
from suites import models
from suites.accuracy.datasets import Dataset
from suites.accuracy.estimates import Estimate, mean
from suites.accuracy.evaluate import join, select_scored
from suites.accuracy.tasks import Scores
from suites.backends.base import flatten
from suites.harness.errors import Refused, UsageError


@dataclass(frozen=True)
class Layer:
    """The measure if only this layer has the precision, and if all layers but this one have it."""

    layer: str
    alone: Estimate
    without: Estimate


@dataclass(frozen=True)
class Sensitivity:
    """The layers of a model; the most sensitive layer comes first.

    Attributes:
        precision: what the layers are stored in.
        measure: its name: ``KL`` if the task has it, or else ``1 - cosine``.
        whole: the measure if all layers have the precision.
        layers: each layer except those in `plain`.
        plain: layers whose weights stay in float32 whatever a recipe says.
    """

    precision: str
    measure: str
    whole: Estimate
    layers: Sequence[Layer]
    plain: Sequence[str]


def measure(
    model: str,
    dataset: Dataset,
    precision: str,
    threads: int,
    progress: Callable[[str], None],
) -> Sensitivity:
    """The sensitivity of the layers of a model, on the inputs of the first shape of `dataset`.

    `progress` is called with a line before each layer.

    Raises:
        UsageError: the model has no layers with a precision, or its outputs cannot be compared.
    """
    part = dataset.parts[0]
    module, _ = models.get(model).build(**part.arguments)
    exported = export_with_torch(module, part.chunks[0]).program
    names = engine.list_layers(exported, part.chunks[0])
    if not names:
        raise UsageError(f"{model}: no layer has a weight whose precision can be chosen")

    is_plain = [True]  # of the last program: no weight has another type than in the model

    def run(recipe: Mapping[str, str] | None) -> list[list[torch.Tensor]]:
        config = engine.Config(threads=threads, recipe=recipe)
        with warnings.catch_warnings():  # the table says which layers these are
            warnings.simplefilter("ignore", engine.PlainWeightsWarning)
            program = engine.compile(exported, part.chunks[0], config)
        is_plain[0] = all(label != "precision=recipe" for label, _ in program.report().passes)
        try:
            calls = [select_scored(flatten(program(*inputs))) for inputs in part.chunks]
        except Refused as error:
            raise UsageError(f"{model}: the engine's program: {error}") from None
        return [[output.clone() for output in outputs.values()] for outputs in calls]

    exact = run(None)

    def score(recipe: Mapping[str, str]) -> tuple[str, Estimate]:
        found: list[Scores] = []
        for number, (inputs, outputs, right) in enumerate(zip(part.chunks, run(recipe), exact, strict=True)):
            found.append(dataset.task.score_outputs(number, inputs, outputs, right))
        return _rank(join(found))

    progress(f"all layers in {precision}")
    kind, whole = score({"*": precision})
    layers, plain = list[Layer](), list[str]()
    for number, name in enumerate(names, 1):
        progress(f"{name} ({number} of {len(names)})")
        alone = score({escape(name): precision})[1]
        if is_plain[0]:
            plain.append(name)
            continue
        without = score({escape(one): "fp32" if one == name else precision for one in names})[1]
        layers.append(Layer(name, alone, without))
    if not layers:
        raise UsageError(f"{model}: no layer has {precision} weights in the engine's program")
    layers.sort(key=lambda one: -one.alone.value)
    return Sensitivity(precision, kind, whole, layers, plain)


def _rank(scores: Scores) -> tuple[str, Estimate]:
    """The measure that layers are ranked by, and its mean over the chunks."""
    if "KL" in scores:
        return "KL", mean(scores["KL"])
    return "1 - cosine", mean(np.maximum(1 - scores["cosine"], 0.0))
