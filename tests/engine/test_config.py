"""Switches: every name is checked, every switch reaches what it names."""

import copy

import pytest
import torch
from torch import nn

import engine
from engine.switches import kernel_variants
from engine.targets.cpu import native
from suites import models
from tests import messages

WRONG = {
    "pass": {"disable": ("fuse_atention",)},
    "pipeline": {"pipeline": ("fold",)},
    "string": {"disable": "fuse_gelu"},
    "states": {"states": "float8"},
    "planner": {"planner": "defualt"},
    "variant op": {"variant": {"linar": "packed"}},
    "variant": {"variant": {"linear": "pakced"}},
    "threads": {"threads": 0},
    "threads as a bool": {"threads": True},
    "too many threads": {"threads": 10**9},
    "no passes": {"disable": None},
    "variant as text": {"variant": "linear"},
    "dispatch": {"dispatch": "node"},
    "outputs": {"outputs": "kept"},
    "isa": {"isa": "avx"},
    "precision": {"precision": "int3"},
    "fallback": {"fallback": "jax"},
}


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG.keys())
def test_unknown_values_are_refused_with_a_hint(options):
    with messages.raises(engine.ConfigError):
        engine.Config(**options)


def test_an_unknown_target_is_refused_with_a_hint():
    """Other tests register targets of their own, so the list of known ones differs from run to run."""
    with pytest.raises(engine.ConfigError, match="did you mean 'interpreter'"):
        engine.Config(target="interpretr")


def test_a_config_is_a_value():
    one, other = engine.Config(variant={"linear": "packed"}), engine.Config(variant={"linear": "packed"})
    assert one == other
    assert hash(one) == hash(other)


X = torch.linspace(-1, 1, 48).reshape(6, 8)
MODEL = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


WIDE = copy.deepcopy(MODEL).double()


def kernels(model=MODEL, x=X, **options) -> set[str]:
    return {k for k, _ in engine.compile(model, (x,), engine.Config(**options)).report().kernels}


def test_every_isa_of_this_machine_can_be_forced():
    with torch.no_grad():
        expected = MODEL(X)
    for isa in native.isas():
        program = engine.compile(MODEL, (X,), engine.Config(isa=isa))
        torch.testing.assert_close(program(X), expected)
        allowed = [one for one in native.kernel_isas("f32") if native.is_within(one, native.isa_table()[isa])]
        used = kernels(isa=isa)
        assert {k.isa for k in native.kernels() if k.name in used} <= {allowed[-1], "generic"}


def test_every_variant_of_linear_computes_linear():
    for variant in kernel_variants()["linear"]:
        model, x = (WIDE, X.double()) if variant == "wide" else (MODEL, X)
        program = engine.compile(model, (x,), engine.Config(variant={"linear": variant}))
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x))
        names = kernels(model, x, variant={"linear": variant})
        used = {k.variant for k in native.kernels() if k.op == "linear" and k.name in names}
        assert used == {variant}


def test_a_variant_of_an_op_that_the_program_has_not_changes_nothing():
    forced = engine.compile(MODEL, (X,), engine.Config(variant={"attention": "reference"}))
    assert forced.run_digest == engine.compile(MODEL, (X,)).run_digest


def test_a_variant_that_no_node_can_use_is_refused():
    model = nn.Module()
    model.forward = lambda a: a @ a.t()
    with messages.raises(engine.ConfigError):
        engine.compile(model.eval(), (X.double(),), engine.Config(variant={"matmul": "packed"}))


def test_a_disabled_pass_does_not_run():
    report = engine.compile(MODEL, (X,), engine.Config(disable=("fuse_epilogue",))).report()
    assert "fuse_epilogue" not in dict(report.passes)
    assert dict(engine.compile(MODEL, (X,)).report().passes)["fuse_epilogue"] == 1


def test_run_digest_follows_what_runs_and_not_what_is_switched_in_vain():
    base = engine.compile(MODEL, (X,)).run_digest
    assert engine.compile(MODEL, (X,)).run_digest == base
    assert engine.compile(MODEL, (X,), engine.Config(disable=("fuse_attention",))).run_digest == base
    assert engine.compile(MODEL, (X,), engine.Config(disable=("fuse_epilogue",))).run_digest != base
    assert engine.compile(MODEL, (X,), engine.Config(isa="generic")).run_digest != base
    assert engine.compile(MODEL, (X,), engine.Config(threads=2)).run_digest != base


def test_the_switch_list_names_every_pass_and_kernel_variant():
    listed = {(s.kind, s.name) for s in engine.switches()}
    assert ("pass", "fuse_attention") in listed
    assert ("kernel", "linear=packed") in listed
    assert ("planner", "default") in listed
    assert all(s.summary for s in engine.switches())


def test_a_pipeline_without_passes_is_not_the_usual_one():
    module, inputs = models.get("mlp").build()
    bare, usual = (engine.compile(module, inputs, engine.Config(pipeline=names)) for names in ((), None))
    assert bare.report().passes == ()
    assert bare.report().nodes > usual.report().nodes


@pytest.mark.parametrize("config", [{"threads": 2}, "fast", 2])
@pytest.mark.parametrize("function", ["compile", "compile_decoder", "load", "load_decoder"])
def test_what_is_no_config_is_refused_with_the_right_form(function, config, tmp_path):
    arguments = {"compile": (MODEL, (X,)), "compile_decoder": (MODEL,)}.get(function, (tmp_path / "p.engine",))
    with messages.raises(engine.ConfigError):
        getattr(engine, function)(*arguments, config=config)


@pytest.mark.parametrize("config", [None, engine.Config()])
def test_a_class_in_place_of_a_model_is_refused(config):
    with messages.raises(engine.ConfigError):
        engine.compile(nn.Linear, (X,), config)


def test_a_config_in_the_place_of_verify_is_refused(tmp_path):
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "p.engine", {"threads": 2})


def test_calibration_is_refused_by_its_name():
    with messages.raises(engine.ConfigError):
        engine.compile(nn.ReLU().eval(), (torch.ones(1),), calibration=[(torch.ones(1),)])
