"""Which steps may run beside each other: hand-made plans for each kind of conflict, real plans by the verifier."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import engine
from engine.errors import VerificationError
from engine.ops import Layout
from engine.targets import verify
from engine.targets.cpu import CPU
from engine.targets.order import MOST_OVERLAP, allow_overlap
from engine.targets.plan import BoundPlan, Kernel, Place, Planned, Step, Storage
from tests import messages
from tests.exports import export_model

THREADS = 3
FLOATS = 16  # of each buffer: one cache line


def at(kind: str, number: int, *, length: int = FLOATS, offset: int = 0) -> Place:
    return Place(Storage(kind, number), "float32", Layout((length,), (1,), offset))


def step(inputs: list[Place], output: Place, *, scratch: int | None = None, shared: int = 0) -> Step:
    planned = Planned(Kernel("copy", "copy", "any"), scratch_bytes=0 if scratch is None else 64, shared_bytes=shared)
    return Step(None, "copy", [*inputs, output], len(inputs), [], [], planned, scratch_offset=scratch or 0)


X, Y, A, B, C = at("input", 0), at("output", 0), at("arena", 0), at("arena", 1), at("arena", 2)

# name: steps, where the arena's buffers lie (bytes), the overlap of the last step
PLANS: dict[str, tuple[list[Step], tuple[int, ...], int]] = {
    "nothing shared": ([step([X], A), step([X], B), step([X], C)], (0, 64, 128), 2),
    "reads what the step before wrote": ([step([X], A), step([A], Y)], (0,), 0),
    "reads what an earlier step wrote": ([step([X], A), step([X], B), step([A], C)], (0, 64, 128), 1),
    "reads part of what was written": ([step([X], A), step([at("arena", 0, length=1, offset=15)], B)], (0, 64), 0),
    "writes over what is being read": ([step([X], A), step([A], Y), step([X], B)], (0, 0), 0),
    "writes over the end of what is being read": ([step([X], A), step([A], Y), step([X], B)], (0, 60), 0),
    "writes behind what is being read": ([step([X], A), step([A], Y), step([X], B)], (0, 64), 2),
    "writes what was written": ([step([X], A), step([X], B)], (0, 0), 0),
    "writes in place": ([step([X], A), step([A], A)], (0,), 0),
    "reads what is being read": ([step([X], A), step([A], B), step([A], C)], (0, 64, 128), 1),
    "writes another output": ([step([X], Y), step([X], at("output", 1))], (), 1),
    "reads an output": ([step([X], Y), step([Y], at("output", 1))], (), 0),
    "has scratch of its own": ([step([X], A, scratch=64), step([X], B, scratch=256)], (0, 448), 1),
    "has the same scratch": ([step([X], A, scratch=64), step([X], B, scratch=64)], (0, 448), 0),
    "has the scratch of another's last thread": ([step([X], A, scratch=64), step([X], B, scratch=192)], (0, 448), 0),
    "has scratch where a value is read": ([step([X], A), step([A], Y), step([X], B, scratch=0)], (128, 448), 0),
    "has what another's threads share": (
        [step([X], A, scratch=0), step([X], B, scratch=320, shared=192)],
        (512, 576),
        0,
    ),
    "shares memory of its own": ([step([X], A, scratch=0), step([X], B, scratch=320, shared=128)], (512, 576), 1),
    "writes the scratch of another's last thread": ([step([X], A, scratch=64), step([X], B)], (0, 192), 0),
}


def plan(steps: list[Step], offsets: tuple[int, ...]) -> BoundPlan:
    return BoundPlan(tuple(steps), {}, (), offsets, (), 1024, 0, 0)


@pytest.mark.parametrize("name", PLANS)
def test_a_step_overlaps_with_those_that_it_does_not_conflict_with(name):
    steps, offsets, expected = PLANS[name]
    steps = [replace(s) for s in steps]
    allow_overlap(steps, offsets, THREADS)
    assert steps[-1].overlap == expected
    verify.order(plan(steps, offsets), THREADS)
    if expected < len(steps) - 1:
        steps[-1].overlap += 1
        with messages.raises(VerificationError):
            verify.order(plan(steps, offsets), THREADS)


def test_a_step_overlaps_with_a_bounded_number_of_others():
    steps = [step([X], at("output", number)) for number in range(MOST_OVERLAP + 2)]
    allow_overlap(steps, (), THREADS)
    assert [s.overlap for s in steps[-2:]] == [MOST_OVERLAP, MOST_OVERLAP]


def test_an_empty_value_conflicts_with_nothing():
    empty = at("arena", 0, length=0)
    steps = [step([X], A), step([empty], B), step([X], empty)]
    allow_overlap(steps, (0, 64), THREADS)
    assert [s.overlap for s in steps] == [0, 1, 2]


@pytest.mark.parametrize("planner", ["default", "in_order"])
@pytest.mark.parametrize("name", ["transformer-tiny", pytest.param("bert-tiny", marks=pytest.mark.long), "mlp"])
def test_no_model_overlaps_what_conflicts(name, planner):
    _model, inputs, exported = export_model(name)
    program = engine.compile(exported, inputs, engine.Config(threads=THREADS, planner=planner))
    made = CPU.bind(program.lowered, program.config)
    verify.order(made, THREADS)


class Decode(torch.nn.Module):
    """Two steps of a decoder's attention, one head, over keys that are cut into parts and joined."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """[1, 1, 1, D] from q and keys [1, 1, T, D]."""
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(attend(q, k, v), k, v)


def test_what_is_joined_lies_in_memory_of_its_own():
    torch.manual_seed(0)
    model, inputs = Decode().eval(), tuple(torch.randn(1, 1, n, 16) for n in (1, 2048, 2048))
    answers = []
    for threads in (1, 2, 4):
        program = engine.compile(model, inputs, engine.Config(threads=threads))
        made = CPU.bind(program.lowered, program.config)
        joined = [s for s in made.steps if s.op == "attention"]
        assert len(joined) == 2
        assert all(s.planned.shared_bytes > 0 and s.planned.tiles == 4 for s in joined)
        assert all(s.scratch_offset + s.planned.scratch_bytes * threads <= made.arena_bytes for s in joined)
        assert all(s.scratch_offset >= s.planned.shared_bytes for s in joined)
        verify.order(made, threads)
        answers += [program(*inputs) for _ in range(20)]
    assert all(torch.equal(a, answers[0]) for a in answers)
    torch.testing.assert_close(answers[0], model(*inputs), rtol=1e-5, atol=1e-6)  # exp and sums in another order


class Branches(torch.nn.Module):
    """Four independent matrices from one input, and a sum that needs them all."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = torch.nn.ModuleList(torch.nn.Linear(96, 96) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of ever deeper branches."""
        total = torch.zeros_like(x)
        for branch in self.branches:
            total = total + torch.tanh(branch(torch.softmax(x, -1))) @ x.mT
        return total


def test_branches_overlap_and_give_the_same_bits_at_any_number_of_threads():
    torch.manual_seed(0)
    model, x = Branches().eval(), torch.randn(96, 96)
    expected = None
    for threads in (1, 2, 4):
        program = engine.compile(model, (x,), engine.Config(threads=threads, planner="no_reuse"))
        assert max(s.overlap for s in CPU.bind(program.lowered, program.config).steps) > 0
        for _ in range(20):
            answer = program(x)
            expected = answer if expected is None else expected
            assert torch.equal(answer, expected)
    torch.testing.assert_close(expected, model(x).detach(), rtol=1e-4, atol=1e-4)  # sums of 96 products, thrice
