"""`enginebench kernels --sweep`: the cases, their measurement, the tables."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import engine
from suites import operations as cases
from suites.harness.present.operations import describe_operations, tabulate_family
from suites.harness.present.table import Table
from suites.harness.record import store
from suites.harness.record.launches import OperationRecord
from suites.harness.record.roofs import Roof, Roofs
from suites.harness.run import operations
from suites.operations import Operation
from tests import speeds
from tests.harness.commands import call

CONFIG = engine.Config(threads=1)
ADD = Operation("pointwise", "sum", torch.add, ("f32[64,64]", "f32[64,64]"))


@pytest.fixture(autouse=True)
def roofs(monkeypatch):
    """One core does 1e11 operations a second; a turn is one call."""
    found = Roofs((Roof("fp32", 1, 1e11, "FLOP/s", believed=True),), 0.0)
    monkeypatch.setattr("suites.harness.measure.roofs.measure", lambda: found)
    monkeypatch.setattr(operations, "TURN_S", 0.0)


def make_line(speed=None, **fields):
    return OperationRecord(family="pointwise", name="sum", operands=["f32[2]"], speed=speed, speed_low=speed,
                           speed_high=speed, **fields)  # fmt: skip


def test_there_are_enough_cases_and_each_has_a_name_of_its_own():
    found = cases.list_operations()
    assert len(found) >= 400
    assert len({operation.title for operation in found}) == len(found)
    assert {operation.family for operation in found} == set(cases.FAMILIES)


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_every_case_has_operands_that_torch_takes(family):
    """On tensors without memory: the shapes and element types fit the function."""
    for operation in cases.list_operations(f"{family}: "):
        operands = [cases.parse_operand(text) for text in operation.operands]
        with torch.device("meta"):
            operation.function(*(torch.empty(shape, dtype=dtype) for dtype, _, shape, _ in operands))


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "stride"),
    [
        ("f32[2,3]", torch.float32, (2, 3), (3, 1)),
        ("bf16[2,4] sliced", torch.bfloat16, (2, 4), (8, 2)),
        ("f32[3,5] transposed", torch.float32, (3, 5), (1, 3)),
        ("u8[1,3,4,4] channels_last", torch.uint8, (1, 3, 4, 4), (48, 1, 12, 3)),
        ("i64[100] <7", torch.int64, (100,), (1,)),
        ("bool[]", torch.bool, (), ()),
    ],
)
def test_an_operand_is_made_as_it_is_written(text, dtype, shape, stride):
    made = cases.make_operand(text, torch.Generator().manual_seed(0))
    assert (made.dtype, tuple(made.shape), made.stride()) == (dtype, shape, stride)
    if "<" in text:
        assert sorted(set(made.tolist())) == list(range(7))


def test_a_case_has_times_speed_and_share_of_the_roof():
    line = operations.measure(ADD, CONFIG)
    assert line.problem is None
    assert (line.flops, line.bytes, line.launches) == (64 * 64, 3 * 64 * 64 * 4, 1)
    assert line.speed_low <= line.speed <= line.speed_high
    assert line.speed == pytest.approx(line.eager_seconds / line.seconds, rel=0.9)
    assert line.bound == "memory"
    assert line.roof_share > 0


def test_a_weight_is_known_while_compiling():
    fixed = Operation("products", "linear", torch.nn.functional.linear, ("f32[4,8]", "f32[16,8] fixed"))
    line = operations.measure(fixed, CONFIG)
    assert line.kernel.startswith("f32_linear__")


def test_results_are_compared_before_anything_is_timed(monkeypatch):
    monkeypatch.setattr(operations, "_time_rounds", lambda _: pytest.fail("timed"))
    other = Operation("pointwise", "sum", lambda x: x + torch.compiler.is_exporting(), ("f32[8]",))
    assert operations.measure(other, CONFIG).problem.startswith("wrong: error ")
    refused = Operation("pointwise", "fft", torch.fft.fft, ("f32[8]",))
    assert operations.measure(refused, CONFIG).problem.startswith("refused: ")


@pytest.mark.parametrize(
    ("ours", "theirs", "problem"),
    [
        (torch.ones(3), torch.ones(4), "torch.float32 [3], expected torch.float32 [4]"),
        (torch.ones(3).double(), torch.ones(3), "torch.float64 [3], expected torch.float32 [3]"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements differ"),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.0, torch.inf]), ""),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0]), "other elements are infinite or no numbers"),
        ([torch.ones(2), torch.tensor([0, 1])], [torch.ones(2), torch.tensor([1, 0])], ""),
        ([torch.ones(2), torch.ones(2)], [torch.ones(2), torch.zeros(2)], "error 1.0e+30 of the largest element"),
        (torch.empty(0), torch.empty(0), ""),
    ],
)
def test_results_differ_by_shape_type_and_value(ours, theirs, problem):
    assert operations._compare(ours, theirs) == problem


@pytest.mark.parametrize(
    ("launches", "blame"),
    [
        ([(1e-6, 100, 0)], "call"),
        ([(8e-6, 1000, 0)], "kernel"),
        ([(4e-6, 3000, 0), (4e-6, 3000, 0)], "decomposition"),
        ([(8e-6, 0, 500_000)], "decomposition"),
    ],
)
def test_blame_follows_from_the_launches(launches, blame):
    """A byte takes 1 ns, an operation 10 ps, the call 10 us."""
    nodes = [SimpleNamespace(seconds=time, bytes=size, executed_flops=flops) for time, size, flops in launches]
    profile = SimpleNamespace(nodes=nodes)
    assert operations._blame(profile, 1e-5, operations._list_shares(profile, 1e-9, 1e11)) == blame


def test_a_launch_below_half_of_the_class_of_its_kernel_is_named():
    names = "f32_exp__generic_vector", "any_exp__generic_reference"
    share = {one.name: one.share for one in engine.targets.get("cpu").kernels()}
    assert share[names[0]] > 0
    assert share[names[1]] == 0
    nodes = [SimpleNamespace(kernel=name, seconds=seconds) for name in names for seconds in (1e-6, 1e-3)]
    lapses = operations._list_lapses(SimpleNamespace(nodes=nodes), [share[names[0]] / 201] * len(nodes))
    assert [one.split(":")[0] for one in lapses] == [names[0]]  # of short launches and class 0 nothing is said
    assert operations._list_lapses(SimpleNamespace(nodes=nodes), [share[names[0]] / 199] * len(nodes)) == ()


def test_a_result_that_is_infinite_alone_is_wrong():
    found = [operations._compare(torch.tensor([1.0, x]), torch.tensor([1.0, 2.0])) for x in (torch.inf, torch.nan, 2.0)]
    assert found == ["other elements are infinite or no numbers"] * 2 + [""]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([make_line(0.3)], ""),
        ([make_line(0.1), make_line(0.2), make_line(0.3)], ""),
        ([make_line(0.1, kernel="k")] * speeds.TRIALS, "0.10 of the speed of eager PyTorch, k"),
        ([make_line(problem="refused: no handler")], ""),
        ([make_line(problem="wrong: error 1.0")], "wrong: error 1.0"),
    ],
)
def test_a_case_far_below_eager_is_a_fault_if_it_stays_there(lines, fault, monkeypatch):
    answers = iter(lines)
    monkeypatch.setattr(operations, "measure", lambda *_: next(answers))
    assert speeds.find_fault(ADD) == fault


def test_the_slowest_are_timed_with_torch_compile(monkeypatch):
    monkeypatch.setattr(operations, "COMPILED", 1)
    monkeypatch.setattr(operations, "_time_compiled", lambda operation: 2.0)
    lines = operations.add_compiled([ADD] * 3, [make_line(1.0), make_line(0.5), make_line(problem="refused: x")])
    assert [line.compile_speed for line in lines] == [None, 2.0, None]


def test_tables_begin_with_the_slowest():
    lines = [make_line(2.0), make_line(0.25, blame="kernel", kernel="slow"), make_line(problem="refused: no handler")]
    parts = describe_operations(lines)
    families, slowest = (part for part in parts if isinstance(part, Table))
    assert "2 operations are timed; 1 of them" in parts[0].text
    assert [cell.text for cell in families.rows[0][0]] == ["pointwise", "3", "0.71x", "1", "1", "1"]
    assert [row[0][1].text for row in slowest.rows] == ["0.25x [0.25, 0.25]", "2.00x [2.00, 2.00]"]
    assert any("refused: no handler" in getattr(part, "text", "") for part in parts)
    assert tabulate_family("casts", lines[2:])["mean speed"] == "-"


def test_a_sweep_is_stored_and_shown(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cases, "list_operations", lambda part: [ADD] if part in ADD.title else [])
    where = ["--results", str(tmp_path)]
    status, out, err = call(capsys, "kernels", "--sweep", "--filter", "sum", "--json", *where)
    (path,) = store.all_run_files(tmp_path)
    run = store.read(path)
    assert (status, json.loads(out)["lines"]) == (0, [store.to_json(line) for line in run.of(OperationRecord)])
    assert err.startswith("pointwise: sum  ")
    assert err.endswith("  f32[64,64], f32[64,64]\n")
    assert (run.environment.suite, run.environment.plan.options) == ("operations", ["--filter", "sum"])
    assert "pointwise: sum" in call(capsys, "show", "last", *where)[1]
    refused = Operation("pointwise", "sum fft", torch.fft.fft, ("f32[8]",))
    monkeypatch.setattr(cases, "list_operations", lambda _: [ADD, refused])
    status, _, err = call(capsys, "kernels", "--sweep", *where)
    assert (status, "pointwise: sum fft f32[8]  refused: " in err, "0.00x" in err) == (0, True, False)
    assert str(Path(cases.__file__).parents[2]) not in err, "a record names no folder of its machine"
    assert call(capsys, "site", "--out", str(tmp_path / "site"), *where)[0] == 0
    page = (tmp_path / "site" / "operations.html").read_text()
    assert ">pointwise: sum</th>" in page
    assert "<li>pointwise: sum fft f32[8]: refused: " in page
    monkeypatch.setattr(cases, "list_operations", lambda part: [ADD] if part in ADD.title else [])
    status, _, err = call(capsys, "kernels", "--sweep", "--filter", "smu", *where)
    assert (status, err) == (2, "enginebench: --filter 'smu': no operation has this in its name\n")
