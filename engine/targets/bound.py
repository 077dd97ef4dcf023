"""What executables over a bound plan have in common: the report's numbers, the digest's facts, names of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine import dtypes
from engine.graph import Graph, Value, elements
from engine.targets.base import Context, Device, Executable, Observer, Summary
from engine.targets.host import HOST
from engine.targets.plan import BoundPlan
from engine.targets.staging import StagedContext


class BoundExecutable(Executable):
    """Runs the steps of a plan, which has working memory for `lanes` workers of one call.

    Attributes:
        fixed: ``"input"``, ``"output"`` or both, if contexts remember the addresses of inputs or outputs, or cannot
            reach the user's memory. Each context then gets the same values in every run.
        staging: copies what a call brings to these values, and its results from them.
    """

    fixed: frozenset[str] = frozenset()
    staging: type[StagedContext] = StagedContext
    device: Device
    plan: BoundPlan

    def __init__(self, graph: Graph, plan: BoundPlan, lanes: int, device: Device = HOST) -> None:
        self.graph = graph
        self.device = device
        self.plan = plan
        self.lanes = lanes

    def ready_context(self, states: Sequence[Any] = ()) -> Context:
        """As `Executable.ready_context`, with copies to and from fixed addresses if there are any."""
        if not self.fixed:
            return super().ready_context(states)
        values = {"input": self.graph.call_inputs, "output": self.graph.call_outputs}
        types = {kind: [value.type for value in values[kind]] for kind in self.fixed}
        context = self.staging(self.context(states), self.device, types)
        context.warm_up({})
        return context

    def name_of(self, number: int) -> str:
        """Step `number` for people: its op, its line and its module in the user's model."""
        step = self.plan.steps[number]
        return f"{step.op}{'' if step.node is None else step.node.source.where}"

    def summary(self) -> Summary:
        plan = self.plan
        return Summary(
            launches=len(plan.steps),
            copies=sum(step.node is None for step in plan.steps),
            copied_bytes=sum(step.copied_bytes for step in plan.steps),
            in_place=plan.in_place,
            arena_bytes=plan.arena_bytes,
            lower_bound=plan.lower_bound,
            kernels=tuple(step.kernel.name for step in plan.steps),
            operations={
                step.node: step.planned.operations
                for step in plan.steps
                if step.node is not None and step.planned.operations
            },
            slow=tuple(step.node for step in plan.steps if step.kernel.is_slow),
        )

    def trace(self, inputs: Sequence[Any], states: Sequence[Any], observe: Observer) -> None:
        """As `Executable.trace`, by `Context.look` after a run. Times are those of `run_for_trace`."""
        graph, places = self.graph, self.plan.places
        context = self.ready_context(states)
        before = {v: context.look(places[v]).copy() for v in graph.state_inputs}
        outputs = [np.empty(v.shape, dtypes.dtype(v.dtype).numpy) for v in graph.call_outputs]
        seconds = dict.fromkeys(graph.nodes, 0.0)
        for step, spent in zip(self.plan.steps, self.run_for_trace(context, inputs, outputs), strict=True):
            if step.node is not None:
                seconds[step.node] += spent

        def look(value: Value) -> np.ndarray:
            if value.form is not None:
                return elements(value.form)
            return before[value] if value in before else context.look(places[value])

        for number, node in enumerate(graph.nodes):
            observe(number, node, look, seconds[node])

    def run_for_trace(self, context: Context, inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[float]:
        """Run once, and return the seconds of each step; 0 unless a target measures them."""
        context.run(inputs, outputs)
        context.synchronize()
        return [0.0] * len(self.plan.steps)

    def identity(self) -> Any:
        """Steps, where their operands lie, and the number of lanes."""
        steps = [(s.op, s.kernel.name, [None if p is None else repr(p) for p in s.operands]) for s in self.plan.steps]
        return [steps, self.plan.arena_offsets, self.lanes]
