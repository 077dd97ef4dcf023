"""A process that checks programs. Each line of stdin is a seed, or the path of a program file.

For each it writes two lines of JSON: what the program is, before anything can go wrong, and what became of it.

    python -m tests.fuzz.worker FOLDER [NATIVE]

FOLDER takes the file and the text of the program of a seed. NATIVE is a build of the extension module to use in place
of the installed one, such as one with sanitizers.
"""

from __future__ import annotations

import faulthandler
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path


def use_native(path: str) -> None:
    """Let ``import engine._native`` give the extension module at `path`."""
    loader = importlib.machinery.ExtensionFileLoader("engine._native", path)
    spec = importlib.util.spec_from_loader("engine._native", loader, origin=path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules["engine._native"] = module


def main() -> None:
    """Answer until stdin ends."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints does not come between the answers
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        use_native(sys.argv[2])
    warnings.simplefilter("ignore")  # of NumPy, about values that a program overflows
    from tests.fuzz import oracle, samples

    if len(sys.argv) <= 2:  # a sanitizer maps terabytes for its own use
        resource.setrlimit(resource.RLIMIT_AS, (oracle.ADDRESS_SPACE, oracle.ADDRESS_SPACE))
    path = folder / "program.engine"
    for line in map(str.strip, sys.stdin):
        began = time.perf_counter()
        if not line.isdigit():
            print(json.dumps({"kind": "file"}), file=answers)
            outcome = oracle.check_file(Path(line))
        else:
            path.unlink(missing_ok=True)
            sample = samples.sample(int(line))
            about = {"kind": sample.kind, "op": sample.op, "label": sample.label, "extreme": sample.extreme}
            (folder / "program.txt").write_text(samples.describe(sample))
            print(json.dumps(about), file=answers)
            outcome = oracle.check_sample(sample, path)
        print(json.dumps({**outcome._asdict(), "seconds": time.perf_counter() - began}), file=answers)


if __name__ == "__main__":
    main()
