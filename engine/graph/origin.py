"""Provenance: the exported value that a value of the graph equals, and its place in the model.

Knows the ops that are views; knows no graph, no pass and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from engine import sizes
from engine.ops import TABLE

MOST_STEPS = 16
"""Maximum length of the chain of views of an origin; the longest chain of all models in the tests has 4."""


class ViewStep(NamedTuple):
    """One op that is a view, and its attributes."""

    op: str
    attributes: Mapping[str, Any]


ViewSteps = tuple[ViewStep, ...]


class Source(NamedTuple):
    """The place in the user's model of the call whose work a node does: ``file:line`` and module, "" where unknown."""

    line: str = ""
    module: str = ""

    @property
    def where(self) -> str:
        """`` at file:line in module``, for messages; unknown parts are left out."""
        return (f" at {self.line}" if self.line else "") + (f" in {self.module}" if self.module else "")


NOWHERE = Source()
"""The source of nodes that do the work of no call of the model."""


def join_sources(sources: Sequence[Source]) -> Source:
    """The source of a node that does the work of several nodes alike: the first line, and the module of all of them."""
    return Source(sources[0].line, common_module([source.module for source in sources]))


@dataclass(frozen=True, eq=False)
class Origin:
    """An exported value, and the view of it that a value of the graph equals.

    Attributes:
        value: the name of the node in torch's exported graph, with ``[i]`` for result i of several, and the prefix
            ``node/`` for a node in the body of another node.
        module: such as ``encoder.layer.3.attention``; "" for the model itself, or where it is not known.
        source: ``file:line`` in the user's model, or "".
        view: the ops that compute the graph's value from the exported one, first to last.
    """

    value: str
    module: str = ""
    source: str = ""
    view: ViewSteps = ()

    def through(self, steps: ViewSteps | None) -> Origin | None:
        """This origin with `steps` after its view; None if `steps` is None or the chain becomes too long."""
        if steps is None:
            return None
        view = self.view
        for step in steps:
            view = _appended(view, step)
        return replace(self, view=view) if len(view) <= MOST_STEPS else None

    def apply(self, exported: np.ndarray, values: Mapping[str, int] | None = None) -> np.ndarray:
        """The elements of the graph's value, from those of the exported one. `values`: the sizes of the call."""
        for op, attributes in self.view:
            known = {name: sizes.at(value, values or {}) for name, value in attributes.items()}
            exported = TABLE[op].reference(exported, **known)
        return exported


def step_of(op: str, attributes: Mapping[str, Any]) -> ViewSteps | None:
    """The steps that `op` adds to the view of its input: one, or None if `op` is no view."""
    return None if TABLE[op].view is None else (ViewStep(op, dict(attributes)),)


def undo(op: str, attributes: Mapping[str, Any], before: Sequence[int], after: Sequence[int]) -> ViewSteps | None:
    """The steps from the result of a view back to its input; None if the result lacks elements of the input.

    `before` and `after` are the shapes of the input and the result.
    """
    if op == "permute":
        order = attributes["axes_order"]
        return (ViewStep("permute", {"axes_order": tuple(order.index(axis) for axis in range(len(order)))}),)
    back = ViewStep("reshape", {"shape": tuple(before)})
    if op == "reshape":
        return (back,)
    if op == "expand":
        return _undo_expand(before, after, back)
    return None


def _undo_expand(before: Sequence[int], after: Sequence[int], back: ViewStep) -> ViewSteps | None:
    """ViewSteps that take the first element of each repeated axis; None if such an axis may be empty."""
    added = len(after) - len(before)
    steps: ViewSteps = ()
    for axis, size in enumerate(after):
        if axis < added or not sizes.same(before[axis - added], size):
            if not sizes.at_most(1, size):
                return None
            steps += (ViewStep("slice", {"axis": axis, "start": 0, "stop": 1, "step": 1}),)
    return (*steps, back) if added else steps


def _appended(view: ViewSteps, step: ViewStep) -> ViewSteps:
    """`view` with `step` added; merges consecutive reshapes or permutes, and drops a permute that changes nothing."""
    if view and view[-1].op == step.op == "reshape":
        return (*view[:-1], step)
    if step.op != "permute":
        return (*view, step)
    order = tuple(step.attributes["axes_order"])
    if view and view[-1].op == "permute":
        first = view[-1].attributes["axes_order"]
        order, view = tuple(first[axis] for axis in order), view[:-1]
    return view if order == tuple(range(len(order))) else (*view, ViewStep("permute", {"axes_order": order}))


def common_module(modules: Sequence[str]) -> str:
    """The innermost module that contains all of `modules`."""
    paths = [module.split(".") for module in modules]
    shared = 0
    while paths and all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return ".".join(paths[0][:shared]) if paths else ""
