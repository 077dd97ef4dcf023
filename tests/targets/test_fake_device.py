"""Every tiny model on a device that NumPy cannot reach: what all targets share goes through protocols alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import targets
from engine.errors import ConfigError, ExecutionError, ProgramError
from suites import models
from tests import messages
from tests.exports import export_model
from tests.golden import models as golden
from tests.targets.fake import FAKE

if "fake" not in targets.TARGETS:
    targets.register(FAKE)

TINY = [name for name in models.names() if name.endswith("-tiny")]


def on(target: str, **fields: object) -> engine.Config:
    return engine.Config(target=target, **fields)


def bits(results: object) -> list[bytes]:
    leaves = torch.utils._pytree.tree_leaves(results)
    return [leaf.contiguous().view(torch.uint8).numpy().tobytes() if leaf.ndim else leaf.numpy().tobytes()
            for leaf in leaves]  # fmt: skip


@pytest.mark.parametrize("name", TINY)
def test_a_model_gives_the_bits_of_the_interpreter(name):
    _model, inputs, exported = export_model(name)
    fake, plain = (engine.compile(exported, inputs, on(target)) for target in ("fake", "interpreter"))
    for _ in range(2):  # the second call finds a context that the first one warmed up
        assert bits(fake(*inputs)) == bits(plain(*inputs))
    assert fake.report().arena_bytes >= fake.report().arena_lower_bound_bytes
    assert {kernel.startswith("fake_") for kernel, _ in fake.report().kernels} == {True}


@pytest.mark.parametrize("planner", ["default", "in_order", "no_reuse"])
def test_memory_plans_hold_on_the_device(planner):
    _model, inputs, exported = export_model("bert-tiny")
    fake = engine.compile(exported, inputs, on("fake", planner=planner))
    assert bits(fake(*inputs)) == bits(engine.compile(exported, inputs, on("interpreter"))(*inputs))


def test_a_trace_shows_what_the_interpreter_shows():
    _model, inputs, exported = export_model("transformer-tiny")
    traces = [engine.compile(exported, inputs, on(target)).trace(*inputs) for target in ("fake", "interpreter")]
    for one, other in zip(*(trace.nodes for trace in traces), strict=True):
        assert one.to_dict() | {"seconds": 0, "device": ""} == other.to_dict() | {"seconds": 0, "device": ""}


def test_states_stay_on_the_device_and_calls_with_another_one_change_only_that():
    # A layer of the model is bfloat16, and the target reads no encoded weights.
    program, plain = (
        engine.compile(golden.set_weights(golden.Small()), golden.example(), on(target, activations="model"))
        for target in ("fake", "interpreter")
    )
    ids, scale = golden.example()
    states = {name: [one.new_state() for _ in range(2)] for name, one in (("fake", program), ("plain", plain))}
    for number, times in ((0, 3), (1, 1)):
        for _ in range(times):
            got, expected = (
                program(ids, scale, state=states["fake"][number]),
                plain(ids, scale, state=states["plain"][number]),
            )
            assert bits(got) == bits(expected)
    for number in (0, 1):
        np.testing.assert_array_equal(states["fake"][number]["total"], states["plain"][number]["total"])
    before = states["fake"][0]["total"].copy()
    program.trace(ids, scale, state=states["fake"][0])
    np.testing.assert_array_equal(states["fake"][0]["total"], before)
    states["fake"][0].reset()
    assert not states["fake"][0]["total"].any()


@pytest.mark.long
def test_a_decoder_generates_the_same_text():
    texts = [
        engine.compile_decoder(golden.set_weights(golden.Tied()), golden.MAX_LENGTH, config=on(target)).generate(
            np.array([[3, 17, 4]]), 6
        )
        for target in ("fake", "interpreter")
    ]
    np.testing.assert_array_equal(*texts)


def test_a_program_is_saved_and_loaded_on_the_device(tmp_path):
    _model, inputs, exported = export_model("bert-tiny")
    engine.compile(exported, inputs).save(tmp_path / "p.engine")
    loaded = engine.load(tmp_path / "p.engine", config=on("fake"))
    plain = engine.load(tmp_path / "p.engine", config=on("interpreter"))
    assert bits(loaded(*inputs)) == bits(plain(*inputs))
    loaded.save(tmp_path / "again.engine")
    assert engine.load(tmp_path / "again.engine").digest == plain.digest


def test_constants_do_not_follow_the_model():
    model, x = nn.Linear(4, 3).eval(), torch.ones(2, 4)
    program = engine.compile(model, (x,), on("fake"))
    expected = program(x)
    with torch.no_grad():
        model.weight.zero_()
    assert bits(program(x)) == bits(expected)


def test_an_error_that_comes_late_names_its_step():
    table, ids = nn.Embedding(4, 8).eval(), torch.tensor([1, 9])
    program = engine.compile(table, (torch.tensor([1, 2]),), on("fake"))
    with pytest.raises(ExecutionError, match=r"^embedding at .*: "):
        program(ids)
    assert bits(program(torch.tensor([1, 2]))) == bits(table(torch.tensor([1, 2])).detach())


def test_runs_are_enqueued_and_happen_when_somebody_waits():
    model, x = nn.Linear(4, 3).eval(), torch.ones(2, 4)
    program = engine.compile(model, (x,), on("fake"))
    context = program._example.executable.ready_context()
    out = np.zeros((2, 3), np.float32)
    context.run([x.numpy()], [out])
    assert FAKE.device.queue
    assert not out.any()
    context.synchronize()
    assert out.any()
    assert not FAKE.device.queue


def test_every_instruction_that_the_target_cannot_run_is_listed(monkeypatch):
    monkeypatch.setattr(FAKE, "supports", lambda op, _inputs, _attributes: "no kernel" if op == "linear" else None)
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1), nn.Linear(3, 2)).eval()
    with pytest.raises(ProgramError) as caught:
        engine.compile(model, (torch.ones(2, 4),), on("fake"))
    head, *lines = str(caught.value).split("\n")
    assert head == "target fake cannot run this program:"
    assert len(lines) == 2
    assert all(line.startswith("  linear at ") and line.endswith(": no kernel") for line in lines)


def test_a_target_without_a_clock_has_no_profile():
    model, x = nn.Linear(4, 3).eval(), torch.ones(2, 4)
    with messages.raises(ConfigError):
        engine.compile(model, (x,), on("fake")).profile(x)


def test_a_second_target_of_one_name_is_refused():
    with messages.raises(ConfigError):
        targets.register(targets.get("cpu"))
