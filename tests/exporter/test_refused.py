"""What is refused: one clear error that names every offender with its line in the user's model."""

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import engine
from engine.errors import ConfigError, EngineError, ShapeError, UnsupportedOp
from engine.exporter import export
from tests import messages
from tests.exporter.cases import f32, flags, i64

HERE = str(Path(__file__))


class Function(nn.Module):
    """As `tests.modules.Function`; here because refusals name the line of the call in this file."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def refusal(function, *inputs):
    with pytest.raises(UnsupportedOp) as caught:
        export(Function(function).eval(), inputs)
    return caught.value.offenders


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


class Several(nn.Module):
    def forward(self, x):
        y = torch.fft.rfft(x)  # complex numbers
        z = functional.dropout(x, 0.25, training=True)
        picked = x[x > 0]  # a shape that depends on the data
        total = picked.sum() + 1
        noise = torch.rand(3)
        number = x.sum().item()
        return y, z + x, total, noise, x * number, x.mode()[0] + 1


def test_every_offender_is_named_with_its_line():
    with pytest.raises(UnsupportedOp) as caught:
        export(Several().eval(), (f32(3, 4),))
    offenders = caught.value.offenders
    expected = [
        ("rfft", r"aten\._?fft\w*\.default: "),
        ("functional.dropout", r"aten\.\w*dropout\.default: .*random numbers"),
        ("x[x > 0]", r"aten\.index\.Tensor: indexing with a mask \(bool\[3, 4\]\) .* depends on the values"),
        ("torch.rand", r"aten\.rand\.default: it draws random numbers"),
        ("item()", r"aten\.item\.default: its result depends on the values of tensors"),
        ("x.mode()", r"aten\.mode\.default: no handler"),
    ]
    assert len(offenders) == len(expected)
    for text, pattern in expected:
        where = f"({HERE}:{line_of(Several, text)})"
        assert any(re.match(pattern, line) and line.endswith(where) for line in offenders), (pattern, where, offenders)


def test_the_message_lists_them_all():
    with messages.raises(UnsupportedOp):
        export(Function(lambda x: (x.mode()[0], torch.rand(2))).eval(), (f32(3),))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(x) + 1


def test_the_line_is_the_users_not_torchs():
    model = Noisy().eval()
    model.dropout.train()
    with pytest.raises(UnsupportedOp) as caught:
        export(model, (f32(2, 3),))
    where = f"{HERE}:{line_of(Noisy, 'self.dropout(x)')}"
    (offender,) = caught.value.offenders
    advice = "pass training=self.training, or call eval() of this layer"
    assert offender == f"aten.dropout.default: train=True with p=0.5 draws random numbers; {advice} ({where})"


def _autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.T


REFUSED = [
    ("dropout_p=0.5 draws random numbers", lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)),
    ("negative power", lambda x: x.long() ** -2),
    ("where elements lie in memory", lambda x: x.as_strided((2, 2), (1, 2))),
    ("which value goes where depends on the values", lambda x: x.index_put((x > 0,), x[0, :3].relu())),
    ("device meta is requested", lambda x: x.to("meta")),
    ("layout torch.sparse_coo", lambda x: (x, torch.zeros(2, 2, layout=torch.sparse_coo))),
    ("element type complex64", lambda x: x.to(torch.complex64)),
    ("bits of one element type", lambda x: x.view(torch.int32)),
    ("autocast", _autocast),
    ("higher-order operators", lambda x: torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))),
    (
        "it wraps aten._linalg_check_errors.default, which has no handler",
        lambda x: torch.linalg.cross(
            torch.ops.aten._linalg_check_errors(x[0].int(), "x", is_matrix=False) or x, x, dim=0
        ),
    ),
    ("a result for gradients, which are not computed", lambda x: torch.native_layer_norm(x, [4], None, None, 1e-5)[1]),
    (
        "torch interpolates uint8 by weights that it rounds",
        lambda x: functional.interpolate(x[None, None].to(torch.uint8), size=(5, 7), mode="bicubic"),
    ),
    ("not exact as a float64", lambda x: torch.full_like(x.long(), 2**62 + 1)),
    ("more than 8 axes", lambda x: (x.sum() + torch.ones([2] * 5)).repeat([2] * 5)),
]


@pytest.mark.parametrize(("reason", "function"), REFUSED, ids=[r for r, _ in REFUSED])
def test_a_refusal_says_why_and_where(reason, function):
    (offender,) = refusal(function, f32(3, 4))
    assert reason in offender
    assert HERE in offender


def test_heads_of_keys_and_values_must_agree_with_grouped_queries():
    def function(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    (offender,) = refusal(function, f32(1, 4, 3, 8), f32(1, 2, 3, 8), f32(1, 1, 3, 8))
    assert "2 heads of keys and 1 of values" in offender


def test_products_of_integers_are_refused():
    (offender,) = refusal(lambda a: a @ a, i64(3, 3))
    assert offender.startswith("aten.matmul.default: matmul: expected 'a' of a float")


def test_masks_as_indices_are_refused_whatever_else_is_indexed():
    (offender,) = refusal(lambda x, m: x[:, m].sum(), f32(3, 4), flags(4))
    assert "indexing with a mask" in offender


# --- state ------------------------------------------------------------------------------------------------------


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 4))
        self.register_buffer("steps", torch.tensor(5))

    def forward(self, x):
        self.rows.mul_(x)
        self.steps.add_(1)
        return x * 2


def test_writes_to_buffers_become_states_by_name_and_none_is_lost():
    graph = export(Steps().eval(), (f32(2, 4),))
    assert [(name, None if first is None else first.elements.tolist()) for name, first in graph.states] == [
        ("rows", None),
        ("steps", 5),
    ]
    assert [str(value.type) for value in graph.inputs] == ["float32[2, 4]", "float32[2, 4]", "int64[]"]
    assert [value.node.op.name for value in graph.outputs] == ["mul", "mul", "add"]
    assert (graph.signature.input_slots, graph.signature.output_slots) == ((0,), (0,))


class Overlapping(nn.Module):
    """Buffers over the same memory, of which forward writes to one."""

    def __init__(self, written, kind):
        super().__init__()
        self.written = written
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("a", torch.zeros(4) if kind != "a parameter" else self.weight.detach()[:2])
        if kind == "an attribute":
            self.b = self.a[:2]
        elif kind != "a parameter":
            self.register_buffer("b", self.a[:2] if kind == "a view" else self.a)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        getattr(self, self.written).add_(1.0)
        return x * self.scale + self.weight.sum() + self.a.sum() + (self.b.sum() if hasattr(self, "b") else 0)


@pytest.mark.parametrize(
    ("written", "kind"),
    [("a", "a view"), ("b", "a view"), ("a", "the same"), ("a", "an attribute"), ("a", "a parameter")],
)
def test_writes_to_memory_that_tensors_share_are_told_with_the_names(written, kind):
    with messages.raises(EngineError):
        export(Overlapping(written, kind).eval(), (f32(3),))


def test_a_view_of_a_buffer_that_forward_takes_from_it_sees_its_writes():
    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(4))

        def forward(self, x):
            self.a[:2].add_(1.0)
            return x + self.a.sum() + self.a[:2].sum()

    program = engine.compile(Once().eval(), (f32(3),))
    state, model = program.new_state(), Once()
    for _ in range(2):
        torch.testing.assert_close(program(torch.ones(3), state=state), model(torch.ones(3)))


def test_writes_to_inputs_are_refused_by_the_inputs_name():
    (offender,) = refusal(lambda x: x.add_(1), f32(3))
    assert offender.startswith("user input args_0: the model writes to it")
    assert offender.endswith("clone the input first, and write to the clone")


@pytest.mark.parametrize("other", [torch.float16, torch.int64])
def test_a_product_that_torch_refuses_to_run_is_not_left_to_torch(other):
    """torch.export takes it: only a run compares the types."""

    class Mixed(nn.Module):
        def forward(self, x, y):
            return x @ y

    inputs = f32(2, 3), torch.ones(3, 2, dtype=other)
    with pytest.raises(RuntimeError, match="same dtype"):
        Mixed()(*inputs)
    with messages.raises(engine.UnsupportedOp) as e:
        engine.compile(Mixed().eval(), inputs)
    assert not e.value.hint


@pytest.mark.parametrize("fallback", [None, "torch"])
def test_a_model_that_writes_to_an_input_is_told_to_clone_it_and_not_to_let_torch_run_it(fallback):
    with messages.raises(UnsupportedOp):
        engine.compile(Writing().eval(), (f32(3),), engine.Config(fallback=fallback))


class Writing(nn.Module):
    def forward(self, x):
        return x.add_(1)


def test_a_batch_norm_in_training_is_refused_not_frozen():
    model = nn.Sequential(nn.BatchNorm1d(4)).eval()
    model[0].train()
    with messages.raises(UnsupportedOp):
        export(model, (f32(3, 4),))


# --- what torch.export cannot take ------------------------------------------------------------------------------


def _branches(x):
    if x.sum() > 0:
        return x
    return x * 2


def _mismatch(x):
    return x @ torch.ones(7, 7)


def _raises(_x):
    raise ValueError("the user's own complaint")


def _compares(x):
    if torch.equal(x, x + 0):
        return x
    return x * 2


def _solves(x):
    return torch.linalg.lstsq(x, x)


def _slices(x):
    return torch.narrow(x, 0, x[0, 0].long(), 2)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_branches, "if x.sum()"),
        (_mismatch, "x @"),
        (_raises, "raise ValueError"),
        (_compares, "if torch.equal"),
        (_solves, "linalg.lstsq"),
        (_slices, "torch.narrow"),
    ],
)
def test_what_torch_cannot_capture_is_one_sentence_with_the_users_line(function, text):
    with messages.raises(EngineError) as caught:
        export(Function(function).eval(), (f32(3, 4),))
    message = str(caught.value)
    assert message.endswith(f" ({HERE}:{line_of(function, text)})")
    assert "\n" not in message


def test_what_the_model_prints_is_still_printed(capsys):
    def function(x):
        sys.stderr.write("hello\n")
        return x

    export(Function(function).eval(), (f32(3),))
    assert capsys.readouterr().err == "hello\n"


def test_a_missing_argument_is_one_sentence():
    with messages.raises(EngineError):
        export(nn.Linear(3, 3).eval(), ())


# --- arguments --------------------------------------------------------------------------------------------------


def test_training_mode_is_refused():
    with messages.raises(ConfigError):
        export(nn.Linear(3, 3), (f32(2, 3),))


def test_a_lazy_layer_that_was_never_called_is_named():
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).eval()
    with messages.raises(ConfigError):
        export(model, (f32(2, 3),))
    model(f32(2, 3))
    export(model, (f32(2, 3),))


@pytest.mark.parametrize(
    ("model", "inputs", "error"),
    [
        ("a string", (f32(3),), ConfigError),
        (nn.Linear, (f32(3),), ConfigError),
        (nn.ReLU().eval(), f32(3), ConfigError),
        (nn.ReLU().eval(), (f32(3).to("meta"),), ShapeError),
        (nn.ReLU().eval(), (f32(3, 3).to_sparse(),), ShapeError),
        (nn.Linear(3, 3, device="meta").eval(), (f32(3),), ConfigError),
        (nn.ReLU().eval(), ((), {"input": [f32(3), f32(3).to("meta"), f32(3)]}), ShapeError),
        (nn.Identity().eval(), (f32(3).to(torch.complex64),), UnsupportedOp),
    ],
    ids=[
        "a text",
        "a class",
        "no tuple",
        "an input on meta",
        "a sparse input",
        "a weight on meta",
        "a part of an input on meta",
        "complex numbers",
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(model, inputs, error):
    with messages.raises(error):
        export(model, inputs)


def test_dynamic_shapes_that_the_model_breaks_are_named():
    class Ten(nn.Module):
        def forward(self, x):
            return x + torch.ones(10)

    for size in (torch.export.Dim("batch"), torch.export.Dim.DYNAMIC):
        with messages.raises(EngineError):
            export(Ten().eval(), (f32(10),), dynamic_shapes={"x": {0: size}})


def test_a_size_that_an_input_left_out_of_dynamic_shapes_fixes_is_named():
    class Masked(nn.Module):
        def forward(self, x, mask):
            return x * mask

    length = torch.export.Dim("length")
    with messages.raises(EngineError):
        export(Masked().eval(), (f32(10), f32(10)), dynamic_shapes={"x": {0: length}, "mask": None})


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (2, 0), (3, 0), (3, 1), (3, -1)])
def test_a_dim_of_1_in_the_example_is_no_fault_of_the_code(factor, offset):
    batch = torch.export.Dim("b", min=1, max=64)
    size = batch if factor == 1 else factor * batch
    size = size + offset if offset else size
    with messages.raises(EngineError):
        export(nn.ReLU().eval(), (f32(factor + offset, 4),), dynamic_shapes={"input": {0: size}})
    export(nn.ReLU().eval(), (f32(2 * factor + offset, 4),), dynamic_shapes={"input": {0: size}})


def test_other_demands_on_dynamic_shapes_name_sizes_as_python_does():
    class Few(nn.Module):
        def forward(self, x):
            assert x.shape[0] < 9
            return x + 1

    with messages.raises(EngineError):
        export(Few().eval(), (f32(4),), dynamic_shapes={"x": {0: torch.export.Dim("batch", max=12)}})


class Squared(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] ** 2 == 16 else x


class Paired(nn.Module):
    def forward(self, x):
        return x.reshape(2, -1) if x.shape[0] > 3 else x


@pytest.mark.parametrize("model", [Squared, Paired])
def test_a_demand_on_a_dim_is_told_in_torchs_words(model):
    with messages.raises(EngineError):
        export(model().eval(), (f32(4, 2),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})


@pytest.mark.parametrize(("least", "most", "size"), [(4, 5, 4), (2, 3, 2), (3, 5, 4)])
def test_a_range_with_one_size_that_the_code_takes_is_no_mistake_in_the_dim(least, most, size):
    class Even(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] % 2 == 0 else x

    with messages.raises(EngineError):
        export(Even().eval(), (f32(size, 2),), dynamic_shapes={"x": {0: torch.export.Dim("b", min=least, max=most)}})
    left_to_torch = torch.export.Dim.AUTO(min=least, max=most)
    export(Even().eval(), (f32(size, 2),), dynamic_shapes={"x": {0: left_to_torch}})


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    "dim", [torch.export.Dim("batch", min=0, max=16), torch.export.Dim.DYNAMIC], ids=["a Dim", "DYNAMIC"]
)
def test_an_example_of_size_0_or_1_for_a_size_that_varies_is_named_as_the_cause(size, dim):
    with messages.raises(EngineError):
        export(nn.Linear(64, 8).eval(), (f32(size, 64),), dynamic_shapes={"input": {0: dim}})


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_output_padding_that_torch_refuses_is_refused(axes):
    """Eager raises when it runs; an exported program would only have a shape."""
    layer = getattr(nn, f"ConvTranspose{axes}d")(2, 3, 3, stride=2, output_padding=2)
    with messages.raises(ShapeError):
        export(layer.eval(), (f32(1, 2, *[3] * axes),))


def test_a_failure_without_a_text_in_a_decomposition_is_named_by_its_class():
    """torch adds a description of the node that failed, which says nothing to the user."""
    calls = []

    @torch.library.custom_op("tests_of_refusals::shy", mutates_args=())
    def shy(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @shy.register_fake
    def _(x):
        calls.append(x)
        if len(calls) > 1:
            raise AssertionError
        return torch.empty_like(x)

    class Shy(nn.Module):
        def forward(self, x):
            return torch.addr(x, shy(x)[0], x[0])  # torch decomposes addr, and calls the operator again

    with messages.raises(EngineError):
        export(Shy().eval(), (f32(3, 3),))


def test_an_operator_without_a_fake_is_told_with_the_way_to_register_one():
    library = torch.library.Library("tests_of_refusals_without_fake", "FRAGMENT")
    library.define("triple(Tensor x) -> Tensor")
    library.impl("triple", lambda x: x * 3, "CPU")
    with messages.raises(EngineError):
        engine.compile(Function(torch.ops.tests_of_refusals_without_fake.triple).eval(), (f32(3),))
