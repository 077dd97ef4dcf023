"""What ``bisect`` and ``minify`` take alike: a model that fails, and how."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import engine
from engine.errors import EngineError
from engine.inspect.bisect import FAILURES
from engine.inspect.command import CANNOT_TELL, Command
from engine.inspect.trials import LIMIT_S
from suites import models
from suites.backends.engine import Engine
from suites.cli import sides
from suites.cli.output import path_option
from suites.harness.declare.case import BackendRef
from suites.harness.errors import Refused, UsageError


def fails_option(variable: str) -> Any:
    """``--fails``, for a command that finds its case in `variable`."""
    return typer.Option(
        "--fails",
        help=f"What fails: {', '.join(FAILURES)}; or a shell command, which finds {variable} and ends with a status "
        f"other than 0 ({CANNOT_TELL}: it cannot tell).",
        metavar="FAILURE|COMMAND",
    )


RegexOption = Annotated[
    str | None,
    typer.Option("--fail-regex", help="The command fails if its output matches this.", metavar="REGEX"),
]
LimitOption = Annotated[float, typer.Option("--limit", min=1.0, help="Seconds after which a trial hangs.")]
WorkOption = Annotated[
    Path | None, path_option("--work", help="Folder for trials: a search that was interrupted goes on there.")
]
LIMIT = LIMIT_S


class Failing(NamedTuple):
    """A model, its inputs, and modules to import where trials run."""

    module: Any
    inputs: tuple[Any, ...]
    setup: list[str]


def read_fails(fails: str, pattern: str | None, limit: float) -> str | Command:
    """A failure that the engine knows, or a command. UsageError for a pattern that is none, or has no command."""
    if fails in FAILURES:
        if pattern is not None:
            raise UsageError(f"--fail-regex is for a command, and --fails is {fails}")
        return fails
    try:
        return Command(fails, pattern, limit)
    except re.error as error:
        raise UsageError(f"--fail-regex {pattern!r}: {error}") from None


def build(model: str, arguments: dict[str, Any], precision: str, why: str) -> Failing:
    """Build a model in a precision. UsageError if it is no module, which is needed because of `why`."""
    found = models.get(model)
    if found.form != "module":
        raise UsageError(f"model {model}: {why}")
    module, inputs = found.build(**arguments)
    return Failing(
        *sides.convert(module, tuple(inputs), precision), [model.rpartition(":")[0]] if ".py:" in model else []
    )


def read_config(ref: BackendRef, option: str, threads: int) -> tuple[engine.Config, str]:
    """The switches of a label of the engine, and its precision, in which the model is to be built."""
    options, precision = sides.split_precision(ref, option)
    backend = Engine(threads, options)
    backend.precision = precision
    return engine.Config(**backend.config()), precision


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """A block whose refusals are what a user should mend."""
    try:
        yield
    except (EngineError, Refused) as error:
        raise UsageError(str(error)) from None


def show_trials(count: int) -> None:
    """Tell a person who waits how many trials there were."""
    if sys.stderr.isatty():
        print(f"{count} trials", end="\r", file=sys.stderr, flush=True)
