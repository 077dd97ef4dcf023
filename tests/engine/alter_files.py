"""Alters one place after the other in the header of a program file, and loads and calls what comes of it.

    python tests/engine/alter_files.py FILE FOLDER EVERY [TARGET]

FILE is loaded from FOLDER with each EVERY-th alteration. Prints how many were refused, and each error that is none of
those that a file or a call may cause. Runs in a process of its own, whose memory is limited: a hostile file could end
it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import resource
import struct
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np

import engine
from engine import dtypes, tree
from engine.errors import ExecutionError, ProgramError, ShapeError
from engine.graph import specialise

DELETE = object()
DEEP = json.loads("[" * 90 + "]" * 90)
VALUES = [
    *(None, True, False, -1, 0, 1, 2, 7, 1 << 31, 1 << 47, 1 << 63, 1 << 64, 10**300, 1.5, -0.0),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "*", "batch", "\ud800", "float32", [], [[]], [0] * 1000),
    *({}, {"size": []}, {"size": [[["batch"], 1]]}, {"size": [[["batch"] * 99, 1]]}, {"constant": []}, DEEP, DELETE),
    {"size": [[[["//", [[["batch"], 1]], [[["batch"], 1], [[], -3]]]], 1]]},  # divided by zero for the example
]


def places(value, path=()):
    """The path of every value inside of a JSON value."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def altered(document, path, value):
    """A copy of `document` with `value` at `path`."""
    if not path:
        return None if value is DELETE else value
    document = copy.deepcopy(document)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    if value is DELETE:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return document


def call(loaded):
    """One call of a program with what its signature says, or of a decoder with one token."""
    if isinstance(loaded, engine.Decoder):
        loaded.prefill(np.ones((loaded.batch, 2), np.int64))
        loaded.decode(np.ones((loaded.batch, 1), np.int64))
        return
    graph = specialise(loaded.graph, loaded.graph.scope.example)
    types = [value.type for value in graph.call_inputs]
    if sum(t.nbytes for t in types) > 1 << 28:
        return
    arrays = [np.ones(t.shape, dtypes.dtype(t.dtype).numpy) for t in types]
    slots = graph.signature.input_slots
    leaves = [slot["constant"] if isinstance(slot, dict) else arrays[slot] for slot in slots]
    args, kwargs = tree.unflatten(graph.signature.input_tree, leaves)
    state = {"state": loaded.new_state()} if graph.states else {}
    loaded(*args, **kwargs, **state)


def attempt(load, path):
    """How loading and calling went: ``refused``, ``ran``, ``failed`` or, for what must not happen, a text."""
    try:
        loaded = load(path)
    except ProgramError as error:
        return "refused" if str(error).startswith(str(path)) else f"not named: {error}"
    except Exception:  # noqa: BLE001  # whatever it is, it is reported
        return traceback.format_exc()
    try:
        call(loaded)
    except (ShapeError, ExecutionError):
        return "failed"
    except Exception:  # noqa: BLE001  # whatever it is, it is reported
        return traceback.format_exc()
    return "ran"


def main(source, folder, every, target):
    """Try all alterations."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    raw = Path(source).read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    index = json.loads(raw[8:start])
    document = json.loads(index["__metadata__"]["program"])
    load = partial(engine.load_decoder if "entries" in document else engine.load, config=engine.Config(target=target))
    changes = [(part, path, value) for part in (0, 1) for path in places((document, index)[part]) for value in VALUES]
    counts = {"refused": 0, "ran": 0, "failed": 0}
    file = Path(folder) / "altered.engine"
    for part, path, value in changes[::every]:
        one, other = (altered(d, path, value) if n == part else d for n, d in enumerate((document, index)))
        if part == 0:
            text = json.dumps(one)
            metadata = {"program": text, "program_sha256": hashlib.sha256(text.encode()).hexdigest()}
            other = {**index, "__metadata__": metadata}
        encoded = json.dumps(other).encode()
        file.write_bytes(struct.pack("<Q", len(encoded)) + encoded + raw[start:])
        outcome = attempt(load, file)
        if outcome not in counts:
            sys.stdout.write(f"{path} = {value!r:.60}: {outcome}\n")
        counts[outcome] = counts.get(outcome, 0) + 1
    sys.stdout.write(json.dumps({key: counts[key] for key in ("refused", "ran", "failed")}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), (*sys.argv, "cpu")[4])
