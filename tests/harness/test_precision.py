"""Cases of every precision: what is verified how, and who times something else under its name."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from suites import backends, models
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.precision import PRECISIONS, convert_inputs, convert_model
from suites.harness.errors import Refused, Unavailable, UsageError
from suites.harness.judge import fused, quantised, reference, verify
from suites.harness.judge.verify import Reference
from suites.harness.measure import job
from suites.harness.measure.job import Job
from suites.harness.record import outputs, store
from suites.harness.record.schema import Samples
from suites.harness.run import plan, reporter, runner
from tests import messages
from tests.forms import shorten

FAKES = Path(__file__).with_name("fake_precisions.py")
POSSIBLE = [name for name, one in PRECISIONS.items() if one.refused is None]


def case_of(precision, model="mlp", **options):
    return Case(model, {"batch": 2}, precision=precision, options=options or {"widths": "64-96-64"})


def ref_of(name, **options):
    return BackendRef(f"{FAKES}:{name}" if name[0].isupper() else name, options)


def verdict(case, ref, folder, references=None):
    """The first reason why a result is wrong; None where all are right."""
    found = Job(case, ref, folder)
    found.load()
    found.prepare()
    references = references or reference.compute(case, job.INPUT_SETS)
    results = [outputs.read(folder / name) for name in found.verify()["files"]]
    reasons = [verify.check(*one, other).reason for one, other in zip(results, references, strict=True)]
    return next((reason for reason in reasons if reason), None)


def test_every_precision_has_a_rule():
    assert {one.rule for one in PRECISIONS.values()} <= set(verify.RULES)
    assert {one.name for one in PRECISIONS.values() if one.dtype} == {
        one.name for one in PRECISIONS.values() if one.kind == "rounded"
    }


@pytest.mark.parametrize("precision", POSSIBLE)
def test_a_right_backend_passes_and_one_that_is_off_by_little_more_than_the_bound_is_wrong(precision, tmp_path):
    case = case_of(precision)
    references = reference.compute(case, job.INPUT_SETS)
    most = max(one.tolerance(0) for one in references)
    assert verdict(case, ref_of("Right"), tmp_path, references) is None
    assert "relative error" in verdict(case, ref_of("Right", off=str(1.5 * most)), tmp_path, references)


@pytest.mark.parametrize("precision", [name for name in POSSIBLE if name != "fp32"])
def test_the_bound_is_far_below_what_is_visible(precision):
    """In no class is a tenth of the result allowed."""
    (found,) = reference.compute(case_of(precision), 1)
    assert found.tolerance(0) < 0.02


@pytest.mark.parametrize("precision", shorten(POSSIBLE, "bf16", "int8_dynamic"))
def test_the_engine_does_every_precision(precision, tmp_path):
    case = Case(
        "transformer", {"batch": 1, "sequence": 8}, precision=precision, options={"width": 32, "heads": 2, "layers": 2}
    )
    assert verdict(case, ref_of("engine"), tmp_path) is None


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["eager", "openvino"])
def test_others_do_rounded_precisions(name, precision, tmp_path):
    if backends.unavailable(ref_of(name)):
        pytest.skip(f"{name} is not installed")
    case = case_of(precision)
    try:
        assert verdict(case, ref_of(name), tmp_path) is None
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    ("name", "precision", "told"),
    [
        ("eager", "int8_weight", "eager does fp32, bf16, fp16 on cpu, cuda; the case asks for int8_weight on cpu"),
        ("engine", "int8_static", "needs scales of activations"),
    ],
)
def test_what_a_backend_cannot_do_is_unavailable_and_says_what_it_can(name, precision, told):
    assert told in backends.unable(ref_of(name), case_of(precision))


def test_a_class_of_a_user_does_float32_on_the_cpu_unless_it_says_more(tmp_path):
    (tmp_path / "mine.py").write_text("from suites.backends.eager import Eager\nclass Mine(Eager): pass\n")
    ref = BackendRef(f"{tmp_path}/mine.py:Mine")
    assert backends.unable(ref, case_of("bf16")) is None, "its file is not executed to find out"
    with messages.raises(Unavailable):
        Job(case_of("bf16"), ref, tmp_path)


def test_what_is_prepared_for_another_precision_is_refused(tmp_path):
    for name in ("IgnoresPrecision", "CastsOutput"):
        made = Job(case_of("bf16"), ref_of(name), tmp_path)
        made.load()
        with messages.raises(Refused):
            made.prepare()


def test_one_that_claims_a_precision_is_seen_by_the_type_of_its_output(tmp_path):
    assert verdict(case_of("bf16"), ref_of("ClaimsPrecision"), tmp_path) == "output 0: dtype float32, expected bfloat16"


def test_one_that_lies_and_casts_its_output_is_not_seen_in_a_rounded_case(tmp_path):
    """It is more accurate than it has to be. docs/measurement.md says so."""
    assert verdict(case_of("bf16"), ref_of("Liar"), tmp_path) is None


@pytest.mark.parametrize("precision", ["int8_weight", "int8_weight_tensor", "int8_dynamic", "int4_weight"])
def test_one_that_does_not_quantise_is_wrong(precision, tmp_path):
    assert "relative error" in verdict(case_of(precision), ref_of("Liar"), tmp_path)


def test_numpy_has_no_bfloat16():
    case = Case("mlp", {"batch": 1}, precision="bf16", io="numpy")
    assert "io = torch" in case.impossible
    assert Case("mlp", {"batch": 1}, precision="fp16", io="numpy").impossible is None


def test_a_model_and_its_inputs_are_rounded_alike_for_everybody():
    model, inputs = models.get("bert-tiny").build()
    rounded = convert_model(model, "bf16")
    assert {one.dtype for one in rounded.parameters()} == {torch.bfloat16}
    given = convert_inputs((*inputs, torch.ones(2)), "bf16")
    assert [one.dtype for one in given] == [*(one.dtype for one in inputs), torch.bfloat16]


def test_the_reference_of_a_rounded_case_is_float64_of_the_rounded_weights():
    case = case_of("bf16")
    (found,) = reference.compute(case, 1)
    model, inputs = models.get("mlp").build(**case.build_arguments)
    wide = model.bfloat16().double()
    exact = wide(*(one.bfloat16().double() for one in inputs)).numpy()
    np.testing.assert_allclose(found.outputs[0], exact, rtol=1e-12)
    assert found.dtypes == ["bfloat16"]
    assert 1e-4 < found.eager_errors[0] < 1e-2


def test_the_reference_of_a_quantised_case_is_the_model_with_decoded_weights():
    """By the formula of the encoding; no function of the engine."""
    case = case_of("int8_weight")
    (found,) = reference.compute(case, 1)
    model, inputs = models.get("mlp").build(**case.build_arguments)
    exact = model.double()(inputs[0].double()).numpy()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            scale = (module.weight.float().abs().amax(1, keepdim=True) / 127).double()
            module.weight.copy_((torch.round(module.weight / scale) * scale).float())
    np.testing.assert_allclose(found.outputs[0], model(inputs[0].double()).numpy(), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.unquantised[0], exact, rtol=1e-12)


def test_the_weights_of_encoder_layers_of_torch_are_decoded_although_torch_would_fuse_the_layer():
    torch.manual_seed(0)  # of 1000 seeds, 4 have a weight so near a tie that this test rounds it the other way
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.inference_mode(), fused.switched_off(), quantised.Quantised("int8_weight", [x]):
        got = layer(x)
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        for weight in (one for one in layer.parameters() if one.ndim == 2):
            scale = weight.abs().amax(1, keepdim=True) / 127
            weight.copy_(torch.round(weight / scale) * scale)
        torch.testing.assert_close(got, layer(x), rtol=1e-5, atol=1e-5)


def test_activations_are_quantised_by_row():
    weight, x = torch.randn(3, 5), torch.randn(4, 5)
    with torch.inference_mode(), quantised.Quantised("int8_dynamic", [x]):
        got = torch.nn.functional.linear(x, weight)
    scales = [one.abs().amax(1, keepdim=True) / 127 for one in (x, weight)]
    whole = [torch.round(one / scale) for one, scale in zip((x, weight), scales, strict=True)]
    expected = (whole[0] * scales[0]).double() @ (whole[1] * scales[1]).double().T
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)


def test_rows_of_a_parameter_and_a_batch_of_one_product_are_read_as_the_engine_stores_them():
    """Also by negative ids. A table that is no parameter stays as it is."""
    table, x, ids = torch.nn.Parameter(torch.randn(4, 4)), torch.randn(3, 4), torch.tensor([1, -1, 3])
    scale = table.abs().amax(1, keepdim=True) / 127
    rounded = (torch.round(table / scale) * scale).detach()
    with torch.inference_mode(), quantised.Quantised("int8_weight", [x, ids]):
        indexed, buffer = table[ids], table.data.clone()[ids]
        selected = table.index_select(0, ids.abs())
        product = torch.einsum("bi,oi->bo", x, table)
    torch.testing.assert_close(indexed, rounded[ids])
    torch.testing.assert_close(buffer, table.data[ids], rtol=0, atol=0)
    torch.testing.assert_close(selected, rounded[ids.abs()])
    torch.testing.assert_close(product, x @ rounded.T)


def test_what_meets_no_input_and_what_is_no_weight_stays_as_it_is():
    one, other, x = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)
    with torch.inference_mode(), quantised.Quantised("int8_weight", [x]):
        constant, products = one @ other, x @ x
        varying = x @ one
    torch.testing.assert_close(constant, one @ other, rtol=0, atol=0)
    torch.testing.assert_close(products, x @ x, rtol=0, atol=0)
    assert not torch.equal(varying, x @ one)


def test_accuracy_is_against_the_model_as_it_is():
    plain = [np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([3])]
    known = Reference(plain, ["float32", "int64"], [0.0, 0.0], None, "quantised", plain)
    found = verify.accuracy([[np.array([[2.0, 1.0], [3.0, 1.0]]), np.array([3])]], [known])
    assert (found.relative, found.max_abs, found.agreement) == (pytest.approx(np.sqrt(2 / 15)), 1.0, 0.5)
    assert verify.accuracy([plain], [Reference(plain, ["float32"] * 2, [0.0, 0.0], None)]) is None


def test_a_run_states_precision_device_and_accuracy(tmp_path):
    text = f"""
name = "precisions"
backends = ["{FAKES}:Right", "{FAKES}:IgnoresPrecision", "eager"]
baseline = "{FAKES}:Right"
precision = ["bf16", "int8_weight"]
rounds = 3
[[models]]
name = "mlp"
options = {{ widths = "32-32" }}
"""
    made = plan.make(spec.parse(text, "precisions.toml"))
    found = runner.run(made, tmp_path, reporter.Reporter())
    rows = {(line.precision, line.backend.rpartition(":")[2]): line for line in found.summaries}
    told = "prepared for fp32 on cpu; the case asks for "
    for precision in ("bf16", "int8_weight"):
        line = rows[precision, "IgnoresPrecision"]
        assert (line.status, line.reason) == ("failed", told + precision)
        assert rows[precision, "Right"].status == "ok"
        assert rows[precision, "Right"].device == "cpu"
    assert rows["bf16", "eager"].status == "ok"
    assert rows["int8_weight", "eager"].status == "unavailable"
    assert rows["bf16", "Right"].accuracy is None
    accuracy = rows["int8_weight", "Right"].accuracy
    assert 1e-4 < accuracy.relative < 0.1
    assert 0 <= accuracy.agreement <= 1
    assert set(found.environment.devices) == {"cpu"}
    samples = store.read(found.path).of(Samples)
    assert {line.device for line in samples} == {"cpu"}


@pytest.mark.parametrize("line", ['precision = "bf61"', 'device = "gpu"', 'device = "nowhere.py:Gpu"'])
def test_unknown_names_are_told(line):
    text = 'name = "x"\nbackends = ["eager"]\n{}\n[[models]]\nname = "mlp"\n{}\n'
    for where in (text.format(line, ""), text.format("", line)):
        with messages.raises(UsageError):
            spec.parse(where, "x.toml")


def test_precisions_are_swept_for_the_suite_and_for_a_model():
    text = 'name = "x"\nbackends = ["eager"]\nprecision = ["fp32", "bf16"]\n[[models]]\nname = "mlp"\n'
    text += '[[models]]\nname = "transformer"\nprecision = "int8_weight"\n'
    ids = [case.id for case, _ in spec.parse(text, "x").cases()]
    assert ids == ["mlp/b1/t1/fp32", "mlp/b1/t1/bf16", "transformer/b1_s16/t1/int8_weight"]


def test_the_tables_of_precisions_and_devices_import_no_torch(root):
    import subprocess

    code = "import sys; from suites.harness.run import runner; from suites.harness.measure import device; "
    code += "device.load('cpu').facts(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
