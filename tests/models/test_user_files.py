"""Models of a user's files: factories with options, exported programs, ONNX files; and what is wrong with bad ones."""

from __future__ import annotations

import re

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from suites import models
from suites.cli.targets import read_arguments
from suites.harness.declare.case import Case
from suites.harness.judge.reference import compute
from suites.models._spec import OMITTED, REQUIRED, SCALARS
from tests import messages

pytestmark = pytest.mark.usefixtures("import_in_process")

FACTORIES = """
import functools
import torch

class Masked(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x, pair, *, mask=None, scale=True):
        y = self.linear(x) + pair[0]["shift"]
        return y * mask if scale else y

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count

class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = torch.zeros(3)

    def forward(self, x):
        self.count = self.count + 1
        return x + self.count

def make(width=8, rate=0.5, label: str = "a", *, scale=True):
    x, shift, mask = torch.randn(2, width), torch.ones(width), torch.rand(width)
    return Masked(width), ((x, [{"shift": shift}]), {"mask": mask, "scale": scale})

def needs(width: int):
    return make(width)

def any_options(**options):
    return make(**options)

partly = functools.partial(make, rate=0.25)

def counting():
    return Counting(), torch.ones(2, 3)

def plain():
    return Plain(), torch.ones(2, 3)

def program():
    model = torch.nn.Linear(3, 3).eval()
    return torch.export.export(model, (torch.ones(2, 3),)), torch.ones(2, 3)

def random_of_numpy():
    import random
    import numpy as np
    return torch.nn.Linear(1, 1), torch.tensor([random.random(), np.random.rand()])
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FACTORIES)
    return path


def built(name, *chosen):
    """The model of a name, with what a user gives with --set."""
    return models.get(str(name)).build(**read_arguments(str(name), chosen))


def test_the_factory_of_the_page_has_its_options(root, tmp_path):
    page = (root / "docs/your-own-model.md").read_text()
    (tmp_path / "mine.py").write_text(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    model, (x,) = built(f"{tmp_path}/mine.py:factory", "width=16", "depth=2")
    assert (len(model), x.shape) == (2, (2, 16))


# --- options of factories --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["make", "needs", "any_options", "partly"])
def test_options_are_arguments_of_the_factory(file, name):
    model, (x, shift, mask) = built(f"{file}:{name}", "width=4")
    assert (x.shape, shift.shape, mask.shape) == ((2, 4), (4,), (4,))
    torch.testing.assert_close(model(x, shift, mask), (model.model.linear(x) + shift) * mask)


def test_values_are_read_as_numbers_truth_values_and_text(file):
    chosen = ["a=2", "b=-3", "c=0.5", "d=1e-3", "e=true", "f=relu", "g=16-16", "h=nan"]
    options = read_arguments(f"{file}:any_options", chosen)
    assert options == {"a": 2, "b": -3, "c": 0.5, "d": 1e-3, "e": True, "f": "relu", "g": "16-16", "h": "nan"}
    assert [type(one) for one in options.values()] == [int, int, float, float, bool, str, str, str]


def test_a_constant_among_the_inputs_is_a_part_of_the_model(file):
    model, (x, shift, mask) = built(f"{file}:make", "scale=false")
    torch.testing.assert_close(model(x, shift, mask), model.model.linear(x) + shift)


def test_tensors_are_called_after_the_arguments_that_they_belong_to(file):
    model, inputs = built(f"{file}:make")
    program = torch.export.export(model, inputs)
    assert list(program.graph_signature.user_inputs) == ["x", "pair_0_shift", "mask"]
    assert type(model).__name__ == "Masked"


@pytest.mark.parametrize("text", ["1", "01", "-2.50", "1e400", "true", '"1"', "a", "9" * 5000])
def test_an_option_of_type_text_gets_its_text_as_it_is(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text("def annotated(s: str): pass\ndef by_default(s='a'): pass\ndef any_type(s=None): pass\n")
    for name in ("annotated", "by_default"):
        assert read_arguments(f"{path}:{name}", [f"s={text}"]) == {"s": text}
        assert models.get(f"{path}:{name}").complete({"s": text}) == {"s": text}
    assert read_arguments(f"{path}:any_type", ["s=1"]) == {"s": 1}


def test_the_options_of_a_factory_are_its_parameters(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def make(width: int, /, depth: 'int', rate=0.5, *, name=None, **more):\n    pass\n")
    spec = models.get(f"{path}:make")
    found = {key: (one.types, one.default) for key, one in spec.options.items()}
    assert found == {"depth": ((int,), REQUIRED), "rate": ((float,), OMITTED), "name": (SCALARS, OMITTED)}
    assert spec.others.types == SCALARS


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("make", "widht=4"),
        ("partly", "widht=4"),
        ("make", "width=many"),
        ("make", "width=0.5"),
        ("make", "rate=fast"),
        ("make", "rate=true"),
        ("make", "rate=1e400"),
        ("make", "scale=1"),
        ("needs", None),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it(file, name, chosen):
    with messages.raises(models.ModelError) as raised:
        built(f"{file}:{name}", *([] if chosen is None else [chosen]))
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_may_import_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "neighbour_of_mine.py").write_text("import torch\nmodel = torch.nn.ReLU()\n")
    (tmp_path / "mine.py").write_text(
        "import torch\nimport neighbour_of_mine\n\ndef make():\n    return neighbour_of_mine.model, torch.ones(1)\n"
    )
    assert isinstance(built(f"{tmp_path}/mine.py:make")[0], torch.nn.ReLU)


def test_other_generators_of_random_numbers_start_from_a_seed_too(file):
    first = models.get(f"{file}:random_of_numpy").build()[1][0]
    file.write_text(FACTORIES + "\n")  # so that nothing that was kept can answer
    assert torch.equal(models.get(f"{file}:random_of_numpy").build()[1][0], first)


# --- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.py:counting", "counting.pt2"])
def test_every_call_of_the_reference_starts_from_the_first_state(file, name):
    program = torch.export.export(*_example(file, "counting"))
    torch.export.save(program, file.parent / "counting.pt2")
    path = str(file.parent / name)
    for seed, one in enumerate(compute(Case(path, {}), seeds=3)):
        (x,) = models.get(path).inputs(seed)
        assert one.state == ("count",)
        assert one.outputs[0].tolist() == (x.double() + 1).tolist()
        assert one.eager_errors[0] < 1e-7


def test_a_tensor_that_changes_and_is_no_buffer_is_refused(file):
    with messages.raises(models.ModelError):
        compute(Case(f"{file}:plain", {}), seeds=1)


def _example(file, factory):
    model, inputs = models.get(f"{file}:{factory}").build()
    return model, inputs


# --- exported programs -----------------------------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path):
    """A file of an exported program, and the program."""
    program = torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    torch.export.save(program, tmp_path / "mine.pt2")
    return tmp_path / "mine.pt2", program


def test_an_exported_program_brings_its_inputs(exported):
    path, program = exported
    model, (x,) = built(path)
    assert torch.equal(x, program.example_inputs[0][0])
    torch.testing.assert_close(model(x), program.module()(x))
    (other,) = models.get(str(path)).inputs(1)
    torch.testing.assert_close(other / x, (other / x)[:1, :1].expand(2, 4))


def test_the_engine_compiles_the_program_itself(exported, monkeypatch):
    import engine
    from suites.backends.engine import Engine

    compiled = []
    monkeypatch.setattr(engine, "compile", lambda model, *_, **__: compiled.append(model))
    Engine(1, {}).compiled(*built(exported[0]))
    assert isinstance(compiled[0], torch.export.ExportedProgram)


def test_a_factory_may_return_an_exported_program(file):
    model, (x,) = built(f"{file}:program")
    assert model(x).shape == (2, 3)


def test_a_damaged_program_is_named(exported, tmp_path):
    path, program = exported
    whole = path.read_bytes()
    (tmp_path / "half.pt2").write_bytes(whole[: len(whole) // 2])
    with messages.raises(models.ModelError):
        models.get(str(tmp_path / "half.pt2"))
    import zipfile

    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as archive:
        archive.writestr("readme.txt", "no program")
    with messages.raises(models.ModelError) as raised:
        models.get(str(tmp_path / "other.pt2"))
    assert len(str(raised.value).splitlines()) == 1
    program.example_inputs = None
    torch.export.save(program, tmp_path / "without.pt2")
    with messages.raises(models.ModelError):
        built(tmp_path / "without.pt2")


# --- ONNX files ------------------------------------------------------------------------------------------------------


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def write(path, nodes, inputs, outputs, weights=(), **fields):
    """Write an ONNX file; `weights` are (name, array)."""
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "mine", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path, **fields)
    return path


@pytest.fixture
def sentences(tmp_path):
    """Rows of a table by ids, summed over a text, plus x; a third of the sum comes from a Cast to float32."""
    table = torch.randn(10, 4).numpy()
    return write(
        tmp_path / "mine.onnx",
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], ["means"], axes=[1], keepdims=0),
            helper.make_node("Add", ["means", "x"], ["both"]),
            helper.make_node("Cast", ["both"], ["cast"], to=TensorProto.FLOAT),
            helper.make_node("Constant", [], ["third"], value_float=1 / 3),
            helper.make_node("Mul", ["cast", "third"], ["y"]),
        ],
        [
            value("ids", TensorProto.INT64, ["batch", "sequence"]),
            value("x", TensorProto.FLOAT, ["batch", 4]),
            value("table", TensorProto.FLOAT, [10, 4]),
        ],
        [value("y", TensorProto.FLOAT, ["batch", 4])],
        [("table", table)],
    )


def test_inputs_are_those_that_the_file_declares(sentences):
    model, (ids, x) = models.get(str(sentences)).build(batch=2, sequence=5)
    assert [(one.name, model.shape(one)) for one in model.inputs] == [("ids", (2, 5)), ("x", (2, 4))]
    assert (ids.dtype, x.dtype) == (torch.int64, torch.float32)
    assert set(ids.flatten().tolist()) <= {0, 1}
    other = models.get(str(sentences)).inputs(1, batch=2, sequence=5)
    assert not torch.equal(x, other[1])
    wide = models.get(str(sentences)).inputs(0, batch=2, sequence=500, ids=10)[0]
    assert set(wide.flatten().tolist()) == set(range(10))


def test_the_reference_is_float64_of_the_standards_own_definition(sentences):
    (found,) = compute(Case(str(sentences), {"batch": 2, "sequence": 5}, options={"ids": 10}), seeds=1)
    ids, x = models.get(str(sentences)).inputs(0, batch=2, sequence=5, ids=10)
    (stored,) = onnx.load(sentences).graph.initializer
    table = torch.from_numpy(onnx.numpy_helper.to_array(stored).copy()).double()
    third = torch.tensor(1 / 3).double()  # of float32: the file holds no more
    expected = (table[ids].mean(1) + x.double()) * third
    torch.testing.assert_close(torch.from_numpy(found.outputs[0]), expected, rtol=1e-14, atol=1e-14)
    assert found.dtypes == ["float32"]
    assert 0 < found.eager_errors[0] < 1e-6
    assert found.note is None


def test_without_a_float64_run_the_reference_says_so(tmp_path):
    nodes = [
        helper.make_node("HammingWindow", ["size"], ["window"]),  # float32 by its definition
        helper.make_node("Mul", ["x", "window"], ["y"]),
    ]
    path = write(
        tmp_path / "mine.onnx",
        nodes,
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])],
        [("size", torch.tensor(3).numpy())],
    )
    (found,) = compute(Case(str(path), {}), seeds=1)
    assert found.dtypes == ["float32"]
    assert found.eager_errors is None
    assert found.note.startswith("reference in the model's own dtype: ")
    assert "float64 != float32" in found.note


def test_what_onnx_reference_cannot_run_is_judged_by_a_runtime_that_says_so(tmp_path):
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
        helper.make_node("RandomNormalLike", ["x"], ["unused"], seed=3.0),
        helper.make_node("Add", ["g", "w"], ["y"]),
    ]
    weight, shape = torch.ones(2000).numpy(), [value("x", TensorProto.FLOAT, [2000])]
    path = write(tmp_path / "mine.onnx", nodes, shape, [value("y", TensorProto.FLOAT, [2000])], [("w", weight)])
    found = compute(Case(str(path), {}), seeds=2)
    assert len(found) == 2
    for seed, one in enumerate(found):
        (x,) = models.get(str(path)).inputs(seed)
        torch.testing.assert_close(torch.from_numpy(one.outputs[0]), torch.nn.functional.gelu(x) + 1)
        assert (one.dtypes, one.eager_errors, one.weight_bytes) == (["float32"], None, found[0].weight_bytes)
        messages.check(one.note)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"batch": 1}, {"batch": 1, "sequence": 1, "idz": 3}, {"batch": 1, "sequence": "long"}],
)
def test_open_axes_without_sizes_are_one_error(sentences, arguments):
    with messages.raises(models.ModelError) as raised:
        models.get(str(sentences)).build(**arguments)
    assert len(str(raised.value).splitlines()) == 1


def test_axes_without_a_name_are_called_after_their_input(tmp_path):
    path = write(
        tmp_path / "mine.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", TensorProto.FLOAT, [None, 3])],
        [value("y", TensorProto.FLOAT, [None, 3])],
    )
    assert dict(models.get(str(path)).shape_keys) == {"x_0": None}
    assert models.get(str(path)).build(x_0=2)[1][0].shape == (2, 3)


def test_weights_beside_the_file_must_be_there(tmp_path):
    nodes, weight = [helper.make_node("Add", ["x", "w"], ["y"])], torch.ones(2048).numpy()
    path = write(
        tmp_path / "mine.onnx",
        nodes,
        [value("x", TensorProto.FLOAT, [2048])],
        [value("y", TensorProto.FLOAT, [2048])],
        [("w", weight)],
        save_as_external_data=True,
        location="weights.bin",
    )
    assert models.get(str(path)).build()[1][0].shape == (2048,)
    alone = tmp_path / "alone.onnx"
    alone.write_bytes(path.read_bytes())
    (tmp_path / "weights.bin").unlink()
    with messages.raises(models.ModelError):
        models.get(str(alone))


@pytest.mark.parametrize("keep", [0, 150])
def test_a_damaged_onnx_file_is_named(sentences, tmp_path, keep):
    (tmp_path / "bad.onnx").write_bytes(sentences.read_bytes()[:keep])
    with messages.raises(models.ModelError):
        models.get(str(tmp_path / "bad.onnx"))
    (tmp_path / "text.onnx").write_text("no model at all, only a long text\n" * 9)
    with messages.raises(models.ModelError):
        models.get(str(tmp_path / "text.onnx"))


@pytest.mark.parametrize(
    ("kind", "shape"), [(TensorProto.STRING, [2]), (TensorProto.BFLOAT16, [2]), (TensorProto.FLOAT, None)]
)
def test_an_input_that_cannot_be_generated_is_named(tmp_path, kind, shape):
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    path = write(tmp_path / "mine.onnx", nodes, [value("x", kind, shape)], [value("y", kind, shape)])
    with messages.raises(models.ModelError):
        models.get(str(path))


def test_an_operator_that_nobody_knows_is_named(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Nonsense", ["a"], ["b"], domain="my.own"),
        helper.make_node("Nonesuch", ["b"], ["y"]),
    ]
    path = write(
        tmp_path / "mine.onnx", nodes, [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]
    )
    with messages.raises(models.ModelError):
        compute(Case(str(path), {}), seeds=1)
