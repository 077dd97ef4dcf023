"""Lists the ops that the target `triton` runs, from its table of kernels.

    python -m tools.list_gpu_kernels [--into docs/gpu.md]

Needs triton, and no GPU. A test compares the list on the page with what this script would write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from engine.ops import TABLE
from engine.targets.triton import kernel_table
from suites.cli import guard
from suites.cli.scripts import make_parser, publish
from suites.harness.present import markdown

MARKER = "kernels"
HEADING = ("file", "ops", "kernels, in the order in which they are asked", "encoded weights", "arithmetic of products")


def _join(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _write_lines() -> Iterator[Sequence[str]]:
    """A line for each group of ops that have the same kernels."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for op, known in kernel_table.kernels().items():
        file = known[0].plan.__module__.rpartition(".")[2]
        encodings = sorted({one for declared in known for one in declared.encodings})
        compute = sorted({one for declared in known for one in declared.compute} - {"element"})
        variants = _join([declared.variant for declared in known])
        arithmetic = _join(["element", *compute] if compute else [])
        groups.setdefault((f"`{file}.py`", variants, _join(encodings), arithmetic), []).append(op)
    for (where, *facts), ops in sorted(groups.items(), key=lambda item: item[0][0]):
        yield (where, _join(sorted(ops)), *facts)


def write_list() -> str:
    """The table of ops with kernels, and the names of the others, in Markdown."""
    known = kernel_table.kernels()
    views = sorted(name for name, op in TABLE.items() if op.view is not None and name not in known)
    missing = sorted(name for name, op in TABLE.items() if op.view is None and name not in known)
    return "\n\n".join(
        (
            f"Of {len(TABLE)} ops {len(known)} have kernels, and {len(views)} need none, because they are views.",
            markdown.pipes([HEADING, *_write_lines()]),
            f"Views: {_join(views)}.",
            f"Refused when a model is compiled ({len(missing)}): {_join(missing)}.",
        )
    )


def main() -> None:
    """Prints the list, or writes it to a page."""
    into = make_parser(__doc__, MARKER).parse_args().into
    os.environ.setdefault("TRITON_INTERPRET", "1")  # importing kernels needs no GPU
    publish(write_list(), into, MARKER)


if __name__ == "__main__":
    guard(main, "list_gpu_kernels")
