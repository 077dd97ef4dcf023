"""Views of constants are constants whose elements nobody has read: their values, their copies, what stays a node."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.encodings import FAMILIES
from engine.errors import ProgramError
from engine.graph import Graph, can_cut, can_reshape, elements, identity, list_constants, share_constants, verify
from engine.ops import TensorType
from engine.passes import PASSES, pipeline
from engine.program import container, document_of
from engine.targets import interpreter
from engine.targets.interpreter import INTERPRETER
from tests import messages
from tests.graphs import ops, run_pass

SHAPE = (64, 4, 128)
VIEWS = [
    ("permute", {"axes_order": (2, 0, 1)}, lambda x: x.transpose(2, 0, 1)),
    ("permute", {"axes_order": (1, 0, 2)}, lambda x: x.transpose(1, 0, 2)),
    ("reshape", {"shape": (64, 2, 2, 128)}, lambda x: x.reshape(64, 2, 2, 128)),
    ("slice", {"axis": 1, "start": 1, "stop": 3, "step": 1}, lambda x: x[:, 1:3]),
    ("slice", {"axis": 0, "start": 3, "stop": 60, "step": 1}, lambda x: x[3:60]),
    ("slice", {"axis": 2, "start": 0, "stop": 64, "step": 1}, lambda x: x[:, :, :64]),
    ("slice", {"axis": 2, "start": 1, "stop": 128, "step": 3}, lambda x: x[:, :, 1:128:3]),
]
ENCODINGS = [
    encoding.along(axis)
    for encoding in FAMILIES.values()
    for axis in (range(3) if encoding.per in ("channel", "group") else (0,))
    if encoding.per != "group" or SHAPE[axis] % encoding.group == 0
]


def data(*shape):
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def begin(*shape, dtype="float32"):
    graph = Graph("views")
    return graph, graph.add_input("x", TensorType(dtype, shape))


def results(graph, x):
    return interpreter.run(graph, [x])


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "attributes", "expected"), VIEWS)
def test_a_view_of_a_constant_has_its_elements_without_a_copy(op, attributes, expected):
    graph, x = begin(1)
    source = data(*SHAPE)
    graph.outputs = [graph.emit(op, [graph.constant(source)], **attributes), x]
    assert run_pass(graph, "fold_constants") == [1]
    assert graph.nodes == []
    np.testing.assert_array_equal(graph.outputs[0].elements, expected(source))
    assert np.shares_memory(graph.outputs[0].elements, source)


def test_a_chain_of_views_has_the_elements_and_the_identity_of_its_shortest_form():
    graph, x = begin(1)
    source = graph.constant(data(*SHAPE))
    first = graph.emit("permute", [source], axes_order=(1, 2, 0))
    back = graph.emit("permute", [first], axes_order=(2, 0, 1))
    last = graph.emit("slice", [graph.emit("reshape", [first], shape=(512, 64))], axis=0, start=8, stop=9, step=1)
    graph.outputs = [back, last, x]
    assert run_pass(graph, "fold_constants") == [4]
    assert identity(graph.outputs[0].form) == identity(source.form)
    np.testing.assert_array_equal(graph.outputs[1].elements, source.elements.transpose(1, 2, 0).reshape(512, 64)[8:9])


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.parametrize(("op", "attributes", "expected"), VIEWS)
def test_a_view_of_an_encoded_constant_has_its_components_or_stays(encoding, op, attributes, expected):
    """`embedding` reads tables of any rank and encoding."""
    source = data(*SHAPE)
    decoded = encoding.decode(encoding.encode(source), "float32")
    graph, ids = begin(5, dtype="int64")
    table = graph.emit(op, [graph.encode(graph.constant(source), encoding)], **attributes)
    graph.outputs = [graph.emit("embedding", [table, ids])]
    at = np.array([0, 2, 1, 1, 0])
    fits = {
        "permute": lambda: True,
        "reshape": lambda: can_reshape(TensorType("float32", SHAPE, encoding), attributes["shape"]),
        "slice": lambda: can_cut(TensorType("float32", SHAPE, encoding), *attributes.values()),
    }[op]()
    assert PASSES["fold_constants"].run(graph) == fits
    verify.graph(graph)
    assert ops(graph) == ["embedding"] if fits else [op, "embedding"]
    read = graph.nodes[-1].operand("table")
    assert (read.type.encoding is not None) == fits
    np.testing.assert_array_equal(results(graph, at)[0], expected(decoded)[at])


def test_an_encoding_fits_where_its_blocks_are_whole():
    """What the test above takes from `can_cut` and `can_reshape`, said once in numbers."""
    groups, channels = FAMILIES["int4_group32"], FAMILIES["int8_channel"]
    on_last, on_first = (TensorType("float32", SHAPE, groups.along(axis)) for axis in (2, 0))
    assert can_cut(on_last, 2, 32, 96, 1)
    assert not can_cut(on_last, 2, 16, 96, 1)
    assert not can_cut(on_first, 1, 0, 4, 2)
    assert can_reshape(on_last, (256, 1, 128)) is False
    assert can_reshape(TensorType("float32", SHAPE, channels.along(0)), (64, 512))
    assert not can_reshape(TensorType("float32", SHAPE, channels.along(2)), (64, 512))


# --- what is left alone ----------------------------------------------------------------------------------------------


@pytest.fixture
def turned():
    """A graph with the transpose of an encoded matrix, which nothing reads yet."""
    graph, x = begin(3, 32)
    encoded = graph.encode(graph.constant(data(64, 32)), FAMILIES["int8_channel"])
    return graph, x, graph.emit("permute", [encoded], axes_order=(1, 0))


def test_an_encoded_view_is_folded_for_readers_that_take_it(turned):
    graph, x, weight = turned
    graph.outputs = [graph.emit("matmul", [x, weight])]
    (before,) = results(graph, data(3, 32))
    assert PASSES["fold_constants"].run(graph) == 1
    assert str(graph.nodes[0].operand("b").type.encoding) == "int8_channel@1"
    np.testing.assert_array_equal(results(graph, data(3, 32))[0], before)


@pytest.mark.parametrize("reader", ["neg", "output", "one of two"])
def test_an_encoded_view_stays_where_a_reader_needs_its_elements(turned, reader):
    graph, x, weight = turned
    if reader in ("neg", "one of two"):
        graph.outputs = [graph.emit("neg", [weight])]
    if reader == "output":
        graph.outputs = [weight]
    if reader == "one of two":
        graph.outputs = [*graph.outputs, graph.emit("matmul", [x, weight])]
    before = results(graph, data(3, 32))
    for name in ("fold_constants", "simplify_views", "absorb_transpose", "fold_constants"):
        assert PASSES[name].run(graph) == 0
    verify.graph(graph)
    for old, new in zip(before, results(graph, data(3, 32)), strict=True):
        np.testing.assert_array_equal(old, new)


def linear_of(graph, view, **attributes):
    """A product of the view by a matrix, as rows."""
    encoded = graph.encode(graph.constant(data(4, 8, 32)), FAMILIES["int8_channel"])
    x = graph.emit(view, [encoded], **attributes)
    return graph.emit("linear", [x, graph.constant(data(16, x.shape[-1])), None, None])


def permuted_rows(graph):
    return graph.emit("permute", [linear_of(graph, "permute", axes_order=(1, 0, 2))], axes_order=(1, 0, 2))


def reshaped_rows(graph):
    return graph.emit("reshape", [linear_of(graph, "reshape", shape=(32, 32))], shape=(4, 8, 16))


def image(graph):
    encoded = graph.encode(graph.constant(data(2, 5, 6, 3)), FAMILIES["bfloat16"])
    x = graph.emit("permute", [encoded], axes_order=(0, 3, 1, 2))
    ends = dict.fromkeys(("low", "high"), (0, 0))
    return graph.emit("conv", [x, graph.constant(data(4, 3, 3, 3)), None, None], stride=(1, 1), dilation=(1, 1), **ends)


def heads(graph):
    x = graph.add_input("q", TensorType("float32", (1, 4, 5, 8)))
    encoded = graph.encode(graph.constant(data(1, 2, 5, 8)), FAMILIES["int8_channel"])
    key = graph.emit("reshape", [encoded], shape=(1, 2, 1, 5, 8))
    key = graph.emit("reshape", [graph.emit("expand", [key], shape=(1, 2, 2, 5, 8))], shape=(1, 4, 5, 8))
    return graph.emit("attention", [x, key, key, None], scale=1.0)


@pytest.mark.parametrize("make", [permuted_rows, reshaped_rows, image, heads])
def test_no_pass_looks_through_a_view_that_decodes(make):
    """Each is a graph in which a pass would read what the view is of, if that were elements."""
    graph = Graph("decodes")
    graph.outputs = [make(graph)]
    arrays = [data(*value.shape) for value in graph.inputs]
    before = interpreter.run(graph, arrays)[0]
    for name in pipeline("cpu"):
        PASSES[name].run(graph)
        verify.graph(graph)
    after = interpreter.run(graph, arrays)[0]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_a_view_that_changes_nothing_still_decodes():
    """`neg` does not take the encoded constant itself."""
    graph, _x = begin(1)
    encoded = graph.encode(graph.constant(data(8, 32)), FAMILIES["q8_0"].along(1))
    graph.outputs = [graph.emit("neg", [graph.emit("reshape", [encoded], shape=(8, 32))])]
    assert PASSES["simplify_views"].run(graph) == 0
    verify.graph(graph)


# --- one copy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [None, "bfloat16", "int8_channel", "int4_group32"])
@pytest.mark.parametrize("op", ["matmul", "linear"])
def test_the_transpose_of_a_constant_is_absorbed(op, family):
    graph, x = begin(3, 64)
    weight = graph.constant(data(32, 64))
    if family is not None:
        weight = graph.encode(weight, FAMILIES[family].along(int(FAMILIES[family].per == "group")))
    constant = graph.permuted(weight, (1, 0))
    how = {"transpose_weight": False} if op == "linear" else {}
    graph.outputs = [graph.emit(op, [x, constant, *[None] * (2 * (op == "linear"))], **how)]
    (before,) = results(graph, data(3, 64))
    assert PASSES["absorb_transpose"].run(graph) == 1
    verify.graph(graph)
    (node,) = graph.nodes
    read = node.inputs[1]
    assert read.key == weight.key
    np.testing.assert_array_equal(results(graph, data(3, 64))[0], before)


def test_constants_with_one_identity_have_one_number():
    graph, x = begin(64)
    weight = graph.constant(data(32, 64))
    views = [graph.permuted(graph.permuted(weight, (1, 0)), order) for order in [(0, 1), (1, 0), (0, 1)]]
    graph.outputs = [graph.emit("linear", [x, v, None, None], transpose_weight=v.shape == (32, 64)) for v in views]
    _document, constants = document_of(graph)
    assert sorted(elements(form).shape for form in constants.values()) == [(32, 64), (64, 32)]
    assert PASSES["common_subexpressions"].run(graph) == 1


class Tied(nn.Module):
    """A table that is read as rows and, transposed, by a product."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 32)

    def forward(self, ids):
        return self.table(ids) @ self.table.weight.t()


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_tied_table_is_stored_once(target, tmp_path):
    model, ids = Tied().eval(), torch.arange(7)
    program = engine.compile(model, (ids,), engine.Config(target=target))
    assert program.graph.weight_bytes == 200 * 32 * 4
    program.save(tmp_path / "p.engine")
    assert tensor_sizes(tmp_path / "p.engine") == [200 * 32 * 4]
    for mmap in (False, True):
        again = engine.load(tmp_path / "p.engine", mmap=mmap, config=engine.Config(target=target))
        np.testing.assert_allclose(np.asarray(again(ids)), model(ids).detach().numpy(), rtol=1e-4, atol=1e-4)


def tensor_sizes(path):
    with container.opened(path, mapped=False) as (_header, tensors):
        return sorted(len(read().tobytes()) for read in tensors.values())


class Causal(nn.Module):
    """A decoder that reads rows of a transposed weight, and a product by one with its axes in another order."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(48, 32)
        self.columns = nn.Parameter(torch.randn(32, 40))
        self.heads = nn.Parameter(torch.randn(4, 32, 8))
        self.register_buffer("seen", torch.zeros(1, 8, 32))

    def forward(self, ids, position, lengths):
        places = position[0] + torch.arange(ids.shape[1])
        self.seen.index_copy_(1, places, self.table(ids) + self.columns.t()[ids])
        kept = (torch.arange(8) < lengths[0])[None, :, None]
        return torch.where(kept, self.seen, 0.0).sum(1) @ self.heads.permute(1, 0, 2).reshape(32, 32)


@pytest.mark.parametrize("target", ["cpu", pytest.param("interpreter", marks=pytest.mark.long)])
def test_prefill_and_decode_of_a_decoder_share_views_of_weights(target, tmp_path):
    torch.manual_seed(0)
    module, config = Causal().eval().requires_grad_(requires_grad=False), engine.Config(target=target)
    decoder = engine.compile_decoder(module, 8, config=config)
    decoder.save(tmp_path / "d.engine")
    assert [size for size in tensor_sizes(tmp_path / "d.engine") if size > 1024] == [
        32 * 32 * 4,
        40 * 32 * 4,
        48 * 32 * 4,
    ]
    ids = torch.tensor([[3, 1, 4]])
    rows = (module.table(ids) + module.columns.t()[ids]).sum(1)
    expected = rows @ module.heads.permute(1, 0, 2).reshape(32, 32)
    loaded = (engine.load_decoder(tmp_path / "d.engine", mmap=mmap, config=config) for mmap in (False, True))
    for one in (decoder, *loaded):
        np.testing.assert_allclose(np.asarray(one.prefill(ids)), expected.numpy(), rtol=1e-4, atol=1e-4)


# --- programs --------------------------------------------------------------------------------------------------------

TURN = """
from engine.passes.base import Pass

def run(graph):
    nodes = [n for n in graph.nodes if n.op.name == "linear"]
    for node in nodes:
        weight = graph.permuted(node.operand("weight"), (1, 0))
        flag = not node.attributes["transpose_weight"]
        graph.replace(node.output, graph.emit_again(node, {"weight": weight}, transpose_weight=flag))
    graph.remove(nodes)
    return len(nodes)

PASS = Pass("turn", run, target="TARGET")
"""


class Kept(nn.Module):
    """A weight that is packed, a table that is not."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 64)
        self.linear = nn.Linear(64, 96)

    def forward(self, ids):
        return self.linear(self.table(ids))


@pytest.fixture(params=["cpu", "interpreter"])
def turn(request, tmp_path):
    """The config of a target, with a pass of it that stores weights of linears in the other order."""
    (tmp_path / "turn.py").write_text(TURN.replace("TARGET", request.param))
    return engine.Config(target=request.param, passes=(f"{tmp_path / 'turn.py'}:run",))


@pytest.mark.filterwarnings("ignore::engine.StaleWeightsWarning")  # the test is about weights that change
def test_a_program_that_is_lowered_to_permuted_weights_is_saved_as_it_was_compiled(turn, tmp_path):
    torch.manual_seed(0)
    model, ids = Kept().eval().requires_grad_(requires_grad=False), torch.arange(5)
    expected = model(ids).numpy()
    plain, program = (engine.compile(model, (ids,), one) for one in (engine.Config(target=turn.target), turn))
    weight = model.linear.weight.numpy().copy()
    model.linear.weight.fill_(np.nan)  # nothing refers to the model any more
    np.testing.assert_allclose(np.asarray(program(ids)), expected, rtol=1e-4, atol=1e-5)
    (stored,) = (v.elements for v in program.lowered.stored_constants() if v.shape == (64, 96))
    np.testing.assert_array_equal(stored, weight.T)
    program.save(tmp_path / "p.engine")
    assert tensor_sizes(tmp_path / "p.engine") == tensor_sizes_of(plain, tmp_path)
    assert checksums(program) == checksums(plain)
    for mmap in (False, True):
        again = engine.load(tmp_path / "p.engine", mmap=mmap, config=turn)
        np.testing.assert_array_equal(np.asarray(again(ids)), np.asarray(program(ids)))
        again.save(tmp_path / "again.engine")
        assert engine.load(tmp_path / "again.engine").digest == program.digest


def checksums(program):
    _document, constants = document_of(program.graph)
    return {number: constant.checksum for number, constant in constants.items()}


def tensor_sizes_of(program, folder):
    program.save(folder / "plain.engine")
    return tensor_sizes(folder / "plain.engine")


def test_constants_of_a_compiled_program_are_in_memory_once_after_a_pass_permutes_them(turn):
    program = engine.compile(Kept().eval(), (torch.arange(5),), turn)
    constants = list_constants([program.graph])
    assert len(constants) == 3
    assert set(constants) == set(list_constants([program.lowered])), "the graphs share each constant"
    assert "borrowed" not in {constant.state for constant in constants}


def test_a_mapped_program_with_permuted_weights_is_not_saved_after_its_file_changed(turn, tmp_path):
    path = tmp_path / "p.engine"
    engine.compile(Kept().eval(), (torch.arange(5),), engine.Config(target=turn.target)).save(path)
    program = engine.load(path, mmap=True, config=turn)
    _ = program.digest
    with path.open("r+b") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        file.seek(start)
        file.write(bytes(path.stat().st_size - start))
    with messages.raises(ProgramError):
        program.save(tmp_path / "again.engine")


def test_the_interpreter_computes_a_constant_once():
    graph, x = begin(3, 64)
    counted = []

    def make():
        counted.append(1)
        return data(32, 64)

    graph.outputs = [graph.emit("linear", [x, graph.later(make, TensorType("float32", (32, 64)), "w"), None, None])]
    share_constants([graph])
    config = engine.Config(target="interpreter")
    context = INTERPRETER.executable(graph, config, INTERPRETER.new_prepared()).context()
    for _ in range(3):
        out = np.empty((3, 32), np.float32)
        context.run([data(3, 64)], [out])
    assert len(counted) == 1
    np.testing.assert_allclose(out, data(3, 64) @ data(32, 64).T, rtol=1e-4, atol=1e-5)
