"""Compiles a sample and compares its results: at its own sizes, and with dynamic sizes at others, too."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import Dim

import engine
from tests.sweep.compare import FIRST_ONLY, are_same, find_difference
from tests.sweep.samples import Sample, list_samples

FIXED, AUTO, RANGE = "fixed", "auto", "range"
SIZES = (FIXED, AUTO, RANGE)
"""How sizes may vary: not at all; by `Dim.AUTO`; by a `Dim` from 0 on for each size of the sample."""

_LARGEST = 64
_REFUSALS = 3
"""After so many samples that are refused, an operator is taken to be refused for this type."""


@dataclass
class Outcome:
    """What the samples of one operator, one type and one kind of sizes came to.

    Attributes:
        counts: ``right``, ``refused``, ``skipped`` (random, or refused by eager) and ``wrong``: programs; ``calls``:
            further calls with other sizes, all right; ``guarded``: calls that a ShapeError refused.
        findings: a text for each wrong result and each error that is no refusal.
        failing: numbers of the samples whose own sizes show one.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)


_UNSAFE = ("nn.functional.embedding_bag",)
"""Of other sizes its offsets are not sorted, and then eager torch reads outside of its memory."""


def check_operator(operator: str, dtype: str, sizes: str, limit: int) -> Outcome:
    """Check about `limit` samples of an operator on one thread. Never raises: an error is a finding."""
    outcome = Outcome()
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for sample in list_samples(operator, getattr(torch, dtype), limit):
            if outcome.counts["refused"] >= _REFUSALS and not outcome.counts["right"]:
                break
            before = outcome.counts["wrong"]
            check_sample(sample, sizes, outcome)
            outcome.failing += [sample.number] * (sizes == FIXED and outcome.counts["wrong"] > before)
    return outcome


def check_sample(sample: Sample, sizes: str, outcome: Outcome) -> None:
    """Add to `outcome` what one sample comes to."""
    expected = _run_eagerly(sample)
    shapes = _choose_shapes(sample, sizes)
    if expected is None or (sizes != FIXED and not any(shapes or [])):
        outcome.counts["skipped"] += 1
        return
    with _noted(f"{sample}, sizes {sizes}", outcome):
        try:
            program = engine.compile(sample.model(), (sample.inputs(),), dynamic_shapes=shapes and (shapes,))
        except engine.InternalError:
            raise
        except engine.EngineError:
            outcome.counts["refused"] += 1
            return
        _judge(program, sample, expected, f"{sample}, sizes {sizes}", outcome, "right")
        for other in _list_other_sizes(sample) if shapes and sample.operator not in _UNSAFE else []:
            _call_resized(program, sample, other, outcome)


def _call_resized(program: engine.Program, sample: Sample, sizes: dict[int, int], outcome: Outcome) -> None:
    resized = sample.resized(sizes)
    expected = _run_eagerly(resized)
    if expected is None:
        return  # the sizes do not fit each other
    what = f"{sample}, called with {resized}"
    with _noted(what, outcome):
        try:
            _judge(program, resized, expected, what, outcome, "calls")
        except engine.ShapeError:
            outcome.counts["guarded"] += 1


def _judge(
    program: engine.Program, sample: Sample, expected: tuple[Any, Any], what: str, outcome: Outcome, count: str
) -> None:
    found = program(sample.inputs())
    eager, exact = expected
    if sample.operator.split(".")[0] in FIRST_ONLY and isinstance(eager, (tuple, list)):
        found, eager, exact = found[0], eager[0], exact and exact[0]
    difference = find_difference(found, eager, exact)
    if difference is None:
        outcome.counts[count] += 1
    else:
        outcome.counts["wrong"] += 1
        outcome.findings.append(f"{what}: {difference}")


@contextlib.contextmanager
def _noted(what: str, outcome: Outcome) -> Iterator[None]:
    """A block whose errors are findings."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # any error is what this looks for
        outcome.counts["wrong"] += 1
        outcome.findings.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def _run_eagerly(sample: Sample) -> tuple[Any, Any] | None:
    """The results of the sample and those in float64; None if torch refuses the sample or its results are random."""
    try:
        torch.manual_seed(0)
        eager = sample.model()(sample.inputs())
        torch.manual_seed(1)
        if not are_same(eager, sample.model()(sample.inputs())):
            return None
    except Exception:  # noqa: BLE001  # whatever torch says, there is nothing to compare with
        return None
    try:
        exact = sample.widened().model()(sample.widened().inputs())
    except Exception:  # noqa: BLE001  # some operators take no float64
        exact = None
    return eager, exact


def _choose_shapes(sample: Sample, sizes: str) -> list[dict[int, Any]] | None:
    if sizes == FIXED:
        return None
    dims: dict[int, Any] = {
        size: Dim.AUTO if sizes == AUTO else Dim(f"d{size}", min=0, max=_LARGEST)
        for size in sample.sizes()
        if size < _LARGEST
    }
    return [{axis: dims[size] for axis, size in enumerate(one.shape) if size in dims} for one in sample.tensors]


def _list_other_sizes(sample: Sample) -> list[dict[int, int]]:
    """Other sizes for each size of the sample: of all together, then of each alone."""
    sizes = sample.sizes()
    together = [
        {size: size + 1 for size in sizes},
        {size: 2 * size for size in sizes},
        dict.fromkeys(sizes, 1),
        dict.fromkeys(sizes, 0),
    ]
    return [*together, *({size: other} for size in sizes for other in (0, 1, size + 1))]
