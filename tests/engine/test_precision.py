"""`Config.precision`: which weights are stored how, what that does to results, and where it is refused."""

from __future__ import annotations

import copy
import math
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import engine
from engine import targets
from engine.encodings import BFLOAT16, FAMILIES
from engine.errors import ConfigError
from engine.graph import Graph
from engine.ops import TensorType
from engine.ops.arithmetic import MOST_SUMMED
from engine.passes.precision import PRECISIONS
from engine.program import container
from engine.targets import interpreter
from engine.targets.cpu import native
from suites import models
from tests import messages
from tests.exports import export_model

TINY = [name for name in models.names() if name.endswith("-tiny") and name != "attention-tiny"]  # which has no weights
ENCODED = [name for name in PRECISIONS if name != "fp32"]


def compiled(model, inputs, precision, **switches):
    config = engine.Config(target="interpreter", precision=precision, verify=True, **switches)
    return engine.compile(model, inputs, config)


def arrays(result):
    return [np.asarray(one) for one in tree_leaves(result)]


def encodings(program):
    return {str(v.type.encoding) for v in program.graph.constants() if v.components}


SOME = {
    *(("transformer-tiny", precision) for precision in ENCODED if precision != "int4_weight"),
    ("cifar10-cnn-tiny", "int8_weight_tensor"),
    ("cifar10-cnn-tiny", "int8_dynamic"),
    ("mamba-tiny", "int8_weight"),
    ("qwen3-tiny", "int4_weight"),
}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(name, precision, marks=() if (name, precision) in SOME else pytest.mark.long)
        for name in TINY
        for precision in ENCODED
    ],
)
def test_tiny_models_run_in_every_precision_and_alike_after_loading(name, precision, tmp_path):
    _model, inputs, exported = export_model(name)
    plain, program = (compiled(exported, inputs, one) for one in (None, precision))
    assert program.graph.weight_bytes < plain.graph.weight_bytes
    assert encodings(program)
    state = {"state": program.new_state()} if program.graph.states else {}
    got = arrays(program(*inputs, **state))
    program.save(tmp_path / "p.engine")
    loaded = engine.load(tmp_path / "p.engine", config=engine.Config(target="interpreter"))
    assert loaded.digest == program.digest
    on_cpu = engine.load(tmp_path / "p.engine", config=references_of(program))
    for again in (loaded, on_cpu):
        state = {"state": again.new_state()} if again.graph.states else {}
        # Where a processor multiplies no bfloat16, convolutions multiply floats, and x is not rounded to 8 bits.
        tolerance = 2**-7 if count_narrow(again.lowered) != count_narrow(again.graph) else 0
        for expected, result in zip(got, arrays(again(*inputs, **state)), strict=True):
            np.testing.assert_allclose(expected, result, rtol=0, atol=tolerance * np.abs(expected).max())


def count_narrow(graph):
    """Number of products of bfloat16."""
    return sum(node.attributes.get("compute") == "bfloat16" for node in graph.nodes)


def references_of(program):
    """The cpu, with a reference kernel for every op of `program` that has one."""
    known = {kernel.op for kernel in native.kernels() if kernel.variant == "reference"}
    used = {node.op.name for node in program.graph.nodes}
    return engine.Config(variant=dict.fromkeys(used & known, "reference"))


SLOW = {"bf16": 0, "fp16": 0, "int8_weight": 0, "int8_weight_tensor": 0, "int8_dynamic": 0, "int4_weight": 3}
"""Precision -> launches of the network below that no fast kernel computes. Fast kernels compute linear layers
and embeddings with weights of 16 or 8 bits, and all convolutions. Groups of 4 bits do not fit the last layer."""


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param(one, marks=() if one in ("bf16", "int8_dynamic", "int4_weight") else pytest.mark.long)
        for one in ENCODED
    ],
)
def test_the_cpu_runs_every_precision_and_reports_what_is_slow(net, precision):
    model, inputs = net
    program = engine.compile(model, inputs, engine.Config(precision=precision))
    (expected,) = interpreter.run(program.lowered, arrays(inputs))
    np.testing.assert_allclose(program(*inputs), expected, rtol=1e-5, atol=1e-5)  # float32 kernels between the products
    report = program.report()
    slow = SLOW[precision]
    assert report.slow_launches == sum(n for name, n in report.kernels if name.endswith("_reference")) == slow
    if not slow:
        assert report.slow_flops == 0
        assert "slow" not in str(report)
        return
    assert 0 < report.slow_flops < report.flops
    assert re.search(
        rf"{slow} of \d+ launches \(\d+% of the FLOPs\) use slow kernels: "
        r".*linear of float32 and int.*\.$",
        str(report),
    )


@pytest.mark.parametrize("size", [1, 3, 65537])
def test_products_of_bytes_have_the_bits_of_their_definition_at_any_depth(size):
    torch.manual_seed(1)
    model, x = nn.Sequential(nn.Linear(size, 5), nn.ReLU()).eval(), torch.randn(9, size)
    expected = compiled(model, (x,), "int8_dynamic")(x)
    for threads in (1, 2):
        config = engine.Config(precision="int8_dynamic", threads=threads)
        assert torch.equal(engine.compile(model, (x,), config)(x), expected)
    torch.testing.assert_close(expected, model(x), atol=0.05, rtol=0.05)


@pytest.mark.parametrize("row", [0.0, float("nan"), float("inf"), 1e6])
def test_a_row_without_digits_spoils_no_other_row(row):
    torch.manual_seed(1)
    model, x = nn.Linear(40, 5).eval(), torch.randn(3, 40)
    x[1] = 0
    x[1, 7] = row
    found = engine.compile(model, (x,), engine.Config(precision="int8_dynamic"))(x)
    torch.testing.assert_close(found[::2], model(x)[::2], atol=0.05, rtol=0.05)
    if math.isfinite(row):
        torch.testing.assert_close(found[1], model(x)[1], rtol=0.02, atol=0)
    else:
        assert found[1].isnan().all()


def test_rows_are_quantised_once_for_all_products_that_read_them():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.gate = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 16, bias=False)

        def forward(self, x):
            return torch.sigmoid(self.query(x)), self.key(x).tanh(), self.gate(x).relu()

    program = compiled(Attention().eval(), (torch.randn(3, 8),), "int8_dynamic", disable=("merge_linear",))
    ops = [node.op.name for node in program.graph.nodes]
    assert (ops.count("linear"), ops.count("quantize_rows")) == (3, 1)


def test_what_products_of_bytes_cannot_read_is_refused_by_name():
    deep, wide = nn.Linear(MOST_SUMMED + 1, 2).eval(), nn.Linear(4, 2).double().eval()
    for model, x in ((deep, torch.randn(1, MOST_SUMMED + 1)), (wide, torch.randn(1, 4).double())):
        with messages.raises(ConfigError):
            compiled(model, (x,), "int8_dynamic")


class Pictures(nn.Module):
    """Convolutions of few channels in steps of two, of every channel alone, of groups, by 1 x 1, and by 3 x 3."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.alone, self.groups = nn.Conv2d(16, 16, 5, 1, 2, groups=16), nn.Conv2d(16, 32, 3, 1, 1, groups=4)
        self.point, self.last = nn.Conv2d(32, 16, 1), nn.Conv2d(16, 16, 3, 1, 1)

    def forward(self, x):
        x = torch.relu(self.alone(torch.relu(self.norm(self.first(x)))))
        return self.last(torch.relu(self.point(torch.relu(self.groups(x))))).mean((2, 3))


@pytest.fixture
def pictures():
    torch.manual_seed(5)
    model = Pictures().eval().requires_grad_(requires_grad=False)
    model.norm.running_var.uniform_(0.5, 2)
    model.norm.running_mean.uniform_(-1, 1)
    return model, (torch.randn(1, 3, 24, 24),)


@pytest.mark.parametrize(
    "precision",
    [pytest.param(one, marks=() if one in ("bf16", "int4_weight") else pytest.mark.long) for one in ENCODED],
)
def test_no_convolution_with_a_stored_weight_is_slow(pictures, precision):
    model, inputs = pictures
    program = engine.compile(model, inputs, engine.Config(precision=precision))
    slow = [name for name, _n in program.report().kernels if name.endswith("_reference") and "_conv_" in name]
    assert not slow
    # A difference in the last bit may change how an element is rounded to bfloat16, by 2^-9 of it.
    (expected,), room = interpreter.run(program.lowered, arrays(inputs)), 1e-3 if precision == "bf16" else 1e-5
    np.testing.assert_allclose(program(*inputs), expected, rtol=room, atol=room)


@pytest.mark.parametrize("isa", ["generic", None])
def test_convolutions_multiply_floats_where_no_instruction_multiplies_bfloat16(pictures, isa):
    """Those of one group, too: then results are the bits of a float32 model that has the rounded weights."""
    model, inputs = pictures
    model.norm = nn.Identity()  # which rounds no weight a second time
    program = engine.compile(model, inputs, engine.Config(precision="bf16", isa=isa))
    kinds = {
        (n.attributes["compute"], n.operand("weight").is_plain) for n in program.lowered.nodes if n.op.name == "conv"
    }
    log = dict(program.lowered.log)
    if not targets.get("cpu").instruments.lacks("bfloat16", program.config):
        assert ("bfloat16", False) in kinds
        assert "convolutions=float32" not in log
        return
    assert (kinds, log["convolutions=float32"]) == ({("element", True)}, 3)
    assert program.report().emulated_launches == 0
    assert {n.attributes["compute"] for n in program.graph.nodes if n.op.name == "conv"} == {"bfloat16", "element"}
    for parameter in (one.weight for one in model.children() if isinstance(one, nn.Conv2d)):
        parameter.copy_(parameter.bfloat16())
    np.testing.assert_array_equal(program(*inputs), engine.compile(model, inputs, engine.Config(isa=isa))(*inputs))


def test_only_convolutions_of_one_group_round_the_other_factor_to_bfloat16(pictures):
    program = compiled(*pictures, "bf16")
    convolutions = [n for n in program.graph.nodes if n.op.name == "conv"]
    found = [(n.attributes["groups"], n.attributes["compute"]) for n in convolutions]
    assert found == [(1, "bfloat16"), (16, "element"), (4, "element"), (1, "bfloat16"), (1, "bfloat16")]
    assert all(n.operand("weight").type.encoding == BFLOAT16 for n in convolutions)


def test_convolutions_of_a_bfloat16_model_are_stored_so_where_a_batch_norm_was_folded_into_them(pictures):
    model, (x,) = pictures
    exact = model.double()(x.bfloat16().double())
    program = compiled(model.bfloat16(), (x.bfloat16(),), None)
    convolutions = [n for n in program.graph.nodes if n.op.name == "conv"]
    assert not any(n.op.name == "mul" for n in program.graph.nodes)
    assert all(n.operand("weight").type.encoding == BFLOAT16 for n in convolutions)
    # Six layers round weights or x to 8 bits, and the result is rounded once more.
    assert (program(x.bfloat16()).double() - exact).abs().max() < 2**-6 * exact.abs().max()


class Net(nn.Module):
    """One of each op that reads an encoded weight."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 64)
        self.linear = nn.Linear(64, 96)
        self.odd = nn.Linear(96, 40)
        self.last = nn.Linear(40, 8)
        self.conv = nn.Conv1d(8, 6, 3)
        self.plain = nn.LayerNorm(8)

    def forward(self, ids):
        x = self.last(torch.tanh(self.odd(torch.relu(self.linear(self.table(ids))))))
        return self.conv(self.plain(x).transpose(1, 2))


@pytest.fixture
def net():
    torch.manual_seed(3)
    return Net().eval().requires_grad_(requires_grad=False), (torch.arange(12).reshape(2, 6),)


def test_int4_stores_groups_where_they_fit_and_channels_elsewhere(net):
    program = compiled(*net, "int4_weight")
    stored = {n.op.name: [] for n in program.graph.nodes}
    for n in program.graph.nodes:
        stored[n.op.name] += [str(v.type.encoding) for v in n.inputs if v is not None and v.components]
    assert stored["embedding"] == ["int4_group32@1"]
    assert stored["linear"] == ["int4_group32@1", "int4_group32@1", "int8_channel@0"]  # 40 is no multiple of 32
    assert stored["conv"] == ["int8_channel@0"]
    assert stored["layer_norm"] == []


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8_weight", "int8_weight_tensor", "int4_weight"])
def test_results_are_those_of_the_model_with_decoded_weights(net, precision):
    """The model's own weights are replaced by what torch, or the formula of the encoding, makes of them."""
    model, inputs = net
    got = arrays(compiled(model, inputs, precision)(*inputs))[0]
    for module in (model.table, model.linear, model.odd, model.last, model.conv):
        weight = module.weight
        if precision in ("bf16", "fp16"):
            weight.copy_(weight.to({"bf16": torch.bfloat16, "fp16": torch.float16}[precision]).float())
            continue
        grouped = precision == "int4_weight" and weight.ndim == 2 and weight.shape[1] % 32 == 0
        blocks = weight.reshape(len(weight), -1, 32) if grouped else weight.reshape(len(weight), 1, -1)
        if precision == "int8_weight_tensor":
            blocks = weight.reshape(1, 1, -1)
        scale = blocks.abs().amax(-1, keepdim=True) / (7 if grouped else 127)
        weight.copy_((torch.round(blocks / scale) * scale).reshape(weight.shape))
    if precision == "bf16":  # products round the other factor, too
        for module in (model.linear, model.odd, model.last, model.conv):
            module.register_forward_pre_hook(lambda _module, args: (args[0].bfloat16().float(),))
    expected = model(*inputs).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_more_bits_are_nearer_to_the_model(net):
    model, inputs = net
    exact = model(*inputs).numpy()
    order = ("int4_weight", "int8_weight", "fp16")
    errors = [np.abs(arrays(compiled(model, inputs, one)(*inputs))[0] - exact).max() for one in order]
    assert all(more > fewer for more, fewer in pairwise(errors)), errors


def test_weights_that_are_joined_keep_one_scale_each():
    class Projections(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(32, width) for width in (8, 24, 16))

        def forward(self, x):
            return self.query(x), self.key(x), self.value(x)

    torch.manual_seed(0)
    model = Projections().eval().requires_grad_(requires_grad=False)
    for factor, module in enumerate(model.children()):
        module.weight.mul_(10**factor)
    program = compiled(model, (torch.randn(3, 32),), "int8_weight_tensor")
    (joined,) = (v for v in program.graph.constants() if v.components)
    scale = joined.components["scale"].elements
    expected = [(module.weight.abs().max() / 127, len(module.weight)) for module in model.children()]
    np.testing.assert_allclose(scale, np.repeat(*zip(*expected, strict=True)), rtol=1e-6)


def test_one_scale_is_that_of_the_weight_of_the_model_where_a_batch_norm_follows():
    """Folding its factors first would leave channels with small factors no bits."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval().requires_grad_(requires_grad=False)
    model[1].weight.copy_(10.0 ** torch.arange(-4.0, 4.0))
    x = torch.randn(1, 3, 6, 6)
    got = compiled(model, (x,), "int8_weight_tensor")(x)
    scale = model[0].weight.abs().max() / 127
    model[0].weight.copy_(torch.round(model[0].weight / scale) * scale)
    torch.testing.assert_close(got, model(x), rtol=1e-5, atol=1e-5)


def test_weights_of_a_float16_model_are_stored_as_float16_and_read_by_vector_kernels():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).eval().half()
    ids = torch.arange(6)
    program = engine.compile(model, (ids,))
    assert encodings(program) == {"float16"}
    assert program.report().slow_launches == 0
    wide = nn.Sequential(*model).float()
    got = program(ids)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got, wide(ids).half(), rtol=2**-10, atol=1e-6)  # one rounding, of the result


def test_a_tied_table_is_stored_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, 32)

        def forward(self, ids):
            return nn.functional.linear(self.table(ids), self.table.weight)

    program = compiled(Tied().eval(), (torch.arange(4),), "int8_weight")
    assert len([v for v in program.graph.constants() if v.components]) == 1
    assert program.graph.weight_bytes == 20 * 32 + 20 * 4


@pytest.mark.parametrize(
    "precision", ["int4_weight", *(pytest.param(p, marks=pytest.mark.long) for p in ENCODED if p != "int4_weight")]
)
def test_prefill_and_decode_of_a_decoder_share_encoded_weights(precision, tmp_path):
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, 32)
            self.mix = nn.Linear(32, 32)
            self.register_buffer("seen", torch.zeros(1, 8, 32))

        def forward(self, ids, position, lengths):
            places = position[0] + torch.arange(ids.shape[1])
            self.seen.index_copy_(1, places, self.mix(self.table(ids)))
            kept = (torch.arange(8) < lengths[0])[None, :, None]
            return nn.functional.linear(torch.where(kept, self.seen, 0.0).sum(1), self.table.weight)

    torch.manual_seed(0)
    config = engine.Config(target="interpreter", precision=precision)
    decoder = engine.compile_decoder(Causal().eval(), 8, config=config)
    decoder.save(tmp_path / "d.engine")
    bits = {"bf16": 16, "fp16": 16, "int4_weight": 4}.get(precision, 8)
    found = [len(data) for data in tensors_of(tmp_path / "d.engine").values()]
    assert found.count(20 * 32 * bits // 8) == 1  # the table, of both programs and of both ops that read it
    assert found.count(32 * 32 * bits // 8) == 1
    again = engine.load_decoder(tmp_path / "d.engine", config=engine.Config(target="interpreter"))
    ids = torch.tensor([[3, 1, 4]])
    np.testing.assert_array_equal(again.prefill(ids), decoder.prefill(ids))
    np.testing.assert_array_equal(again.decode(torch.tensor([[5]])), decoder.decode(torch.tensor([[5]])))


def tensors_of(path):
    with container.opened(path, mapped=False) as (_header, tensors):
        return {name: read().tobytes() for name, read in tensors.items()}


def test_every_encoding_of_a_weight_runs():
    """Those too that no precision chooses, such as blocks of GGUF files."""
    generator = np.random.default_rng(0)
    weight, x = (generator.normal(size=shape).astype(np.float32) for shape in ((6, 128), (3, 128)))
    for family, declared in FAMILIES.items():
        encoding = declared.along(1 if declared.per == "group" else 0)
        decoded = encoding.decode(encoding.encode(weight), "float32").astype(np.float64)
        graph = Graph("one")
        value = graph.add_input("x", TensorType("float32", (3, 128)))
        stored = graph.encode(graph.constant(weight, "w"), encoding)
        graph.outputs = [graph.emit("linear", [value, stored, None, None])]
        (found,) = interpreter.run(graph, [x])
        np.testing.assert_allclose(
            found, (x.astype(np.float64) @ decoded.T).astype(np.float32), rtol=1e-6, err_msg=family
        )


# --- refused ---------------------------------------------------------------------------------------------------------


def test_int8_static_is_refused_with_its_reason(net):
    with messages.raises(ConfigError):
        compiled(*net, "int8_static")


def test_fp32_takes_models_that_compute_in_float32_only(net):
    model, inputs = net
    np.testing.assert_array_equal(*(arrays(compiled(model, inputs, one)(*inputs))[0] for one in ("fp32", None)))
    with messages.raises(ConfigError):
        compiled(model.bfloat16(), inputs, "fp32")


@pytest.mark.parametrize(("dtype", "precision"), [(torch.float16, "bf16"), (torch.bfloat16, "fp16")])
def test_a_model_in_a_narrow_type_takes_the_other_one(dtype, precision):
    """Also if values between nodes keep the model's type. The weights here change when they are rounded, x does not."""
    layers = {"linear": nn.Linear(32, 16), "conv": nn.Conv2d(3, 4, 3), "embedding": nn.Embedding(10, 32)}
    examples = {"linear": torch.ones(2, 32), "conv": torch.ones(1, 3, 5, 5), "embedding": torch.arange(10)}
    other = torch.bfloat16 if precision == "bf16" else torch.float16
    for name, layer in layers.items():
        with torch.no_grad():
            size = 1 if precision == "bf16" else 1e-7  # float16 has more digits than bfloat16, but not near 0
            layer.weight.copy_(torch.linspace(0.5, 1, layer.weight.numel()).reshape(layer.weight.shape) * size)
        net, rounded = (copy.deepcopy(layer).eval().to(dtype) for _ in range(2))
        x = examples[name] if name == "embedding" else examples[name].to(dtype)
        with torch.no_grad():
            rounded.weight.copy_(net.weight.to(other))
            assert not torch.equal(rounded.weight, net.weight)
        program = compiled(net, (x,), precision, activations="model")
        assert encodings(program) == {"bfloat16" if precision == "bf16" else "float16"}
        assert torch.equal(program(x), compiled(rounded, (x,), None, activations="model")(x))


def test_a_precision_cannot_be_chosen_when_loading(net, tmp_path):
    compiled(*net, None).save(tmp_path / "p")
    with messages.raises(ConfigError):
        engine.load(tmp_path / "p", config=engine.Config(precision="bf16", target="interpreter"))


@pytest.mark.parametrize(
    ("precision", "held", "refused"), [("fp16", 65519.0, 65520.0), ("bf16", float.fromhex("0x1.fep127"), 3.4e38)]
)
def test_a_finite_weight_that_would_become_infinite_is_refused(net, precision, held, refused):
    """The largest numbers that the narrow types hold are 65504 and 0x1.fep127; half a step further is an infinity."""
    model, inputs = net
    model.linear.weight[3, 4], model.linear.weight[0, 0] = -held, float("-inf")  # infinities of the model stay
    compiled(model, inputs, precision)
    model.linear.weight[3, 4] = -refused
    with messages.raises(ConfigError):
        compiled(model, inputs, precision)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_have_no_integers(net, bad):
    model, inputs = net
    model.linear.weight[3, 4] = bad
    with messages.raises(ConfigError):
        compiled(model, inputs, "int8_weight")


# Rows of x for which a kernel that multiplies integers would lose what matters: the weight ignores the first element.
ROWS = {
    "a peak": lambda x: x.index_fill(1, torch.tensor([0]), 1e6),
    "a peak near the end of float32": lambda x: x.index_fill(1, torch.tensor([0]), 1e30),
    "numbers near the end of float32": lambda x: x * 1e36,
    "tiny numbers": lambda x: x * 3e-35,
    "numbers of all sizes": lambda x: x * torch.logspace(-20, 20, x.shape[1]),
}


@pytest.mark.parametrize(
    "isa", [None, *(pytest.param(isa, marks=pytest.mark.long) for isa in native.kernel_isas("f32"))]
)
@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
def test_weights_of_8_bits_take_rows_of_any_range(rows, count, isa):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net, x = nn.Linear(64, 5, bias=False).eval(), rows(torch.randn(count, 64))
    weight = net.weight.data
    weight[:, 0] = 0
    weight[:, -8:] *= 1e-30  # rounded to 0, too
    scale = weight.abs().amax(1, keepdim=True) / 127
    program = engine.compile(net, (x,), engine.Config(precision="int8_weight", isa=isa))
    expected = x.double() @ ((weight / scale).round() * scale).double().T
    error = (program(x).double() - expected).norm(dim=1) / expected.norm(dim=1)
    assert error.max() < 1e-5  # sums of 64 products in float32
