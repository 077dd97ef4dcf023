"""Rows of the engine that store single layers in other precisions: what they are compared with, and as switches."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from suites import models
from suites.cli import main
from suites.cli.recipes import check_recipes
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import of_model
from suites.harness.errors import UsageError
from suites.harness.judge import reference, verify
from suites.harness.judge.layers import Layers
from suites.harness.measure import job
from suites.harness.measure.job import Job
from suites.harness.record import outputs
from suites.harness.run import ablate, checks
from suites.harness.run.reporter import Reporter
from suites.harness.run.single import SingleRuns
from tests import messages

CASE = Case("mlp", {"batch": 2}, options={"widths": "64-96-64"})


def linears(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def write_recipe(folder, layers):
    path = folder / "recipe.toml"
    path.write_text("[layers]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in layers.items()))
    return path


def reference_of(recipe, seeds=1):
    return reference.compute(Case(**{**CASE.to_dict(), "recipe": recipe}), seeds)


def build():
    model, inputs = models.get("mlp").build(**CASE.build_arguments)
    return model, inputs


def eighth_bits(weight):
    """A weight [N, K] as 8 bits a channel store it."""
    scale = weight.float().abs().amax(1, keepdim=True) / 127
    return torch.round(weight / scale) * scale


def test_the_reference_of_a_recipe_has_each_layer_in_its_own_precision():
    """By the formulas of the encodings; no function of the engine."""
    model, inputs = build()
    first, second = linears(model)
    (found,) = reference_of([(first, "int8_weight"), ("*", "bf16")])
    layers = linears(model)
    layers[first].weight.copy_(eighth_bits(layers[first].weight))
    layers[second].weight.copy_(layers[second].weight.bfloat16().float())
    exact = model.double()(inputs[0].double()).numpy()
    np.testing.assert_allclose(found.outputs[0], exact, rtol=1e-5, atol=1e-7)
    assert found.rule == "recipe"
    assert 1e-4 < found.eager_errors[0] < 1e-2  # the product in bfloat16 rounds what it reads


def test_the_reference_leaves_layers_in_float32_alone():
    model, inputs = build()
    first, _ = linears(model)
    (found,) = reference_of([(first, "fp32"), ("*", "int8_weight")])
    (whole,) = reference_of([("*", "int8_weight")])
    _, second = linears(model).values()
    second.weight.copy_(eighth_bits(second.weight))
    np.testing.assert_allclose(found.outputs[0], model.double()(inputs[0].double()).numpy(), rtol=1e-5, atol=1e-7)
    assert not np.allclose(found.outputs[0], whole.outputs[0], rtol=1e-4)


def test_a_pattern_matches_the_running_module_and_weights_of_its_own():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(8, 4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    model, seen = Tied().eval(), {}
    for pattern in ("head", "table", "table.weight", "head.weight", "*"):
        with torch.inference_mode(), Layers(model, [(pattern, "bf16")], "fp32") as layers:
            hooks = [
                module.register_forward_pre_hook(
                    lambda one, _given, name=name, layers=layers, pattern=pattern: seen.__setitem__(
                        (pattern, name), layers.precision_of(one.weight)
                    )
                )
                for name, module in (("table", model.table), ("head", model.head))
            ]
            model(torch.tensor([1, 2]))
            for hook in hooks:
                hook.remove()
    found = {key for key, precision in seen.items() if precision == "bf16"}
    assert found == {
        ("head", "head"), ("head.weight", "head"), ("table", "table"), ("table.weight", "table"),
        ("*", "head"), ("*", "table"),
    }  # fmt: skip


def results_of(ref, folder):
    found = Job(CASE, ref, folder)
    found.load()
    found.prepare()
    return [outputs.read(folder / name) for name in found.verify()["files"]]


@pytest.mark.parametrize(
    "layers",
    [{"*": "bf16"}, {"*": "int8_weight"}, {"*": "int8_dynamic"}, {"*": "int4_weight"}, {"*.0": "bf16", "*": "fp16"}],
    ids=lambda layers: "-".join(layers.values()),
)
def test_the_engine_is_right_under_a_recipe_and_wrong_beside_that_of_another(layers, tmp_path):
    first, second = linears(build()[0])
    named = {{"*.0": first}.get(pattern, pattern): precision for pattern, precision in layers.items()}
    ref = BackendRef("engine", {"recipe": str(write_recipe(tmp_path, named))})
    references = reference.compute(checks.reference_case(CASE, ref), job.INPUT_SETS)
    results = results_of(ref, tmp_path)
    for result, right in zip(results, references, strict=True):
        assert verify.check(*result, right).reason is None
    if set(layers.values()) & {"bf16", "fp16"}:
        return  # rounding to 16 bits hardly differs from float32
    for result, right in zip(results, reference_of([(second, "int8_weight")], job.INPUT_SETS), strict=True):
        assert "relative error" in verify.check(*result, right).reason


def test_the_option_precision_is_a_recipe_for_all_layers():
    ref = BackendRef("engine", {"precision": "int8_weight"})
    assert checks.reference_case(CASE, ref).recipe == (("*", "int8_weight"),)
    assert checks.reference_case(CASE, BackendRef("engine")) is CASE
    assert checks.reference_case(CASE, BackendRef("eager")) is CASE
    with SingleRuns() as runs:
        found = runs.measure(CASE, ref, of_model("mlp", {}, backends=["engine"]), timed=False)
    assert 0 < found.error < 1e-4
    rounded = Case(**{**CASE.to_dict(), "precision": "bf16"})
    assert "the case rounds the model to bf16" in checks.unavailable(rounded, ref)


def test_precisions_are_switches_that_take_part_if_they_are_named():
    usual = {switch.kind for switch in ablate.of_backend("engine").switches}
    assert "precision" not in usual
    named = ablate.of_backend("engine", ["precision"]).switches
    assert {"precision=bf16", "precision=int8_weight"} <= {switch.name for switch in named}
    (one,) = ablate.of_backend("engine", ["precision=bf16"]).switches
    assert one.without == {"precision": "bf16"}
    with pytest.raises(UsageError, match="unknown switch 'precision=bf61'"):
        ablate.of_backend("engine", ["precision=bf61"])


SUITE = """
name = "mixed"
rounds = 3
samples_per_round = 1
generation_budget_s = 0.1
backends = ["engine"]
baseline = "engine"
[[models]]
name = "mlp"
options = { widths = "64-96-64" }
"""


def test_two_recipes_of_one_name_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.toml").write_text(SUITE)
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        write_recipe(folder, {"*": "int8_weight"})
    with pytest.raises(SystemExit) as ended:
        main(["run", "mixed.toml", "--recipe", "recipe.toml", "--recipe", "other/recipe.toml", "--dry-run"])
    assert ended.value.code == 2
    assert "two backends would both be called engine[recipe=recipe.toml]" in capsys.readouterr().err


def test_a_label_names_no_folder_and_the_spelling_has_it():
    ref = BackendRef.parse("engine[passes=/home/a/p.py:run+/home/a/q.py:go,recipe=/home/a/r.toml]")
    assert ref.label == "engine[passes=p.py:run+q.py:go,recipe=r.toml]"
    assert BackendRef.parse(ref.spelling) == ref
    assert BackendRef.parse("engine[disable=a+b]").label == "engine[disable=a+b]"


def test_an_ablation_keeps_the_path_of_a_pass_and_stores_its_name():
    base = BackendRef.parse("engine[passes=/home/a/p.py:run]")
    label = BackendRef("engine", {**base.options, "disable": "fuse_gelu"}).label
    assert label == "engine[disable=fuse_gelu,passes=p.py:run]"
    assert ablate._find_ref(label, base).options == {"disable": "fuse_gelu", "passes": "/home/a/p.py:run"}


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "mixed.toml", "--recipe", "unknown.toml"], "--recipe"),
        pytest.param(["accuracy", "mlp", "--recipe", "unknown.toml"], "--recipe", marks=pytest.mark.long),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_recipe_with_a_layer_that_no_model_has_is_refused_before_anything_is_measured(
    arguments, option, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.toml").write_text(SUITE)
    write_recipe(tmp_path, {"layers.7": "int8_weight"}).rename("unknown.toml")
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    told = f"enginebench: {option} unknown.toml: mlp: no layer matches 'layers.7'; did you mean 'layers."
    assert (ended.value.code, out, err.startswith(told), err.count("\n")) == (2, "", True, 1), err
    assert not (tmp_path / "results").exists()


def test_a_recipe_need_not_fit_every_model(tmp_path):
    path = write_recipe(tmp_path, {"layers.2": "int8_weight"})
    cases = [Case("mlp", {"batch": 1}, options={"widths": widths}) for widths in ("16-16", "16-16-16")]
    timeouts = of_model("mlp", {}, backends=["engine"]).timeouts
    check_recipes([path], cases, timeouts, Reporter())
    with messages.raises(UsageError):
        check_recipes([path], cases[:1], timeouts, Reporter())


def test_run_has_a_further_row_for_a_recipe_and_a_row_of_the_suite_that_fails_leaves_the_others_alone(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    second = '"engine", "engine[recipe=unknown.toml]"'
    (tmp_path / "mixed.toml").write_text(SUITE.replace('backends = ["engine"]', f"backends = [{second}]"))
    write_recipe(tmp_path, {"no.such.layer": "int8_weight"}).rename("unknown.toml")
    write_recipe(tmp_path, {"*": "int8_weight"})
    with pytest.raises(SystemExit) as ended:
        main(["run", "mixed.toml", "--recipe", str(tmp_path / "recipe.toml"), "--json"])
    assert ended.value.code == 1
    (outcome,) = json.loads(capsys.readouterr().out)
    rows = {row["backend"]: row for row in outcome["summaries"]}
    assert set(rows) == {"engine", "engine#2", "engine[recipe=recipe.toml]", "engine[recipe=unknown.toml]"}
    mixed = rows["engine[recipe=recipe.toml]"]
    assert (mixed["status"], rows["engine"]["status"]) == ("ok", "ok")
    assert mixed["weight_bytes"] < rows["engine"]["weight_bytes"] / 3
    assert mixed["accuracy"]["relative"] > 1e-4  # against float32
    unknown = rows["engine[recipe=unknown.toml]"]
    assert (unknown["status"], "no layer matches 'no.such.layer'" in unknown["reason"]) == ("failed", True)
    assert {"recipe.toml", "unknown.toml"} <= outcome["environment"]["plan"]["files"].keys()
    (path,) = (tmp_path / "results").rglob("*.jsonl")
    assert str(tmp_path) not in path.read_text(), "a record names no folder"
