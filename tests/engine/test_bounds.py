"""The check of a bound plan in C: each way in which a step can reach outside of its memory is an InternalError."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import engine
from engine.ops import Layout
from engine.targets.cpu import native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.plan import BoundPlan, Place, Planned, Step, Storage
from tests import messages

THREADS = 2


class Model(torch.nn.Module):
    """A linear layer with a packed weight, a convolution with scratch, a buffer that each call writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("seen", torch.zeros(2, 8))

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The softmax over what was seen so far, and the convolution of `image`."""
        self.seen.add_(self.linear(x))
        return self.seen.softmax(-1) * x, self.conv(image).relu()


@pytest.fixture(scope="module")
def program() -> engine.Program:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 8), torch.randn(1, 3, 9, 9))
    return engine.compile(Model().eval(), inputs, engine.Config(threads=THREADS))


def execute(program: engine.Program, plan: BoundPlan) -> None:
    CpuExecutable(program.lowered, plan, program._prepared, THREADS)


def changed(plan: BoundPlan, number: int, change: Callable[[Step], None]) -> BoundPlan:
    """The plan with a changed copy of step `number`, which its kernel has planned again."""
    old = plan.steps[number]
    step = replace(old, operands=[None if p is None else replace(p) for p in old.operands])
    change(step)
    planned = native.plan(step, step.kernel)
    assert isinstance(planned, Planned)
    step.planned = planned
    return replace(plan, steps=(*plan.steps[:number], step, *plan.steps[number + 1 :]))


def find(plan: BoundPlan, kind: str, *, result: bool) -> tuple[int, int]:
    """(step, position) of an operand in storage of that kind, the step's result or one of its inputs."""
    for number, step in enumerate(plan.steps):
        for position, place in enumerate(step.operands):
            if place is None or place.storage.kind != kind or position in step.planned.packed:
                continue
            if (position >= step.n_inputs) == result:
                return number, position
    raise AssertionError(f"no operand in {kind}")


def test_the_plan_of_the_model_has_all_that_is_changed_below(program):
    plan = program._example.executable.plan
    execute(program, plan)
    assert any(step.working_memory(THREADS) for step in plan.steps)
    assert any(step.planned.packed for step in plan.steps)
    for kind in ("input", "state", "constant", "arena"):
        find(plan, kind, result=False)


def place(kind: str, *, result: bool, change: Callable[[Place], None]) -> Callable[[BoundPlan], BoundPlan]:
    def apply(plan: BoundPlan) -> BoundPlan:
        number, position = find(plan, kind, result=result)
        return changed(plan, number, lambda step: change(step.operands[position]))

    return apply


def shift(elements: int) -> Callable[[Place], None]:
    def apply(place: Place) -> None:
        place.layout = Layout(place.layout.shape, place.layout.strides, place.layout.offset + elements)

    return apply


def widen(place: Place) -> None:
    place.layout = Layout(place.layout.shape, (*place.layout.strides[:-1], 1 << 40), place.layout.offset)


def move(storage: Storage) -> Callable[[Place], None]:
    def apply(place: Place) -> None:
        place.storage = storage

    return apply


def working(plan: BoundPlan) -> int:
    """The number of a step with working memory."""
    return next(number for number, step in enumerate(plan.steps) if step.working_memory(THREADS))


def scratch(offset: Callable[[BoundPlan, Step], int]) -> Callable[[BoundPlan], BoundPlan]:
    def apply(plan: BoundPlan) -> BoundPlan:
        def change(step: Step) -> None:
            step.scratch_offset = offset(plan, step)

        return changed(plan, working(plan), change)

    return apply


def scratch_in_own_operand(plan: BoundPlan) -> BoundPlan:
    def offset(plan: BoundPlan, step: Step) -> int:
        own = [p.storage.number for p in step.operands if p is not None and p.storage.kind == "arena"]
        return plan.arena_offsets[own[0]] + step.planned.shared_bytes

    return scratch(offset)(replace(plan, arena_bytes=plan.arena_bytes + (1 << 20)))


def overlap(plan: BoundPlan) -> BoundPlan:
    plan.steps[-1].overlap += len(plan.steps)
    return plan


BROKEN: dict[str, Callable[[BoundPlan], BoundPlan]] = {
    "reads past a value": place("arena", result=False, change=shift(1)),
    "writes past a value": place("arena", result=True, change=shift(1)),
    "reads before a value": place("arena", result=False, change=shift(-1)),
    "reads past an input": place("input", result=False, change=shift(1)),
    "reads past a state": place("state", result=False, change=shift(1)),
    "reads past a constant": place("constant", result=False, change=shift(1)),
    "writes past an output": place("output", result=True, change=shift(1)),
    "writes an input": place("arena", result=True, change=move(Storage("input", 0))),
    "uses a part that does not exist": place("arena", result=True, change=move(Storage("arena", 99))),
    "uses an output that does not exist": place("arena", result=True, change=move(Storage("output", 99))),
    "a part past the arena": lambda plan: replace(plan, arena_bytes=plan.arena_bytes - 64),
    "a part before the arena": lambda plan: replace(plan, arena_offsets=(-64, *plan.arena_offsets[1:])),
    "scratch before the arena": scratch(lambda _plan, step: step.planned.shared_bytes - 64),
    "scratch past the arena": scratch(lambda plan, _step: plan.arena_bytes),
    "scratch in its own result": scratch_in_own_operand,
    "runs beside steps that do not exist": overlap,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_step_that_leaves_its_memory_is_found_before_it_runs(program, name):
    plan = program._example.executable.plan
    fresh = tuple(changed(plan, number, lambda _step: None).steps[number] for number in range(len(plan.steps)))
    broken = BROKEN[name](replace(plan, steps=fresh))
    with messages.raises(engine.errors.InternalError):
        execute(program, broken)
