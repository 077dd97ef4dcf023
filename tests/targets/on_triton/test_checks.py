"""The checks of Triton kernels complain of kernels with a planted fault, and of no correct ones."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="the Triton target needs triton, which pip install '.[gpu]' brings")

from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from engine.targets.triton import kernel_table
from engine.targets.triton.kernels import attention, products
from engine.targets.triton.launch import FAULT, Launch, Launches, Operand, Scratch
from tests.targets.on_triton import planted, steps

BLOCK = 64


# --- accesses --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _interpreter_is_strict() -> None:
    kernel_table.kernels()


def _access(what: str, size: int, shift: int) -> torch.Tensor:
    x, out = torch.arange(size, dtype=torch.int32), torch.zeros(size, dtype=torch.int32)
    planted.access_past_end[(1,)](x, out, size, ACCESS=what, SHIFT=shift, BLOCK=BLOCK)
    return out


ACCESSES = ["load", "store", "read-modify-write", "compare-and-swap"]


@pytest.mark.parametrize("what", ACCESSES)
def test_an_access_inside_of_the_operands_goes_on(what: str) -> None:
    assert _access(what, BLOCK, 0).numpy().any()


@pytest.mark.parametrize(("size", "shift"), [(BLOCK - 1, 0), (BLOCK, 1), (BLOCK, -1)])
@pytest.mark.parametrize("what", ACCESSES)
def test_an_access_outside_of_the_operands_is_stopped(what: str, size: int, shift: int) -> None:
    with pytest.raises(InterpreterError, match=f"1 lanes of a {what} lie outside of the operands"):
        _access(what, size, shift)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _plant(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Make the only kernel of the op `sum` one with this fault."""

    def plan(request: kernel_table.Request) -> Launches:
        x, columns = request.need(0), request.need(0).shape[-1]
        arguments = {"x": x.pointer(), "out": request.output.pointer(), "bad_index": FAULT, "n": columns}
        return Launches((Launch(planted.sum_rows, (x.shape[0],), arguments | {"FAULT": fault, "BLOCK": BLOCK}),))

    declared = kernel_table.Declared("planted", "sum", "planted", frozenset(), frozenset({"element"}), plan)
    monkeypatch.setattr(kernel_table, "kernels", lambda: {"sum": [declared]})


def _sum(columns: int) -> steps.Case:
    return steps.Case("sum", (steps.Input((3, columns)),), {"axes": (1,)}, variant="planted")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_correct_numbers_are_not_complained_of(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "")
    assert not steps.find_wrong_numbers(_sum(2 * BLOCK - 1), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fault", ["lanes past the end count", "end is left out", "nothing is stored"])
def test_numbers_that_are_wrong_on_ragged_sizes_are_seen(
    fault: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(monkeypatch, fault)
    assert not steps.find_wrong_numbers(_sum(2 * BLOCK), dtype)
    assert "the result has an error" in steps.find_wrong_numbers(_sum(2 * BLOCK - 1), dtype)


def test_a_mark_of_a_bad_index_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "a bad index is reported")
    assert steps.find_wrong_numbers(_sum(BLOCK), "float32") == "the kernel reports a bad index, and none is"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("add", "arithmetic of bfloat16"),
        ("compare", "arithmetic of bfloat16"),
        ("fma", "arithmetic of bfloat16"),
        ("atomic", "arithmetic of bfloat16"),
        ("reduction", "a reduction of bfloat16"),
        ("scan", "a scan of bfloat16"),
    ],
)
def test_arithmetic_of_bfloat16_is_stopped(name: str, message: str) -> None:
    x, y, out = (torch.full((BLOCK,), value, dtype=torch.bfloat16) for value in (1.5, -2.0, 0.0))
    with pytest.raises(InterpreterError, match=message):
        planted.compute_narrow[(1,)](x, y, out, NAME=name, BLOCK=BLOCK)


def test_a_launch_replaces_the_language_once_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    replace, replaced = interpreter._patch_builtin, []

    def replace_counted(package: object, *others: object) -> None:
        replaced.append(package)
        replace(package, *others)

    monkeypatch.setattr(interpreter, "_patch_builtin", replace_counted)
    counts = []
    for rows in (1, 5):
        replaced.clear()
        x, out, mark = torch.ones(rows * BLOCK), torch.zeros(rows), torch.zeros(1, dtype=torch.int32)
        planted.sum_rows[(rows,)](x, out, mark, BLOCK, FAULT="", BLOCK=BLOCK)
        assert (out == BLOCK).all()
        counts.append(len(replaced))
    assert counts[0] == counts[1] > 0


# --- functions that the compiler does not see ------------------------------------------------------------------------


def test_a_function_that_is_not_compiled_is_named() -> None:
    launch, other = Launch(planted.sum_rows, (1,), {}), Launch(planted.multiply, (1,), {})
    assert not steps.find_unseen([launch], [other, launch])
    assert steps.find_unseen([launch, other], [other]) == {f"{planted.__name__}.sum_rows"}


def test_a_constant_that_is_not_compiled_is_named() -> None:
    plain = Launch(planted.sum_rows, (1,), {"x": Operand(0), "bad_index": None, "FAULT": "", "BLOCK": 64})
    other = Launch(planted.sum_rows, (1,), {"x": Operand(0), "bad_index": Scratch(0, ""), "FAULT": "a", "BLOCK": 128})
    function = f"{planted.__name__}.sum_rows"
    assert not steps.find_unseen([plain], [plain._replace(arguments={**plain.arguments, "BLOCK": 32})])
    assert steps.find_unseen([plain], [other]) == {f"{function}: bad_index is None", f"{function}: FAULT is "}
    assert steps.find_unseen([other], [plain]) == {f"{function}: bad_index is a pointer", f"{function}: FAULT is a"}


def test_functions_of_one_name_are_told_apart_by_their_files() -> None:
    assert products.add_parts.fn.__name__ == attention.add_parts.fn.__name__
    of_products, of_attention = Launch(products.add_parts, (1,), {}), Launch(attention.add_parts, (1,), {})
    assert steps.find_unseen([of_products], [of_attention]) == {f"{products.__name__}.add_parts"}
