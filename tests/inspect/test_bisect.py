"""Which switch makes a model fail: what is searched, what a trial may end in, and what is said."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import engine
from engine.errors import ComparisonError, ConfigError, EngineError
from engine.inspect.observe import save_case
from engine.inspect.search import count_repeats, find_first, minimise
from engine.inspect.trials import Outcome, Trials
from tests import messages
from tests.inspect.planted import cases, switch_cases
from tests.inspect.planted.plant import read_faults

FAULTS = [
    fault for fault in read_faults() if not fault.is_native and not isinstance(getattr(cases, fault.case)()[1], list)
]
QUICK = (
    "batch-norm-leaves-the-bias-of-the-convolution-unscaled",
    "merged-weights-are-joined-in-another-order-than-sliced",
    "last-panel-is-not-packed",
    "scale-of-a-channel-ignores-negative-weights",
    "query-that-sees-no-key-becomes-nan",
)
"""A pass, several rewrites, a kernel, a layer's precision, the exporter: the others run in the long form."""


def bisect_planted(fault, monkeypatch):
    monkeypatch.setenv("PLANTED", fault.name)
    model, inputs = getattr(cases, fault.case)()
    return engine.bisect(
        model,
        inputs,
        "nan" if fault.kind == "nan" else "wrong",
        candidate=engine.Config(**fault.config),
        setup=["tests.inspect.planted.trial"],
    )


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # of torch, which copies x there
@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.long, id=one.name) for one in FAULTS],
)
def test_the_switch_of_a_fault_is_blamed(fault, monkeypatch):
    found = bisect_planted(fault, monkeypatch)
    blamed = [str(cause) for reason in found.found for cause in reason.causes]
    assert blamed, str(found)
    assert all(one.startswith(fault.switches) for one in blamed), str(found)
    assert found.is_mended == (blamed != ["export (before any pass)"])


def words_of(cause):
    """A cause as switches.toml writes it."""
    name = cause.name.partition("#")[0].partition("=")[0]
    return {"kernel": f"kernel {name}", "rewrite": name, "pass": name}.get(cause.kind, cause.kind)


@pytest.mark.long  # each takes some seconds
@pytest.mark.parametrize("fault", read_faults("switches.toml"), ids=lambda fault: fault.name)
def test_the_switches_of_a_fault_of_two_are_blamed(fault, monkeypatch):
    monkeypatch.setenv("PLANTED", fault.name)
    model, inputs = (getattr(cases, fault.case, None) or getattr(switch_cases, fault.case))()
    config, setup = engine.Config(**fault.config), ["tests.inspect.planted.trial"]
    found = engine.bisect(model, inputs, fault.kind, candidate=config, setup=setup, limit=5.0)
    (reason, *_others) = found.found
    blamed = {words_of(cause) for cause in reason.causes}
    reached = blamed | set(map(words_of, reason.reached))
    wanted = [set(one.split(" & ")) for one in fault.blame]
    assert blamed in wanted or reached in wanted, str(found)
    assert found.is_mended, str(found)


# --- searching --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.data())
def test_the_first_that_fails_is_found(count, data):
    first, asked = data.draw(st.integers(1, count)), []
    assert find_first(count, lambda number: asked.append(number) or number >= first) == first
    assert len(asked) <= np.ceil(np.log2(count)) + 1


@given(st.integers(1, 60), st.data())
def test_what_fails_together_is_found(count, data):
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    asked = []
    found = minimise(range(count), lambda items: asked.append(items) or needed <= set(items))
    assert set(found) == needed
    assert len(asked) <= 12 * len(needed) * (np.log2(count) + 1)


def test_a_failure_that_is_rare_is_given_enough_runs():
    assert count_repeats(4, 4) == 1
    assert count_repeats(2, 4) == 7  # 0.5 ** 7 is less than 1%
    assert count_repeats(1, 100) == 30


# --- trials -----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Two linears, and an op that nothing is fused with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x):
        return torch.cumsum(self.down(torch.relu(self.up(x))), 1)


MODEL, X = Block().eval(), torch.randn(5, 24, generator=torch.Generator().manual_seed(0))


def own_pass(folder, body, name="broken"):
    """A pass of a user that does `body` at each cumsum."""
    path = folder / f"{name}.py"
    lines = "".join(f"            {line}\n" for line in body)
    path.write_text(
        "import os, time\n\n\ndef run(graph):\n    for node in graph.candidates():\n"
        f'        if node.op.name == "cumsum":\n{lines}    return 0\n'
    )
    return f"{path}:run"


REPLACE = ["graph.replace(node.output, node.operand('x'))", "graph.remove([node])"]


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("error", ["raise KeyError('cumsum_7')"], "KeyError"),
        ("crash", ["os.kill(os.getpid(), 11)"], "the process ended by SIGSEGV"),
        pytest.param("crash", ["os._exit(3)"], "by exit status 3", marks=pytest.mark.long),
        pytest.param(
            "hang", ["time.sleep(60)"], "no end within 2 s", marks=pytest.mark.long
        ),  # so long many trials take
        ("wrong", REPLACE, "which makes cumsum"),
    ],
)
def test_a_pass_that_fails_is_blamed(kind, body, said, tmp_path):
    config = engine.Config(passes=(own_pass(tmp_path, body),))
    found = engine.bisect(MODEL, (X,), kind, candidate=config, limit=2.0)
    assert said in found.failure
    assert [cause.name.partition("#")[0] for reason in found.found for cause in reason.causes] == ["broken"]
    assert found.is_mended
    compiled = engine.compile(MODEL, (X,), found.config)
    np.testing.assert_allclose(compiled(X), MODEL(X).detach(), rtol=1e-5, atol=1e-6)
    assert json.loads(json.dumps(found.to_dict()))["is_mended"] is True


def test_two_passes_that_fail_only_together_are_said(tmp_path):
    marks = own_pass(tmp_path, ["graph.name = 'marked'"], "marks")
    breaks = own_pass(tmp_path, ["if graph.name != 'marked':", "    continue", *REPLACE], "breaks")
    config = engine.Config(passes=(marks, breaks), pipeline=("use_linear", marks, "fuse_bias", breaks, "dead_code"))
    found = engine.bisect(MODEL, (X,), candidate=config)
    assert [cause.name for reason in found.found for cause in reason.causes][:1] == ["breaks#cumsum"]
    assert found.is_mended


def test_a_command_is_asked_in_generic_trials():
    """Of all switches, those with which it fails: here a pass, whatever the others are."""

    class Asked:
        label = "it has a fused activation"

        def fails(self, config, _trials):
            program = engine.compile(MODEL, (X,), config)
            return any(node.attributes.get("activation") == "relu" for node in program.lowered.nodes)

    found = engine.bisect(MODEL, (X,), Asked())
    (reason,) = found.found
    assert [(cause.kind, cause.name) for cause in reason.causes] == [("pass", "fuse_epilogue")]
    assert found.is_mended


def test_what_was_tried_is_not_tried_again(tmp_path):
    config = engine.Config(passes=(own_pass(tmp_path, REPLACE),))
    first = engine.bisect(MODEL, (X,), candidate=config, folder=tmp_path / "work")
    second = engine.bisect(MODEL, (X,), candidate=config, folder=tmp_path / "work")
    assert first.trials > 5
    assert second.trials == 0
    assert second.found == first.found
    with pytest.raises(ConfigError, match="trials of another model") as refused:
        engine.bisect(MODEL, (X + 1,), candidate=config, folder=tmp_path / "work")
    messages.check(str(refused.value).replace(str(tmp_path), "FOLDER"))


def test_a_failure_that_comes_and_goes_has_a_rate(tmp_path):
    count = tmp_path / "count"
    body = [f"with open({str(count)!r}, 'a') as f:", "    f.write('.')"]
    body += [f"if os.path.getsize({str(count)!r}) % 2:", "    raise KeyError('now and then')"]
    found = engine.bisect(MODEL, (X,), "error", candidate=engine.Config(passes=(own_pass(tmp_path, body),)))
    assert 0 < found.rate < 1
    assert "It fails in " in str(found)
    assert found.found[0].causes[0].name == "broken"


@pytest.mark.parametrize("kind", ["wrong", "nan", "error", "crash", "hang"])
def test_what_does_not_fail_is_said(kind):
    with pytest.raises(ComparisonError, match="it does not fail") as refused:
        engine.bisect(MODEL, (X,), kind)
    messages.check(str(refused.value))


def test_another_failure_than_the_first_does_not_count(tmp_path):
    """The tolerance makes it wrong at first; a pass that then raises is no result that is wrong."""
    config = engine.Config(passes=(own_pass(tmp_path, ["raise KeyError('x')"]),))
    with pytest.raises(ComparisonError, match="it does not fail") as refused:
        engine.bisect(MODEL, (X,), candidate=config, tolerance=1e-30)
    assert "KeyError" in str(refused.value)
    assert (
        Outcome("error", text="KeyError: 'x_1' at 7").signature == Outcome("error", text="KeyError: 'y' at 8").signature
    )
    assert Outcome("error", text="KeyError: 'x'").signature != Outcome("crash", text="SIGSEGV").signature


def test_arguments_that_name_nothing_are_refused():
    with pytest.raises(ConfigError, match="fails") as refused:
        engine.bisect(MODEL, (X,), "slowly")
    messages.check(str(refused.value))


def test_a_case_that_cannot_be_loaded_is_said(tmp_path):
    save_case(tmp_path, torch.export.export(MODEL, (X,)), ((X,), {}))
    with Trials(tmp_path, setup=["no_such_module"]) as trials, pytest.raises(EngineError, match="no_such_module"):
        trials.run("engine.inspect.observe:list_layers")
    assert not os.environ.get("PLANTED")
