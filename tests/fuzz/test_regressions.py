"""Program files that once crashed the engine, did not end, or raised an error that the engine does not promise.

Each is made of a few lines and checked in a process of its own, as `python -m tests.fuzz run` does. Loading may refuse
the program, or it must run rightly; see docs/reliability.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import dtypes
from engine.errors import ProgramError
from engine.graph import compute_checksum
from engine.ops import TABLE, TensorType
from engine.program import FORMAT, VERSION, container, load
from tests.fuzz.campaign import Worker

Operand = TensorType | np.ndarray | None
MOST_INT = (1 << 31) - 1  # of attributes of kind ints


def f32(*shape: int) -> TensorType:
    """An input of the program."""
    return TensorType("float32", shape)


def ones(*shape: int) -> np.ndarray:
    """A constant of the program."""
    return np.ones(shape, np.float32)


def document(operands: list[Operand], result: TensorType, op: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The header of a program that applies one op once. Nothing is checked."""
    defaults = {name: a.default for name, a in TABLE[op].attributes.items()}
    present = [operand for operand in operands if operand is not None]
    types = [o if isinstance(o, TensorType) else TensorType(dtypes.from_numpy(o.dtype).name, o.shape) for o in present]
    inputs = [number for number, operand in enumerate(present) if isinstance(operand, TensorType)]
    numbers = iter(range(len(present)))
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": op,
        "lowered": "cpu",
        "sizes": {},
        "guards": [],
        "states": [],
        "types": [[t.dtype, list(t.shape)] for t in (*types, result)],
        "names": [f"v{number}" for number in range(len(types) + 1)],
        "inputs": inputs,
        "outputs": [len(types)],
        "instructions": [
            {
                "op": op,
                "inputs": [None if operand is None else next(numbers) for operand in operands],
                "attributes": {**defaults, **attributes},
                "outputs": [len(types)],
            }
        ],
        "constants": {str(n): f"constant.{n}" for n in range(len(present)) if n not in inputs},
        "signature": {
            "input_tree": {"tuple": [{"tuple": ["*"] * len(inputs)}, {"dict": {}}]},
            "output_tree": "*",
            "input_slots": list(range(len(inputs))),
            "output_slots": [0],
            "input_names": [f"x{number}" for number in inputs],
        },
        "sources": [""],
        "passes": [],
    }


def write(path: Path, header: dict[str, Any], operands: list[Operand]) -> Path:
    """A file with right hashes."""
    present = [operand for operand in operands if operand is not None]
    tensors = {f"constant.{n}": a for n, a in enumerate(present) if isinstance(a, np.ndarray)}
    sums = {name: compute_checksum(array) for name, array in tensors.items()}
    container.write(path, tensors, json.dumps({**header, "checksums": sums}).encode())
    return path


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process that runs program files; another one where that dies."""
    made = Worker(tmp_path_factory.mktemp("worker"), None, limit=10.0)
    yield made
    made.close()


def window(axes: int, **changed: int) -> dict[str, Any]:
    """The attributes of a convolution with one number for every axis."""
    plain = {"stride": 1, "low": 0, "high": 0, "dilation": 1}
    return {name: [value] * axes for name, value in {**plain, **changed}.items()}


LAST = {"channels_last": True}
PROGRAMS: dict[str, tuple[list[Operand], TensorType, str, dict[str, Any]]] = {
    "a norm of equal elements whose epsilon is 0 as a float": (
        [ones(5, 17), None, None, None],
        f32(5, 17),
        "layer_norm",
        {"axes": 1, "epsilon": 5e-324},
    ),
    "a convolution whose padding and dilation are the largest ints": (
        [f32(1, 1, 1, 4), ones(4, 4, 2, 2), None, None],
        f32(1, 1, 1, 4),
        "conv",
        window(2, low=MOST_INT, dilation=MOST_INT) | LAST,
    ),
    "a convolution whose every attribute is the largest int": (
        [f32(1, 2, 2, 4), ones(4, 4, 2, 2), None, None],
        f32(1, 2, 2, 4),
        "conv",
        window(2, stride=MOST_INT, low=MOST_INT, high=MOST_INT, dilation=MOST_INT) | LAST,
    ),
    "a convolution whose windows lie 2^22 elements apart": (
        [f32(2, 6, 7, 4), ones(6, 4, 3, 2), None, None],
        f32(2, 3, 3, 6),
        "conv",
        window(2, stride=1 << 22, low=1 << 22, high=1 << 22) | LAST,
    ),
    "a transposed convolution with strides whose product is 0 modulo 2^64": (
        [f32(1, 1, 1, 1, 4), ones(4, 4, 1, 1, 1), None, None],
        f32(1, 1, 1, 1, 4),
        "conv_transpose",
        window(3, stride=1 << 22) | LAST,
    ),
    "a transposed convolution with 2^44 phases": (
        [f32(1, 1, 1, 4), ones(4, 4, 1, 1), None, None],
        f32(1, 1, 1, 4),
        "conv_transpose",
        window(2, stride=1 << 22) | LAST,
    ),
    "a transposed convolution whose stride and dilation are the largest ints": (
        [f32(1, 1, 1, 4), ones(4, 4, 1, 1), None, None],
        f32(1, 1, 1, 4),
        "conv_transpose",
        window(2, stride=MOST_INT, dilation=MOST_INT) | LAST,
    ),
    "a transposed convolution to 2^42 elements": (
        [f32(1, 1, 1), ones(1, 1 << 11, 1), None, None],
        f32(1, 1 << 11, MOST_INT + 1),
        "conv_transpose",
        window(1, high=-MOST_INT),
    ),
    "attention without query heads": (
        [f32(1, 0, 3, 4), f32(1, 2, 3, 4), f32(1, 2, 3, 4), None],
        f32(1, 0, 3, 4),
        "attention",
        {"scale": 0.5},
    ),
    "a mean with a divisor over 64 bits": (
        [f32(1, 1, 4)],
        f32(1, 1, 3),
        "avg_pool",
        {"kernel": [2], "stride": [1], "low": [0], "high": [0], "divisor": 1 << 70},
    ),
    "a slice with a step over 64 bits": (
        [f32(4)],
        f32(1),
        "slice",
        {"axis": 0, "start": 0, "stop": 4, "step": 1 << 70},
    ),
    "a slice with a step over 64 bits in bytes": (
        [f32(4)],
        f32(1),
        "slice",
        {"axis": 0, "start": 1, "stop": 4, "step": 1 << 62},
    ),
    "a diagonal over 64 bits": ([f32(4, 4)], f32(4, 4), "tril", {"diagonal": 1 << 70}),
    "the largest diagonal of 64 bits": ([f32(4, 6)], f32(4, 6), "triu", {"diagonal": (1 << 63) - 1}),
    "the least diagonal of 64 bits": ([f32(4, 6)], f32(4, 6), "tril", {"diagonal": -(1 << 63)}),
    "a diagonal whose sum with a row is over 64 bits": ([f32(4, 6)], f32(4, 6), "tril", {"diagonal": (1 << 63) - 2}),
    "an arena larger than all memory": (
        [np.array([0])],
        TensorType("int64", (1 << 40,)),
        "expand",
        {"shape": [1 << 40]},
    ),
    "a result larger than all memory": (
        [],
        f32(1 << 22, 1 << 22),
        "full",
        {"shape": [1 << 22, 1 << 22], "value": 1.0, "dtype": "float32"},
    ),
    "a result of no elements with axes whose product is over 64 bits": (
        [],
        f32(1 << 47, 1 << 47, 0),
        "full",
        {"shape": [1 << 47, 1 << 47, 0], "value": 1.0, "dtype": "float32"},
    ),
    "an axis that is true": ([f32(2, 3)], f32(2, 3), "cumsum", {"axis": True}),
    "an axis of indices that is true": (
        [f32(2, 3), np.array([0, 1])],
        f32(2, 2),
        "index_select",
        {"axis": True},
    ),
    "groups that are true": (
        [f32(1, 1, 3), ones(1, 1, 1), None, None],
        f32(1, 1, 3),
        "conv",
        {**window(1), "groups": True},
    ),
    "a variance with a correction that is no number": (
        [f32(4, 5, 2)],
        f32(4, 2),
        "var",
        {"axes": [1], "correction": float("nan"), "keepdims": False},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_was_found_is_refused_or_runs_rightly(worker, tmp_path, name):
    operands, result, op, attributes = PROGRAMS[name]
    path = write(tmp_path / "program.engine", document(operands, result, op, attributes), operands)
    verdict = worker.check(path)
    assert not verdict.finding, verdict.finding


@pytest.mark.parametrize("slots", ["input_slots", "output_slots"])
def test_a_slot_with_a_constant_that_is_a_list_is_refused(worker, tmp_path, slots):
    operands: list[Operand] = [f32(2)]
    header = document(operands, f32(2), "neg", {})
    header["signature"][slots] = [{"constant": []}]
    verdict = worker.check(write(tmp_path / "program.engine", header, operands))
    assert (verdict.stage, verdict.finding) == ("refused", "")


def test_tensors_at_odd_addresses_are_refused_or_read_rightly(worker, tmp_path):
    """A header whose length no element type divides: kernels may not read what follows it in place."""
    operands: list[Operand] = [f32(3), np.arange(3, dtype=np.float32)]
    path = write(tmp_path / "program.engine", document(operands, f32(3), "add", {}), operands)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    index = raw[8 : 8 + length].rstrip()
    index += b" " * (1 + -len(index) % 8)
    path.write_bytes(len(index).to_bytes(8, "little") + index + raw[8 + length :])
    verdict = worker.check(path)
    assert not verdict.finding, verdict.finding
    try:
        graph = load(path)
    except ProgramError:
        return
    assert all(value.elements.flags.aligned for value in graph.stored_constants())
