"""docs/gpu.md says what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

import engine
from engine.targets.triton import kernel_table, target
from suites.harness.present import markdown
from tools import list_gpu_kernels


@pytest.fixture(scope="module")
def path(root: Path) -> Path:
    return root / "docs/gpu.md"


def test_the_list_of_kernels_is_fresh(path: Path) -> None:
    fresh = list_gpu_kernels.write_list()
    assert markdown.read_between(path, "kernels") == fresh, "run python -m tools.list_gpu_kernels --into docs/gpu.md"


def test_it_names_the_versions_and_the_oldest_device(path: Path) -> None:
    text = " ".join(path.read_text().split())
    assert f"triton {' or '.join(target.VERSIONS)}" in text
    assert f"compute capability {'.'.join(map(str, target.MINIMUM_CAPABILITY))} or later" in text


def test_its_kernel_is_one_of_the_table(path: Path) -> None:
    (quoted,) = re.findall(r"^ *(@kernel.*)\n *(def \w+.*)\n", path.read_text(), re.MULTILINE)
    (declared,) = kernel_table.kernels()["rope"]
    assert inspect.getsource(declared.plan).splitlines()[:2] == list(quoted)


def test_its_settings_exist(path: Path) -> None:
    rows = re.findall(r"^\| (.*?) \|", path.read_text().split("| setting |", 1)[1].split("\n\n", 1)[0], re.MULTILINE)
    named = [one for row in rows for one in re.findall(r"`(\w+=[^`]+)`", row)]
    assert len(named) == 7
    for one in named:
        eval(f"Config(target='triton', {one})", {"Config": engine.Config})
