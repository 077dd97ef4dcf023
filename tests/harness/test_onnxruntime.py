"""The backend onnxruntime: what its rows say of the graph that runs, and that saying it changes nothing."""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from suites import models
from suites.backends import _onnxruntime_graph as graph
from suites.backends import _onnxruntime_quantise as quantise
from suites.backends.onnxruntime import FAMILIES, OnnxRuntime
from suites.harness.errors import Refused, Unavailable
from suites.harness.record import machine
from tests import messages


class Gelu(torch.nn.Module):
    """GELU written by hand behind a product with a bias."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        return y * (1 + torch.erf(y / 2**0.5)) * 0.5


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    return tmp_path_factory.mktemp("exports")


def prepared(exports, options, programs=None, model=None):
    made = OnnxRuntime(1, options)
    made.exports, made.programs = exports, programs
    made.load()
    module, inputs = models.get(model).build() if model else (Gelu().eval(), (torch.randn(2, 3, 8),))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the exporter and the optimiser say of themselves
        return made.prepare(module, inputs)


@pytest.mark.parametrize(
    ("architecture", "isa", "saturates"),
    [
        ("x86_64", ["avx2"], True),
        ("x86_64", ["avx2", "avx512f", "avx512bw"], True),
        ("x86_64", ["avx2", "avx_vnni"], False),
        ("x86_64", ["avx2", "avx512f", "avx512_vnni"], False),
        ("aarch64", ["asimd"], False),
    ],
)
def test_weights_have_7_bits_where_sums_of_8_bits_saturate(architecture, isa, saturates, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "facts", lambda: {"architecture": architecture, "isa": isa})
    weight = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "weight"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size]) for name, size in (("x", 64), ("y", 16)))
    made = helper.make_graph([node], "product", [x], [y], [numpy_helper.from_array(weight, "weight")])
    onnx.save(
        helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "plain.onnx"
    )
    quantise.quantise_dynamically(tmp_path / "plain.onnx", tmp_path / "quantised.onnx")
    written = onnx.load(tmp_path / "quantised.onnx")
    (stored,) = (one for one in written.graph.initializer if one.data_type == TensorProto.INT8 and len(one.dims) == 2)
    assert abs(numpy_helper.to_array(stored).astype(int)).max() == (64 if saturates else 127)


def test_a_row_says_which_fusions_fired(exports):
    whole, plain = (prepared(exports, options).facts for options in ({}, {"level": "disabled"}))
    assert whole["details"]["made"]["Gelu"] == 1
    assert plain["details"]["made"] == {}
    assert plain["nodes"] > whole["nodes"]
    assert plain["run_digest"] != whole["run_digest"]


def test_the_timed_session_writes_no_graph_and_an_ablation_sees_the_same(exports):
    timed, told = OnnxRuntime(1, {}), OnnxRuntime(1, {})
    told.wants_facts = True
    for one in (timed, told):
        one.exports = exports
        one.load()
    assert not timed._session_options().optimized_model_filepath
    facts = [one.prepare(Gelu(), (torch.randn(2, 3, 8),)).facts for one in (timed, told)]
    assert facts[0] == facts[1]


def test_later_processes_read_the_description(exports, tmp_path, monkeypatch):
    first = prepared(exports, {}, tmp_path).facts
    monkeypatch.setattr(graph, "described_elsewhere", lambda *_: pytest.fail("described twice"))
    assert prepared(exports, {}, tmp_path).facts == first


def test_describing_is_in_no_time_that_is_stated(exports, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("suites.backends.onnxruntime.time.perf_counter", lambda: clock[0])

    def slow(*_):
        clock[0] += 1000.0
        return {"details": {}}

    monkeypatch.setattr(graph, "described_elsewhere", slow)
    assert prepared(exports, {}).compile_s == 0.0


def test_a_graph_that_cannot_be_described_fails_no_row(tmp_path):
    found = graph.described_elsewhere(*[tmp_path / "missing.onnx"] * 2, "ORT_ENABLE_ALL", [])
    assert "missing.onnx" in found["details"]["undescribed"]


class WithoutOnnxFunction(torch.nn.Module):
    def forward(self, x):
        return torch.special.i1(x)


class Failing(torch.nn.Module):
    def forward(self, x):
        raise ValueError("this model has no result\nand says more about it")


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        pytest.param(
            WithoutOnnxFunction, r"DispatchError: No ONNX function found for .*bessel_i1.*", marks=pytest.mark.long
        ),
        (Failing, "ValueError: this model has no result"),
    ],
)
def test_the_reason_of_a_model_that_torch_cannot_export_is_its_cause_in_one_line(model, cause):
    """The text of torch.onnx is a page of advice, with the cause near its end."""
    backend = OnnxRuntime(1, {})
    backend.load()
    with pytest.raises(Refused) as refused:
        backend.prepare(model().eval(), (torch.rand(3, 4),))
    assert re.fullmatch(f"torch.onnx cannot export the model: {cause}", str(refused.value))
    assert refused.value.status == "failed"


class Complex(torch.nn.Module):
    def forward(self, x):
        return x, torch.fft.fft(x)


def test_a_model_with_a_complex_output_has_no_row():
    """torch.onnx would return its parts along one more axis, which is not the model's result."""
    backend = OnnxRuntime(1, {})
    backend.load()
    with messages.raises(Unavailable):
        backend.prepare(Complex().eval(), (torch.rand(3, 4),))


@pytest.mark.parametrize(
    ("model", "family", "operator"),
    [
        ("bert-tiny", "bert", "SkipLayerNormalization"),
        pytest.param("gpt2-tiny", "gpt2", "FastGelu", marks=pytest.mark.long),
        pytest.param("qwen3-tiny", "qwen3", "SimplifiedLayerNormalization", marks=pytest.mark.long),
    ],
)
def test_the_offline_optimiser_says_what_it_made(model, family, operator, tmp_path):
    details = prepared(tmp_path, {"tool": family}, model=model).facts["details"]
    assert details["tool_made"][operator] > 0
    assert "LayerNormalization" not in details["tool_made"], "the model has these as exported"
    assert details["made"][operator] >= details["tool_made"][operator]


def test_every_family_is_known_to_this_onnxruntime():
    from onnxruntime.transformers import optimizer

    assert set(FAMILIES) <= set(optimizer.MODEL_TYPES)
