"""Writes the C source of the extension module `engine._native`: the cffi binding of csrc/engine.h.

CMake calls it with the Python that builds: ``python csrc/build_cffi.py csrc/engine.h OUT.c``. It imports nothing
of the package, so it runs before the package exists.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

MODULE = "engine._native"
BEGIN, END = "/* CFFI BEGIN */", "/* CFFI END */"


def declarations(header: Path) -> str:
    """The part of `header` between the two CFFI marks; ValueError where there is none."""
    text = header.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{header}: expected the marks {BEGIN!r} and {END!r}")
    return text.split(BEGIN, 1)[1].split(END, 1)[0]


def write(header: Path, target: Path) -> None:
    """Write the binding of `header` to `target` (limited API, so that one build serves Python 3.11 and later)."""
    ffi = FFI()
    ffi.cdef(declarations(header))
    ffi.set_source(MODULE, f'#include "{header.name}"', py_limited_api=True)
    ffi.emit_c_code(str(target))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
