"""What a command is asked to measure: a suite, or a model that becomes a suite of its own. Knows no command."""

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
from suites.harness.declare.case import BackendRef, split_labels
from suites.harness.declare.precision import PRECISIONS
from suites.harness.declare.spec import Suite, of_model, shipped
from suites.harness.errors import UsageError

BACKENDS = ("eager", "torch_compile", "onnxruntime", "openvino", "engine")
"""Who runs a model that is measured without a suite, of those that run its form."""
BASELINES = {"module": "eager", "onnx": "onnxruntime"}
"""Form of a model -> what speeds are against, where no suite says it."""

MODULE = "A model, path.py:factory or path.pt2"
"""What commands take that need a PyTorch module."""
MODEL = "A model, path.py:factory, path.pt2 or path.onnx"
"""What other commands take."""
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A size or option of the model: --set sequence=128. Repeatable."),
]
SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE[,VALUE...]",
        help="A size or option of the model, with the values to sweep: --set sequence=16,128. Repeatable.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="engine[...]",
        help="The engine with its options: engine[fallback=torch,disable=fuse_gelu].",
    ),
]
PrecisionOption = Annotated[
    str | None, typer.Option(help=f"Precision of the case, for a model: {', '.join(PRECISIONS)}.", show_default="fp32")
]


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
        raise UsageError(f"{unknown('suite or model', target, {*shipped(), *models.names()})}, or {models.FILES}")
    if given:
        raise UsageError(f"{given[0]} is for a model; a suite says it itself (see --only), and {target} is a suite")


def suite_of_model(
    target: str,
    chosen: Sequence[str],
    threads: int | Sequence[int] | None,
    precision: str | None = None,
    **fields: Any,
) -> Suite:
    """The suite of the model `target`: a case for every combination of `chosen`, `threads` and precisions.

    Args:
        target: a model's name, or a user's file.
        chosen: ``key=value[,value...]`` each.
        threads: of a call; 1 for None.
        precision: one or more, separated by commas.
        fields: further ones of a `Suite`.

    Raises:
        ModelError: an unknown model, size or option.
        UsageError: as of `read_values`; an unknown precision, or one that no backend can do.
    """
    values = read_values(target, chosen)
    form = models.get(target).form
    able = [name for name in BACKENDS if backends.cannot_run(BackendRef(name), form) is None]
    fields = {"backends": able, "baseline": BASELINES.get(form, "eager"), **fields}
    asked = split_list("--precision", "fp32" if precision is None else precision)
    for name in asked:
        if name not in PRECISIONS:
            raise UsageError(f"--precision: {unknown('precision', name, PRECISIONS)}")
        if (reason := PRECISIONS[name].refused) is not None:
            raise UsageError(f"--precision {precision}: {reason}")
    return of_model(target, values, threads=1 if threads is None else threads, precision=asked, **fields)


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


def read_values(target: str, chosen: Sequence[str]) -> dict[str, list[Any]]:
    """Size or option of a model -> its values, of the texts of ``--set``. The model checks them when it is used.

    Raises:
        ModelError: an unknown model.
        UsageError: text that is not ``key=value[,value...]``, or a key that is given twice.
    """
    spec, found = models.get(target), dict[str, list[Any]]()
    for text in chosen:
        key, equals, values = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {text!r}: expected KEY=VALUE, such as sequence=128")
        if key in found:
            raise UsageError(f"--set {text!r}: {key} is given twice; give it once")
        found[key] = [spec.read(key, value) for value in split_list(f"--set {key}", values)]
    return found


def read_arguments(target: str, chosen: Sequence[str]) -> dict[str, Any]:
    """The same for a command that measures one case: each with its only value; UsageError if it has several."""
    found = read_values(target, chosen)
    for key, values in found.items():
        if len(values) > 1:
            raise UsageError(f"--set {key}: expected one value, got {len(values)}; enginebench run sweeps several")
    return {key: value for key, (value,) in found.items()}


def read_engine(label: str) -> BackendRef:
    """The engine that the label of ``--backend`` names, with its options; UsageError for anything else."""
    check_backend("--backend", label)
    ref = BackendRef.parse(label)
    if ref.name != versions.ENGINE:
        raise UsageError(f"--backend {label}: expected engine or engine[option=value,...]")
    return ref


def given_options(options: Mapping[str, Any]) -> list[str]:
    """The names of the options that were given, an empty text included.

    Args:
        options: option -> its value or values; None or no values if it was not given.
    """
    return [option for option, value in options.items() if value is not None and value != []]


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
