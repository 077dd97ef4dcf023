"""A user's own model everywhere a model is named: commands, suites, rows, and who cannot run it."""

from __future__ import annotations

import json
import os
import shutil

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from engine.torch_backend.fallback import FallbackProgram
from suites import backends, models
from suites.backends._buffers import Buffers
from suites.backends.base import flatten
from suites.harness.declare import device, spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import Refused, UsageError
from suites.harness.judge import reference
from suites.harness.measure.job import Job
from suites.harness.run import checks, plan, reporter, runner
from suites.models import ModelError
from tests import messages
from tests.harness.commands import call

pytestmark = pytest.mark.usefixtures("import_in_process")

FACTORIES = """
import torch

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x, *, weight):
        self.count.add_(1)
        return x * weight + self.count

class Order(torch.nn.Module):
    def forward(self, x):
        return torch.cummax(x + 1, 0).values * 2

limit = 3

def counting():
    return Counting(), ((torch.randn(2, 3),), {"weight": torch.rand(3)})

def order():
    return Order(), torch.randn(4, 5)

def make(width=8, bias=True):
    return torch.nn.Linear(width, width, bias=bias), torch.randn(2, width)

class Drawing(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)

class Stepping(torch.nn.Module):
    steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps

def drawing():
    return Drawing(), torch.randn(2, 3)

def stepping():
    return Stepping(), torch.randn(2, 3)

class Writing(torch.nn.Module):
    def forward(self, x, y):
        return y * 2 + x.add_(1)

def writing():
    return Writing(), (torch.randn(2, 3), torch.randn(2, 3))

class Lambda(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.forward = forward

def nothing():
    return Lambda(lambda x: None), torch.randn(2, 3)

def nan():
    return Lambda(lambda x: (x, x * float("nan"))), torch.randn(2, 3)

def empty():
    return Lambda(lambda x: x[:, 3:]), torch.randn(2, 3)

def raising():
    raise ValueError("no such weights")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a file of each kind."""
    made = tmp_path_factory.mktemp("files")
    (made / "mine.py").write_text(FACTORIES)
    (made / "junk.toml").write_bytes(b"\xf3\x00")
    program = torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    torch.export.save(program, made / "mine.pt2")
    torch.save({"a": torch.ones(1)}, made / "weights.pt2")
    (made / "cut.pt2").write_bytes((made / "mine.pt2").read_bytes()[:-100])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "mine",
        [value("ids", TensorProto.INT64, ["batch", "sequence"])],
        [value("y", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [onnx.numpy_helper.from_array(torch.randn(3, 4).numpy(), "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), made / "mine.onnx")
    return made


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """The current folder, with a copy of `files`."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(files, tmp_path, dirs_exist_ok=True)


def rows(text):
    """The summaries of a small run of the suite in `text`, by case and backend."""
    head = 'name = "x"\nrounds = 3\nsamples_per_round = 1\ngenerations = 2\n'
    found = runner.run(plan.make(spec.parse(head + text, "x.toml")), spec.Path("results"), reporter.Reporter())
    return {(line.case, line.backend): line for line in found.summaries}


# --- names -----------------------------------------------------------------------------------------------------------


def dry_run(capsys, *arguments):
    status, out, err = call(capsys, "run", *arguments, "--dry-run", "--json", "--results", "results")
    assert status == 0, err
    (answer,) = json.loads(out)
    return answer


def test_a_model_in_the_place_of_a_suite_is_a_suite_of_its_own(capsys, folder):
    answer = dry_run(capsys, "mine.py:make", "--set", "width=16", "--set", "bias=false", "--threads", "2")
    usual = ["eager", "eager#2", "torch_compile", "onnxruntime", "openvino", "engine"]
    assert answer["suite"] == "mine"
    assert answer["cases"] == {"mine.py:make/default/t2/fp32/bias=False/width=16": usual}
    assert list(dry_run(capsys, "mine.pt2", "--backends", "engine", "--threads", "1")["cases"].values()) == [
        ["eager", "eager#2", "engine"]
    ]
    answer = dry_run(
        capsys, "mine.onnx", "--set", "batch=1", "--set", "sequence=4", "--backends", "openvino", "--threads", "1"
    )
    assert answer["cases"] == {"mine.onnx/b1_s4/t1/fp32": ["onnxruntime", "onnxruntime#2", "openvino"]}


def test_a_path_may_have_a_colon(capsys, folder):
    (folder / "mine.py").rename(folder / "a:b.py")
    answer = dry_run(capsys, "a:b.py:make", "--set", "width=16", "--threads", "1", "--backends", "eager")
    assert (answer["suite"], list(answer["cases"])) == ("a_b", ["a:b.py:make/default/t1/fp32/width=16"])
    (module, (x,)) = models.get("a:b.py:make").build(width=16)
    assert module(x).shape[-1] == 16
    (folder / "mine.pt2").rename(folder / "c:d.pt2")
    assert dry_run(capsys, "c:d.pt2", "--threads", "1")["suite"] == "c_d"


@pytest.mark.parametrize("option", ["model", "--backends", "device"])
def test_a_path_that_is_not_in_utf_8_is_refused_in_one_line(capsys, folder, option):
    name = os.fsdecode(b"caf\xe9.py")
    (folder / "mine.py").rename(folder / name)
    told = r"caf\udce9.py is not in UTF-8, or Python does not read it as UTF-8"
    if option == "device":
        with messages.raises(UsageError):
            device.own_class(f"{name}:Device")
        return
    asked = {"model": [f"{name}:make"], "--backends": ["mlp", "--backends", f"{name}:Mine"]}
    status, out, err = call(capsys, "run", *asked[option], "--dry-run", "--results", "results")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert told in err


@pytest.mark.parametrize(("command", "reads_onnx"), [
    ("run", True), ("ablate", True), ("accuracy", False), ("profile", False), ("tune", False),
])  # fmt: skip
def test_only_the_help_of_commands_that_read_onnx_files_names_them(capsys, monkeypatch, command, reads_onnx):
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = call(capsys, command, "--help")
    assert ("path.pt2" in out, "path.onnx" in out) == (True, reads_onnx)


def test_a_file_may_be_a_link_to_one_without_a_suffix(capsys, folder):
    (folder / "mine.onnx").rename(folder / "blob")
    (folder / "mine.onnx").symlink_to(folder / "blob")
    answer = dry_run(capsys, "mine.onnx", "--set", "batch=1", "--set", "sequence=4", "--threads", "1")
    assert answer["cases"] == {"mine.onnx/b1_s4/t1/fp32": ["onnxruntime", "onnxruntime#2", "openvino"]}


def test_no_suite_has_the_name_of_a_model():
    assert not set(spec.shipped()) & set(models.names())


def test_options_of_a_file_are_swept(folder):
    text = '[[models]]\nname = "mine.py:make"\noptions = { bias = false, width = [8, 16] }\n'
    suite = spec.parse(f'name = "x"\nbackends = ["eager"]\n{text}', "x.toml")
    assert [case.id for case, _ in suite.cases()] == [
        f"mine.py:make/default/t1/fp32/bias=False/width={width}" for width in (8, 16)
    ]
    assert [case.model for case, _ in suite.cases()] == ["mine.py:make"] * 2


def test_a_plan_depends_on_what_is_in_the_files(folder):
    text = 'name = "x"\nbackends = ["eager"]\n[[models]]\nname = "mine.pt2"\n[[models]]\nname = "mine.onnx"\n'
    text += "shape = { batch = 1, sequence = 1 }\n"
    found = plan.make(spec.parse(text, "x"))
    assert list(found.files()) == ["mine.onnx", "mine.pt2"]
    before = found.digest
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)), "mine.pt2")
    assert plan.make(spec.parse(text, "x")).digest != before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "nothing.py:make"], "nothing.py; expected path.py:factory, path.pt2 or path.onnx"),
        (["run", "mine.py"], "expected path.py:factory, with the name of a function"),
        (["run", "mine.onx"], "unknown suite or model 'mine.onx'"),
        (["run", "mine.py:make", "--set", "widht=3"], "did you mean 'width'? Known: bias, width"),
        (["run", "mine.py:make", "--set", "width=wide"], "width='wide' is not a whole number"),
        (["run", "mine.py:make", "--set", "width=3", "--set", "width=3"], "each value once"),
        (["run", "mine.onnx"], "give --set batch=... --set sequence=..."),
        (["run", "cut.pt2"], "cut.pt2 is damaged or no exported program; expected a file that torch.export.save wrote"),
        (["run", "weights.pt2", "--dry-run"], "weights.pt2 is damaged or no exported program; "),
        (["profile", "weights.pt2"], "weights.pt2 is damaged or no exported program; "),
        (["ablate", "weights.pt2"], "weights.pt2 is damaged or no exported program; "),
        (["run", "mine.pt2", "--set", "batch=1"], "unknown argument 'batch'"),
        (["run", "default", "--set", "batch=1"], "--set is for a model"),
        (["run", "default", "--threads", "2"], "--threads is for a model"),
        (["profile", "mine.py:raising"], "raising() raised ValueError: no such weights"),
        # No size makes these commands work, so the message must not ask for one.
        (["profile", "mine.onnx"], "enginebench run measures it with the backends that can"),
        (["ablate", "mine.onnx"], "name another --backend"),
        (["run", "mlp", "--backends", "engine[fallbak=torch]"], "did you mean 'fallback'"),
        (["run", "mlp", "--backends", "engine[fallback=torhc]"], "did you mean 'torch'"),
        (["run", "mine.py:limit"], "unknown function 'limit'. Known: "),
        (["run", "junk.toml"], "junk.toml: not a text in UTF-8"),
        (["show", "mine.py"], "unknown run 'mine.py'"),
        (["ablate", "mlp", "--backend", "engine[disable=fuse_gelo]"], "did you mean 'fuse_gelu'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(capsys, folder, arguments, told):
    stores = arguments[0] != "profile"  # which stores nothing, and takes no folder, without --record or --backends
    status, out, err = call(capsys, *arguments, *(["--results", "results"] if stores else []))
    assert status == 2
    assert told in err
    assert err.startswith("enginebench: ")
    assert len(err.splitlines()) == 1
    assert out == ""
    assert not (folder / "results").exists(), "told before anything is measured"


def test_profile_compiles_with_the_config(capsys, folder):
    status, _, err = call(capsys, "profile", "mine.py:order")
    assert (status, "cummax" in err) == (2, True)
    status, out, _ = call(capsys, "profile", "mine.py:order", "--backend", "engine[fallback=torch]")
    assert status == 0
    assert "cummax" in out


COUNTING = """
import torch

@torch.library.custom_op("counting::threads", mutates_args=())
def threads(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x, torch.get_num_threads())

@threads.register_fake
def _(x):
    return torch.empty_like(x)

class Counting(torch.nn.Module):
    def forward(self, x):
        return torch.ops.counting.threads(x)

def model():
    return Counting(), (torch.zeros(2),)
"""


def test_what_torch_runs_in_a_profile_has_the_threads_that_are_asked_for(capsys, folder, monkeypatch):
    (folder / "counting.py").write_text(COUNTING)
    found, profiled = [], FallbackProgram.profile

    def profile(program, *inputs, **keywords):
        found.append(program(*inputs).tolist())
        return profiled(program, *inputs, **keywords)

    monkeypatch.setattr(FallbackProgram, "profile", profile)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(3)
            asked = ("counting.py:model", "--backend", "engine[fallback=torch]", "--threads", threads)
            assert call(capsys, "profile", *map(str, asked))[0] == 0
    finally:
        torch.set_num_threads(before)
    assert found == [[1.0, 1.0], [2.0, 2.0]]


def test_a_row_with_fallback_is_right_and_counts_what_torch_runs(folder, tmp_path):
    job = Job(Case("mine.py:order", {}), BackendRef("engine", {"fallback": "torch"}), tmp_path)
    job.load()
    assert job.prepare()["facts"]["fallback_nodes"] > 0
    expected = [torch.cummax(x + 1, 0).values * 2 for (x,) in job.inputs]
    for (x,), right in zip(job.inputs, expected, strict=True):
        torch.testing.assert_close(job.call(x), right)


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", ["drawing", "stepping"])
def test_a_model_whose_calls_differ_is_told_so_before_anybody_runs_it(folder, factory):
    with pytest.raises(ModelError, match=rf"mine.py:{factory}': two calls with the same inputs differ \(output 0 by "):
        reference.compute(Case(f"mine.py:{factory}", {}), 1)


def test_a_model_that_writes_to_an_input_is_told_which_and_what_to_do(folder):
    with messages.raises(ModelError):
        reference.compute(Case("mine.py:writing", {}), 1)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        pytest.param("nothing", "it returns no tensor", marks=pytest.mark.long),
        ("nan", "output 1 has no finite"),
        pytest.param("empty", "its outputs have no elements", marks=pytest.mark.long),
    ],
)
def test_a_model_with_nothing_to_verify_fails_with_one_reason_for_everybody(folder, factory, told):
    found = rows(f'backends = ["eager", "engine"]\n[[models]]\nname = "mine.py:{factory}"\n')
    for line in found.values():
        assert (line.status, "so nothing can be verified; " in line.reason) == ("failed", True)
        assert told in line.reason
    assert len({line.reason for line in found.values()}) == 1


def random_file(path, uses_it):
    """A file that adds a random number, whose seed is fixed, to its input; or draws one and does not use it."""
    value = helper.make_tensor_value_info
    drawn = helper.make_node("RandomNormalLike", ["x"], ["r"], seed=3.0)
    nodes = [drawn, helper.make_node("Add", ["x", "r" if uses_it else "x"], ["y"])]
    shape = [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "drawing", *shape)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def call_with_weights_beside(capsys, damage, *options):
    """The answer of a run of a file whose weights are in a second file, which `damage` changes."""
    external = {"all_tensors_to_one_file": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(onnx.load("mine.onnx"), "big.onnx", save_as_external_data=True, **external)
    damage(spec.Path("weights.bin"))
    sizes = ["--set", "batch=1", "--set", "sequence=2", "--results", "results"]
    return call(capsys, "run", "big.onnx", *sizes, *options)


@pytest.mark.parametrize("options", [["--dry-run"], []], ids=str)
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.unlink(), "weights.bin, which does not exist"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            "weights.bin, which has 47 bytes",
        ),
    ],
    ids=["missing", "short"],
)
def test_an_onnx_file_without_its_weights_is_told_before_anything_is_measured(capsys, folder, damage, told, options):
    status, out, err = call_with_weights_beside(capsys, damage, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "the weight table of big.onnx ends at byte 48 of the file " in err
    assert told in err
    assert not (folder / "results").exists()


def test_an_onnx_file_with_its_weights_beside_it_is_planned(capsys, folder):
    assert call_with_weights_beside(capsys, lambda _path: None, "--dry-run")[0] == 0


def test_an_onnx_file_whose_outputs_are_random_is_told_so_before_anybody_runs_it(folder):
    random_file("drawing.onnx", uses_it=True)
    told = (
        r"^drawing.onnx: two calls with the same inputs differ \(output 0 by .*operators RandomNormalLike draw random"
    )
    with pytest.raises(ModelError, match=told):
        reference.compute(Case("drawing.onnx", {}), 1)
    random_file("calm.onnx", uses_it=False)
    assert len(reference.compute(Case("calm.onnx", {}), 2)) == 2


def test_every_backend_starts_each_call_from_the_same_state_or_is_refused(folder):
    found = rows(
        'backends = ["engine", "openvino"]\n[[models]]\nname = "mine.py:counting"\n'
        '[[models]]\nname = "mine.py:raising"\n'
    )
    status = {key: line.status for key, line in found.items()}
    counting, raising = "mine.py:counting/default/t1/fp32", "mine.py:raising/default/t1/fp32"
    assert status[counting, "eager"] == status[counting, "engine"] == "ok"
    assert status[counting, "openvino"] == "unavailable"
    assert "writes to model.count: openvino cannot start" in found[counting, "openvino"].reason
    assert status[raising, "engine"] == "failed"
    assert "no such weights" in found[raising, "engine"].reason


def test_an_onnx_file_is_run_by_those_who_read_it(folder):
    found = rows('backends = ["onnxruntime", "engine"]\n[[models]]\nname = "mine.onnx"\n'
                 "shape = { batch = 1, sequence = 4 }\noptions = { ids = [3, 9] }\n")  # fmt: skip
    right, wrong = (f"mine.onnx/b1_s4/t1/fp32/ids={limit}" for limit in (3, 9))
    assert found[right, "onnxruntime"].status == "ok"
    assert found[right, "onnxruntime"].speed is None
    assert found[right, "engine"].status == "unavailable"
    told = "engine runs PyTorch modules; it cannot read ONNX files"
    assert told in found[right, "engine"].reason
    assert found[wrong, "onnxruntime"].status == "failed"
    assert "out of bounds" in found[wrong, "onnxruntime"].reason


def test_a_backend_of_a_users_file_runs_modules_and_nothing_else(folder):
    (folder / "my_backend.py").write_text("raise SystemExit('executed')\n")
    ref = BackendRef("my_backend.py:Mine")
    assert backends.cannot_run(ref, "module") is None


def test_a_class_that_is_no_backend_and_a_backend_that_prepares_nothing_are_named(folder, tmp_path):
    (folder / "my_backend.py").write_text(
        "from suites.backends.base import Backend\n"
        "class Other: pass\n"
        "class Empty(Backend):\n"
        "    def load(self): pass\n"
        "    def prepare(self, model, inputs): return None\n"
    )
    with messages.raises(UsageError):
        backends.load(BackendRef("my_backend.py:Other"))
    job = Job(Case("mlp", {"batch": 1}, options={"widths": "small"}), BackendRef("my_backend.py:Empty"), tmp_path)
    job.load()
    with messages.raises(Refused):
        job.prepare()


@pytest.mark.parametrize("column", ["export_s", "compile_s"])
@pytest.mark.parametrize("value", ["-1.0", "float('nan')", "float('inf')", "'2'"])
def test_a_time_of_a_users_backend_that_is_no_time_is_refused(column, value, folder, tmp_path):
    (folder / "my_backend.py").write_text(
        "from suites.backends.base import Backend, Prepared\n"
        "class Mine(Backend):\n"
        "    def load(self): pass\n"
        f"    def prepare(self, model, inputs): return Prepared(model, {column}={value})\n"
    )
    job = Job(Case("mlp", {"batch": 1}, options={"widths": "small"}), BackendRef("my_backend.py:Mine"), tmp_path)
    job.load()
    with messages.raises(Refused):
        job.prepare()


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_runtimes_read_an_onnx_file_themselves(folder, tmp_path, name):
    if (reason := backends.unavailable(BackendRef(name))) is not None:
        pytest.skip(reason)
    job = Job(Case("mine.onnx", {"batch": 2, "sequence": 5}, options={"ids": 3}), BackendRef(name), tmp_path)
    job.load()
    assert job.prepare()["export_s"] is None
    (stored,) = onnx.load("mine.onnx").graph.initializer
    table = torch.from_numpy(onnx.numpy_helper.to_array(stored).copy())
    for (ids,) in job.inputs:
        (y,) = job.call(ids)
        assert torch.equal(y, table[ids])


# --- buffers ---------------------------------------------------------------------------------------------------------


class Three(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("read", "written", "replaced"):
            self.register_buffer(name, torch.full((2,), float("nan")))

    def forward(self):
        self.written.zero_()
        self.replaced = self.read + 1


def test_buffers_know_which_were_written_and_put_the_first_values_back():
    module = Three()
    memory = module.written
    buffers = Buffers(module)
    assert buffers.written() == ()
    with torch.inference_mode():
        module()
    assert buffers.written() == ("written", "replaced")
    buffers.restore()
    assert module.written is memory
    assert all(torch.isnan(one).all() for one in module.buffers())
    assert buffers.ready is not None
    assert Buffers(module, ()).ready is None


def test_a_file_that_keeps_its_types_is_not_timed_under_another_precision(folder):
    for model, shape, backend in (("mine.pt2", {}, "eager"), ("mine.onnx", {"batch": 1, "sequence": 4}, "openvino")):
        rounded = checks.unavailable(Case(model, shape, precision="bf16"), BackendRef(backend))
        assert rounded == f"{model} keeps the element types that it was saved with; the case asks for bf16"
        assert checks.unavailable(Case(model, shape), BackendRef(backend)) is None


def test_outputs_that_are_no_tensors_are_skipped_if_the_code_of_the_model_sets_them():
    tensor = torch.ones(2)
    assert flatten((tensor, 3, {"flag": True, "text": "a", "none": None}, [0.5])) == [tensor]
    with messages.raises(TypeError):
        flatten((tensor, 1j))
