"""Files made to break what reads them: each gives a program or a ProgramError."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import engine
from engine import sizes
from engine.errors import ProgramError
from engine.program import container, formulas, load
from engine.targets.cpu import native
from tests import messages
from tests.files import saved_with
from tests.golden import models as golden

PROGRAM, DECODER = golden.file("program"), golden.file("decoder")
INDEXED = golden.file("program", 4)
"""A file whose offsets of tensors `INDICES` spells."""


@pytest.mark.parametrize(
    ("path", "every", "target", "refused", "ran"),
    [
        (PROGRAM, 101, "cpu", 100, 5),
        (golden.file("encoded"), 31, "interpreter", 100, 5),
        *(
            pytest.param(*case, 300, 20, marks=pytest.mark.long)
            for case in (
                (PROGRAM, 31, "cpu"),
                (DECODER, 97, "cpu"),
                (golden.file("encoded"), 11, "interpreter"),
            )
        ),
    ],
)
def test_whatever_stands_in_a_header_is_a_program_or_a_program_error(path, every, target, refused, ran, tmp_path):
    """Each value replaced by 37 others; a part of all combinations, since all of them take minutes."""
    command = [sys.executable, str(Path(__file__).parent / "alter_files.py"), str(path), str(tmp_path), str(every)]
    command.append(target)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    *unexpected, counts = done.stdout.strip().split("\n")
    assert done.returncode == 0, done.stderr[-2000:]
    assert not unexpected, "\n".join(unexpected)
    assert json.loads(counts)["refused"] > refused
    assert json.loads(counts)["ran"] > ran


def product(count):
    """A formula: one product of as many sizes."""
    return {"size": [[["batch"] * count, 1]]}


def nested(depth):
    """A formula: one quotient in the other."""
    terms = [[["batch"], 1]]
    for _ in range(depth):
        terms = [[[["//", terms, [[[], 1], [["batch"], 1]]]], 1]]
    return {"size": terms}


def wide(count):
    """A formula: a sum of as many different quotients."""
    return {"size": [[[["//", [[["batch"], 1]], [[[], number + 2]]]], 1] for number in range(count)]}


@pytest.mark.parametrize(
    "formula",
    [product(9), product(100_000), nested(9), wide(65)],
    ids=["product", "long product", "nested", "wide"],
)
def test_formulas_beyond_what_programs_have_are_refused(formula, tmp_path):
    saved_with(engine.load(PROGRAM), tmp_path / "p", lambda h: h["types"][0][1].__setitem__(0, formula))
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p")


@pytest.mark.parametrize(
    ("formula", "number"),
    [(product(8), 50**8), (nested(1), 0), (nested(8), 0), (wide(64), sum(50 // (n + 2) for n in range(64)))],
)
def test_formulas_up_to_the_limits_are_read(formula, number):
    scope = formulas.decode_scope({"batch": [1, 64, 2]}, [])
    assert sizes.at(formulas.decode(formula, scope), {"batch": 50}) == number


def test_formulas_of_a_file_are_compared_with_nothing(tmp_path):
    """Comparing can take time that grows exponentially, and adds guards that the compiled program does not have."""

    def vary(header):
        pad = next(i for i in header["instructions"] if i["op"] == "pad")
        pad["attributes"]["low"][2] = {"size": [[["batch"], 1], [[], -2]]}  # 1 for the example

    saved_with(engine.load(PROGRAM), tmp_path / "p", vary)
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p")
    assert not engine.load(PROGRAM).graph.scope.guards


HOSTILE = {
    "no checksums": lambda h: h.pop("checksums"),
    "a checksum too few": lambda h: h["checksums"].pop("constant.5"),
    "two constants of one tensor": lambda h: h["constants"].update({"5": "constant.6"}),
    "one constant under two numbers": lambda h: h["constants"].update({"05": "constant.6"}),
    "an integer over 64 bits": lambda h: next(i for i in h["instructions"] if i["op"] == "slice")["attributes"].update(
        stop=1 << 63
    ),
    "a shape of many axes": lambda h: next(i for i in h["instructions"] if i["op"] == "reshape")["attributes"].update(
        shape=[1 << 40] * 9
    ),
    "an input that no argument brings": lambda h: h["signature"].update(input_slots=[0, 0]),
    "a value made twice by one instruction": lambda h: h["instructions"][0].update(outputs=[4, 4]),
    "an argument of no kind": lambda h: h["signature"].update(output_slots=[0, 1, {"constant": [1]}]),
    "a field name that Python refuses to compile": lambda h: h["signature"].update(
        output_tree={"namedtuple": "A", "fields": [["\ufb01", "*"], ["fi", "*"]]}
    ),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_header_is_refused_for_what_is_wrong_with_it(change, mmap, tmp_path):
    saved_with(engine.load(PROGRAM), tmp_path / "p", change)
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p", mmap=mmap)


@pytest.mark.parametrize("mmap", [False, True])
def test_lists_in_lists_in_lists_are_refused(mmap, tmp_path):
    """Whether their depth or the attribute is told depends on how many calls Python allows."""
    deep = json.loads("[" * 400 + "]" * 400)
    saved_with(engine.load(PROGRAM), tmp_path / "p", lambda h: h["instructions"][0]["attributes"].update(x=deep))
    with pytest.raises(ProgramError, match=rf"(?s)^{tmp_path / 'p'}: .*(nested too deeply|has no attribute)"):
        engine.load(tmp_path / "p", mmap=mmap)


def with_index(path, change):
    """A copy of the golden program whose index, as text, `change` has altered."""
    raw = INDEXED.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    index = change(raw[8:start])
    path.write_bytes(struct.pack("<Q", len(index)) + index + raw[start:])
    return path


INDICES = {
    "a tensor twice": lambda text: text.replace(b'"constant.3":', b'"constant.6":'),
    "bytes that are no UTF-8": lambda text: text.replace(b"constant.3", b"constant.\xff"),
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "an infinite offset": lambda text: text.replace(b"[0,4]", b"[0,Infinity]"),
    "an offset of thousands of digits": lambda text: text.replace(b"[0,4]", b"[0," + b"9" * 5000 + b"]"),
    "overlapping tensors": lambda text: text.replace(b"[644,3204]", b"[640,3200]"),
    "nested too deeply": lambda text: b"[" * 100_000 + text,
    "a list": lambda _text: b"[]",
    "no metadata": lambda text: text.replace(b"__metadata__", b"__metadota__"),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("change", INDICES.values(), ids=INDICES.keys())
def test_a_hostile_index_is_refused_for_what_is_wrong_with_it(change, mmap, tmp_path):
    path = with_index(tmp_path / "p", change)
    assert path.read_bytes() != INDEXED.read_bytes()
    with messages.raises(ProgramError):
        engine.load(path, mmap=mmap)


def test_a_header_that_no_safetensors_tool_reads_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "p"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 200_000_000))
        file.truncate(200_000_100)  # of which the file system stores nothing
    with messages.raises(ProgramError):
        engine.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["facts"].update(max_length=13),
        lambda h: h["facts"].update(max_length=10**30),
        lambda h: h["facts"].update(batch=0),
        lambda h: h["entries"]["prefill"]["types"][h["entries"]["prefill"]["outputs"][0]][1].__setitem__(
            0, {"size": [[["sequence"], 1], [[], -7]]}
        ),
        lambda h: h["entries"]["decode"]["constants"].popitem(),
        lambda h: h.update(entries={}),
        lambda h: h["entries"]["decode"]["signature"].update(output_tree={"tuple": ["*"]}),
    ],
    ids=["length", "huge length", "batch", "batch that varies", "constants", "no entries", "structure"],
)
def test_a_decoder_file_that_contradicts_itself_is_refused(change, tmp_path):
    saved_with(engine.load_decoder(DECODER), tmp_path / "d", change)
    with messages.raises(ProgramError):
        engine.load_decoder(tmp_path / "d")


def test_an_error_of_the_user_is_not_one_of_the_file():
    missing = "neon" if "avx2" in native.isas() else "avx2"
    with pytest.raises(engine.ConfigError, match=f"^isa '{missing}': this machine has"):
        engine.load(PROGRAM, config=engine.Config(isa=missing))


def test_program_files_say_nan_and_infinity(tmp_path):
    """They are values of attributes, such as those that pad an image before its maximum is taken."""
    with container.opened(PROGRAM, mapped=False) as (text, _tensors):
        assert b"-Infinity" in text
    (pad,) = (node for node in load(PROGRAM).nodes if node.op.name == "pad")
    assert pad.attributes["value"] == -np.inf


FOREIGN = {
    "text": b"Take these weights, please.\n",
    "an empty file": b"",
    "the first byte of a program": b"h",
    "a zip archive": b"PK\x03\x04" + bytes(60),
    "weights": safetensors.numpy.save({"w": np.ones(3)}),
}


@pytest.mark.parametrize("load", [engine.load, engine.load_decoder])
@pytest.mark.parametrize("contents", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_file_of_another_kind_is_refused(contents, load, tmp_path):
    path = tmp_path / "model.file"
    path.write_bytes(contents)
    with messages.raises(ProgramError):
        load(path)


def test_a_damaged_header_is_told_in_one_line(tmp_path):
    for change in (
        lambda h: h.update(types=3),
        lambda h: h["types"][0].pop(),
        lambda h: h["types"][0].append("a text too many") or h["types"][0].append(1),
        lambda h: h["instructions"].pop(),
        lambda h: h["constants"].update({"x": "constant.6"}),
    ):
        saved_with(engine.load(PROGRAM), tmp_path / "p", change)
        with messages.raises(ProgramError):
            engine.load(tmp_path / "p")


@pytest.mark.parametrize(
    ("source", "load", "mmap"),
    [
        (DECODER, engine.load_decoder, True),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (DECODER, engine.load_decoder, False),
                (PROGRAM, engine.load, False),
                (PROGRAM, engine.load, True),
            )
        ),
    ],
)
def test_a_file_that_is_cut_or_has_a_changed_byte_anywhere_is_refused_in_one_line(source, load, mmap, tmp_path):
    raw, path = source.read_bytes(), tmp_path / "model.engine"
    start = 8 + int.from_bytes(raw[:8], "little")
    cuts = [0, 1, 7, 8, 9, start - 1, start, start + 1, len(raw) - 1, *range(20, len(raw), len(raw) // 40)]
    positions = [*range(16), *range(16, start, start // 60), *range(start, len(raw), (len(raw) - start) // 60)]
    flips = [raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :] for at in positions for mask in (1, 0x20, 0x80)]
    for contents in (*(raw[:cut] for cut in cuts), *flips):
        path.write_bytes(contents)
        with pytest.raises(ProgramError) as caught:
            load(path, mmap=mmap)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
