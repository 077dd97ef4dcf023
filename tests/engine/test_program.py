"""The file of a graph: saved, loaded, damaged in every way; digests."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import stat
import struct
from collections import OrderedDict, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import passes
from engine.config import Config
from engine.errors import ConfigError, ProgramError, ShapeError
from engine.graph import Graph, Signature
from engine.ops import TensorType
from engine.program import digest, load, save, structure_digest
from engine.targets import interpreter
from tests import messages


def small(seed: int = 0) -> Graph:
    """linear -> relu with its weights, a bool and a bfloat16 constant."""
    rng = np.random.default_rng(seed)
    g = Graph("small")
    x = g.add_input("x", TensorType("float32", (2, 3)))
    weight = g.constant(rng.standard_normal((4, 3)).astype(np.float32), "weight")
    keep = g.constant(np.array([True, False, True, True]), "keep")
    half = g.emit("cast", [g.constant(np.ones(4, ml_dtypes.bfloat16), "half")], dtype="float32")
    y = g.emit("where", [keep, g.emit("relu", [g.emit("linear", [x, weight, None, None])]), g.scalar(-1.0, "float32")])
    g.outputs = [g.emit("add", [y, half]), x]
    leaf = "*"
    g.signature = Signature(
        {"tuple": [{"tuple": [leaf]}, {"dict": {}}]}, {"dict": {"y": leaf, "x": leaf}}, (0,), (0, 1), ("x",)
    )
    passes.run(g, Config(pipeline=()), check=True)
    return g


def outputs(graph: Graph) -> list[np.ndarray]:
    return interpreter.run(graph, [np.arange(6, dtype=np.float32).reshape(2, 3)])


def test_a_loaded_program_is_the_saved_one(tmp_path):
    graph = small()
    save(tmp_path / "small.engine", graph)
    loaded = load(tmp_path / "small.engine")
    assert digest(loaded) == digest(graph)
    assert loaded.log == graph.log
    for a, b in zip(outputs(loaded), outputs(graph), strict=True):
        assert a.tobytes() == b.tobytes()


def test_any_safetensors_tool_reads_the_file(tmp_path):
    import safetensors.numpy

    g = Graph("plain")
    x = g.add_input("x", TensorType("float32", (2,)))
    g.outputs = [g.emit("add", [x, g.constant(np.array([3, 4], np.float32))])]
    save(tmp_path / "p", g)
    (tensor,) = safetensors.numpy.load_file(tmp_path / "p").values()
    assert tensor.tolist() == [3, 4]


def test_every_save_of_a_program_writes_the_same_bytes(tmp_path):
    # safetensors writes its metadata in one of two orders by chance: 16 files agree once in 32768 times.
    for number in range(16):
        save(tmp_path / f"{number}", small())
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    load(tmp_path / "0")


def test_the_digest_covers_weights_and_structure_and_nothing_of_the_machine():
    assert digest(small()) == digest(small())
    assert digest(small(1)) != digest(small())
    assert structure_digest(small(1)) == structure_digest(small())


def test_truncated_files_are_refused_wherever_they_end(tmp_path):
    save(tmp_path / "p", small())
    whole = (tmp_path / "p").read_bytes()
    for length in [*range(64), *range(64, len(whole) - 1, 37), len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(ProgramError):
            load(tmp_path / "cut")
    for length in (0, 7, 8, 63, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:length])
        with messages.raises(ProgramError):
            load(tmp_path / "cut")


def test_every_altered_byte_is_noticed(tmp_path):
    save(tmp_path / "p", small())
    whole = bytearray((tmp_path / "p").read_bytes())
    expected = outputs(small())
    generator = random.Random(1)
    for position in generator.sample(range(len(whole)), 400):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << generator.randrange(8)
        (tmp_path / "bad").write_bytes(damaged)
        try:
            loaded = load(tmp_path / "bad")
        except ProgramError:
            continue
        # Padding between header and tensors is the only thing that may differ without a meaning.
        for a, b in zip(outputs(loaded), expected, strict=True):
            assert a.tobytes() == b.tobytes()


def rewrite(path, change):
    """Apply `change` to the program header and make both hashes right again."""
    import hashlib

    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    index = json.loads(raw[8 : 8 + length])
    header = json.loads(index["__metadata__"]["program"])
    change(header, index)
    text = json.dumps(header)
    index["__metadata__"] = {"program": text, "program_sha256": hashlib.sha256(text.encode()).hexdigest()}
    encoded = json.dumps(index).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + raw[8 + length :])


def named(name, fields):
    """A tree as a file has it."""
    return {"namedtuple": name, "fields": [[field, "*"] for field in fields]}


HOSTILE = {
    "another format": lambda h, _: h.update(format="other"),
    "a later version": lambda h, _: h.update(version=99),
    "an unknown op": lambda h, _: h["instructions"][0].update(op="system"),
    "an op that is no string": lambda h, _: h["instructions"][0].update(op=["linear"]),
    "an unknown attribute": lambda h, _: h["instructions"][0]["attributes"].update(evil=1),
    "an attribute of another type": lambda h, _: h["instructions"][1]["attributes"].update(alpha="x"),
    "an input that is not made yet": lambda h, _: h["instructions"][0].update(inputs=[999]),
    "a negative input": lambda h, _: h["instructions"][0].update(inputs=[-1]),
    "a huge shape": lambda h, _: h["types"].__setitem__(0, ["float32", [1 << 47, 1 << 47]]),
    "a negative size": lambda h, _: h["types"].__setitem__(0, ["float32", [-2, 3]]),
    "a rank of nine": lambda h, _: h["types"].__setitem__(0, ["float32", [1] * 9]),
    "an unknown dtype": lambda h, _: h["types"].__setitem__(0, ["complex64", [2, 3]]),
    "another output type": lambda h, _: h["types"].__setitem__(-1, ["float32", [7]]),
    "an output that is never made": lambda h, _: h.update(outputs=[998]),
    "a constant that is missing": lambda h, _: h["constants"].update({"999": "nowhere"}),
    "slots out of range": lambda h, _: h["signature"].update(output_slots=[0, 7]),
    "too few slots": lambda h, _: h["signature"].update(input_slots=[]),
    "a tree that is none": lambda h, _: h["signature"].update(output_tree={"call": "os.system"}),
    "a namedtuple of no name": lambda h, _: h["signature"].update(output_tree=named("a b", ["x", "y"])),
    "a namedtuple whose field is code": lambda h, _: h["signature"].update(output_tree=named("A", ["x", "y=1"])),
    "a namedtuple with a field twice": lambda h, _: h["signature"].update(output_tree=named("A", ["x", "x"])),
    "a namedtuple of numbers": lambda h, _: h["signature"].update(output_tree=named("A", [1, 2])),
    "a dict with a key twice": lambda h, _: h["signature"].update(output_tree={"dict": [["x", "*"], ["x", "*"]]}),
    "a dict without keys": lambda h, _: h["signature"].update(output_tree={"dict": ["x", "y"]}),
    "arguments without keywords": lambda h, _: h["signature"]["input_tree"]["tuple"].pop(),
    "arguments that are one tensor": lambda h, _: h["signature"].update(input_tree="*"),
    "no types": lambda h, _: h.pop("types"),
    "types that are a number": lambda h, _: h.update(types=3),
    "offsets past the end": lambda _, i: next(v for k, v in i.items() if k != "__metadata__").update(
        data_offsets=[0, 1 << 40]
    ),
    "offsets backwards": lambda _, i: next(v for k, v in i.items() if k != "__metadata__").update(data_offsets=[48, 0]),
    "a tensor of another size": lambda _, i: next(v for k, v in i.items() if k != "__metadata__").update(shape=[5, 3]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_headers_with_right_hashes_are_refused(tmp_path, change):
    path = tmp_path / "p"
    save(path, small())
    rewrite(path, change)
    with pytest.raises(ProgramError):
        load(path)


def test_bytes_after_the_end_are_refused(tmp_path):
    save(tmp_path / "p", small())
    (tmp_path / "p").write_bytes((tmp_path / "p").read_bytes() + b"more")
    with messages.raises(ProgramError):
        load(tmp_path / "p")


def test_missing_and_foreign_files_are_named(tmp_path):
    with pytest.raises(ProgramError, match="No such file"):
        load(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello, this is a text and no program at all")
    with messages.raises(ProgramError):
        load(tmp_path / "text")


@pytest.mark.parametrize("path", [None, 3, b"p.engine", ["p.engine"]])
def test_what_names_no_file_is_refused(path):
    for call in (engine.load, engine.load_decoder, partial(save, graph=small())):
        with messages.raises(ConfigError):
            call(path)


@pytest.mark.parametrize("path", ["", "a\0b", Path("a\0b")])
def test_a_text_that_no_file_can_be_called_is_refused(path):
    for call in (engine.load, engine.load_decoder, partial(save, graph=small())):
        with messages.raises(ConfigError):
            call(path)


def test_a_folder_that_does_not_exist_is_a_program_error(tmp_path):
    with pytest.raises(ProgramError):
        save(tmp_path / "no" / "such" / "folder", small())


def test_saving_replaces_files_alone_and_follows_links(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with messages.raises(ProgramError):
            save(f"{tmp_path / name}" if name != "." else tmp_path, small())
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "link").symlink_to("real.engine")
    save(tmp_path / "link", small())
    assert (tmp_path / "link").is_symlink()
    assert engine.load(tmp_path / "real.engine").digest == digest(small())


def test_a_name_may_be_as_long_as_the_system_allows_and_a_link_to_itself_is_refused(tmp_path):
    save(tmp_path / ("é" * 127), small())
    assert engine.load(tmp_path / ("é" * 127)).digest == digest(small())
    with pytest.raises(ProgramError, match="cannot be written: File name too long"):
        save(tmp_path / ("a" * 256), small())
    with pytest.raises(ProgramError, match="cannot be written: File name too long"):
        save("a/" * 2500 + "a", small())
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ProgramError, match="cannot be written: Symlink loop"):
        save(tmp_path / "loop", small())


def test_threads_that_save_to_one_path_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "p"
    graphs = [small(0), small(1)]
    save(path, small())
    with ThreadPoolExecutor(3) as pool:
        saved = [pool.submit(save, path, one) for _ in range(40) for one in graphs]
        loaded = [pool.submit(engine.load, path) for _ in range(40)]
        assert {one.result() for one in saved} == {None}
        assert {one.result().digest for one in loaded} <= set(map(digest, graphs))
    assert [one.name for one in tmp_path.iterdir()] == ["p"]


def test_a_damaged_weight_passes_only_where_checksums_are_not_wanted(tmp_path):
    path = tmp_path / "p"
    save(path, small())
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    load(path, verify="header")
    with messages.raises(ProgramError):
        load(path, verify="full")


class Pair(NamedTuple):
    """Fields that are not in the order of the alphabet."""

    late: torch.Tensor
    early: torch.Tensor


class Parts(nn.Module):
    """x + 1 and x * 2, in the structure that is asked for."""

    def __init__(self, structure):
        super().__init__()
        self.structure = structure

    def forward(self, x):
        return self.structure(x + 1, x * 2)


def plain(value):
    """Names and numbers, in order."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | deque):
        return [plain(one) for one in value]
    return [(name, plain(one)) for name, one in (value if isinstance(value, dict) else value._asdict()).items()]


STRUCTURES = {
    "namedtuple": Pair,
    "dict": lambda late, early: {"late": late, "early": early},
    "ordered dict": lambda late, early: OrderedDict(late=late, early=early),
    "defaultdict": lambda late, early: defaultdict(list, late=late, early=early),
    "defaultdict of one key": lambda late, early: defaultdict(list, late=late - early),
    "deque": lambda late, early: deque([late, early], maxlen=2),
    "namedtuple in a list": lambda late, early: [Pair(late, {"z": early, "a": late})],
}


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_a_loaded_program_returns_each_result_under_its_own_name(tmp_path, structure):
    x = torch.arange(3.0)
    compiled = engine.compile(Parts(structure).eval(), (x,))
    compiled.save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p")
    expected = structure(x + 1, x * 2)
    assert type(compiled(x)) is type(expected)
    assert plain(compiled(x)) == plain(loaded(x)) == plain(expected)
    assert loaded.digest == compiled.digest


def test_a_size_is_a_tuple_before_and_after_a_file(tmp_path):
    x = torch.zeros(2, 3)
    compiled = engine.compile(Parts(lambda late, early: (late, early.shape)).eval(), (x,))
    compiled.save(tmp_path / "p")
    for one in (compiled, engine.load(tmp_path / "p")):
        assert one(x)[1] == (2, 3)


def test_keys_of_an_ordered_dict_that_are_tuples_are_refused():
    model = Parts(lambda late, early: OrderedDict({("a", "b"): late, ("c", "d"): early}))
    with messages.raises(engine.UnsupportedOp):
        engine.compile(model.eval(), (torch.zeros(2),))


def test_a_loaded_namedtuple_unpacks_and_answers_to_its_names(tmp_path):
    x = torch.arange(3.0)
    engine.compile(Parts(Pair).eval(), (x,)).save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p")
    result = loaded(x)
    late, early = result
    assert (late.tolist(), early.tolist()) == ([1.0, 2.0, 3.0], [0.0, 2.0, 4.0])
    assert result.late is late
    assert result.early is early
    assert (type(result).__name__, result._fields) == ("Pair", ("late", "early"))
    assert type(loaded(x)) is type(result)


@dataclasses.dataclass(slots=True)
class Both:
    late: torch.Tensor
    early: torch.Tensor | None = None
    sum: torch.Tensor | None = None


class OfDataclass(nn.Module):
    def forward(self, both):
        return Both(both.late * 2, sum=both.late + both.sum)


def test_a_registered_dataclass_is_an_argument_and_a_result(tmp_path):
    """Torch leaves out the fields that are None."""
    torch.export.register_dataclass(Both)
    x = torch.arange(3.0)
    compiled = engine.compile(OfDataclass().eval(), (Both(x, sum=x),))
    result = compiled(Both(x + 1, sum=x))
    assert isinstance(result, Both)
    assert result.early is None
    assert (result.late.tolist(), result.sum.tolist()) == ([2.0, 4.0, 6.0], [1.0, 3.0, 5.0])
    compiled.save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p")
    for given in (Both(x + 1, sum=x), {"late": x + 1, "sum": x}):
        assert {name: one.tolist() for name, one in loaded(given).items()} == {
            "late": [2.0, 4.0, 6.0],
            "sum": [1.0, 3.0, 5.0],
        }
    with messages.raises(engine.ShapeError):
        compiled(Both(x, x, x))


def test_a_result_of_torch_with_names_keeps_them(tmp_path):
    class Largest(nn.Module):
        def forward(self, x):
            return x.max(0)

    x = torch.tensor([[1.0, 5.0], [4.0, 2.0]])
    engine.compile(Largest().eval(), (x,)).save(tmp_path / "p")
    values, indices = found = engine.load(tmp_path / "p")(x)
    assert (values.tolist(), indices.tolist()) == ([4.0, 5.0], [1, 0])
    assert found.values is values
    assert found.indices is indices


class Difference(nn.Module):
    def forward(self, parts, *, z, a):
        return parts["late"] - parts["early"] + 10 * (z - a)


class DifferenceOfPair(nn.Module):
    def forward(self, pair):
        return pair.late - pair.early


def test_a_loaded_program_takes_each_argument_by_its_own_name(tmp_path):
    x, zeros = torch.arange(3.0), torch.zeros(3)
    compiled = engine.compile(Difference().eval(), (({"late": x, "early": zeros},), {"z": zeros, "a": x}))
    compiled.save(tmp_path / "p")
    for one in (compiled, engine.load(tmp_path / "p")):
        assert one({"early": x, "late": zeros}, a=zeros, z=x).tolist() == [0.0, 9.0, 18.0]


def test_a_namedtuple_is_an_argument(tmp_path):
    x, zeros = torch.arange(3.0), torch.zeros(3)
    compiled = engine.compile(DifferenceOfPair().eval(), (Pair(x, zeros),))
    compiled.save(tmp_path / "p")
    for one in (compiled, engine.load(tmp_path / "p")):
        assert one(Pair(zeros, x)).tolist() == [0.0, -1.0, -2.0]
        with messages.raises(ShapeError):
            one((x, zeros))


class DifferenceOfTwo(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, both):
        return both[self.first] - both[self.second]


@pytest.mark.parametrize("kind", [defaultdict, deque])
def test_a_defaultdict_and_a_deque_are_arguments(tmp_path, kind):
    x, zeros = torch.arange(3.0), torch.zeros(3)
    names, given, plainly = {
        defaultdict: (("a", "b"), lambda a, b: defaultdict(list, b=b, a=a), lambda a, b: {"a": a, "b": b}),
        deque: ((0, 1), lambda a, b: deque([a, b]), lambda a, b: [a, b]),
    }[kind]
    compiled = engine.compile(DifferenceOfTwo(*names).eval(), (given(x, zeros),))
    compiled.save(tmp_path / "p")
    for one in (compiled, engine.load(tmp_path / "p")):
        assert one(given(zeros, x)).tolist() == [0.0, -1.0, -2.0]
        assert one(plainly(zeros, x)).tolist() == [0.0, -1.0, -2.0]


def test_structures_of_files_before_namedtuples_still_load(tmp_path):
    """There a namedtuple was an object, and keys were in the order of the alphabet."""
    graph = small()
    for number, tree in enumerate(
        [{"object": "collections.namedtuple", "fields": {"a": "*", "b": "*"}}, {"dict": {"a": "*", "b": "*"}}]
    ):
        save(tmp_path / f"{number}", graph)
        rewrite(tmp_path / f"{number}", lambda h, _, tree=tree: h["signature"].update(output_tree=tree))
        assert list(engine.load(tmp_path / f"{number}")(np.ones((2, 3), np.float32))) == ["a", "b"]
