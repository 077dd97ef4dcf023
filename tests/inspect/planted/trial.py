"""Plants the fault that PLANTED names in the process that imports it, for as long as it lives: a setup of trials.

A fault of C is in the build that EXTENSION names, where ENGINE_MUTANT selects it.
"""

from __future__ import annotations

import importlib
import os

from tests.inspect.planted.plant import planted, read_faults

_FAULTS = [*read_faults(), *read_faults("switches.toml")]
_FAULT = next(fault for fault in _FAULTS if fault.name == os.environ["PLANTED"])
if not _FAULT.is_native:
    importlib.import_module(_FAULT.file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    _block = planted(_FAULT)
    _block.__enter__()
