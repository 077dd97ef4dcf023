"""Every file of examples/ runs and prints what its text promises."""

from __future__ import annotations

import fnmatch
import inspect
import json
import re
import runpy
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import engine
from suites.cli import main
from suites.models import smollm2

# A line that each example prints.
PRINTS = {
    "ablation.py": r"fuse_epilogue +\d+ +\d+ +[\d.]+ us +[\d.]+x",
    "decoder.py": r"in the cache: \[7, 5\]",
    "dynamic_shapes.py": r"refused: batch = 17: compiled for 1 to 16",
    "own_model.py": r"relative error against eager: \d\.\de-0[67]",
    "torch_compile.py": r"program with \d+ kernel calls, 0 calls left to torch",
}


def test_every_example_is_here(root):
    assert {path.name for path in (root / "examples").glob("*.*")} == {*PRINTS, "own_suite.toml", "smollm2_recipe.toml"}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(root, name, capsys):
    runpy.run_path(str(root / "examples" / name), run_name="__main__")
    assert re.search(PRINTS[name], capsys.readouterr().out)


def test_the_suite_has_a_case_for_each_width_of_the_model(root, capsys, tmp_path):
    suite = str(root / "examples/own_suite.toml")
    with pytest.raises(SystemExit) as ended:
        main(["run", suite, "--dry-run", "--json", "--results", str(tmp_path)])
    assert not ended.value.code
    text = json.dumps(json.loads(capsys.readouterr().out))
    assert {int(width) for width in re.findall(r"own_model\.py:factory/default/t1/fp32/width=(\d+)", text)} == {64, 256}


def test_every_pattern_of_the_recipe_matches_layers_of_its_model(root):
    with torch.device("meta"):
        network = LlamaForCausalLM(LlamaConfig(**smollm2.CONFIG))
    names = [name for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)]
    recipe = engine.Config(recipe=root / "examples/smollm2_recipe.toml").recipe
    matched = {pattern: fnmatch.filter(names, pattern) for pattern, _ in recipe}
    assert {pattern: len(found) for pattern, found in matched.items()} == {
        "*lm_head": 1,
        "*v_proj": 30,
        "*layers.2.mlp.down_proj": 1,
        "*layers.11.mlp.down_proj": 1,
        "*layers.28.mlp.down_proj": 1,
        "*layers.29.mlp.*": 3,
        "*": 211,
    }


DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{one.name}" for one in DOCS.glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_to_files_of_the_checkout_are_not_broken(root, name):
    path = root / name
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), f"{name} links to {link}"


def test_the_block_of_the_page_of_torch_compile_computes_what_the_model_computes(root):
    (code,) = re.findall(r"```python\n(.*?)```", (root / "docs/torch-compile.md").read_text(), re.DOTALL)
    names = {"model": torch.nn.Linear(8, 4), "x": torch.randn(2, 8)}
    exec(code, names)
    torch.testing.assert_close(names["y"], names["model"](names["x"]).detach(), rtol=1e-4, atol=1e-5)


def test_the_guide_names_every_option_of_generate_that_stream_does_not_take(root):
    (said,) = re.findall(r"# The same options, except (\w+)\.", (root / "docs" / "guide.md").read_text())
    generate, stream = (
        inspect.signature(function).parameters for function in (engine.Decoder.generate, engine.Decoder.stream)
    )
    assert set(generate) - set(stream) == {said}
    assert set(stream) <= set(generate)


def test_the_readme_links_to_the_examples(root):
    text = (root / "README.md").read_text()
    assert {"examples/", "CONTRIBUTING.md", "docs/troubleshooting.md"} <= set(re.findall(r"\]\(([^)]+)\)", text))
