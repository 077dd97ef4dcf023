"""What a command is asked to measure: a suite, or a model that becomes a suite of one case; and fields of the engine's
Config. Knows no command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from engine.suggest import unknown
from suites import models
from suites.cli.output import setting
from suites.harness.declare.precision import PRECISIONS
from suites.harness.declare.spec import Suite, find, load, of_model, shipped
from suites.harness.errors import UsageError

BACKENDS = ("eager", "torch_compile", "onnxruntime", "openvino", "engine")
"""Who runs a model that is measured without a suite."""
BASELINES = {"module": "eager", "onnx": "onnxruntime"}
"""Form of a model -> what ratios are against, where no suite says it."""

MODEL = "A model, path.py:factory[?option=value&...], path.pt2 or path.onnx"
SetOption = Annotated[list[str] | None, typer.Option("--set", help="key=value: a size or option of the model.")]
PrecisionOption = Annotated[
    str | None, typer.Option(help=f"Precision of the case, for a model: {', '.join(PRECISIONS)}.", show_default="fp32")
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", help="field=value of engine.Config, for every row of the engine, such as fallback=torch."),
]


def is_suite(target: str) -> bool:
    """True if `target` is the path of a suite or the name of one in the package."""
    return target.endswith(".toml") or target in shipped()


def is_model(target: str) -> bool:
    """True if `target` is a user's file or the name of a model."""
    return models.is_path(target) or target in models.names()


def suite_of_file(target: str, chosen: Sequence[str], threads: int | None, precision: str | None) -> Suite:
    """The suite `target`.

    Raises:
        UsageError: no such suite, or an option that only a model has.
    """
    given = {"--set": bool(chosen), "--threads": threads is not None, "--precision": precision is not None}
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} is for a model; a suite says it itself (see --only), and {target} is a suite")
    if not is_suite(target):
        raise UsageError(f"{unknown('suite or model', target, {*shipped(), *models.names()})}, or {models.FILES}")
    return load(find(target))


def suite_of_model(
    target: str, chosen: Sequence[str], threads: int | None, precision: str | None = None, **fields: Any
) -> Suite:
    """The suite of the one case of the model `target`; `fields` are those of a `Suite`.

    Raises:
        ModelError: an unknown model, size or option.
        UsageError: `chosen` is not ``key=value``, or gives a key twice or again.
    """
    arguments = arguments_of(target, chosen)
    form = models.get(target).form
    fields = {"backends": BACKENDS, "baseline": BASELINES.get(form, "eager"), **fields}
    asked = "fp32" if precision is None else precision
    if asked not in PRECISIONS:
        raise UsageError(f"--precision: {unknown('precision', asked, PRECISIONS)}")
    return of_model(target, arguments, threads=1 if threads is None else threads, precision=asked, **fields)


def arguments_of(target: str, chosen: Sequence[str]) -> dict[str, Any]:
    """The sizes and options of a model: those of its name and those of ``--set``.

    Raises:
        UsageError: text that is not ``key=value``, or a key that is given twice.
    """
    arguments = models.split(target)[1]
    for text in chosen:
        key, value = setting(text)
        if key in arguments:
            raise UsageError(f"--set {text!r}: {key} is given twice; give it once")
        arguments[key] = value
    return arguments


def config_options(texts: Sequence[str] | None, *, of_case: bool = True) -> Mapping[str, str]:
    """Field -> value, of the texts of ``--config``.

    Args:
        texts: ``field=value`` each.
        of_case: True if a case says the precision, so that ``--config`` must not.

    Raises:
        UsageError: text that is not ``field=value``, or a field that is given twice or is a part of the case.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        field, equals, value = text.partition("=")
        if not equals or not field or not value:
            raise UsageError(f"--config {text!r}: expected field=value, such as fallback=torch or disable=a+b")
        if of_case and field == "precision":
            raise UsageError(
                f"--config {text!r}: the precision is a part of the case; use enginebench run --precision {value}"
            )
        if field in found:
            raise UsageError(f"--config {text!r}: {field} is given twice; give it once, lists as a+b")
        found[field] = value
    return found
