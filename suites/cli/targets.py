"""What a command is asked to measure: a suite, or a model that becomes a suite of its own; and fields of the engine's
Config. Knows no command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.errors import EngineError
from engine.suggest import unknown
from suites import backends, models
from suites.backends import versions
from suites.harness.declare.case import BackendRef, shorten_paths, split_labels
from suites.harness.declare.precision import PRECISIONS
from suites.harness.declare.spec import Suite, of_model, shipped
from suites.harness.errors import UsageError

BACKENDS = ("eager", "torch_compile", "onnxruntime", "openvino", "engine")
"""Who runs a model that is measured without a suite, of those that run its form."""
BASELINES = {"module": "eager", "onnx": "onnxruntime"}
"""Form of a model -> what ratios are against, where no suite says it."""

MODULE = "A model, path.py:factory[?option=value&...] or path.pt2"
"""What commands take that need a PyTorch module."""
MODEL = "A model, path.py:factory[?option=value&...], path.pt2 or path.onnx"
"""What other commands take."""
SetOption = Annotated[list[str] | None, typer.Option("--set", help="key=value: a size or option of the model.")]
PrecisionOption = Annotated[
    str | None, typer.Option(help=f"Precision of the case, for a model: {', '.join(PRECISIONS)}.", show_default="fp32")
]
SizeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--size", metavar="NAME=N[,N...]", help="A size of the model and the values to sweep: sequence=16,128,512."
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", help="field=value of engine.Config, for every row of the engine, such as fallback=torch."),
]

_CONFIG_ONLY = {
    "target": (
        "each target is a backend of its own, such as engine_interpreter, and target triton runs where the device is "
        "cuda (enginebench run gpu, enginebench profile --device cuda)"
    ),
    "states": "no case says in which type states are stored, and results are checked as if it were the model's",
    "plans": "the sizes of a case do not differ from call to call",
}
"""Field of engine.Config that no option of a backend sets -> why."""


def is_suite(target: str) -> bool:
    """True if `target` is the path of a suite or the name of one in the package."""
    return target.endswith(".toml") or target in shipped()


def is_model(target: str) -> bool:
    """True if `target` is a user's file or the name of a model."""
    return models.is_path(target) or target in models.names()


def check_suite(target: str, given: Sequence[str]) -> None:
    """Check that `target` is a suite and that no option is given that only models have.

    Args:
        target: what the user named.
        given: options of models that were given, such as ``--set``.

    Raises:
        UsageError: no such suite, or `given` is not empty.
    """
    if not is_suite(target):
        if (fault := models.find_wrong_kind(target)) is not None:
            raise UsageError(f"{target!r}: {fault}")
        raise UsageError(f"{unknown('suite or model', target, {*shipped(), *models.names()})}, or {models.FILES}")
    if given:
        raise UsageError(f"{given[0]} is for a model; a suite says it itself (see --only), and {target} is a suite")


def suite_of_model(
    target: str,
    chosen: Sequence[str],
    threads: int | Sequence[int] | None,
    precision: str | None = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    **fields: Any,
) -> Suite:
    """The suite of the model `target`: one case, or one for every combination of `threads`, precisions and `sizes`.

    Args:
        target: a model's name, or a user's file.
        chosen: ``key=value`` each.
        threads: of a call; 1 for None.
        precision: one or more, separated by commas.
        sizes: size -> values.
        fields: further ones of a `Suite`.

    Raises:
        ModelError: an unknown model, size or option.
        UsageError: `chosen` is not ``key=value``, or gives a key twice or again; an unknown precision, or
            one that no backend can do.
    """
    arguments = arguments_of(target, chosen)
    for name in sizes or {}:
        if name in arguments:
            raise UsageError(f"--size {name}: {name} is given twice; give it once")
    form = models.get(target).form
    able = [name for name in BACKENDS if backends.cannot_run(BackendRef(name), form) is None]
    fields = {"backends": able, "baseline": BASELINES.get(form, "eager"), **fields}
    asked = split_list("--precision", "fp32" if precision is None else precision)
    for name in asked:
        if name not in PRECISIONS:
            raise UsageError(f"--precision: {unknown('precision', name, PRECISIONS)}")
        if (reason := PRECISIONS[name].refused) is not None:
            raise UsageError(f"--precision {precision}: {reason}")
    return of_model(target, arguments, sizes, threads=1 if threads is None else threads, precision=asked, **fields)


def split_list(option: str, text: str) -> list[str]:
    """Values that commas separate, each once.

    Raises:
        UsageError: an empty value, or one that is given twice.
    """
    values = [value.strip() for value in text.split(",")]
    for value in values:
        if not value or values.count(value) > 1:
            raise UsageError(f"{option} {text!r}: expected values separated by commas, each once")
    return values


def read_counts(option: str, text: str, least: int = 1) -> list[int]:
    """Whole numbers of at least `least` that commas separate, each once.

    Raises:
        UsageError: anything else.
    """
    values = split_list(option, text)
    if not all(re.fullmatch("[0-9]{1,18}", value) and int(value) >= least for value in values):
        raise UsageError(f"{option} {text!r}: expected whole numbers of at least {least}, separated by commas")
    return [int(value) for value in values]


def read_sizes(texts: Sequence[str] | None) -> dict[str, list[int]]:
    """Size -> values, of the texts of ``--size``. Whether a model takes a value, such as 0, is left to the model.

    Raises:
        UsageError: text that is not ``name=N[,N...]``, or a name that is given twice.
    """
    found: dict[str, list[int]] = {}
    for text in texts or ():
        name, equals, values = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--size {text!r}: expected NAME=N[,N...], such as sequence=16,128,512")
        if name in found:
            raise UsageError(f"--size {text!r}: {name} is given twice; give it once, such as {name}=16,128")
        found[name] = read_counts(f"--size {name}", values, least=0)
    return found


def arguments_of(target: str, chosen: Sequence[str]) -> dict[str, Any]:
    """The sizes and options of a model: those of its name and those of ``--set``.

    Raises:
        ModelError: an unknown model.
        UsageError: text that is not ``key=value``, or a key that is given twice.
    """
    spec, arguments = models.get(target), models.split(target)[1]
    for text in chosen:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {text!r}: expected key=value")
        if key in arguments:
            raise UsageError(f"--set {text!r}: {key} is given twice; give it once")
        arguments[key] = spec.read(key, value)
    return arguments


def given_options(options: Mapping[str, Any]) -> list[str]:
    """The names of the options that were given, an empty text included.

    Args:
        options: option -> its value or values; None or no values if it was not given.
    """
    return [option for option, value in options.items() if value is not None and value != []]


def list_options(given: Mapping[str, Any]) -> list[str]:
    """The words of the options that were given, for a record and for the command that resumes a run.

    Args:
        given: option -> its value or values; None if it was not given. Labels of backends stand for their paths.
    """
    words = []
    for option, value in given.items():
        texts = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
        words += [word for text in texts for word in (option, str(text))]
    return words


def check_form(model: str, ref: BackendRef, advice: str) -> None:
    """UsageError if the backend runs no models of this form, whatever their sizes; `advice` ends the message."""
    reason = backends.cannot_run(ref, models.get(model).form)
    if reason is not None:
        raise UsageError(f"model {model}: {reason}; {advice}")


def check_backend(option: str, label: str) -> None:
    """UsageError that begins with the name of the option if `label` is no backend."""
    try:
        backends.check(BackendRef.parse(versions.resolve(label, Path.cwd())))
    except EngineError as error:
        raise UsageError(f"{option}: {error}") from None


def read_backends(text: str) -> list[str]:
    """The labels of ``--backends``; UsageError for one that is named twice."""
    return read_labels("--backends", text)


def read_labels(option: str, text: str) -> list[str]:
    """Read labels that commas separate. UsageError, with the name of the option, if one is named twice."""
    labels = split_labels(text)
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"{option} names {twice} twice; name it once")
    return labels


def shorten_backends(text: str | None) -> str | None:
    """A list of backends with the label of each in place of its path, as records name them."""
    if text is None:
        return None
    refs = (BackendRef.parse(versions.resolve(label, Path.cwd())) for label in split_labels(text))
    return ",".join(ref.label for ref in refs)


def shorten_config(texts: Sequence[str] | None) -> list[str]:
    """The texts of ``--config`` with the last part of each path in its place, as records name them."""
    pairs = (text.partition("=") for text in texts or ())
    return [f"{field}{equals}{shorten_paths(value)}" for field, equals, value in pairs]


def name_command(command: str, target: str, results: Path | None) -> list[str]:
    """The words of a command that no record has, because they may name a folder."""
    return [command, target, *(["--results", str(results)] if results is not None else [])]


def config_options(texts: Sequence[str] | None, *, threads: str | None = None) -> Mapping[str, str]:
    """Field -> value, of the texts of ``--config``.

    Args:
        texts: ``field=value`` each.
        threads: why no threads can be given, for a command without ``--threads``.

    Raises:
        UsageError: text that is not ``field=value``, or a field that is unknown, given twice or a part of the case.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        field, equals, value = text.partition("=")
        if not equals or not field or not value:
            raise UsageError(f"--config {text!r}: expected field=value, such as fallback=torch or disable=a+b")
        if field == "precision":
            raise UsageError(f"--config {text!r}: the precision is a part of the case; use --precision {value}")
        if field == "threads":
            raise UsageError(f"--config {text!r}: {threads or backends.explain_threads(value)}")
        said_by_case = ("precision", "threads")
        known = [name for name in backends.BACKENDS["engine"].switches if name not in said_by_case]
        if not any(field == name or (name.endswith(".") and field.startswith(name)) for name in known):
            if field in _CONFIG_ONLY:
                reason = f"{field} is a field of engine.Config that this option does not set: {_CONFIG_ONLY[field]}"
                raise UsageError(f"--config {text!r}: {reason}. It sets: {', '.join(sorted(known))}")
            raise UsageError(f"--config {text!r}: {unknown('field', field, known)}")
        if field in found:
            raise UsageError(f"--config {text!r}: {field} is given twice; give it once, lists as a+b")
        found[field] = value
    return found
