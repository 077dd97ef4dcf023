"""The suites that ship: each is valid, and asks its models for what they have."""

from __future__ import annotations

import pytest

from suites import models
from suites.harness.declare import spec

SUITES = sorted(spec.shipped())
SWEPT = ("attention", "bert", "gpt2", "mlp", "resnet", "transformer")


def test_the_promised_suites_ship():
    models_of_the_mission = {*(f"{name}_sweep" for name in SWEPT), "convnets", "generation", "models"}
    modes_and_forms = {"fusion", "memory", "compile_time", "precision", "shapes", "stages", "onnxruntime"}
    assert models_of_the_mission | modes_and_forms | {"default", "quick"} <= set(SUITES)


@pytest.mark.parametrize("name", SUITES)
def test_a_shipped_suite_asks_for_what_its_models_have(name):
    suite = spec.load(spec.find(name))
    assert suite.name == name
    assert suite.description
    for case, _backends in suite.cases():
        models.get(case.model).complete(case.build_arguments)


def spellings(cases) -> set[str | None]:
    return {case.options.get("attention") for case in cases if case.model == "transformer"}


def test_the_transformer_suite_covers_every_spelling_of_attention():
    cases = [case for case, _backends in spec.load(spec.find("transformer_sweep")).cases()]
    assert {"manual", "softmax", "sdpa"} <= spellings(cases)
    assert {False, True} <= {case.options.get("causal") for case in cases}


def test_the_default_suite_covers_what_the_table_promises():
    cases = [case for case, _backends in spec.load(spec.find("default")).cases()]
    assert {case.model for case in cases} == {"mlp", "transformer", "bert", "minilm"}
    assert {case.threads for case in cases} == {1}
    assert set(spec.load(spec.find("default")).backends) == {
        "eager", "torch_compile", "onnxruntime", "openvino", "engine",
    }  # fmt: skip


def test_the_full_suite_has_the_cases_of_the_default_one_and_two_threads():
    default, full = ([case for case, _ in spec.load(spec.find(name)).cases()] for name in ("default", "full"))
    assert {str(case) for case in default} < {str(case) for case in full}
    assert {case.threads for case in full} == {1, 2}


def test_the_suite_of_models_has_each_of_them_by_every_backend_on_one_thread_and_two():
    suite = spec.load(spec.find("models"))
    asked = {(case.model, case.threads, ref.name) for case, refs in suite.cases() for ref in refs}
    # Named here, so that a new model needs no row in the suite.
    whole = {
        "bert",
        "cifar10-cnn",
        "efficientnet-lite0",
        "gpt2",
        "mamba",
        "minilm",
        "mlp",
        "qwen3",
        "resnet18",
        "resnet50",
        "resnet50-imagenet",
        "smollm2",
        "stories15m",
        "transformer",
    }
    backends = ("eager", "torch_compile", "onnxruntime", "openvino", "engine")
    assert asked == {(name, threads, backend) for name in whole for threads in (1, 2) for backend in backends}


PROMISED = {
    "bert": {f"bert/{size}/t{n}/fp32" for size in ("b1_s128", "b1_s384", "b4_s64") for n in (1, 2)},
    "transformer": {
        f"transformer/b{batch}_s{sequence}/t{n}/fp32/heads=8/width=512"
        for batch in (1, 4)
        for sequence in (64, 512)
        for n in (1, 2)
    },
    "mlp": {f"mlp/b32/t{n}/fp32/activation=relu/widths=large" for n in (1, 2)},
}


@pytest.mark.parametrize("name", PROMISED)
def test_the_suites_of_models_hold_the_sizes_that_are_compared_across_backends(name):
    found = {case.id: {ref.name for ref in refs} for case, refs in spec.load(spec.find(f"{name}_sweep")).cases()}
    assert set(found) >= PROMISED[name]
    assert all({"torch_compile", "onnxruntime", "openvino"} <= found[case] for case in PROMISED[name])
