"""Plants a fault of faults.toml or switches.toml: of Python in this process, by another code object in a function."""

from __future__ import annotations

import gc
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class Fault:
    """A text that occurs once in a file, the text that replaces it, and who should be named.

    Attributes:
        case: a function of cases.py.
        config: keyword arguments of `engine.Config`.
        ops: the node that is named has an op that begins with one of these.
        kind: ``diff``, or ``nan`` for a fault that `Trace.first_bad` should name; in switches.toml how it fails.
        blame: what a bisection should blame, where that does not follow from the file (`switches`).
    """

    name: str
    file: str
    old: str
    new: str
    case: str
    ops: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "diff"
    blame: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """True if the fault is in C."""
        return self.file.endswith((".c", ".h"))

    @property
    def switches(self) -> tuple[str, ...]:
        """Beginnings of what a bisection should blame, as text."""
        folder, _, name = self.file.removesuffix(".py").rpartition("/")
        if self.blame:
            return self.blame
        if folder.endswith("/passes"):
            return (f"rewrite {name}#", f"pass {name}")
        return ("export",) if "exporter" in folder else ("kernel ", "isa ", "threads ")


def read_faults(file: str = "faults.toml") -> list[Fault]:
    """All faults, in the order of the file."""
    rows = tomllib.loads((HERE / file).read_text())["fault"]
    lists = ("ops", "blame")
    return [Fault(**{**row, **{name: tuple(row.get(name, ())) for name in lists}}) for row in rows]


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """In this block, functions of the file have the code of the text with the fault."""
    path = ROOT / fault.file
    text = path.read_text()
    assert text.count(fault.old) == 1, f"{fault.name}: its text is not in {fault.file} once"
    sound, faulty = (_codes(compile(one, str(path), "exec")) for one in (text, text.replace(fault.old, fault.new)))
    changed = {name: code for name, code in faulty.items() if name in sound and code != sound[name]}
    functions = [one for one in gc.get_objects() if type(one) is FunctionType]  # isinstance would ask lazy modules
    live = [one for one in functions if one.__code__.co_qualname in changed]
    swapped = [one for one in live if Path(one.__code__.co_filename).resolve() == path]
    assert swapped, f"{fault.name}: no function of {fault.file} has changed"
    kept = [one.__code__ for one in swapped]
    for one in swapped:
        one.__code__ = changed[one.__code__.co_qualname]
    try:
        yield
    finally:
        for one, code in zip(swapped, kept, strict=True):
            one.__code__ = code


def _codes(code: CodeType) -> dict[str, CodeType]:
    """Qualified name -> code of each function in `code`."""
    found: dict[str, CodeType] = {}
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found |= {one.co_qualname: one, **_codes(one)}
    return found
