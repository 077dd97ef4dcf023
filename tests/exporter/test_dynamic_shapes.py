"""Mistakes in `dynamic_shapes` are told in torch's words; sizes that a program takes fewer of are a warning."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim, ShapesCollection

import engine
from tests import messages

BATCH = Dim("batch", max=64)


class Nested(nn.Module):
    def forward(self, x, pair, options, scale=1):
        return x * scale + pair[0].sum() + pair[1].sum() + options["mask"].sum()


class Keywords(nn.Module):
    def forward(self, x, **options):
        return x + options["mask"]


class Several(nn.Module):
    def forward(self, *values):
        return values[0] + values[1].sum()


EXAMPLE = (torch.randn(3, 4), [torch.randn(2, 2), torch.randn(5, 3)], {"mask": torch.randn(7)}, 2)
ROWS = {0: BATCH}
STRUCTURE = {"x": None, "pair": [None, None], "options": {"mask": None}, "scale": None}


def compiled(shapes, model=Nested, example=EXAMPLE):
    return engine.compile(model().eval(), example, dynamic_shapes=shapes)


MISTAKES = {
    "an input too few by position": (ROWS,),
    "an input too many by position": (*STRUCTURE.values(), None),
    "an input without an entry": {"x": ROWS, "options": {"mask": None}, "scale": None},
    "an unknown input": STRUCTURE | {"maks": None},
    "a text": "x",
    "a number": 0,
    "a Dim for a tensor": STRUCTURE | {"x": BATCH},
    "an axis too few": STRUCTURE | {"x": (BATCH,)},
    "an axis too many": STRUCTURE | {"x": [BATCH, None, None]},
    "a size that is not whole": STRUCTURE | {"x": {0: 2.5}},
    "a bool as a size": STRUCTURE | {"x": {0: True}},
    "axes for an axis": STRUCTURE | {"x": (ROWS, None)},
    "another size than in the example": STRUCTURE | {"x": {0: 5}},
    "a bool as an axis": STRUCTURE | {"x": {True: BATCH}},
    "a minimum above the example": STRUCTURE | {"x": {0: Dim("n", min=4)}},
    "a maximum below the example": STRUCTURE | {"x": {0: Dim.AUTO(max=2)}},
    "a formula that is negative": STRUCTURE | {"x": {0: Dim("n") - 1}},
    "a formula that the example does not fit": STRUCTURE | {"x": {0: 2 * BATCH}},
    "a Dim of two sizes": STRUCTURE | {"x": {0: BATCH, 1: BATCH}},
    "two ranges of a name": STRUCTURE | {"x": {0: Dim("n", max=9), 1: Dim("n", max=8)}},
    "no list": STRUCTURE | {"pair": None},
    "a list that is too short": STRUCTURE | {"pair": [None]},
    "a tuple for a list": STRUCTURE | {"pair": (None, None)},
    "an axis that a part does not have": STRUCTURE | {"pair": [None, {2: BATCH}]},
    "axes for a dict": STRUCTURE | {"options": {0: BATCH}},
    "an axis that the only one is not": STRUCTURE | {"options": {"mask": {1: BATCH}}},
    "a hint for a number": STRUCTURE | {"scale": Dim.DYNAMIC},
}


@pytest.mark.parametrize("shapes", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_that_names_the_input(shapes):
    with messages.raises(engine.EngineError):
        compiled(shapes)


def test_inputs_that_forward_does_not_name_are_refused():
    """torch.export fails with an assertion of its own for them, whatever their shapes are."""
    example = ((torch.randn(3, 4),), {"mask": torch.randn(3, 4)})
    for shapes in ({"x": ROWS, "mask": ROWS}, {"x": ROWS, "options": {"mask": ROWS}}, (ROWS, {"mask": None})):
        with messages.raises(engine.EngineError):
            compiled(shapes, Keywords, example)


@pytest.mark.parametrize(
    "shapes",
    [
        STRUCTURE | {"x": {0: BATCH}},
        ({-2: BATCH}, [None, None], {"mask": None}, Dim.STATIC),
        [(BATCH, 4), [(None, None), {0: 5}], {"mask": None}, None],
    ],
    ids=["by name", "from the last axis", "by position"],
)
def test_shapes_that_fit_let_the_size_vary(shapes):
    """torch.export ignores a Dim of an axis that is counted from the last one."""
    program = compiled(shapes)
    x = torch.randn(9, 4)
    torch.testing.assert_close(program(x, *EXAMPLE[1:]), Nested()(x, *EXAMPLE[1:]))
    assert list(program.graph.scope.symbols) == ["batch"]


def test_positional_inputs_without_names_are_numbered():
    example = (torch.randn(3, 4), torch.randn(5))
    program = compiled(((ROWS, None),), Several, example)
    x = torch.randn(6, 4)
    torch.testing.assert_close(program(x, example[1]), Several()(x, example[1]))
    with messages.raises(engine.EngineError):
        compiled(((ROWS, {1: BATCH}),), Several, example)


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("fallback", [None, "torch"])
def test_a_size_that_torch_fixes_by_itself_is_one_warning(size, fallback, capfd):
    """torch logs it, and the program takes no other size."""

    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2 if fallback is None else torch.lgamma(x) * 2

    with messages.warns(engine.GuardWarning) as issued:
        program = engine.compile(
            Doubled().eval(),
            (torch.randn(size, 4),),
            engine.Config(fallback=fallback),
            dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}},
        )
    assert len(issued) == 1
    assert capfd.readouterr() == ("", "")
    with pytest.raises(engine.ShapeError):
        program(torch.randn(3, 4))
    program(torch.randn(size, 7))


class Tripled(nn.Module):
    def forward(self, x):
        return x * 3 if x.shape[0] < 5 else x * 2


class Halved(nn.Module):
    def forward(self, x):
        return x / 2 if x.shape[0] > 3 else x


NARROWED = {
    "a product": (Doubled, 2 * Dim("half", min=1, max=8), (4, 16, 2)),
    "a sum": (Doubled, Dim("rows", min=0, max=8) + 1, (3, 9, 1)),
    "without a limit": (Doubled, 2 * Dim("half"), (4, 100, 2)),
    "DYNAMIC": (Doubled, Dim.DYNAMIC(min=1, max=8), (2, 8, 1)),
    "AUTO": (Tripled, Dim.AUTO(min=2, max=8), (2, 4, 5)),
    "AUTO without limits": (Tripled, Dim.AUTO, (2, 4, 5)),
    "AUTO without a maximum": (Halved, Dim.AUTO, (4, 100, 3)),
    "DYNAMIC without limits": (Halved, Dim.DYNAMIC, (4, 100, 3)),
}


@pytest.mark.parametrize(("model", "dim", "rows"), NARROWED.values(), ids=NARROWED.keys())
def test_a_range_that_torch_makes_smaller_is_a_warning(model, dim, rows):
    with messages.warns(engine.GuardWarning) as issued:
        program = compiled({"x": {0: dim}}, model, (torch.randn(4, 3),))
    assert len(issued) == 1
    *inside, outside = rows
    for count in inside:
        x = torch.randn(count, 3)
        torch.testing.assert_close(program(x), model()(x))
    with pytest.raises(engine.ShapeError):
        program(torch.randn(outside, 3))


class Four(nn.Module):
    def forward(self, x):
        return x / 4 if x.shape[0] == 4 else x


def test_a_size_that_the_code_fixes_though_it_is_left_to_torch_is_a_warning():
    with messages.warns(engine.GuardWarning) as issued:
        program = compiled({"x": {0: Dim.AUTO}}, Four, (torch.randn(4, 3),))
    assert len(issued) == 1
    with pytest.raises(engine.ShapeError):
        program(torch.randn(5, 3))


@pytest.mark.parametrize(
    "dim", [2 * Dim("half", min=2, max=8), Dim("rows", min=2, max=8) - 1, Dim.AUTO, Dim.DYNAMIC(min=2, max=8), BATCH]
)
@pytest.mark.filterwarnings("error")
def test_a_range_that_the_program_takes_as_it_is_gets_no_warning(dim):
    compiled({"x": {0: dim}}, Doubled, (torch.randn(4, 3),))


@pytest.mark.parametrize("limits", [{"min": 1.5, "max": 8.5}, {"min": "1"}, {"min": True, "max": 8}], ids=str)
def test_limits_of_a_dim_are_whole_numbers(limits):
    with messages.raises(engine.EngineError):
        compiled({"x": {0: Dim("rows", **limits)}}, Doubled, (torch.randn(4, 3),))


def test_a_collection_names_the_sizes_by_their_tensors():
    x, pair, options, scale = EXAMPLE
    shapes = ShapesCollection()
    shapes[x] = ROWS
    shapes[options["mask"]] = {0: Dim("length", max=64)}
    program = compiled(shapes)
    given = torch.randn(9, 4), pair, {"mask": torch.randn(30)}, scale
    torch.testing.assert_close(program(*given), Nested()(*given))
    shapes[torch.randn(2)] = ROWS
    with pytest.raises(engine.EngineError, match=r"^dynamic_shapes: .*not found"):
        compiled(shapes)


def test_a_size_of_an_input_may_be_a_product_of_sizes_of_others():
    """torch finds it so: there is no symbol of the size alone."""

    class Table(nn.Module):
        def forward(self, x, rows, columns):
            return x.reshape(rows.shape[0], columns.shape[0]) * 2 + rows[:, None] + columns

    def inputs(rows, columns):
        return torch.randn(rows * columns), torch.randn(rows), torch.randn(columns)

    model = Table().eval()
    program = engine.compile(model, inputs(3, 4), dynamic_shapes=({0: Dim.AUTO},) * 3)
    for given in (inputs(3, 4), inputs(5, 2), inputs(7, 11)):
        torch.testing.assert_close(program(*given), model(*given), rtol=0, atol=0)
    with messages.raises(engine.ShapeError):
        program(torch.randn(12), *inputs(7, 2)[1:])


def test_a_dim_that_torch_takes_for_a_product_of_others_is_named():
    class Flat(nn.Module):
        def forward(self, x, y):
            return x.reshape(-1) + y

    rows, columns, both = Dim("rows", max=64), Dim("columns", max=64), Dim("both", max=4096)
    shapes = ({0: rows, 1: columns}, {0: both})
    with messages.warns(engine.GuardWarning):
        engine.compile(Flat().eval(), (torch.randn(4, 3), torch.randn(12)), dynamic_shapes=shapes)


@pytest.mark.parametrize("make", [nn.MaxPool2d, nn.AvgPool2d])
@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 3, 0)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pooling_of_two_sizes_takes_all_that_torch_allows(make, window, stride, padding, ceil_mode):
    """The sizes that the decomposition and torch compute are written in two ways and are equal at every size."""
    model = make(window, stride, padding, ceil_mode=ceil_mode).eval()
    either = Dim.AUTO(min=6, max=64)
    program = engine.compile(model, (torch.randn(1, 2, 10, 13),), dynamic_shapes=({2: either, 3: either},))
    assert not program.report().guards
    for height, width in ((10, 13), (7, 12), (16, 9), (33, 6)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(program(x), model(x))


def test_max_pooling_of_two_named_sizes_excludes_none(recwarn):
    height, width = Dim("height", min=4, max=64), Dim("width", min=4, max=64)
    program = engine.compile(
        nn.MaxPool2d(2).eval(), (torch.randn(1, 2, 10, 13),), dynamic_shapes=({2: height, 3: width},)
    )
    assert not [str(warning.message) for warning in recwarn if warning.category is engine.GuardWarning]
    assert not program.report().guards
