"""Operators that look up, count or compare elements: a program on every target, saved and loaded, against eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from tests import messages
from tests.modules import Call, Function

GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(6, 8, generator=GENERATOR)
ODD = torch.tensor([float("nan"), float("inf"), -float("inf"), -1.0, 0.5, 2.0]).reshape(6, 1).expand(6, 8).contiguous()
EDGES = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
ROWS = torch.randint(0, 20, (12,), generator=GENERATOR)
STARTS = torch.tensor([0, 3, 3, 12])


def seeded(make):
    torch.manual_seed(0)
    return make().eval()


class Bags(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.bags = nn.EmbeddingBag(20, 5, **how)

    def forward(self, rows, starts=None, weights=None):
        return self.bags(rows, starts, weights)


CASES = {
    "a leaky slope at rest": (lambda: nn.RReLU(0.1, 0.5), [(X,), (ODD,)]),
    "a leaky slope in place": (lambda: Call(lambda x: nn.functional.rrelu(x * 2, inplace=True)), [(X,)]),
    "a form of two vectors": (lambda: nn.Bilinear(8, 8, 3), [(X, X.flip(0))]),
    "a form without a bias": (lambda: nn.Bilinear(8, 8, 3, bias=False), [(X[0], X[1])]),
    "bins": (lambda: Call(lambda x: torch.bucketize(x, EDGES)), [(X,), (ODD,)]),
    "bins closed on the left": (
        lambda: Call(lambda x: torch.bucketize(x, EDGES, right=True, out_int32=True)),
        [(ODD,)],
    ),
    "bins with whole edges": (lambda: Call(lambda x: torch.bucketize(x, torch.tensor([-1, 0, 2]), right=True)), [(X,)]),
    "a bin of a whole number": (lambda: Call(lambda x: x + torch.bucketize(2, EDGES + x[0, 0] * 0)), [(X,)]),
    "places in sorted rows": (lambda: Call(lambda x: torch.searchsorted(x.sort(-1)[0], x.flip(-1))), [(X,)]),
    "distances": (lambda: Call(lambda x: torch.cdist(x, x[:3])), [(X,)]),
    "distances of many rows": (lambda: Call(lambda x: torch.cdist(x.repeat(5, 1), x[:3] + 1)), [(X,)]),
    "distances by the sum": (lambda: Call(lambda x: torch.cdist(x, x[:3], p=1)), [(X,), (ODD,)]),
    "a histogram": (lambda: Call(lambda x: torch.histc(x, 7, -1, 1)), [(X,), (ODD,)]),
    "a histogram at edges": (lambda: Call(lambda x: torch.histc(x, 7, -1, 2)), [(torch.arange(-40, 80) / 21,)]),
    "sums of bags": (lambda: Bags(mode="sum"), [(ROWS, STARTS)]),
    "weighted sums of bags": (lambda: Bags(mode="sum"), [(ROWS, STARTS, ROWS / 10)]),
    "means of bags": (lambda: Bags(mode="mean", padding_idx=3), [(ROWS, STARTS), (ROWS * 0 + 3, STARTS)]),
    "largest of bags": (lambda: Bags(mode="max", include_last_offset=True), [(ROWS, STARTS)]),
    "bags that end before the rows": (
        lambda: Bags(mode="sum", include_last_offset=True),
        [(ROWS, STARTS - STARTS // 4)],
    ),
    "bags of one length": (lambda: Bags(mode="mean"), [(ROWS.reshape(4, 3),)]),
}


WITHOUT_TRITON = {
    "places in sorted rows",
    "a histogram",
    "a histogram at edges",
}  # sorting, and writing at positions, have no kernels there
RUNS = [
    (name, target)
    for name in CASES
    for target in ("cpu", "interpreter", "triton")
    if target != "triton" or not ("bags" in name or name in WITHOUT_TRITON)
]


@pytest.mark.parametrize(("name", "target"), RUNS)
def test_a_program_computes_what_eager_computes(name, target, tmp_path):
    make, calls = CASES[name]
    model, config = seeded(make), engine.Config(target=target)
    program = engine.compile(model, calls[0], config)
    program.save(tmp_path / "p")
    for one in (program, engine.load(tmp_path / "p", config=config)):
        for inputs in calls:
            expected = model(*(tensor.clone() for tensor in inputs)).detach()
            # Sums of up to 64 terms in another order.
            torch.testing.assert_close(torch.as_tensor(one(*inputs)), expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_edges_and_bags_of_any_number():
    n = Dim("n", max=100)
    model, sizes = Function(lambda x, edges: torch.bucketize(x, edges, right=True)).eval(), (2, 3, 8, 64, 100)
    program = engine.compile(model, (X, X[0].sort()[0]), dynamic_shapes=(({}, {0: n}),))
    for count in sizes:
        edges = torch.randn(count, generator=GENERATOR).sort()[0]
        assert torch.equal(torch.as_tensor(program(X, edges)), model(X, edges))
    bags = seeded(lambda: Bags(mode="mean"))
    program = engine.compile(bags, (ROWS, STARTS[:3]), dynamic_shapes=({0: Dim("rows")}, {0: Dim("bags")}))
    for rows, starts in ((ROWS, STARTS), (ROWS[:7], torch.tensor([0, 7])), (ROWS[:2], torch.tensor([0, 1, 1, 1, 2]))):
        torch.testing.assert_close(torch.as_tensor(program(rows, starts)), bags(rows, starts).detach())


def test_bags_that_are_not_sorted_begin_where_their_offsets_say():
    """As torch does for the largest; for sums it raises an error about its own vectors."""
    starts, model = torch.tensor([0, 9, 4]), seeded(lambda: Bags(mode="max"))
    program = engine.compile(model, (ROWS, starts))
    assert torch.equal(torch.as_tensor(program(ROWS, starts)), model(ROWS, starts).detach())


@pytest.mark.parametrize("starts", [[1, 3, 4], [0, 3, 13], [0, 3, -1]])
def test_an_offset_outside_of_the_rows_is_an_error(starts):
    model = seeded(lambda: Bags(mode="mean"))
    program = engine.compile(model, (ROWS, STARTS[:3]))
    with messages.raises(engine.EngineError):
        program(ROWS, torch.tensor(starts))


REFUSED = {
    "a slope of training": lambda x: nn.functional.rrelu(x, training=True),
    "bounds from the elements": lambda x: torch.histc(x, 7),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_chance_or_on_all_elements_is_refused(name):
    with messages.raises(engine.UnsupportedOp):
        engine.compile(Call(REFUSED[name]).eval(), (X,))
