"""Says what `diff`, or `first_bad`, names under one fault: ``python -m tests.inspect.planted NAME [EXTENSION]``.

EXTENSION is a build with all faults of C in it, of which ENGINE_MUTANT selects one; then NAME is not planted here.
Prints the op of the node that is named, and what is said of it.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

from tests.inspect.planted.plant import Fault, planted, read_faults


class Extension(MetaPathFinder):
    """Finds the engine's extension in the file at `path`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:  # the protocol of finders
        """The extension; None for another module."""
        return spec_from_file_location(name, self._path) if name == "engine._native" else None


def look(fault: Fault) -> tuple[str, str]:
    """The op of the node that is named under the fault, "" if there is none, and what is said."""
    import engine
    from tests.inspect.planted import cases

    model, inputs = getattr(cases, fault.case)()
    with nullcontext() if fault.is_native else planted(fault):
        config = engine.Config(**fault.config)
        if fault.kind == "diff":
            found = engine.diff(model, inputs, candidate=config)
            first = found.first_wrong
            return ("" if first is None else first.op), str(found.explain())
        bad = engine.compile(model, inputs, config).trace(*inputs).first_bad()
        return ("" if bad is None or bad.node is None else bad.node.op), str(bad)


if __name__ == "__main__":
    name, *extension = sys.argv[1:]
    if extension:
        sys.meta_path.insert(0, Extension(*extension))
    chosen = next(fault for fault in read_faults() if fault.name == name)
    sys.stdout.write("\n".join(look(chosen)))
