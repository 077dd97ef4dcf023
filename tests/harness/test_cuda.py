"""The CUDA device without one: a stand-in for `torch.cuda`, Triton's interpreter for the engine, and no GPU at all."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import suites.backends as registry
from engine.processors import count_processors
from suites.backends.base import NotApplicable
from suites.backends.engine import Engine
from suites.backends.torch_compile import TorchCompile
from suites.cli import main
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import CUDA
from suites.harness.errors import Unavailable, UsageError
from suites.harness.measure import cuda, cuda_probe, device, job
from suites.harness.measure.job import Job
from suites.harness.present import markdown, overview
from suites.harness.record import store
from suites.harness.record.roofs import Roof, Roofs, Work
from suites.harness.record.schema import Summary
from suites.harness.run import checks, references
from tests import messages
from tests.harness import fake_cuda, records

MISSING = "no CUDA device: a test says so"


@pytest.fixture
def on_host(monkeypatch):
    """The stand-in, as what the name of the device stands for."""
    fake_cuda.install(monkeypatch)
    found = fake_cuda.OnHost()
    monkeypatch.setattr(device, "load", lambda _name: found)
    return found


@pytest.fixture
def missing(monkeypatch):
    """No device, also on a machine that has one."""
    monkeypatch.setattr(cuda.Cuda, "unavailable", lambda _self: MISSING)


def in_use(what):
    """The log without what is not of the device."""
    return [entry for entry in what if entry != "work"]


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_call_is_timed_by_events_from_an_idle_device_whose_cache_was_written(on_host):
    def call():
        fake_cuda.work(2.5)
        return "result"

    assert on_host.time_call(call) == (2.5e-3, "result")
    write = f"write {cuda.FLUSH_TIMES * fake_cuda.L2_BYTES}"
    expected = [write, "synchronise", "record", "work", "record", "synchronise"]
    assert expected == fake_cuda.LOG


def test_every_call_of_a_sample_is_timed_by_itself(on_host, tmp_path):
    made = Job(Case("mlp", {"batch": 2}, options={"widths": "16-16"}, device=CUDA), BackendRef("eager"), tmp_path)
    made.load()
    made.prepare()
    call = made.call
    made._prepared = SimpleNamespace(call=lambda *inputs: (fake_cuda.work(0.125), call(*inputs))[1], ready=None)
    made.verify()
    fake_cuda.LOG.clear()
    assert made._time(0, 3) == pytest.approx(0.125e-3)
    write, once = f"write {cuda.FLUSH_TIMES * fake_cuda.L2_BYTES}", ["synchronise", "record", "record", "synchronise"]
    assert in_use(fake_cuda.LOG) == [write, *once] * 3
    made._inner = 8
    turn = made.sample(2)
    assert turn["seconds"] == pytest.approx([0.125e-3] * 2)
    assert turn["output"] is None, "the last result is the one that was verified"


def test_what_is_not_timed_comes_before_the_cache_is_written(on_host, tmp_path):
    made = Job(Case("mlp", {"batch": 2}, options={"widths": "16-16"}, device=CUDA), BackendRef("eager"), tmp_path)
    made._prepared = SimpleNamespace(
        call=lambda *_inputs: fake_cuda.work(1.0), ready=lambda *_inputs: fake_cuda.LOG.append("ready")
    )
    made._inputs = [()] * job.INPUT_SETS
    assert made._time(0, 2) == pytest.approx(1e-3)
    assert [entry.partition(" ")[0] for entry in fake_cuda.LOG[:3]] == ["ready", "write", "synchronise"]
    assert fake_cuda.LOG.count("ready") == 2


def test_peak_memory_is_above_what_was_held_before(on_host):
    on_host.reset_peak()
    assert fake_cuda.LOG[0].startswith("write"), "the buffer is part of what was held"
    assert on_host.peak_bytes() == 64


def test_a_device_without_a_clock_says_so():
    with messages.raises(NotImplementedError):
        device.Cpu().time_call(lambda: None)


# --- facts and roofs -------------------------------------------------------------------------------------------------


def test_facts_and_roofs_of_a_device(monkeypatch):
    fake_cuda.install(monkeypatch)
    monkeypatch.setattr(cuda_probe, "SIZE", 16)
    real = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *pair, out: (fake_cuda.work(0.5), real(*pair, out=out))[1])
    monkeypatch.setattr(cuda_probe, "find_driver", lambda: "570.1.2")
    assert cuda_probe.answer("facts") == {
        "name": "a stand-in",
        "capability": "9.0",
        "memory_bytes": 1 << 20,
        "multiprocessors": 132,
        "l2_bytes": fake_cuda.L2_BYTES,
        "driver": "570.1.2",
        "cuda": torch.version.cuda,
    }
    copied = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *pair: (fake_cuda.work(0.25), copied(*pair))[1])
    found = Roofs.from_dict(json.loads(json.dumps(cuda_probe.answer("roofs"))))
    products = {name: found.rate(name, 1) for name in ("fp32", "bf16", "fp16")}
    assert products == dict.fromkeys(products, pytest.approx(2 * 16**3 / 0.5e-3))
    assert found.rate("memory", 1) == pytest.approx(2 * (1 << 17) / 0.25e-3), (
        "an eighth of the memory, read and written"
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build", "570.124.06"), ("", None)],
)
def test_the_version_of_the_driver_is_the_kernels(tmp_path, monkeypatch, text, version):
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    (tmp_path / "driver" / "nvidia" / "version").write_text(text)
    assert cuda_probe.find_driver(tmp_path) == version
    monkeypatch.setattr(cuda_probe, "output", lambda *_command: "535.5.1\n")
    assert cuda_probe.find_driver(tmp_path / "none") == "535.5.1"


def test_a_share_is_of_the_roofs_of_the_device_and_its_cache():
    rows = Roof("bf16", 1, 1e12, "FLOP/s", believed=True), Roof("memory", 1, 1e9, "B/s", believed=True)
    found, work = Roofs(rows, 0.0), Work(10**9, 10**7, "bf16")
    assert found.share(work, 1, 0.1, cache_bytes=1 << 20) == pytest.approx(0.1), "read from memory"
    assert found.share(work, 1, 0.1, cache_bytes=1 << 30) == pytest.approx(0.01), "found in the cache"


# --- no device -------------------------------------------------------------------------------------------------------


def test_tables_name_the_device():
    facts = {"name": "NVIDIA H100", "driver": "580.1", "cuda": "13.0", "memory_bytes": 1 << 36}
    found = records.environment(devices={"cuda": facts, "cpu": {"cpu": "x", "cores": 2, "memory_bytes": 1 << 30}})
    assert overview.describe_place(found, None) == "x, 2 cores, NVIDIA H100"
    assert "(x, 2 cores, Linux 6, NVIDIA H100, driver 580.1, CUDA 13.0), commit" in markdown.heading(found)
    assert overview.describe_place(records.environment(), None) == "x, 2 cores"


class WorkerStarted(Exception):
    """What a test raises in place of starting a worker."""


def test_references_of_the_device_are_not_those_of_the_processors(tmp_path, monkeypatch):
    def start(case, *_others, **_named):
        assert case.threads == count_processors(), "nothing else uses them meanwhile"
        raise WorkerStarted

    monkeypatch.setattr(references, "Worker", start)
    known = references.References(tmp_path, 1.0)
    here, there = (Case("mlp", {"batch": 1}, device=place) for place in ("cpu", "cuda"))
    known._known[here.computation, here.device] = ["right"]  # computed before
    assert known.get(here) == ["right"]
    with pytest.raises(WorkerStarted), known.prefetching(there):
        pass


@pytest.mark.usefixtures("missing")
def test_a_missing_device_is_told_before_missing_processors():
    many = Case("mlp", {"batch": 1}, threads=999)
    assert (checks.unavailable(many, BackendRef("eager")) or "").startswith("needs 999 processors")
    assert checks.unavailable(replace(many, device=CUDA), BackendRef("eager")) == MISSING


def test_a_torch_without_a_device_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    told = {"unavailable": f"no CUDA device: torch {torch.__version__} is built without CUDA"}
    assert cuda_probe.answer("facts") == cuda_probe.answer("roofs") == told
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert cuda_probe.answer("facts") == {"unavailable": "no CUDA device: torch finds none that it can use"}


def test_the_process_that_asks_the_device_answers(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    cuda.ask.cache_clear()
    assert cuda.ask("facts")["unavailable"].startswith("no CUDA device: torch ")
    cuda.ask.cache_clear()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; sys.exit('RuntimeError: lost')", "no CUDA device can be used: RuntimeError: lost"),
        ("import os; os._exit(3)", "no CUDA device can be used: exit 3"),
        ("print('no answer')", "no CUDA device can be used: JSONDecodeError while asking for its facts"),
    ],
)
def test_a_process_that_fails_is_a_reason(monkeypatch, script, told):
    real = subprocess.run
    monkeypatch.setattr(cuda.subprocess, "run", lambda _command, **how: real([sys.executable, "-c", script], **how))
    cuda.ask.cache_clear()
    assert cuda.ask("facts") == {"unavailable": told}
    cuda.ask.cache_clear()


def test_a_missing_driver_is_found_without_a_process(monkeypatch):
    monkeypatch.setattr(cuda, "DRIVER", "libcuda-of-nobody.so.1")
    monkeypatch.setattr(cuda, "ask", lambda _what: pytest.fail("no process is needed"))
    cuda._find_missing_driver.cache_clear()
    told = "no CUDA device: libcuda-of-nobody.so.1, the library of its driver, is not installed"
    assert cuda.Cuda().unavailable() == told
    cuda._find_missing_driver.cache_clear()


def test_the_parent_does_not_import_torch():
    script = (
        "import sys\nfrom suites.harness.measure import device\ndevice.load('cuda').unavailable()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.usefixtures("missing")
def test_machine_says_in_one_line_that_there_is_no_device(capsys):
    for arguments in (["machine"], ["machine", "--json"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
    out, _ = capsys.readouterr()
    assert f"cuda {' ' * 12}{MISSING}" in out.replace("  cuda", "cuda")
    assert f'"unavailable": "{MISSING}"' in out


# --- the suite -------------------------------------------------------------------------------------------------------


def test_the_suite_has_prompts_and_tokens_in_every_precision():
    cases = [(case, [ref.label for ref in refs]) for case, refs in spec.load(spec.find("gpu")).cases()]
    competitors = ["eager", "torch_compile", "torch_compile[mode=max-autotune]", "engine"]
    assert all(labels == competitors and case.device == CUDA for case, labels in cases)
    asked = {
        (case.model, case.options.get("phase"), case.precision, case.shape["batch"], case.shape["sequence"])
        for case, _ in cases
    }
    phases = [("gpt2", "prefill"), ("gpt2", "decode"), ("qwen3", "prefill"), ("qwen3", "decode"), ("bert", None)]
    precisions = ("fp32", "fp16", "bf16", "int8_weight")
    assert asked == {(*one, kind, batch, 512) for one in phases for kind in precisions for batch in (1, 8)}


@pytest.mark.usefixtures("missing")
def test_without_a_device_every_row_is_unavailable_and_nothing_fails(capsys, tmp_path):
    only = "model == 'bert' and batch == 1 and precision in ('fp32', 'int8_weight')"
    with pytest.raises(SystemExit) as ended:
        main(["run", "gpu", "--only", only, "--results", str(tmp_path)])
    assert not ended.value.code
    out, _ = capsys.readouterr()
    assert MISSING in " ".join(out.split())
    (path,) = store.all_run_files(tmp_path)
    run = store.read(path)
    rows = {(line.precision, line.backend): line for line in run.of(Summary)}
    assert len(rows) == 10
    assert {line.status for line in rows.values()} == {"unavailable"}
    assert {line.reason for (kind, _), line in rows.items() if kind == "fp32"} == {MISSING}
    assert rows["int8_weight", "engine"].reason == MISSING
    assert rows["int8_weight", "eager"].reason.startswith("eager does fp32, bf16, fp16 on cpu, cuda")
    assert run.environment.devices == {CUDA: {"unavailable": MISSING}}


@pytest.mark.usefixtures("missing")
def test_the_cases_are_listed_without_a_device(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "gpu", "--dry-run"])
    assert not ended.value.code
    out, _ = capsys.readouterr()
    assert out.count("/device=cuda ") == 40


# --- backends --------------------------------------------------------------------------------------------------------


def engine_on_cuda():
    made = Engine(1, {})
    made.device = CUDA
    return made


def test_the_engine_runs_its_triton_target_on_cuda(tmp_path):
    pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")
    model, inputs = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), (torch.ones(2, 8),)
    made = engine_on_cuda()
    prepared = made.prepare(model, inputs)
    assert made.config()["target"] == "triton"
    assert prepared.device == CUDA
    assert prepared.facts["launches"] > 0
    torch.testing.assert_close(prepared.call(*inputs), model(*inputs).detach())
    first, later = engine_on_cuda(), engine_on_cuda()
    first.exports = later.exports = tmp_path
    first.prepare(model, inputs)
    assert not later.needs_model()
    again = later.prepare(None, inputs)
    assert again.device == CUDA
    torch.testing.assert_close(again.call(*inputs), model(*inputs).detach())
    assert Engine(1, {}).config()["target"] == "cpu"


def test_the_engine_takes_the_options_of_the_targets_of_its_devices(monkeypatch):
    pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")
    import engine
    from engine.targets.triton.target import TritonTarget

    ref = BackendRef.parse("engine[tf32=on]")
    registry.check(ref)
    seen = []
    real = TritonTarget.executable

    def executable(target, graph, config, *arguments, **keywords):
        seen.append(config.tf32)
        return real(target, graph, config, *arguments, **keywords)

    monkeypatch.setattr(TritonTarget, "executable", executable)
    model, inputs = torch.nn.Linear(8, 8).eval(), (torch.ones(2, 8),)
    made = Engine(1, ref.options)
    made.device = CUDA
    torch.testing.assert_close(made.prepare(model, inputs).call(*inputs), model(*inputs).detach())
    assert seen == [True]
    with messages.raises(UsageError):
        registry.check(BackendRef.parse("engine_interpreter[tf32=on]"))
    with messages.raises(engine.ConfigError):
        Engine(1, ref.options).prepare(model, inputs)
    for prepare in (lambda other: other.prepare(model, inputs), lambda other: other.generator(None, ())):
        other = Engine(1, {"isa": "avx2"})
        other.device = CUDA
        with messages.raises(engine.ConfigError):
            prepare(other)


def test_kernel_variants_are_those_of_the_target_of_the_case():
    pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")
    import engine

    ref = BackendRef.parse("engine[variant.softmax=loop]")
    registry.check(ref)
    model, inputs = torch.nn.Softmax(-1).eval(), (torch.ones(2, 8),)
    made = Engine(1, ref.options)
    made.device = CUDA
    torch.testing.assert_close(made.prepare(model, inputs).call(*inputs), model(*inputs))
    with messages.raises(engine.ConfigError):
        Engine(1, ref.options).prepare(model, inputs)
    for options in ("variant.softmax=lop", "variant.softmx=loop", "planner=none"):
        with messages.raises(engine.ConfigError):
            registry.check(BackendRef.parse(f"engine[{options}]"))


def test_a_target_that_cannot_run_makes_the_row_unavailable(monkeypatch):
    from engine.targets.triton.target import TritonTarget

    monkeypatch.setattr(TritonTarget, "unavailable", lambda _self: "compute capability 7.0; kernels need 8.0")
    with messages.raises(Unavailable):
        engine_on_cuda().prepare(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with messages.raises(Unavailable):
        engine_on_cuda().generator(None, ())
    assert not issubclass(Unavailable, NotApplicable)


@pytest.mark.parametrize(("place", "mode", "lasts"), [(CUDA, "max-autotune", True), ("cpu", "max-autotune", False)])
def test_results_of_cuda_graphs_are_not_overwritten(monkeypatch, place, mode, lasts):
    kept = torch.zeros(2)

    def replay(value):
        kept.copy_(value)
        return {"hidden": kept, "cache": None}

    made = TorchCompile(1, {"mode": mode})
    made.device = place
    monkeypatch.setattr(made, "_compiled", lambda _model: replay)
    call = made.prepare(torch.nn.Linear(2, 2), (torch.ones(2),)).call
    first, _second = call(torch.ones(2)), call(torch.zeros(2))
    assert torch.equal(first[0] if lasts else first["hidden"], torch.ones(2) if lasts else torch.zeros(2))
    step = made._with_lasting(kept.copy_)
    assert (step(torch.ones(2)) is kept) is not lasts
