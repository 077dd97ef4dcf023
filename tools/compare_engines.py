"""Compare the engine of another checkout or environment with that of this checkout: outputs bit for bit, and plans.

    python -m tools.compare_engines ../old [MODEL ...]

Each engine compiles each model in a process of its own, from the same seeds, and is called with the same input sets.
Nothing is timed. Without names, every tiny model and `mlp` are compared; a model that generates text, in every phase.
Exits with 1 where anything differs or fails; what only one of the two reports is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from suites import models
from suites.backends import versions
from suites.cli import guard
from suites.cli.output import print_table
from suites.cli.scripts import make_parser
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import of_model
from suites.harness.record import machine, outputs
from suites.harness.run.session import Worker, WorkerFailed, run_folder, scratch_folder

LIMIT_S = 300.0
COUNTS = ("launches", "arena_bytes", "packed_bytes")
SAME = "same"

Outputs = list[tuple[Any, list[str]]]
"""Of each input set, arrays and the names of their types."""


def main() -> int:
    """Print the table; 1 where anything differs, 0 otherwise."""
    parser = make_parser(__doc__)
    parser.add_argument("old", help="folder of a checkout with .venv, or of an environment")
    parser.add_argument("model", nargs="*", help="see `enginebench list models`; also path.py:factory")
    given = parser.parse_args()
    tiny = [name for name in models.names() if name.endswith("-tiny")]
    old = BackendRef.parse(versions.resolve(f"{versions.PREFIX}{given.old}", Path.cwd()))
    cases = [case for name in given.model or ["mlp", *tiny] for case in cases_of(name)]
    with run_folder() as folder:
        rows = [compare(case, old, scratch_folder(folder, f"case_{number}")) for number, case in enumerate(cases)]
    print(f"{old.name} -> this checkout ({machine.revision()['commit']}); {packages(old)}")
    print_table(rows)
    return int(any(value != SAME for row in rows for key, value in row.items() if key != "case" and value is not None))


def cases_of(name: str) -> Iterator[Case]:
    """The cases of a model at its default sizes: one, or one for each phase of a model that generates text."""
    phase = models.get(name).options.get("phase")
    for options in [{"phase": value} for value in phase.values] if phase else [{}]:
        yield from (case for case, _ in of_model(name, options, backends=[versions.ENGINE]).cases())


def compare(case: Case, old: BackendRef, folder: Path) -> dict[str, str | None]:
    """One row of the table: `SAME`, what differs, or None for what one of the two does not report."""
    row = dict.fromkeys(("case", "outputs", *COUNTS, "kernels"))
    row["case"] = case.id
    try:
        (old_facts, old_outputs), (facts, outputs) = (run(case, ref, folder) for ref in (old, BackendRef("engine")))
    except WorkerFailed as failure:
        return row | {"outputs": " ".join(f"{failure.status}: {failure.reason}".split())}
    row["outputs"] = difference(old_outputs, outputs)
    for name in COUNTS:
        if name in old_facts and name in facts:
            one, other = old_facts[name], facts[name]
            row[name] = SAME if one == other else f"{one:,} -> {other:,}"
    if "kernels" in old_facts and "kernels" in facts:
        one, other = dict(old_facts["kernels"]), dict(facts["kernels"])
        changed = [name for name in one | other if one.get(name) != other.get(name)]
        row["kernels"] = ", ".join(f"{name} {one.get(name, 0)} -> {other.get(name, 0)}" for name in changed) or SAME
    return row


def run(case: Case, ref: BackendRef, folder: Path) -> tuple[dict[str, Any], Outputs]:
    """Facts and outputs of one engine; WorkerFailed, which names the engine, where it has none."""
    scratch = scratch_folder(folder, ref.label)
    with Worker(case, ref, scratch, folder) as worker:
        try:
            worker.ask("load", LIMIT_S)
            facts = worker.ask("prepare", LIMIT_S)["facts"]
            files = worker.ask("verify", LIMIT_S)["files"]
        except WorkerFailed as failure:
            raise WorkerFailed(failure.status, f"{ref.label}: {failure.reason}") from None
    return facts, [outputs.read(scratch / name) for name in files]


def difference(old: Outputs, new: Outputs) -> str:
    """`SAME`, or how many of the outputs of all input sets differ in type, shape or a bit."""
    pairs = [pair for one, other in zip(old, new, strict=True) for pair in zip_longest(bits(*one), bits(*other))]
    differing = sum(one != other for one, other in pairs)
    return f"{differing} of {len(pairs)} differ" if differing else SAME


def bits(arrays: Any, kinds: list[str]) -> list[tuple[Any, ...]]:
    """Type, shape and bytes of each array; NaN equals itself by its bits."""
    return [(kind, array.shape, array.tobytes()) for array, kind in zip(arrays, kinds, strict=True)]


def packages(old: BackendRef) -> str:
    """Which packages differ: torch draws the weights, so another torch may give other outputs."""
    theirs, mine = versions.get(old.name).facts["packages"], machine.versions()
    names = [name for name in theirs | mine if name != "enginebench" and theirs.get(name) != mine.get(name)]
    found = [f"{name} {theirs.get(name)} -> {mine.get(name)}" for name in names]
    return f"packages differ: {', '.join(found)}" if found else "the same packages"


if __name__ == "__main__":
    guard(main, "compare_engines")
