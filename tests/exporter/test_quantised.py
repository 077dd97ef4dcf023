"""Models that are quantised already: their integers and scales are those of the program, and fast kernels read them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import engine
from engine.errors import ConfigError, DecodedWeightsWarning, UnsupportedOp
from engine.exporter.handlers import FOREIGN, find_handler
from engine.targets.cpu import native
from tests import messages
from tests.exporter.quantised_models import IDS, WEIGHTS, in_float64, made, qdq, weight_only
from tests.golden.models import MAX_LENGTH, Tied, set_weights

pytest.importorskip("torchao")
from torchao import quantization as ao
from torchao.quantization.granularity import PerAxis, PerGroup, PerTensor

# Sums of at most 96 terms in float32: each term is rounded by 2^-24 of itself, and results are of size 1.
SUMS = {"rtol": 1e-5, "atol": 1e-5}


def compiled(model, **switches):
    return engine.compile(model, (IDS,), engine.Config(**switches))


@cache
def exported():
    """A quantised model that no test changes, and its program of torch, which is compiled as the model is."""
    model = weight_only(made())
    return model, torch.export.export(model, (IDS,), strict=False)


@cache
def plain():
    """The program of `exported` with nothing else chosen."""
    return compiled(exported()[1])


def stored(program):
    """Shape of each encoded constant that is read -> its integers and scales, as the program stores them."""
    read = (v for node in program.graph.nodes for v in node.inputs if v is not None and v.components)
    return {v.shape: {name: part.elements for name, part in v.components.items()} for v in read}


def has_fast_kernels(program):
    """All linears multiply integers, and no launch uses a reference kernel."""
    names = [name for name, _launches in program.report().kernels if "linear" in name]
    return program.report().slow_launches == 0 and all(name.startswith("f32_qc8w_linear") for name in names)


def test_integers_and_scales_are_those_of_torchao():
    model, found = exported()[0], stored(plain())
    assert len(found) == len(WEIGHTS)
    for name in WEIGHTS:
        weight = getattr(model, name).weight
        parts = found[tuple(weight.shape)]
        np.testing.assert_array_equal(parts["data"], weight.qdata.numpy())
        np.testing.assert_array_equal(parts["scale"], weight.scale.reshape(-1).numpy())
    assert min(parts["data"].min() for parts in found.values()) == -128  # outside of what the engine itself encodes


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_values_are_those_of_dequantised_weights_in_float64(target):
    model, program = exported()
    result = compiled(program, target=target, verify=True)(IDS)
    torch.testing.assert_close(result.double(), in_float64(model)(IDS), **SUMS)
    torch.testing.assert_close(result, model(IDS), **SUMS)


def test_the_kernels_are_those_of_a_model_that_the_engine_quantises():
    program, own = plain(), compiled(made(), precision="int8_weight")
    assert has_fast_kernels(program)
    assert program.report().kernels == own.report().kernels
    assert program.report().weight_bytes == own.report().weight_bytes
    assert dict(program.report().passes)["weights=quantised"] == len(WEIGHTS)


@pytest.mark.parametrize("isa", [isa for isa in ("avx2", "neon") if isa in native.isas()])
def test_narrower_vectors_have_fast_kernels_too(isa):
    model, program = exported()
    program = compiled(program, isa=isa)
    assert has_fast_kernels(program)
    torch.testing.assert_close(program(IDS).double(), in_float64(model)(IDS), **SUMS)


def test_one_scale_for_the_tensor_becomes_one_for_each_channel():
    model = weight_only(made(), ao.Int8WeightOnlyConfig(granularity=PerTensor()))
    program = compiled(model)
    for name in WEIGHTS:
        weight = getattr(model, name).weight
        parts = stored(program)[tuple(weight.shape)]
        np.testing.assert_array_equal(parts["data"], weight.qdata.numpy())
        np.testing.assert_array_equal(parts["scale"], np.full(len(weight), weight.scale.item(), np.float32))
    assert has_fast_kernels(program)
    torch.testing.assert_close(program(IDS).double(), in_float64(model)(IDS), **SUMS)


def test_a_program_gives_the_same_bits_after_loading(tmp_path):
    model, program = exported()[0], plain()
    program.save(tmp_path / "p.engine")
    loaded = engine.load(tmp_path / "p.engine")
    assert loaded.digest == program.digest
    np.testing.assert_array_equal(loaded(IDS), program(IDS))
    assert has_fast_kernels(loaded)
    in_file = {t.shape: t for t in load_file(tmp_path / "p.engine").values() if t.dtype == np.int8}
    for name in WEIGHTS:
        integers = getattr(model, name).weight.qdata.numpy()
        np.testing.assert_array_equal(in_file[integers.shape], integers)


@pytest.mark.parametrize(
    ("dtype", "digits"), [pytest.param(torch.bfloat16, 2**-8, marks=pytest.mark.long), (torch.float16, 2**-11)]
)
def test_narrow_models_are_widened_and_keep_the_scales_of_float32(dtype, digits):
    model = weight_only(made(dtype=dtype))
    program = compiled(model)
    assert has_fast_kernels(program)
    scale = stored(program)[(96, 64)]["scale"]
    np.testing.assert_array_equal(scale, model.up.weight.scale.reshape(-1).numpy())
    # Only the result is rounded to the narrow type; the model itself rounds every value.
    exact = in_float64(model)(IDS)
    torch.testing.assert_close(program(IDS).double(), exact, rtol=digits, atol=1e-4)
    torch.testing.assert_close(program(IDS).double(), model(IDS).double(), rtol=8 * digits, atol=8 * digits)


def test_narrow_values_between_nodes_round_the_scales_as_the_model_does():
    model = weight_only(made(dtype=torch.bfloat16))
    program = compiled(model, activations="model", target="interpreter")
    rounded = model.up.weight.scale.reshape(-1).bfloat16().float().numpy()
    np.testing.assert_array_equal(stored(program)[(96, 64)]["scale"], rounded)
    torch.testing.assert_close(program(IDS).double(), model(IDS).double(), rtol=2**-5, atol=2**-5)


def test_sizes_may_differ_from_call_to_call():
    model = weight_only(made())
    shapes = {"ids": {1: torch.export.Dim("length", max=64)}}
    program = engine.compile(model, (IDS,), dynamic_shapes=shapes)
    assert has_fast_kernels(program)
    for length in (2, 9):
        ids = torch.arange(2 * length).reshape(2, length) % 12
        torch.testing.assert_close(program(ids).double(), in_float64(model)(ids), **SUMS)


def test_a_later_change_of_a_scale_is_noticed():
    model = weight_only(made())
    program = compiled(model)
    program.report()
    model.up.weight.scale.mul_(2)
    with messages.warns(engine.StaleWeightsWarning):
        program.report()


def test_a_decoder_stores_the_integers_once(tmp_path):
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = set_weights(Tied())
    quantize_(model, Int8WeightOnlyConfig())
    decoder = engine.compile_decoder(model, MAX_LENGTH)
    assert decoder.generate(np.ones((1, 3), np.int64), 4).shape == (1, 7)
    decoder.save(tmp_path / "d.engine")
    in_file = [t for t in load_file(tmp_path / "d.engine").values() if t.dtype == np.int8]
    assert len(in_file) == 1
    np.testing.assert_array_equal(in_file[0], model.mix.weight.qdata.numpy())
    for report in decoder.report().values():
        assert any(name.startswith("f32_qc8w_linear") for name, _launches in report.kernels)


def test_an_exported_program_is_compiled_alike():
    model = exported()[0]
    np.testing.assert_array_equal(plain()(IDS), compiled(model)(IDS))
    assert has_fast_kernels(plain())


# --- graphs of quantize and dequantize -------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "quantised when compiled"])
@pytest.mark.parametrize("per_channel", [True, False], ids=["channels", "tensor"])
def test_graphs_of_quantize_and_dequantize(per_channel, fold):
    folded = qdq(made(), (IDS,), per_channel=per_channel)
    tensors = dict((*folded.named_parameters(), *folded.named_buffers()))
    integers = {tuple(t.shape): t for t in tensors.values() if t.dtype == torch.int8 and t.ndim == 2}
    model = folded if fold else qdq(made(), (IDS,), per_channel=per_channel, fold=False)
    with nullcontext() if per_channel else pytest.warns(DecodedWeightsWarning):  # of the layer norm
        program = engine.compile(model, (IDS,), engine.Config(verify=True))
    found = stored(program)
    assert found.keys() == integers.keys()
    for shape, parts in found.items():
        np.testing.assert_array_equal(parts["data"], integers[shape].numpy())
        assert parts["scale"].shape == shape[:1]
    assert has_fast_kernels(program)
    torch.testing.assert_close(program(IDS), model(IDS), **SUMS)


def test_ops_without_fast_kernels_read_decoded_weights_and_say_so():
    """A layer norm takes no encoded weight."""
    model = qdq(made(), (IDS,), per_channel=False)
    with messages.warns(DecodedWeightsWarning):
        program = engine.compile(model, (IDS,))
    log = dict(program.report().passes)
    assert (log["weights=decoded"], log["weights=quantised"]) == (1, 3)


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        return self.last(torch.relu(self.conv(x)).mean((2, 3)))


def test_weights_of_convolutions_are_decoded_and_not_quantised_again():
    torch.manual_seed(1)
    x = torch.randn(2, 3, 9, 9)
    model = qdq(Picture().eval().requires_grad_(requires_grad=False), (x,))
    for precision in (None, "int8_weight"):
        with pytest.warns(DecodedWeightsWarning):
            program = engine.compile(model, (x,), engine.Config(precision=precision))
        assert stored(program).keys() == {(5, 8)}
        assert program.report().slow_launches == 0
        torch.testing.assert_close(program(x), model(x), **SUMS)


class Dequantising(nn.Module):
    """A convolution whose weight the model itself computes from integers and scales, and a call that torch runs."""

    def __init__(self, *, has_fft):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("weight", torch.randint(-127, 128, (8, 3, 3, 3), dtype=torch.int8, generator=generator))
        self.register_buffer("scale", torch.linspace(0.01, 0.02, 8).reshape(8, 1, 1, 1))
        self.has_fft = has_fft

    def forward(self, x):
        y = torch.nn.functional.conv2d(x, self.weight.float() * self.scale)
        return torch.fft.rfft(y).real if self.has_fft else y


@pytest.mark.parametrize("switches", [{}, {"precision": "int8_weight"}, {"precision": "bf16"}, {"fallback": "torch"}])
def test_weights_that_a_convolution_dequantises_itself_are_decoded_and_named(switches):
    """With `fallback`, the segments of the engine say so, too. No precision changes the weights a second time."""
    x = torch.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8)
    model = Dequantising(has_fft="fallback" in switches).eval()
    with messages.warns(DecodedWeightsWarning):
        program = engine.compile(model, (x,), engine.Config(**switches))
    assert dict(program.report().passes)["weights=decoded"] == 1
    torch.testing.assert_close(program(x), model(x), **SUMS)


# --- other precisions, torch.compile ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "precision",
    [
        *("bf16", "int8_dynamic"),
        *(
            pytest.param(p, marks=pytest.mark.long)
            for p in ("fp16", "int8_weight", "int8_weight_tensor", "int4_weight")
        ),
    ],
)
def test_a_precision_leaves_quantised_weights_as_they_are(precision):
    program = compiled(exported()[1], precision=precision)
    np.testing.assert_array_equal(program(IDS), plain()(IDS))
    assert program.report().kernels == plain().report().kernels


def test_a_precision_encodes_what_is_not_quantised():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = made()
    quantize_(model, Int8WeightOnlyConfig(), filter_fn=lambda _module, name: name == "up")
    program = compiled(model, precision="int8_weight")
    assert stored(program).keys() == {(12, 64), (96, 64), (40, 96)}
    np.testing.assert_array_equal(stored(program)[(96, 64)]["data"], model.up.weight.qdata.numpy())


def test_fp32_is_refused():
    with messages.raises(ConfigError):
        compiled(exported()[1], precision="fp32")


def test_torch_compile_runs_the_same_kernels():
    model = weight_only(made())
    torch._dynamo.reset()
    with torch.inference_mode():
        result = torch.compile(model, backend="engine")(IDS)
        (report,) = engine.dynamo.reports()
    torch.testing.assert_close(result.double(), in_float64(model)(IDS), **SUMS)
    assert report.fallback_nodes == 0
    assert dict(report.passes)["weights=quantised"] == len(WEIGHTS)
    assert all(name.startswith("f32_qc8w_linear") for name, _launches in report.kernels if "linear" in name)
    torch._dynamo.reset()


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "groups": lambda: ao.Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "int4": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "zero points": lambda: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int8, granularity=PerAxis(0), mapping_type=ao.MappingType.ASYMMETRIC
    ),
    "dynamic activations": ao.Int8DynamicActivationInt8WeightConfig,
}


@pytest.mark.parametrize("scheme", REFUSED)
def test_a_scheme_that_is_not_supported_is_refused_with_the_line(scheme):
    from torchao.quantization import quantize_

    model = made()
    quantize_(model, REFUSED[scheme](), filter_fn=lambda module, _name: isinstance(module, nn.Linear))
    with messages.raises(UnsupportedOp):
        compiled(model)


def test_float8_is_refused():
    from torchao.quantization import Float8WeightOnlyConfig

    with messages.raises(UnsupportedOp):
        compiled(weight_only(made(), Float8WeightOnlyConfig()))


def test_static_activations_are_refused_with_the_line():
    from torchao.quantization.pt2e import HistogramObserver
    from torchao.quantization.pt2e.quantizer import QuantizationSpec

    activations = QuantizationSpec(
        dtype=torch.uint8,
        quant_min=0,
        quant_max=255,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=2**-12),
    )
    model = qdq(made(), (IDS,), activations=activations)
    with messages.raises(UnsupportedOp):
        engine.compile(model, (IDS,))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_scale_that_is_not_finite_gives_what_the_model_gives(number):
    model = weight_only(made())
    model.up.weight.scale[3] = number
    torch.testing.assert_close(compiled(model)(IDS), model(IDS), equal_nan=True)


class Dequantised(nn.Module):
    """A linear over ``dequantize`` of what a test gives, as an exported graph has it."""

    def __init__(self, data, scales, zeros, axis=0):
        super().__init__()
        self.register_buffer("data", data)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)
        self.axis = axis

    def forward(self, x):
        import torch.ao.quantization.fx._decomposed  # registers the operators with torch

        kind = self.data.dtype
        least, most = torch.iinfo(kind).min, torch.iinfo(kind).max
        dequantize = torch.ops.quantized_decomposed.dequantize_per_channel
        return nn.functional.linear(x, dequantize(self.data, self.scales, self.zeros, self.axis, least, most, kind))


DATA = torch.arange(-12, 12, dtype=torch.int8).reshape(4, 6)
ONES = torch.full((4,), 0.5)
NONE = torch.zeros(4, dtype=torch.int64)


@pytest.mark.parametrize(
    ("data", "scales", "zeros"),
    [
        (DATA, torch.tensor([1, 2, float("nan"), 1]), NONE),
        (DATA, ONES, NONE + 1),
        (DATA.to(torch.uint8), ONES, NONE),
        (DATA, ONES.double() / 3, NONE),
    ],
    ids=["a scale that is not finite", "zero points", "uint8", "scales that float32 cannot hold"],
)
def test_integers_that_no_encoding_stores_are_refused(data, scales, zeros):
    with messages.raises(UnsupportedOp):
        engine.compile(Dequantised(data, scales, zeros).eval(), (torch.ones(2, 6),))


@pytest.mark.parametrize("scales", [ONES, ONES.double(), torch.tensor([1.0, 0, -2, 4])], ids=["", "exact float64", "0"])
def test_all_other_scales_are_kept(scales):
    x = torch.arange(12.0).reshape(2, 6)
    model = Dequantised(DATA, scales, NONE).eval()
    program = engine.compile(model, (x,))
    np.testing.assert_array_equal(stored(program)[(4, 6)]["scale"], scales.float().numpy())
    torch.testing.assert_close(program(x).double(), x.double() @ (DATA.double() * scales.double()[:, None]).T)


def test_scales_along_the_summed_axis_are_decoded():
    """No fast kernel has such scales, so a linear over float32 is faster."""
    x = torch.arange(12.0).reshape(2, 6)
    model = Dequantised(DATA, torch.arange(1.0, 7), torch.zeros(6, dtype=torch.int64), 1).eval()
    with pytest.warns(DecodedWeightsWarning):
        program = engine.compile(model, (x,))
    assert not stored(program)
    torch.testing.assert_close(program(x), model(x))


def test_a_dequantised_weight_may_be_a_result():
    class Returns(Dequantised):
        def forward(self, x):
            weight = torch.ops.quantized_decomposed.dequantize_per_channel(
                self.data, self.scales, self.zeros, 0, -128, 127, torch.int8
            )
            return weight, x @ weight.t(), weight.reshape(2, 12)

    x = torch.arange(12.0).reshape(2, 6)
    with pytest.warns(DecodedWeightsWarning):
        program = engine.compile(Returns(DATA, ONES, NONE).eval(), (x,))
    weight = DATA.float() / 2
    for result, expected in zip(program(x), (weight, x @ weight.t(), weight.reshape(2, 12)), strict=True):
        torch.testing.assert_close(result, expected)
    assert stored(program).keys() <= {(4, 6), (6, 4)}
    assert stored(program)


# --- the exporter ----------------------------------------------------------------------------------------------------


def test_handlers_of_other_packages_take_every_argument_or_say_why_not():
    import torch.ao.quantization.fx._decomposed

    for name in FOREIGN:
        library, call, which = name.split(".")
        overload = getattr(getattr(getattr(torch.ops, library), call), which)  # AttributeError: the name is wrong
        handler = find_handler(overload)
        names = [argument.name for argument in overload._schema.arguments]
        taken = list(inspect.signature(handler.translate).parameters)[1:]
        assert taken == [one for one in names if one not in handler.harmless], name
        assert set(handler.harmless) <= set(names), name


@pytest.mark.long
def test_the_engine_does_not_import_torchao():
    source = (
        "import sys, torch, engine; engine.compile(torch.nn.Linear(2, 2).eval(), (torch.zeros(1, 2),)); "
        "print([name for name in sys.modules if name.startswith(('torchao', 'torch.ao.quantization.fx'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_factor_behind_a_norm_of_an_embedding_stays_there_in_every_order_of_passes():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randint(-9, 9, (16, 64), dtype=torch.int8))
            self.register_buffer("factor", torch.tensor(3.0))

        def forward(self, ids):
            return nn.functional.layer_norm(nn.functional.embedding(ids, self.table.float()), (64,)) * self.factor

    model, ids = Scaled().eval(), torch.tensor([[1, 5, 2]])
    program = engine.compile(model, (ids,), engine.Config(pipeline=("fuse_embedding_norm", "encode_integers")))
    torch.testing.assert_close(program(ids), model(ids))
