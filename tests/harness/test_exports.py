"""A process reads what an earlier one exported or compiled: with the same answers, and without the model."""

from __future__ import annotations

import pytest
import torch

from suites import backends
from suites.backends.base import flatten
from suites.harness.declare.case import BackendRef, Case
from suites.harness.measure.job import Job
from suites.harness.run.runner import _Exports


def backend(name, exports):
    ref = BackendRef(name)
    reason = backends.unavailable(ref)
    if reason is not None:
        pytest.skip(reason)
    made = backends.load(ref)(1, {})
    made.exports = exports
    made.load()
    return made


@pytest.mark.parametrize("name", [pytest.param("onnxruntime", marks=pytest.mark.long), "openvino"])
def test_an_exported_model_is_read_by_the_next_process(name, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    first = backend(name, tmp_path).prepare(model, (x,))
    again = backend(name, tmp_path).prepare(None, (x,))
    assert first.export_s is not None
    assert again.export_s is None, "nothing was exported, so no time is stated"
    with torch.no_grad():
        expected = model(x)
    for prepared in (first, again):
        torch.testing.assert_close(prepared.call(x)[0], expected)
    assert torch.equal(first.call(x)[0], again.call(x)[0])


def test_openvino_compiles_for_the_sizes_of_the_inputs(tmp_path):
    class Scaled(torch.nn.Module):
        def forward(self, x, factor, unused):
            return x * factor

    inputs = (torch.randn(3, 8), torch.tensor(2.0), torch.randn(4))
    first, again = (backend("openvino", tmp_path).prepare(model, inputs) for model in (Scaled(), None))
    for prepared in (first, again):
        torch.testing.assert_close(prepared.call(*inputs)[0], inputs[0] * 2)
        with pytest.raises(RuntimeError, match="incompatible"):
            prepared.call(torch.randn(4, 8), *inputs[1:])


@pytest.mark.parametrize("name", ["engine", "onnxruntime", "openvino"])
def test_a_process_that_reads_what_another_one_kept_does_not_build_the_model(name, tmp_path, monkeypatch):
    case, ref = Case("mlp", {"batch": 1}, options={"widths": "16-16"}), BackendRef(name)
    if backends.unavailable(ref) is not None:
        pytest.skip(backends.unavailable(ref))

    def job():
        made = Job(case, ref, tmp_path, tmp_path, tmp_path)
        made.load()
        return made

    first = job()
    first.prepare()
    again = job()
    monkeypatch.setattr(Job, "_build", lambda _self: pytest.fail("the model was built"))
    again.prepare()
    x = first.inputs[0]
    assert torch.equal(flatten(first.call(*x))[0], flatten(again.call(*x))[0])


def test_the_engine_shares_a_program_among_threads_and_not_among_options(tmp_path):
    arguments = {"shape": {"batch": 1}, "options": {"widths": "16-16"}}

    def job(threads, **options):
        ref = BackendRef("engine", options)
        made = Job(Case("mlp", arguments["shape"], threads, options=arguments["options"]), ref, tmp_path, tmp_path)
        made.load()
        return made

    facts = job(1).prepare()["facts"]
    again = job(2)
    assert not again._needs_model()
    assert again.prepare()["facts"]["artifact_bytes"] == facts["artifact_bytes"] > 0
    assert job(1, disable="fuse_epilogue")._needs_model(), "another program"


@pytest.mark.long
def test_a_model_that_generates_text_is_always_built(tmp_path):
    case = Case("gpt2-tiny", {"batch": 1, "sequence": 8}, options={"phase": "decode", "steps": 2})
    for _ in range(2):
        made = Job(case, BackendRef("onnxruntime"), tmp_path, tmp_path, tmp_path)
        made.load()
        made.prepare()
    assert not made._backend.needs_model()
    assert made.call(*made.inputs[0])


def test_a_run_exports_a_model_once_for_all_threads_and_every_time_for_another_size(tmp_path):
    exports = _Exports(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    one, two, other = Case("mlp", {"batch": 1}, 1), Case("mlp", {"batch": 1}, 2), Case("mlp", {"batch": 2}, 1)
    caches = [tmp_path / name for name in ("one", "two", "other")]
    for cache in caches:
        cache.mkdir()
    (caches[0] / "exports_onnxruntime").mkdir()
    (caches[0] / "exports_onnxruntime/model").write_text("exported")
    (caches[0] / "inductor").mkdir()
    exports.lend(one, caches[0])
    exports.take_back(one, caches[0])
    exports.lend(two, caches[1])
    assert (caches[1] / "exports_onnxruntime/model").read_text() == "exported"
    assert not (caches[1] / "inductor").exists()
    exports.take_back(two, caches[1])
    exports.lend(other, caches[2])
    assert not list(caches[2].iterdir())
