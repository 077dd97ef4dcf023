"""The suite `onnxruntime` and the column of its fusions; and the suite of stages."""

from __future__ import annotations

import json

import pytest
import torch

from engine import passes
from suites import backends, models
from suites.backends.onnxruntime import LEVELS
from suites.cli import scripts
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef
from suites.harness.present import markdown


def labels(name):
    return {case.model: [ref.label for ref in refs] for case, refs in spec.load(spec.find(name)).cases()}


def test_every_model_is_run_at_every_level_and_beside_the_engine():
    wanted = {"onnxruntime", "engine", *(f"onnxruntime[level={level}]" for level in LEVELS)}
    assert all(wanted <= set(one) for one in labels("onnxruntime").values())
    assert {"bert", "gpt2", "qwen3", "resnet18", "resnet50"} <= set(labels("onnxruntime"))


def test_language_models_have_the_offline_optimiser_of_their_family():
    found = labels("onnxruntime")
    for model, family in (("bert", "bert"), ("gpt2", "gpt2"), ("qwen3-tiny", "qwen3")):
        assert [one for one in found[model] if "tool=" in one] == [f"onnxruntime[tool={family}]"]


def test_the_operators_that_fusions_made_are_counted_and_those_of_the_offline_optimiser_too():
    details = {"made": {"Gelu": 1, "BiasGelu": 2}, "tool_made": {"BiasGelu": 2}}
    assert scripts.write_made({"details": json.dumps(details)}) == "BiasGelu x2 (2), Gelu x1"
    assert scripts.write_made({"details": None}) == ""


def test_the_page_has_the_markers_of_the_tool(root):
    assert markdown.read_between(root / "docs/ablation-results.md", "compare-onnxruntime")


# --- the suite of stages --------------------------------------------------------------


@pytest.fixture(scope="module")
def unfused():
    (found,) = [BackendRef.parse(one) for one in labels("stages")["mlp"] if "disable=" in one]
    return found


def test_every_stage_runs_every_model_on_one_thread_and_two(unfused):
    cases = list(spec.load(spec.find("stages")).cases())
    stages = ["numpy", "eager", "torch_compile", "onnxruntime", "engine_interpreter", "engine[dispatch=per_node]"]
    for _case, refs in cases:
        assert {ref.label for ref in refs} == {*stages, unfused.label, "engine"}
    asked = {(case.model, case.threads) for case, _refs in cases}
    assert asked == {(model, threads) for model in ("mlp", "transformer", "bert") for threads in (1, 2)}


@pytest.mark.parametrize(
    ("model", "arguments"), [("mlp", {"activation": "gelu"}), ("transformer", {}), ("bert-tiny", {"sequence": 16})]
)
def test_the_stage_without_fusion_leaves_out_every_pass_that_fuses_something(model, arguments, unfused):
    """What else fuses changes nothing when it is left out as well."""
    module, inputs = models.get(model).build(**arguments)
    engine = backends.load(BackendRef("engine"))(1, {})
    every = [name for name in passes.pipeline("cpu") if name.startswith(("fuse_", "merge_"))]
    assert set(unfused.options["disable"].split("+")) <= set(every)
    with torch.no_grad():
        some, none, whole = (
            engine.program_facts(module, inputs, options)["run_digest"]
            for options in (unfused.options, {"disable": "+".join(every)}, {})
        )
    assert some == none != whole
