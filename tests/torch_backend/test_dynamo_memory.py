"""torch.compile(model, backend="engine") against eager: weights that change, writes, views among results, strides."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import engine.dynamo
from engine.torch_backend import optimizer_steps
from tests.torch_backend.dynamo import Block, check, compiled, random


@pytest.fixture(autouse=True)
def _anew():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


# --- weights ---------------------------------------------------------------------------------------------------------


def test_weights_that_change_are_packed_anew():
    model, x = Block().eval(), random(2, 5, 16)
    found = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        with torch.inference_mode():
            torch.testing.assert_close(found(x), model(x))
        model(x).sum().backward()
        optimizer.step()
    with torch.inference_mode():
        torch.testing.assert_close(found(x), model(x))
        model.out.weight.copy_(random(16, 16))
        torch.testing.assert_close(found(x), model(x))
        model.out.weight.data = random(16, 16, seed=1)
        torch.testing.assert_close(found(x), model(x))
        model.out = nn.Linear(16, 16)
        torch.testing.assert_close(found(x), model(x))
        model.load_state_dict(Block().state_dict())
        torch.testing.assert_close(found(x), model(x))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_a_step_of_a_fused_optimizer_which_torch_does_not_count_is_noticed(kind):
    torch.manual_seed(0)
    model, x = nn.Linear(2, 2).eval(), torch.ones(1, 2)
    found, optimizer = compiled(model), kind(model.parameters(), lr=1.0, fused=True)
    with torch.no_grad():
        before = found(x)
    model(x).sum().backward()
    optimizer.step()
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x))
        assert (found(x) - before).abs().max() > 0.5


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_a_compiled_step_of_a_fused_optimizer_is_noticed():
    torch.manual_seed(0)
    model, x = nn.Linear(2, 2).eval(), torch.ones(1, 2)
    found, optimizer = compiled(model), torch.optim.SGD(model.parameters(), lr=1.0, fused=True)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(found(x), model(x))
        model(x).sum().backward()
        step()
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_a_step_that_was_compiled_before_the_model_is_noticed():
    """torch must trace the step anew once the hook is registered."""
    torch.manual_seed(0)
    model, x = nn.Linear(2, 2).eval(), torch.ones(1, 2)
    step = torch.compile(torch.optim.SGD(model.parameters(), lr=1.0, fused=True).step, backend="eager")
    model(x).sum().backward()
    step()
    found = compiled(model)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(found(x), model(x))
        model(x).sum().backward()
        step()
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x))


def drop_graphs():
    torch.compiler.reset()
    gc.collect()  # Dynamo's caches and their graphs refer to each other


def test_a_graph_that_is_collected_does_not_listen_to_optimizers():
    """Dynamo never collects the first graph of a model with a graph break: those of earlier tests do not count here."""
    drop_graphs()
    optimizer_steps._listeners.clear()
    check(nn.ReLU().eval(), (torch.ones(1, 2),))
    assert not optimizer_steps._listeners  # without weights
    check(nn.Linear(2, 2).eval(), (torch.ones(1, 2),))
    assert len(optimizer_steps._listeners) == 1
    drop_graphs()
    assert not optimizer_steps._listeners


def test_steps_of_an_optimizer_of_other_weights_pack_nothing_anew():
    model, other, x = nn.Linear(2, 2).eval(), nn.Linear(2, 2), torch.ones(1, 2)
    optimizer = torch.optim.SGD(other.parameters(), lr=1.0, fused=True)
    check(model, (x,))
    (kept,) = (graph()._programs for graph in engine.dynamo._GRAPHS if graph() is not None)
    program = kept.items()[-1][1].program
    other(x).sum().backward()
    optimizer.step()
    check(model, (x,))
    assert kept.items()[-1][1].program is program


def test_weights_that_stay_are_packed_once():
    model = Block().eval()
    check(model, (random(2, 5, 16),), (random(2, 5, 16, seed=1),))
    (before,) = (graph()._programs for graph in engine.dynamo._GRAPHS if graph() is not None)
    program = before.items()[-1][1].program
    check(model, (random(2, 5, 16, seed=2),))
    assert before.items()[-1][1].program is program


class Counter(nn.Module):
    """Reads a buffer that it also writes to; `other` is written to by nobody here."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("other", torch.ones(4))

    def forward(self, x):
        self.total.add_(x * self.other)
        return self.total * 2


def test_buffers_that_the_model_writes_to():
    model = Counter()
    check(model, *[(random(4, seed=seed),) for seed in range(3)])
    torch.testing.assert_close(model.total, sum(random(4, seed=seed) for seed in range(3)))


def test_a_buffer_that_somebody_writes_to_is_no_weight_any_longer():
    model = Counter()
    found = compiled(model)
    with torch.inference_mode():
        for step in range(3):
            model.other.fill_(step)
            model.total.zero_()
            torch.testing.assert_close(found(torch.ones(4)), torch.full((4,), 2.0 * step))
    (report,) = engine.dynamo.reports()
    assert report.weight_bytes < 16 + 4  # the factor alone; the buffer is brought by each call


def test_statistics_that_a_batch_norm_writes_in_training_are_seen():
    """Its kernel writes to them without a new version of the tensors."""
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), random(2, 3, 8, 8)
    found = compiled(model)
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x))
        versions = [buffer._version for buffer in (model[1].running_mean, model[1].running_var)]
        for _ in range(2):
            model.train()
            model(x * 3 + 1)
            model.eval()
            torch.testing.assert_close(found(x), model(x))
        assert versions == [buffer._version for buffer in (model[1].running_mean, model[1].running_var)]


def test_weights_made_in_inference_mode_are_inputs():
    with torch.inference_mode():
        model = nn.Linear(4, 4).eval()
        found = compiled(model)
        x = random(2, 4)
        torch.testing.assert_close(found(x), model(x))
        model.weight.fill_(1)
        torch.testing.assert_close(found(x), model(x))


# --- writes, views, duplicates ---------------------------------------------------------------------------------------


class Writes(nn.Module):
    def forward(self, x, y):
        x.add_(1)
        y[:, 0] = 5
        return x * 2


def test_inputs_that_the_model_writes_to():
    check(Writes(), (random(3, 4), random(3, 4)))
    x, y = random(3, 4), random(4, 3).t()
    with torch.no_grad():
        compiled(Writes())(x, y)
    torch.testing.assert_close(x, random(3, 4) + 1)
    assert (y[:, 0] == 5).all()


class Views(nn.Module):
    def forward(self, x):
        y = x * 2
        return x, x[1:], y, y, y.view(-1)


def test_results_share_memory_with_what_eager_shares_it_with():
    x = random(3, 4)
    with torch.no_grad():
        same, part, y, again, flat = compiled(Views())(x)
        assert same is x
        assert part.data_ptr() == x[1:].data_ptr()
        y.fill_(7)
        assert (flat == 7).all()
        assert (again == 7).all()


class Columns(nn.Module):
    """Torch lets the product lie as its operand does, by columns."""

    def forward(self, x):
        return (x.t() * 2).chunk(2)


def test_results_that_are_views_of_what_lies_in_another_order():
    check(Columns(), (random(3, 4),))
    with torch.no_grad():
        first, second = compiled(Columns())(random(3, 4))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert second.storage_offset() == Columns()(random(3, 4))[1].storage_offset()


LAID = {
    "the product lies as its operand": lambda x: x * 2,
    "transposed": lambda x: (x * 2).t(),
    "room between elements": lambda x: (x * 2)[:, ::2],
    "repeated": lambda x: (x * 2).sum(0).expand(3, -1),
    "repeated in the middle": lambda x: (x * 2).sum(1, keepdim=True).expand(-1, 5),
    "of one memory": lambda x: ((y := x * 2), y.t(), y[1:]),
    "of one memory with room": lambda x: ((y := (x * 2)[:, ::2]), y[1:]),
    "of one memory, as another type": lambda x: ((y := x * 2), y.view(torch.int32)),
    "of the input": lambda x: (x[1:], x * 2, x.t(), x.t().view_as(x.t())),
    "of the input, as another type": lambda x: x[1:].view(torch.int32),
    "made by torch": lambda x: torch.lgamma(x * 2).t(),
}
PLACED = {
    "rows": lambda: random(4, 6),
    "columns": lambda: random(6, 4).t(),
    "part": lambda: random(8, 6)[2:6],
    "part of rows": lambda: random(4, 12)[:, 2:8],
}


@pytest.mark.parametrize(
    ("place", "dynamic"),
    [
        pytest.param(
            place,
            dynamic,
            marks=() if (place, dynamic) in (("columns", None), ("part of rows", True)) else pytest.mark.long,
            id=f"{place}-{'dynamic' if dynamic else 'static'}",
        )
        for place in PLACED
        for dynamic in (None, True)
    ],
)
def test_results_have_the_strides_that_eager_gives_them(place, dynamic):
    for name, function in LAID.items():
        x = PLACED[place]()
        with torch.no_grad():
            expected = function(x)
            got = torch.compile(function, backend="engine", dynamic=dynamic)(x)
        for a, b in zip(*[(r,) if isinstance(r, torch.Tensor) else r for r in (got, expected)], strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride(), name
            both = [t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for t in (a, b)]
            assert both[0] == both[1], name
            assert not both[0] or a.data_ptr() == b.data_ptr(), name


def test_views_of_inputs_are_of_those_of_the_call_wherever_they_begin():
    whole = random(100, 6)
    found = torch.compile(lambda x, y: (x.t().view_as(x.t()), y[1:]), backend="engine", dynamic=True)
    with torch.no_grad():
        for start, rows in ((0, 4), (3, 5), (7, 9)):
            x, y = whole[start : start + rows], whole[start + rows : start + 2 * rows]
            for given in ((x, y), (x.clone(), y.clone()), (x, x)):
                turned, rest = found(*given)
                assert torch.equal(turned, given[0].t())
                assert (turned.data_ptr(), rest.data_ptr()) == (given[0].data_ptr(), given[1][1:].data_ptr())


def test_a_convolution_of_channels_last_answers_channels_last():
    model = nn.Conv2d(3, 4, 3).eval().to(memory_format=torch.channels_last)
    x = random(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert compiled(model)(x).stride() == model(x).stride() == (144, 1, 24, 4)


def test_a_result_that_lies_row_by_row_is_not_copied():
    model, x = nn.Linear(8, 8).eval(), random(2, 8)
    check(model, (x,))
    (kept,) = (graph()._programs for graph in engine.dynamo._GRAPHS if graph() is not None)
    assert kept.items()[-1][1].plain


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.empty_like(x).copy_(x) + 1,
        lambda x: torch.empty(x.shape[0], 4, dtype=torch.float64).copy_(x),
        lambda x: torch.empty_like(x).fill_(2) * torch.empty_like(x).zero_(),
        lambda x: torch.empty_like(x, dtype=torch.bool).copy_(x > 0),
    ],
)
@pytest.mark.parametrize("dynamic", [pytest.param(None, marks=pytest.mark.long), True], ids=["static", "dynamic"])
def test_memory_that_is_written_over_as_a_whole_needs_no_values(function, dynamic):
    with torch.no_grad():
        for x in (random(3, 4), random(4, 3).t()):
            got = torch.compile(function, backend="engine", dynamic=dynamic)(x)
            torch.testing.assert_close(got, function(x))
            assert got.stride() == function(x).stride()
    assert all(report.fallback_nodes == 0 for report in engine.dynamo.reports())
