"""Backends that quantise in ways of their own: how they are judged, and what tables say of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from suites import backends, models
from suites.backends.base import NotApplicable
from suites.backends.llama_cpp import keep_file
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import Refused, Unavailable
from suites.harness.judge import reference, verify
from suites.harness.judge.judged_case import judge_cases
from suites.harness.judge.verify import Reference
from suites.harness.measure import job
from suites.harness.measure.job import Job
from suites.harness.present import notes
from suites.harness.record.schema import Latency
from suites.harness.run import checks
from suites.models import smollm2
from suites.models._sets import CALIBRATION_SETS
from suites.models._spec import ModelSpec
from suites.models.nets import gguf_llama, gguf_write
from tests import messages
from tests.forms import shorten
from tests.harness import records

FAKES = Path(__file__).with_name("fake_precisions.py")
DECODE = {"phase": "decode", "steps": 3}


def reason_of(case, ref, folder, references=None):
    """Why the results of a backend are wrong, judged as a run does it; None where they are right."""
    if missing := backends.unavailable(ref):
        pytest.skip(missing)
    made = Job(case, ref, folder)
    made.load()
    made.prepare()
    references = references or reference.compute(case, job.INPUT_SETS)
    found = checks.judge(folder, made.verify(), references)
    suspects = [made.sample(1, keep=True)["output"]]
    return found.reason or checks.first_fault(folder, suspects, references)


def mlp(precision="int8_weight"):
    return Case("mlp", {"batch": 4}, precision=precision, options={"widths": "256-512-256"})


@pytest.mark.long
def test_loading_torchao_writes_nothing(root):
    if missing := backends.unavailable(BackendRef("torchao")):
        pytest.skip(missing)
    code = "from suites.backends.torchao import TorchAo; TorchAo(1, {}).load()"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=root)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_bound_of_an_own_scheme_is_a_multiple_of_the_error_that_the_precision_makes():
    plain = [np.array([3.0, 4.0]), np.array([6.0, 8.0])]
    quantised = [np.array([3.0, 4.05]), np.array([6.0, 8.3])]
    known = Reference(quantised, ["float32"] * 2, [1e-7, 1e-7], None, "quantised", plain)
    assert verify.apply_rules([known], None) == [known]
    (own,) = verify.apply_rules([known], "own weights")
    assert own.outputs is plain
    assert own.tolerance(0) == own.tolerance(1) == pytest.approx(verify.OWN_FACTOR * 0.03)
    (dynamic,) = verify.apply_rules([known], "own activations")
    assert dynamic.tolerance(0) == pytest.approx(verify.OWN_ACTIVATIONS_FACTOR * 0.03)
    off = [plain[0], plain[1] * (1 + 0.03 * verify.OWN_FACTOR + 1e-3)]
    assert "output 1: relative error" in verify.check(off, ["float32"] * 2, own).reason


def test_a_model_that_amplifies_rounding_is_compared_with_the_one_that_is_not_quantised():
    """Eager's own error of 0.2 in one step is above 0.1, the most that the rule allows: the bound is 3 times 0.1."""
    plain = [np.array([3.0, 4.0])] * 2
    known = Reference(
        [np.array([3.0, 4.0]), np.array([3.0, 4.5])], ["float32"] * 2, [1e-3, 0.2], None, "dynamic", plain
    )
    calm = replace(known, eager_errors=[1e-3, 1e-3])
    used, other = verify.apply_rules([known, calm], None)
    assert (used.rule, used.outputs) == ("own weights", plain)
    assert used.tolerance(0) == pytest.approx(verify.OWN_FACTOR * 0.1)
    assert other.rule == "own weights", "one rule judges all input sets of a case"
    assert verify.apply_rules([calm], None) == [calm]


def test_where_quantising_changes_most_of_the_outputs_nothing_can_be_verified():
    plain = [np.array([3.0, 4.0])]
    known = Reference([np.zeros(2)], ["float32"], [1e-7], None, "quantised", plain)
    (own,) = verify.apply_rules([known], "own weights")
    assert "nothing can be verified" in verify.check([np.zeros(2)], ["float32"], own).reason


def test_a_case_without_outputs_of_the_unquantised_model_judges_no_scheme():
    known = Reference([np.ones(2)], ["float32"], [0.0], None)
    with messages.raises(ValueError):
        verify.apply_rules([known], "own weights")


@pytest.mark.parametrize("fault", ["", "scale", "rows"])
def test_a_scheme_of_its_own_is_right_and_a_planted_fault_is_wrong(fault, tmp_path):
    """A symmetric int8 scheme with other rounding; a scale is 5% off in one layer, or two rows are exchanged."""
    reason = reason_of(mlp(), BackendRef(f"{FAKES}:OwnScheme", {"fault": fault} if fault else {}), tmp_path)
    assert (reason is None) == (not fault)
    assert reason is None or "relative error" in reason


def test_the_same_numbers_are_wrong_for_a_backend_that_claims_the_scheme_of_the_precision(tmp_path):
    assert "relative error" in reason_of(mlp(), BackendRef(f"{FAKES}:ClaimsScheme"), tmp_path)


@pytest.mark.parametrize(
    ("name", "precision"),
    shorten(
        itertools.product(("onnxruntime", "onnxruntime_dynamic"), ("int8_weight", "int8_dynamic")),
        ("onnxruntime", "int8_weight"), ("onnxruntime_dynamic", "int8_dynamic"),
    ),
)  # fmt: skip
def test_onnxruntime_quantises(name, precision, tmp_path):
    case = mlp(precision)
    if backends.unable(BackendRef(name), case):
        pytest.skip("by declaration")
    assert reason_of(case, BackendRef(name), tmp_path) is None


@pytest.mark.parametrize("name", shorten(["onnxruntime", "onnxruntime_dynamic"], "onnxruntime"))
def test_onnxruntime_refuses_to_quantise_a_part_of_a_model(name, tmp_path):
    made = Job(Case("cifar10-cnn-tiny", {"batch": 1}, precision="int8_weight"), BackendRef(name), tmp_path)
    made.load()
    with messages.raises(Unavailable):
        made.prepare()


@pytest.mark.parametrize("outlier", [1.0, 1e4])
@pytest.mark.parametrize(
    "name", shorten(["onnxruntime", "openvino", "torch_compile"], "openvino")  # 3 to 8 s each
)  # fmt: skip
def test_fixed_scales_of_activations_are_those_of_the_calibration(name, outlier, tmp_path, monkeypatch):
    """With an outlier in the calibration the scales are so coarse that results are wrong."""
    sets = ModelSpec.calibration
    monkeypatch.setattr(
        ModelSpec, "calibration", lambda *args, **sizes: [(x * outlier,) for (x,) in sets(*args, **sizes)]
    )
    reason = reason_of(mlp("int8_dynamic"), BackendRef(name), tmp_path)
    assert (reason is None) == (outlier == 1), reason


def test_no_input_of_the_calibration_is_measured():
    spec = models.get("mlp")
    sets = [spec.inputs(seed, batch=2) for seed in range(job.INPUT_SETS)] + spec.calibration(batch=2)
    assert len({one.numpy().tobytes() for (one,) in sets}) == job.INPUT_SETS + len(CALIBRATION_SETS)


def test_openvino_states_the_type_of_its_float_parts(tmp_path):
    if missing := backends.unavailable(BackendRef("openvino")):
        pytest.skip(missing)
    made = Job(mlp("int8_dynamic"), BackendRef("openvino"), tmp_path)
    made.load()
    assert made.prepare()["facts"]["details"]["floats"] == "fp32"
    floating = Job(mlp("fp32"), BackendRef("openvino", {"float_parts": "bf16"}), tmp_path)
    floating.load()
    with messages.raises(NotApplicable):
        floating.prepare()


@pytest.mark.long
@pytest.mark.parametrize("model", ["mlp", "stories15m-tiny"])
def test_torchao_quantises_linear_layers(model, tmp_path):
    decode = Case(model, {"batch": 1, "sequence": 8}, precision="int8_weight", options=DECODE)
    case = mlp() if model == "mlp" else decode
    assert reason_of(case, BackendRef("torchao"), tmp_path) is None


def test_torchao_refuses_to_quantise_a_part_of_a_model(tmp_path):
    if missing := backends.unavailable(BackendRef("torchao")):
        pytest.skip(missing)
    made = Job(Case("gpt2-tiny", {"batch": 1}, precision="int8_weight"), BackendRef("torchao"), tmp_path)
    made.load()
    with messages.raises(Unavailable):
        made.prepare()


@pytest.mark.parametrize(
    ("name", "precision", "told"),
    [
        ("torchao", "fp32", "torchao does int8_weight, int8_dynamic on cpu; the case asks for fp32"),
        ("onnxruntime_dynamic", "fp32", "onnxruntime_dynamic does int8_weight, int8_dynamic on cpu"),
        (
            "openvino",
            "int8_weight",
            "openvino does fp32, bf16, fp16, int8_dynamic on cpu; the case asks for int8_weight",
        ),
    ],
)
def test_other_precisions_are_unavailable_with_a_reason(name, precision, told):
    assert told in backends.unable(BackendRef(name), mlp(precision))


def test_what_a_scheme_lacks_is_a_reason(monkeypatch):
    decode = Case("stories15m-tiny", {"batch": 1, "sequence": 8}, precision="int8_dynamic", options=DECODE)
    for name in ("onnxruntime", "openvino", "torch_compile"):
        assert "single steps are not calibrated" in backends.unable(BackendRef(name), decode)
    assert backends.unable(BackendRef("openvino"), mlp("fp32")) is None
    monkeypatch.setattr(backends, "_installed", lambda name: name != "nncf")
    told = "nncf not installed, which int8_dynamic of openvino needs: pip install 'enginebench[peers]'"
    assert backends.unable(BackendRef("openvino"), mlp("int8_dynamic")) == told


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8_weight"])
@pytest.mark.parametrize("phase", ["score", "prefill", "decode"])
@pytest.mark.parametrize("model", ["stories15m-tiny", "qwen3-tiny"])
def test_llama_cpp_computes_what_the_model_does(model, phase, precision, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = DECODE | {"phase": phase}
    case = Case(model, {"batch": 2, "sequence": 8}, precision=precision, options=options)
    assert reason_of(case, BackendRef("llama_cpp"), tmp_path) is None


def test_llama_cpp_is_not_applicable_to_other_models(tmp_path):
    for model, told in (("mlp", "runs language models; this is a MLP"), ("mamba-tiny", "a model of type llama")):
        if missing := backends.unavailable(BackendRef("llama_cpp")):
            pytest.skip(missing)
        made = Job(Case(model, {"batch": 1}), BackendRef("llama_cpp"), tmp_path)
        made.load()
        with pytest.raises(Refused, match=told) as caught:
            made.prepare()
        assert caught.value.status == "not applicable"


def tiny(name):
    model, _ = models.get(name).build(batch=1, sequence=8)
    return model.network


def test_a_written_file_holds_the_weights_of_the_model(tmp_path):
    """Read back by `gguf_llama`, which has tests of its own with published files."""
    network, other = tiny("smollm2-tiny"), tiny("smollm2-tiny")
    gguf_write.write(network, tmp_path / "a.gguf", "f32")
    with torch.no_grad():
        for one in other.parameters():
            one.zero_()
    gguf_llama.load(other, tmp_path / "a.gguf", smollm2.TINY)
    for name, expected in network.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], expected, rtol=0, atol=0)


def test_q8_0_is_what_its_definition_says(tmp_path):
    """A block of 32 has the scale max / 127 as float16, and the nearest integers."""
    network = tiny("stories15m-tiny")
    gguf_write.write(network, tmp_path / "a.gguf", "q8_0")
    (stored,) = [one for one in gguf.GGUFReader(tmp_path / "a.gguf").tensors if one.name == "blk.0.ffn_up.weight"]
    blocks = network.model.layers[0].mlp.up_proj.weight.detach().numpy().reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    expected = np.round(blocks / scale) * scale.astype(np.float16)
    got = gguf.quants.dequantize(stored.data, stored.tensor_type).reshape(-1, 32)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_rows_that_blocks_do_not_fit_are_refused(tmp_path):
    with messages.raises(gguf_write.CannotWrite):
        gguf_write.write(tiny("smollm2-tiny"), tmp_path / "a.gguf", "q8_0")


def test_a_kept_file_is_taken_for_the_same_weights_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network = tiny("stories15m-tiny")
    first = keep_file(network, "f32")
    assert keep_file(tiny("stories15m-tiny"), "f32") == first
    assert keep_file(network, "q8_0") != first
    with torch.no_grad():
        network.model.norm.weight[0] += 1e-3
    assert keep_file(network, "f32") != first
    assert len(list(first.parent.iterdir())) == 3, "nothing partial stays"


def test_tables_mark_a_scheme_of_its_own_and_say_which():
    latency = Latency(p50=1e-3, p90=1e-3, p99=1e-3, min=1e-3, n=1)
    run = [
        records.summary(backend="engine", latency=latency),
        records.summary(backend="llama_cpp", latency=latency, details={"scheme": "blocks of 32"}),
    ]
    (one,) = judge_cases(run)
    assert "q" in notes.write_marks(one).split()
    (note,) = [text for text in notes.explain_case(one) if text.startswith("q ")]
    assert "llama_cpp: blocks of 32" in note
    assert "engine" not in note


def test_the_scheme_is_in_the_facts_of_a_row(tmp_path):
    made = Job(mlp(), BackendRef(f"{FAKES}:OwnScheme"), tmp_path)
    made.load()
    assert made.prepare()["facts"]["scheme"] == "rounds in a way of its own"
