"""The suite `onnxruntime` and the script that tables it; and the suite of stages."""

from __future__ import annotations

import json
import runpy

import pytest
import torch

from engine import passes
from suites import backends, models
from suites.backends.onnxruntime import LEVELS
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef


@pytest.fixture(scope="module")
def script(root):
    return runpy.run_path(str(root / "scripts" / "compare_onnxruntime.py"))


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


def test_the_script_takes_the_variants_of_the_suite_and_levels_for_other_models(script):
    of = {case.model: refs for case, refs in script["suite_of"](["gpt2", "mlp"]).cases()}
    assert [ref.label for ref in of["gpt2"]] == labels("onnxruntime")["gpt2"]
    assert [ref.label for ref in of["mlp"]] == labels("onnxruntime")["resnet18"]
    assert {case.model for case, _ in script["suite_of"]([]).cases()} == set(labels("onnxruntime"))


def line(backend, status="ok", nodes=None, **details):
    return {"backend": backend, "status": status, "nodes": nodes, "details": json.dumps(details) if details else None}


def test_the_table_of_fusions_has_a_column_a_variant_and_a_row_an_operator(script):
    lines = [
        line("onnxruntime", nodes=20, made={"Gelu": 2}),
        line("onnxruntime#2", nodes=20, made={"Gelu": 2}),
        line("onnxruntime[tool=bert]", nodes=10, made={"BiasGelu": 2, "Gelu": 1}, tool_made={"BiasGelu": 2}),
        line("onnxruntime[level=disabled]", undescribed="no room"),
        line("onnxruntime[level=basic]", status="failed"),
        line("engine", nodes=5),
    ]
    header, *rows = script["list_fusions"](lines)
    assert header == [
        "operator",
        "`onnxruntime`",
        "`onnxruntime[tool=bert]`",
        "`onnxruntime[level=disabled]`",
        "`onnxruntime[level=basic]`",
    ]
    assert rows == [
        ["`BiasGelu`", "", "2 (2)", "", ""],
        ["`Gelu`", "2", "1", "", ""],
        ["nodes", "20", "10", "not known: no room", "failed"],
    ]


def test_the_page_has_the_markers_of_the_script(script, root):
    text = (root / "docs/ablations.md").read_text()
    assert f"<!-- {script['MARKER']} -->" in text
    assert f"<!-- /{script['MARKER']} -->" in text


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
