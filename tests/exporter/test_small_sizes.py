"""A program refuses the sizes 0 and 1 at which its model takes another path, of which torch records nothing."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from tests import messages


class Branch(nn.Module):
    """One expression where a condition on x holds, and another one elsewhere."""

    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x):
        return x * 3 if self.condition(x) else x * 2


class Repeated(nn.Module):
    """As many copies of x as it has rows."""

    def forward(self, x):
        return x.repeat(x.shape[0], 1, 2)


def test_a_repeat_takes_all_sizes():
    program = engine.compile(Repeated().eval(), (torch.randn(4, 6),), dynamic_shapes=({0: Dim("b", min=0, max=9)},))
    for size in (0, 1, 2, 9):
        x = torch.randn(size, 6)
        torch.testing.assert_close(program(x), Repeated()(x), rtol=0, atol=0)


CONDITIONS = {
    "equal": lambda x: x.shape[0] == 1,
    "less": lambda x: x.shape[0] < 2,
    "truth of a difference": lambda x: not x.shape[0] - 1,
    "number of elements": lambda x: x.numel() == 4,
    "membership": lambda x: 1 in x.shape,
    "size of a result": lambda x: x.t().shape[1] <= 1,
    "layout": lambda x: x.t().is_contiguous(),
}


def compile_for(model, example, *, fallback=None, **dims):
    shapes = {"x": {axis: Dim(name, **limits) for axis, (name, limits) in enumerate(dims.items())}}
    return engine.compile(model.eval(), (example,), engine.Config(fallback=fallback), dynamic_shapes=shapes)


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_a_size_of_1_on_another_path_is_warned_of_and_refused(condition):
    model = Branch(condition)
    with messages.warns(engine.GuardWarning):
        program = compile_for(model, torch.randn(3, 4), n={"min": 1, "max": 9})
    for size in (2, 3, 9):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), model(x), rtol=0, atol=0)
    with messages.raises(engine.ShapeError):
        program(torch.randn(1, 4))


def test_a_size_of_0_on_another_path_is_refused_and_a_size_of_1_is_not():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(0) if x.numel() else x

    with messages.warns(engine.GuardWarning):
        program = compile_for(Mean(), torch.randn(3, 4), n={"max": 9})
    x = torch.randn(1, 4)
    torch.testing.assert_close(program(x), x[0], rtol=0, atol=0)
    with messages.raises(engine.ShapeError):
        program(torch.randn(0, 4))


def test_a_program_with_a_fallback_refuses_them_as_well():
    class Bessel(nn.Module):
        def forward(self, x):
            return x * 3 if x.shape[0] == 1 else torch.special.bessel_j0(x)

    with messages.warns(engine.GuardWarning):
        program = compile_for(Bessel(), torch.randn(3, 4), fallback="torch", n={"min": 1, "max": 9})
    with messages.raises(engine.ShapeError):
        program(torch.randn(1, 4))


class Counting(nn.Module):
    """Has a buffer that it writes to, an attribute that it sets, weights, and one path for all sizes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))
        self.sizes = []

    def forward(self, x):
        self.calls += 1
        self.sizes.append(x.shape[0])
        if x.shape[0] == 0:
            raise ValueError("nothing to do")
        return self.linear(x) * self.calls


def test_a_model_of_one_path_keeps_all_sizes_and_its_own_state():
    model = Counting()
    with warnings.catch_warnings():
        warnings.simplefilter("error", engine.GuardWarning)
        program = compile_for(model, torch.randn(3, 4), n={"max": 9})
    assert model.calls.item() == 0
    assert [size for size in model.sizes if not isinstance(size, torch.SymInt)] == []
    x = torch.randn(1, 4)
    torch.testing.assert_close(program(x, state=program.new_state()), model(x))


def test_a_model_that_has_no_copy_begins_at_2():
    model = Branch(lambda _: False)
    model.scale = torch.ones(1, requires_grad=True) * 2  # copy.deepcopy refuses results with a gradient
    with messages.warns(engine.GuardWarning):
        compile_for(model, torch.randn(3, 4), n={"min": 1, "max": 9})


def test_random_numbers_go_on_as_if_nothing_had_been_tried():
    class Noisy(nn.Module):
        def forward(self, x):
            if x.shape[0] == 1:
                return x + torch.rand(4)
            return x

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with pytest.warns(engine.GuardWarning):
        compile_for(Noisy(), torch.ones(3, 4), n={"min": 1, "max": 9})
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)


class CountingSingles(nn.Module):
    """Writes to a buffer if the batch is 1, and only then."""

    def __init__(self):
        super().__init__()
        self.register_buffer("singles", torch.zeros(1))

    def forward(self, x):
        if x.shape[0] == 1:
            self.singles.add_(1)
        return x * 2


def test_a_size_at_which_only_the_model_writes_to_a_buffer_is_refused_and_the_buffer_stays():
    model = CountingSingles()
    with messages.warns(engine.GuardWarning):
        compile_for(model, torch.randn(3, 4), n={"min": 1, "max": 9})
    assert model.singles.item() == 0


class ScalingSingles(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x):
        if x.shape[0] == 1:
            self.scale()
        return x * self.w * 2

    def scale(self):
        self.w.mul_(2)


def test_a_size_at_which_only_the_model_writes_to_a_weight_is_refused_and_the_weight_stays():
    model = ScalingSingles().requires_grad_(False)
    with messages.warns(engine.GuardWarning):
        program = compile_for(model, torch.randn(3, 4), n={"min": 1, "max": 9})
    torch.testing.assert_close(model.w, torch.ones(4), rtol=0, atol=0)
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), x * 2, rtol=0, atol=0)


def test_a_branch_that_torch_captures_excludes_no_size():
    class Conditional(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with warnings.catch_warnings(action="error"):
        program = compile_for(Conditional(), torch.randn(3, 4), fallback="torch", n={"min": 1, "max": 9})
    x = torch.randn(1, 4)
    torch.testing.assert_close(program(x), Conditional()(x))


def test_weights_that_the_model_scales_while_it_runs_stay():
    model = nn.Embedding(5, 4, max_norm=0.1)
    before = model.weight.detach().clone()
    shapes = {"input": {0: Dim("n", min=1, max=9)}}
    with pytest.raises(engine.UnsupportedOp):
        engine.compile(model.eval(), (torch.tensor([0, 1, 2]),), dynamic_shapes=shapes)
    torch.testing.assert_close(model.weight.detach(), before, rtol=0, atol=0)


def test_a_size_that_a_call_of_a_program_with_a_fallback_removes_is_refused():
    class Squeezed(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x * 2).squeeze(0)

    with messages.warns(engine.GuardWarning):
        program = compile_for(Squeezed(), torch.randn(3, 4), fallback="torch", n={"min": 1, "max": 9})
    with messages.raises(engine.ShapeError):
        program(torch.randn(1, 4))


def test_a_mask_that_hides_all_keys_of_an_attention_refuses_no_size():
    class Attention(nn.Module):
        def forward(self, x, mask):
            heads = x[:, None]
            return nn.functional.scaled_dot_product_attention(heads, heads, heads, mask[:, None, None])

    n, length = Dim("n", min=1, max=9), Dim("length", min=1, max=9)
    example = (torch.randn(3, 5, 4), torch.ones(3, 5, dtype=torch.bool))
    shapes = {"x": {0: n, 1: length}, "mask": {0: n, 1: length}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", engine.GuardWarning)
        engine.compile(Attention().eval(), example, dynamic_shapes=shapes)


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(4))


class Fills(Writing):
    def forward(self, x):
        before = self.b * 1
        if x.shape[0] == 1:
            self.b.fill_(7)
        else:
            self.b.add_(1)
        return before


class ChangesItsStructure(Writing):
    def forward(self, x):
        return {"a": x} if x.shape[0] == 1 else {"b": x * 1}


class Masks(Writing):
    def forward(self, x):
        return torch.where(x > 0, x * (3 if x.shape[0] == 1 else 1), torch.finfo(x.dtype).min)


@pytest.mark.parametrize("kind", [Fills, ChangesItsStructure, Masks])
def test_what_a_model_writes_and_how_it_returns_its_results_is_compared_too(kind):
    with messages.warns(engine.GuardWarning):
        compile_for(kind(), torch.randn(3, 4), n={"min": 1, "max": 9})


def test_a_buffer_that_is_written_alike_at_all_sizes_excludes_none():
    class Adds(Writing):
        def forward(self, x):
            self.b.add_(x.sum(0))
            return self.b * 2

    model, x = Adds().eval(), torch.randn(1, 4)
    with warnings.catch_warnings(action="error"):
        program = compile_for(model, torch.randn(3, 4), n={"min": 1, "max": 9})
    torch.testing.assert_close(program(x, state=program.new_state()), x[0] * 2)


def test_truth_values_are_compared_too():
    class Positive(nn.Module):
        def forward(self, x):
            return x > 0

    program = compile_for(Positive(), torch.randn(3, 4), n={"max": 9})
    for size in (0, 1, 5):
        x = torch.randn(size, 4)
        assert torch.equal(program(x), x > 0)
