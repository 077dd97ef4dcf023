"""docs/add-an-op.md, followed to the letter on a copy of the op table."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

from engine import dtypes, targets
from engine.exporter import context, export, handlers
from engine.ops import TABLE, TensorType, pointwise
from engine.ops.table import Attributes
from tests import messages
from tests.ops import cases, test_references
from tests.ops.case import Case, Maker, types_of
from tools import generate


@pytest.fixture
def page(root):
    """Code blocks of the page, in order, as (language, text)."""
    text = (root / "docs/add-an-op.md").read_text()
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def python(page):
    return [text for language, text in page if language == "python"]


@pytest.fixture
def declared(python):
    """The table holds the page's op while a test runs."""
    exec(python[0], {**vars(pointwise)})
    yield TABLE["leaky_relu"]
    del TABLE["leaky_relu"]


def test_the_declaration_infers_refuses_and_computes(declared):
    attributes = declared.complete({})
    assert attributes == {"slope": 0.01}
    assert declared.infer([TensorType("float16", (2, 3))], attributes) == (TensorType("float16", (2, 3)),)
    with messages.raises(ValueError):
        declared.infer([TensorType("int64", (2,))], attributes)
    result = declared.reference(np.array([-2.0, 3.0], np.float32), slope=0.5)
    np.testing.assert_array_equal(result, np.array([-1.0, 3.0], np.float32))


def test_the_cases_agree_with_torch(declared, python):
    added: list[Case] = []

    def case(op: str, label: str, *operands: Maker | None, **attributes: Attributes) -> None:
        added.append(Case(op, label, operands, attributes))

    exec(python[1], {**vars(cases), "case": case})
    rows: dict = {}
    exec(python[2], {"torch": torch, "TORCH": rows})
    assert len(added) >= 4
    for one in added:
        inputs = one.inputs()
        actual = declared.reference(*inputs, **one.complete())
        (inferred,) = declared.infer(types_of(inputs), one.complete())
        assert inferred == TensorType(dtypes.from_numpy(actual.dtype).name, actual.shape)
        tensors = [test_references.to_torch(a) for a in inputs]
        test_references.assert_same(actual, np.asarray(rows["leaky_relu"](*tensors, **one.complete())))


def test_generated_files_follow(declared):
    assert "EB_REAL_LEAKY_RELU_SLOPE = 0," in generate.header()
    assert "EB_IN_LEAKY_RELU_X = 0," in generate.header()
    assert f"| `{declared.name}` | x | slope: float = 0.01 | in place: x | once | {declared.doc} |" in generate.page()


@pytest.mark.usefixtures("declared")
def test_the_page_names_the_command_of_each_list_that_follows(root, page):
    pytest.importorskip("triton", reason="the list has the Triton kernels, which need pip install '.[gpu]'")
    (commands,) = [text for _, text in page if "tools.generate" in text]
    tool, path = re.findall(r"^python -m tools\.(\w+) --into (\S+)$", commands, re.MULTILINE)[0]
    assert "`leaky_relu`" in importlib.import_module(f"tools.{tool}").write_list()
    assert "<!-- kernels -->" in (root / path).read_text()


def test_the_command_that_builds_the_library_is_that_of_the_project(page):
    (command,) = [text for _, text in page if "pip install" in text]
    assert command.split()[-2:] == ["-e", "."]
    assert "--no-build-isolation" in command, "an isolated build would fetch its requirements again"


@pytest.mark.usefixtures("declared")
def test_a_program_is_refused_until_the_library_is_built(root):
    text = (root / "docs/add-an-op.md").read_text()
    (promised,) = re.findall(r"refuses programs with the op: `(.*?)`", text)
    assert (
        targets.get("cpu").supports("leaky_relu", [TensorType("float32", (2,))], {"slope": 0.01}).startswith(promised)
    )


@pytest.mark.usefixtures("declared")
def test_the_kernel_compiles_without_a_warning(root, page, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    shutil.copytree(root / "csrc", tmp_path / "csrc")
    (tmp_path / "csrc/ops.h").write_text(generate.header())
    source = tmp_path / "csrc/ref/pointwise.c"
    (kernel,) = [text for language, text in page if language == "c"]
    source.write_text(source.read_text() + "\n" + kernel)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-I", str(tmp_path / "csrc")]
    answer = subprocess.run(
        [compiler, *flags, "-c", source, "-o", tmp_path / "pointwise.o"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_the_row_of_the_registry_has_the_form_of_the_others(root, page):
    (row,) = [text.strip() for _, text in page if text.startswith("EB_REFERENCE")]
    assert row.replace("leaky_relu", "relu") in (root / "csrc/kernels.inc").read_text().splitlines()


def test_the_handler_lowers_what_torch_exports(declared, python):
    before = dict(handlers.HANDLERS)
    names = {"aten": handlers.aten, **vars(context)}
    try:
        exec(python[3], names)
        module = torch.nn.Sequential(torch.nn.LeakyReLU(0.25)).eval()
        graph = export(module, (torch.zeros(2, 3),))
    finally:
        handlers.HANDLERS.clear()
        handlers.HANDLERS.update(before)
    (node,) = [n for n in graph.nodes if n.op is declared]
    assert node.attributes == {"slope": 0.25}
    assert [v.node for v in graph.outputs] == [node]
