"""A seed -> a program file. The same seed makes the same file, arguments and configurations.

Seeds go round the ops that have kernels: each is the subject of one seed in `len(OPS)`. What happens to the program
depends on the round, see `KINDS`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from engine.graph import compute_checksum
from engine.planner import STRATEGIES
from engine.program import container
from engine.switches import kernel_variants
from engine.targets.cpu import native
from tests.fuzz import extremes, mutations
from tests.fuzz.operands import RUNNABLE as OPS
from tests.fuzz.programs import Draft, build

KINDS = ("valid", "attribute", "structure", "attribute", "valid", "attribute", "structure", "bytes")
"""What the seeds of one round make, in turn.

valid: a program as it is. attribute: one attribute at an extreme. structure: another change of the document. bytes:
changed bytes of the file, so that its hashes do not fit.
"""
_EXTREMES = list(extremes.ALL)
Random(0).shuffle(_EXTREMES)  # so that a short run has some of every op

LOWERED = ("cpu", "cpu", "cpu", "")
"""What files say of their programs: lowered for the cpu, so that they run as they are, or to be lowered when loaded."""


class Sample(NamedTuple):
    """A program file to be.

    Attributes:
        seed: makes it again.
        kind: one of `KINDS`.
        op: the subject.
        label: what was done to the program; "" for a valid one.
        extreme: ``op.attribute := value`` where the change is one of `extremes.ALL`.
        draft: the document and its constants.
        config: keyword arguments of `engine.Config`, beside threads.
    """

    seed: int
    kind: str
    op: str
    label: str
    extreme: str
    draft: Draft
    config: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write the file. Raises what `container.write` raises where the constants are no tensors."""
        sums = {name: compute_checksum(array) for name, array in self.draft.tensors.items()}
        document = {**self.draft.document, "checksums": sums}
        container.write(path, self.draft.tensors, json.dumps(document).encode())
        if self.kind == "bytes":
            path.write_bytes(damage(Random(self.seed), path.read_bytes()))


class Subject(NamedTuple):
    """What a seed is about: one of `KINDS`, an op, and the extreme that an attribute of it gets."""

    kind: str
    op: str
    extreme: extremes.Extreme | None


def subject(seed: int) -> Subject:
    """The subject of a seed. Rounds of kind ``attribute`` walk through all extremes, whatever op they belong to."""
    turn, number = divmod(seed, len(OPS))
    cycle, position = divmod(turn, len(KINDS))
    kind = KINDS[position]
    if kind != "attribute":
        return Subject(kind, OPS[number], None)
    earlier = cycle * KINDS.count(kind) + KINDS[:position].count(kind)
    extreme = _EXTREMES[(earlier * len(OPS) + number) % len(_EXTREMES)]
    return Subject(kind, extreme.op, extreme)


def sample(seed: int) -> Sample:
    """The program of this seed."""
    rng = Random(seed)
    kind, op, extreme = subject(seed)
    simple = rng.random() < {"attribute": 0.8, "structure": 0.4}.get(kind, 0.0)
    draft = build(rng, op, simple=simple)
    label = ""
    if extreme is not None:
        label = mutations.put_extreme(rng, draft, extreme)
    elif kind == "structure":
        label = rng.choice(mutations.STRUCTURAL)(rng, draft)
    config = _config(rng, op)
    draft.document["lowered"] = rng.choice(LOWERED)
    return Sample(seed, kind, op, label, "" if extreme is None else str(extreme), draft, config)


def _config(rng: Random, op: str) -> dict[str, Any]:
    """Switches that decide how the program of `op` is bound and run."""
    config: dict[str, Any] = {
        "isa": rng.choice(native.kernel_isas()),
        "planner": rng.choice(sorted(STRATEGIES)),
        "dispatch": rng.choice(("whole", "whole", "per_node")),
        "outputs": rng.choice(("recycled", "fresh")),
    }
    variants = kernel_variants().get(op)  # none of a view
    if variants and rng.random() < 0.4:
        config["variant"] = {op: rng.choice(variants)}
    return config


# --- bytes ------------------------------------------------------------------------------------------------------------


def damage(rng: Random, data: bytes) -> bytes:
    """The bytes of a file with some of them changed: its ends, its length, its tensors' index, any bit."""
    match rng.randrange(5):
        case 0:
            return data[: rng.randrange(len(data))]
        case 1:
            at = rng.randrange(len(data))
            return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at + rng.choice((0, 0, 1, 8)) :]
        case 2:
            length = rng.choice(
                (0, 1, 7, len(data) - 8, len(data), 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
            )
            return length.to_bytes(8, "little") + data[8:]
        case 3:
            flipped = bytearray(data)
            for _ in range(rng.choice((1, 1, 3, 30))):
                flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case _:
            return _with_other_index(rng, data)


def _with_other_index(rng: Random, data: bytes) -> bytes:
    """The safetensors index changed; the program inside of it and its hash stay right."""
    length = int.from_bytes(data[:8], "little")
    index = json.loads(data[8 : 8 + length])
    numbers = (0, 1, -1, 8, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64, 1 << 70, 1.0, True, None, "8", math.nan)
    entry = index[rng.choice(sorted(index))]
    key = rng.choice(sorted(entry))
    value = entry[key]
    match rng.randrange(4):
        case 0:
            del entry[key]
        case 1 if isinstance(value, list) and value:
            value[rng.randrange(len(value))] = rng.choice(numbers)
        case 2:
            index[rng.choice(("x", "", "constant.0", "__metadata__"))] = rng.choice((None, [], {}, {**entry}))
        case _:
            entry[key] = rng.choice((*numbers, "F64", "BOOL", "U64", [], [[]], [0], [0, 0], {}, [1 << 62, 1 << 62, 0]))
    text = json.dumps(index).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def describe(one: Sample) -> str:
    """The program as text."""
    document = one.draft.document
    lines = [f"seed {one.seed}: {one.kind}, op {one.op}, {one.label or 'unchanged'}", f"config {one.config}"]
    types = document.get("types")
    if isinstance(types, list):
        lines += [f"  %{number}: {type_}" for number, type_ in enumerate(types)]
    for key, value in document.items():
        if key == "instructions" and isinstance(value, list):
            lines += [f"  {json.dumps(instruction)}" for instruction in value]
        elif key not in ("types", "names", "passes", "sources"):
            lines.append(f"  {key} = {json.dumps(value)[:2000]}")
    lines += [f"  {name}: {a.dtype}{list(a.shape)}" for name, a in one.draft.tensors.items()]
    lines += [f"  argument: {a.dtype}{list(a.shape)}" for a in one.draft.arrays if isinstance(a, np.ndarray)]
    return "\n".join(lines)
