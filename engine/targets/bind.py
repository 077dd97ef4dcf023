"""Graph + target -> BoundPlan: chooses kernels, inserts copies, plans memory. Torch-free; never reads inputs.

A view costs nothing: it is another layout of the same buffer. If a kernel cannot take a layout, a dense copy is
inserted before it. The `StepPlanner` of a target chooses kernels; all else is the same for all targets.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from logging import DEBUG
from typing import Any

from engine import logs, planner
from engine.errors import ProgramError, UnsupportedByTarget
from engine.graph import Graph, Node, Value
from engine.memory import check_total
from engine.ops import TABLE, Layout, TensorType
from engine.planner import verify
from engine.targets.base import StepPlanner
from engine.targets.order import allow_overlap
from engine.targets.plan import BoundPlan, EncodedOperand, NeedsDense, Place, Step, Storage


def bind(
    graph: Graph,
    step_planner: StepPlanner,
    *,
    strategy: str = "default",
    lanes: int = 1,
    keep: bool = False,
    check: bool = False,
) -> BoundPlan:
    """Choose kernels and plan memory, for `lanes` workers of one call that have working memory of their own.

    No size in `graph` is a formula. With `keep`, every value has its own memory, so that none is overwritten (trace,
    per-node dispatch). UnsupportedByTarget if no kernel can run a node; ProgramError if a call takes more
    memory than there is; ConfigError if the configuration names a kernel that no step can use.
    """
    binder = _Binder(graph, step_planner, keep=keep)
    for node in graph.nodes:
        binder.add(node)
    binder.return_outputs()
    binder.update_states()
    step_planner.check_used()
    return binder.finish(strategy, lanes, check=check)


class _Binder:
    """The state of one `bind`."""

    def __init__(self, graph: Graph, step_planner: StepPlanner, *, keep: bool) -> None:
        self.graph = graph
        self.step_planner = step_planner
        self.keep = keep
        self.steps: list[Step] = []
        self.places: dict[Value, Place] = {}
        self.constants: list[Value] = []
        self.constant_places: dict[Hashable, Place] = {}
        self.places_in: dict[Storage, list[Place]] = {}
        self.arena: list[TensorType] = []
        self.chosen: dict[tuple[Any, ...], Step] = {}
        for kind, values in (("input", graph.call_inputs), ("state", graph.state_inputs)):
            for number, value in enumerate(values):
                self.places[value] = self._whole(Storage(kind, number), value.type)

    def _place(self, storage: Storage, dtype: str, layout: Layout) -> Place:
        place = Place(storage, dtype, layout)
        if storage.kind == "arena":  # only places in the arena are moved
            self.places_in.setdefault(storage, []).append(place)
        return place

    def _whole(self, storage: Storage, type_: TensorType) -> Place:
        return self._place(storage, type_.dtype, Layout.dense(type_.shape))

    def _allocate(self, type_: TensorType) -> Place:
        self.arena.append(type_)
        return self._whole(Storage("arena", len(self.arena) - 1), type_)

    # --- nodes to steps --------------------------------------------------------------------------------------------

    def add(self, node: Node) -> None:
        """Add the steps of one node. A view adds none, or a copy."""
        op, where = node.op, node.source.where
        inputs = [None if v is None else self._place_of(v) for v in node.inputs]
        if op.view is not None:
            source, output = inputs[0], node.outputs[0]
            if source is None:
                raise ProgramError(f"{op.name}: a view needs its input")
            layout = op.view(source.layout, node.attributes, output.shape)
            if layout is None:
                source = self._copy(source)
                layout = op.view(source.layout, node.attributes, output.shape)
            if layout is None:
                raise ProgramError(f"{op.name}: no view of a dense value{where}")
            self.places[output] = self._place(source.storage, source.dtype, layout)
            return
        outputs = [self._allocate(value.type) for value in node.outputs]
        encoded = self._add_parts(node, inputs)
        ints, reals = op.native_attributes(node.attributes)
        step = self._choose(node, op.name, inputs, outputs, ints, reals, encoded)
        if step is None:
            operands = ", ".join("none" if p is None else f"{p.dtype}{list(p.layout.shape)}" for p in inputs)
            raise UnsupportedByTarget(f"no kernel runs {op.name}({operands}){where}")
        self.steps.append(step)
        self.places |= zip(node.outputs, outputs, strict=True)

    def _place_of(self, value: Value) -> Place:
        """The place of a value, or of its data if it is encoded. Equal constants have one place."""
        value = value.components.get("data", value)
        place = self.places.get(value)
        if place is None and value.form is not None:
            key = value.key
            place = self.constant_places.get(key)
            if place is None:
                place = self.constant_places[key] = self._whole(Storage("constant", len(self.constants)), value.type)
                self.constants.append(value)
            self.places[value] = place
        if place is None:
            raise ProgramError(f"%{value.name} is read before it is computed")
        return place

    def _add_parts(self, node: Node, inputs: list[Place | None]) -> dict[int, EncodedOperand]:
        """Append scales and zero points of encoded inputs to `inputs`. Returns how to read these inputs."""
        found: dict[int, EncodedOperand] = {}
        for position, value in enumerate(node.inputs):
            encoding = None if value is None else value.type.encoding
            if value is not None and encoding is not None:
                _data, *parts = (value.components[name] for name in encoding.component_names)
                found[position] = EncodedOperand(encoding, len(inputs) if parts else 0)
                inputs += [self._place_of(part) for part in parts]
        return found

    def _copy(self, source: Place) -> Place:
        target = self._allocate(TensorType(source.dtype, source.layout.shape))
        self._copy_into(source, target)
        return target

    def _copy_into(self, source: Place, target: Place) -> None:
        step = self._choose(None, "copy", [source], [target], [], [], {})
        if step is None:
            raise ProgramError(f"no kernel copies {source.dtype}{list(source.layout.shape)}")
        self.steps.append(step)

    def _choose(
        self,
        node: Node | None,
        op: str,
        inputs: Sequence[Place | None],
        outputs: Sequence[Place],
        ints: list[int],
        reals: list[float],
        encoded: Mapping[int, EncodedOperand],
    ) -> Step | None:
        """The planned step, or None if no kernel can run it. Inserts dense copies of inputs if kernels need them."""
        operands = [*inputs, *outputs]
        # Models repeat layers: a step that looks like an earlier step reuses its plan. The bits of reals are compared,
        # because == ignores the sign of a zero.
        looks = (
            op,
            len(inputs),
            tuple(ints),
            struct.pack(f"{len(reals)}d", *reals),
            *encoded.items(),
            *[None if p is None else (p.dtype, p.layout, p.storage.kind == "constant") for p in operands],
        )
        if (like := self.chosen.get(looks)) is not None:
            return like.again(node, operands)
        step = Step(node, op, operands, len(inputs), ints, reals, encoded=encoded)
        planned = self.step_planner.plan(step, copied=False)
        if isinstance(planned, NeedsDense):
            dense = [p if p is None or p.layout.is_dense else self._copy(p) for p in inputs]
            step = replace(step, operands=[*dense, *outputs])
            planned = self.step_planner.plan(step, copied=True)
        if planned is None or isinstance(planned, NeedsDense):
            return None
        step.planned = planned
        if step.operands is operands:  # no copy was inserted before it
            self.chosen[looks] = step
        return step

    # --- outputs ---------------------------------------------------------------------------------------------------

    def return_outputs(self) -> None:
        """Let steps write outputs directly to the caller's memory if possible, and add copies for the other outputs."""
        taken: set[Storage] = set()
        for number, value in enumerate(self.graph.call_outputs):
            place = self._place_of(value)
            target = Storage("output", number)
            root = place.storage
            whole = (
                root.kind == "arena"
                and root not in taken
                and place.layout.offset == 0
                and place.layout.is_dense
                and self.arena[root.number].nbytes == value.type.nbytes
            )
            if whole and not self.keep:
                taken.add(target)
                self._move(root, target)
            else:
                self._copy_into(place, self._whole(target, value.type))

    def update_states(self) -> None:
        """Update the states: in place if no later step reads the old contents, otherwise by copies at the end."""
        final: list[tuple[Storage, Place]] = []
        for number, value in enumerate(self.graph.state_outputs):
            place, target = self._place_of(value), Storage("state", number)
            if place.storage == target and place.layout == Layout.dense(value.shape):
                continue
            if place.storage.kind == "state":  # the copies below may overwrite it
                place = self._copy(place)
            final.append((target, place))
        for target, place in final:
            if not self.keep and self._rewrites(place, target):
                self._move(place.storage, target)
            else:
                self._copy_into(place, self._whole(target, TensorType(place.dtype, place.layout.shape)))

    def _rewrites(self, place: Place, state: Storage) -> bool:
        """Whether the step that computes `place`, the new contents of `state`, may write them to `state` in place."""
        if place.storage.kind != "arena" or not place.layout.is_dense or place.layout.offset:
            return False
        users = [
            (number, position)
            for number, step in enumerate(self.steps)
            for position, operand in enumerate(step.operands)
            if operand is not None and operand.storage == state
        ]
        results = ((step, step.operands[step.n_inputs]) for step in self.steps)
        makers = [step for step, made in results if made is not None and made.storage == place.storage]
        if len(makers) != 1 or not users:
            return False
        (maker,) = makers
        number, position = users[-1]
        output = maker.operands[maker.n_inputs]
        fits = output is not None and self._can_share(maker, position, output, (state.kind,))
        return self.steps[number] is maker and position in TABLE[maker.op].inplace and fits

    def _move(self, old: Storage, new: Storage) -> None:
        """Move all places in the storage `old`, which is in the arena, to the storage `new`."""
        moved = self.places_in.pop(old, [])
        for place in moved:
            place.storage = new
        if new.kind == "arena":
            self.places_in.setdefault(new, []).extend(moved)

    # --- memory ----------------------------------------------------------------------------------------------------

    def finish(self, strategy: str, lanes: int, *, check: bool) -> BoundPlan:
        """Choose in-place writes, compute live ranges and offsets, and make the bound plan."""
        in_place = 0 if self.keep else self._write_in_place()
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for place in step.operands:
                if place is not None and place.storage.kind == "arena":
                    first.setdefault(place.storage.number, number)
                    last[place.storage.number] = number
        end = len(self.steps)
        requests: list[planner.Request] = []
        slots: dict[int, int] = {}
        for index in sorted(first):
            slots[index] = len(requests)
            live = (0, end) if self.keep else (first[index], last[index])
            requests.append(planner.Request(self.arena[index].nbytes, *live))
        scratch: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            if nbytes := step.working_memory(lanes):
                scratch[number] = len(requests)
                requests.append(planner.Request(nbytes, number, number))
        plan = planner.plan(requests, "no_reuse" if self.keep else strategy)
        if check:
            verify.plan(requests, plan)
        for number, request in scratch.items():
            step = self.steps[number]
            step.scratch_offset = plan.offsets[request] + planner.aligned(step.planned.shared_bytes)
        offsets = tuple(plan.offsets[slots[i]] if i in slots else 0 for i in range(len(self.arena)))
        occupied = tuple(requests[slots[i]].nbytes if i in slots else 0 for i in range(len(self.arena)))
        allow_overlap(self.steps, offsets, lanes)
        written = (value.type.nbytes for value in self.graph.outputs)  # results and states
        check_total(plan.arena_bytes + sum(written), "a call")
        self._log(plan)
        return BoundPlan(
            tuple(self.steps),
            self.places,
            tuple(self.constants),
            offsets,
            occupied,
            plan.arena_bytes,
            plan.lower_bound,
            in_place,
        )

    def _log(self, plan: planner.MemoryPlan) -> None:
        name, count = self.graph.name, len(self.steps)
        logs.PLAN.info("%s: %d steps, arena of %d bytes, at least %d", name, count, plan.arena_bytes, plan.lower_bound)
        if logs.KERNELS.isEnabledFor(DEBUG):
            for step in self.steps:
                where = "" if step.node is None else step.node.source.where
                logs.KERNELS.debug("%s: %s%s: %s", name, step.op, where, step.kernel.name)

    def _nbytes(self, storage: Storage) -> int:
        if storage.kind == "state":
            return self.graph.state_inputs[storage.number].type.nbytes
        return self.arena[storage.number].nbytes

    def _write_in_place(self) -> int:
        """Give outputs the buffer of an input that no later step reads, if the op allows it. Returns their number."""
        last: dict[Storage, int] = {}
        for number, step in enumerate(self.steps):
            for place in step.operands:
                if place is not None:
                    last[place.storage] = number
        count = 0
        for number, step in enumerate(self.steps):
            output = step.operands[step.n_inputs]
            if output is None or output.storage.kind != "arena":
                continue
            for position in TABLE[step.op].inplace:
                victim = step.operands[position] if position < step.n_inputs else None
                if victim is not None and last[victim.storage] == number and self._can_share(step, position, output):
                    old, new = output.storage, victim.storage
                    self._move(old, new)
                    last[new] = last.pop(old)
                    count += 1
                    break
        return count

    def _can_share(self, step: Step, position: int, output: Place, kinds: tuple[str, ...] = ("arena",)) -> bool:
        victim = step.operands[position]
        if victim is None or victim.storage.kind not in kinds or victim.dtype != output.dtype:
            return False
        if not victim.layout.is_dense or victim.layout.offset or victim.layout.shape != output.layout.shape:
            return False
        if TensorType(victim.dtype, victim.layout.shape).nbytes != self._nbytes(victim.storage):
            return False
        # An operand in the same buffer would read new elements, unless it is read at the index that is written, too.
        others = [(i, p) for i, p in enumerate(step.operands[: step.n_inputs]) if i != position and p is not None]
        safe = TABLE[step.op].inplace
        return all(p.storage != victim.storage or (i in safe and p.layout == victim.layout) for i, p in others)
