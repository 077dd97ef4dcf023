"""Generating text as cases: what is computed, that each step is checked, what is timed and what is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from suites import models
from suites.backends.base import Backend, Generator
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import Question, summarise
from suites.harness.measure import job as jobs
from suites.harness.present import details, overview
from suites.harness.record import roofs
from suites.harness.record.roofs import Roof, Roofs, Work
from suites.harness.run import plan
from suites.harness.run.single import CannotRun, Failed, SingleRuns
from tests import messages
from tests.harness import records

FAKES = Path(__file__).with_name("fake_decoders.py")
PROMPT, STEPS = 9, 5


def case(model, phase, **shape):
    sizes = {"batch": 1, "sequence": PROMPT} | shape
    return Case(model, sizes, options={"phase": phase, "steps": STEPS})


def verified(asked, backend):
    suite = spec.of_model(asked.model, {}, backends=["eager"])
    with SingleRuns() as runs:
        return runs.measure(asked, BackendRef(backend), suite, timed=False)


def built(model, phase, **shape):
    return models.get(model).build(**case(model, phase, **shape).build_arguments)


# --- what is computed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2-tiny", "qwen3-tiny", "stories15m-tiny"])
def test_behind_each_token_of_a_greedy_text_the_likeliest_is_the_next(name):
    """transformers' own `generate` makes the text; the module is given it and must find each next token likeliest."""
    model, (prompt, _) = built(name, "decode")
    text = model.network.generate(prompt, max_new_tokens=STEPS + 1, do_sample=False, pad_token_id=0)
    assert text.shape == (1, PROMPT + STEPS + 1)
    with torch.no_grad():
        found = model(prompt, text[:, PROMPT:-1])
        (first,) = built(name, "prefill")[0](prompt)
    assert [logits.argmax(-1).item() for logits in (first, *found)] == text[0, PROMPT:].tolist()


def test_the_weights_are_those_of_the_model_that_scores():
    scoring, (ids,) = models.get("gpt2-tiny").build(batch=1, sequence=PROMPT)
    model, (prompt,) = built("gpt2-tiny", "prefill")
    assert torch.equal(ids, prompt)
    torch.testing.assert_close(model(prompt)[0], scoring(ids)[:, -1])


def test_a_text_that_the_model_has_no_positions_for_is_refused_before_anything_runs():
    text = """
name = "x"
backends = ["eager"]
[[models]]
name = "gpt2-tiny"
shape = { sequence = 60 }
options = { phase = "decode", steps = 5 }
"""
    with messages.raises(spec.UsageError):
        spec.parse(text, "x.toml")


# --- that steps are checked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "backend", "phase", "batch"),
    [
        ("gpt2-tiny", "eager", "prefill", 2),
        pytest.param("qwen3-tiny", "eager", "decode", 2, marks=pytest.mark.long),
        ("stories15m-tiny", "eager", "decode", 1),
        ("gpt2-tiny", "engine", "decode", 1),
        pytest.param("qwen3-tiny", "engine", "decode", 2, marks=pytest.mark.long),
        pytest.param("gpt2-tiny", "onnxruntime", "decode", 1, marks=pytest.mark.long),
        pytest.param("gpt2-tiny", "openvino", "decode", 1, marks=pytest.mark.long),
    ],
)
def test_every_backend_steps_to_the_logits_of_the_model_without_a_cache(model, backend, phase, batch):
    found = verified(case(model, phase, batch=batch), backend)
    assert 0 < found.error < 1e-5
    assert found.facts["tokens"] == {phase: batch * (PROMPT if phase == "prefill" else STEPS)}
    if backend == "engine":  # every step goes over the whole cache
        assert found.facts["executed_flops"] % STEPS == 0
        assert found.facts["executed_flops"] >= built(model, phase, batch=batch)[0].facts()["flops"]


@pytest.mark.parametrize(
    ("precision", "phase"),
    [
        ("int8_weight", "decode"),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (("int8_weight", "prefill"), ("int8_dynamic", "prefill"), ("int8_dynamic", "decode"))
        ),
    ],
)
def test_a_decoder_quantises_what_the_definition_does(precision, phase):
    """The table of positions, too, which both read by index."""
    asked = replace(case("gpt2-tiny", phase), precision=precision)
    assert 0 < verified(asked, "engine").error < 1e-5


@pytest.mark.parametrize(
    ("fault", "wrong"), [("StaleCache", "output 1: "), ("OldPrompt", "output 0: "), ("OneBuffer", "output 0: ")]
)
def test_a_planted_fault_is_wrong_where_it_begins_and_is_not_timed(fault, wrong):
    """The first step of a stale cache is right; only later ones miss something."""
    with pytest.raises(Failed, match=f"wrong: {wrong}"):
        verified(case("qwen3-tiny", "decode"), f"{FAKES}:{fault}")


def test_a_backend_that_cannot_generate_says_so():
    with messages.raises(CannotRun):
        verified(case("gpt2-tiny", "decode"), f"{__file__}:Plain")


class Plain(Backend):
    """A backend of a user, made before there was any text to generate."""

    def load(self):
        pass

    def prepare(self, model, inputs):
        raise AssertionError("not asked")


# --- what is timed ------------------------------------------------------------------------------------------------


class Clocked(Backend):
    """Counts seconds instead of spending them: 100 a prompt, 1 a step."""

    now = 0.0

    def load(self):
        pass

    def prepare(self, model, inputs):
        raise AssertionError("not asked")

    def generator(self, model, inputs):
        def spend(seconds):
            Clocked.now += seconds
            return torch.zeros(1, 3)

        return Generator(lambda _prompt: spend(100.0), lambda _token: spend(1.0))


@pytest.mark.parametrize(("phase", "seconds"), [("prefill", 100.0), ("decode", float(STEPS))])
def test_only_the_phase_is_timed(phase, seconds, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs.backends, "load", lambda _ref: Clocked)
    monkeypatch.setattr(jobs.time, "perf_counter", lambda: Clocked.now)
    job = jobs.Job(case("gpt2-tiny", phase), BackendRef("eager"), tmp_path)
    assert job.prepare()["first_call_s"] == seconds
    assert job.sample(3)["seconds"] == [seconds] * 3


# --- what is shown ------------------------------------------------------------------------------------------------

BANDWIDTH = 20e9
MACHINE = Roofs((Roof("fp32", 1, 1e12, "FLOP/s", believed=True), Roof("memory", 1, BANDWIDTH, "B/s", believed=True)), 0)


def summary(facts, seconds):
    lines = [
        records.samples(backend=label, generation=number, seconds=[[seconds]] * 5, facts=facts)
        for label in ("eager", "engine")
        for number in range(2)
    ]
    refs = [BackendRef("eager"), BackendRef("engine")]
    return summarise(Question(case("gpt2-tiny", "decode"), refs, "eager", 0.02, MACHINE), lines, MachineNoise())


def test_times_are_stated_a_token_and_rates_in_the_details(monkeypatch):
    monkeypatch.setattr(roofs, "last_level_bytes", lambda: 32 << 20)
    facts = {"tokens": {"decode": 16}, "steps": 16, "flops": 10, "bytes": int(16 * 40e6)}
    *_, line = summary(facts, 0.064)
    assert (line.s_per_token.prefill, line.s_per_token.decode) == (None, pytest.approx(0.004))
    assert line.ttft_s is None
    assert line.roof_share == pytest.approx(16 * 40e6 / BANDWIDTH / 0.064), "of reading the weights in each step"
    shown = overview.describe([line], records.environment(), None).lines[0]
    assert (shown.unit, shown.times[0].text) == ("ms/token", "4.00")
    assert details.QUANTITIES["tokens/s"](line) == "250"
    assert details.QUANTITIES["tokens/s of prompt"](line) == "-"


def test_the_call_that_prefills_ends_with_the_first_token():
    line = summary({"tokens": {"prefill": 128}, "steps": 1, "flops": 10, "bytes": 10}, 0.5)[0]
    assert (line.s_per_token.prefill, line.s_per_token.decode) == (pytest.approx(0.5 / 128), None)
    assert line.ttft_s == pytest.approx(0.5)


def test_weights_that_fit_the_last_cache_are_not_read_from_memory_in_every_step(monkeypatch):
    monkeypatch.setattr(roofs, "last_level_bytes", lambda: 32 << 20)
    work = Work(int(1e9), 100 * (20 << 20), steps=100)
    assert MACHINE.share(work, 1, seconds=1.0) == pytest.approx(1e9 / 1e12)


def test_the_work_of_a_step_is_the_weights_and_what_the_cache_holds():
    """By hand, for two layers 32 wide with two heads of 16: GPT-2's matrices and vectors, its head, its cache."""
    width, vocabulary = 32, 211
    matrices, vectors = 2 * 12 * width * width, 2 * (9 + 4) * width + 2 * width
    body, head = matrices + vectors, vocabulary * width
    context = [PROMPT + step + 1 for step in range(STEPS)]
    facts = built("gpt2-tiny", "decode")[0].facts()
    assert facts["bytes"] == 4 * (STEPS * (body + head) + sum(2 * 2 * width * length for length in context))
    assert facts["flops"] == 2 * STEPS * (body + head) + sum(2 * 2 * 2 * width * length for length in context)
    assert (facts["tokens"], facts["steps"]) == ({"decode": STEPS}, STEPS)
    cache = sum(2 * 2 * width * length for length in context)
    assert built("gpt2-tiny", "decode")[0].facts(4)["bytes"] == STEPS * (body + head) // 2 + 4 * cache


@pytest.mark.long
def test_the_operations_that_the_engine_executes_follow_its_program():
    """The work of a call is the same for everybody; so only what kernels execute shows a pass that finds less."""
    from suites.backends.engine import Engine

    model, inputs = built("gpt2-tiny", "decode")
    usual, unfused = (Engine(1, options).generator(model, inputs).facts for options in ({}, {"disable": "fuse_gelu"}))
    assert unfused["nodes"] > usual["nodes"]
    assert unfused["executed_flops"] != usual["executed_flops"]
    assert usual["executed_flops"] % STEPS == 0
    assert usual["executed_flops"] >= model.facts()["flops"]  # every step goes over the whole cache


def test_a_suite_may_say_what_its_workers_take_before_any_has_run(tmp_path):
    suite = spec.load(spec.find("generation"))
    asked = plan.make(suite, "model == 'gpt2' and threads == 1")
    basis = "assuming 40 s a process, since no record has these models"
    assert asked.estimate(tmp_path) == (40.0 * 2 * 6 * 2 + 2 * plan.CASE_S, basis)
    assert "worker_s" not in asked.to_dict()
