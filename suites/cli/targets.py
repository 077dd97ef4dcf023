"""What a command is asked to measure: a suite, or a model that becomes a suite of its own. Knows no command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from engine.suggest import unknown
from suites import backends, models
from suites.backends import versions
from suites.harness.declare.case import BackendRef
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


def is_model(target: str) -> bool:
    """True if `target` is a user's file or the name of a model."""
    return models.is_path(target) or target in models.names()


def check_precision(precision: str) -> None:
    """UsageError if there is no such precision."""
    if precision not in PRECISIONS:
        raise UsageError(f"--precision: {unknown('precision', precision, PRECISIONS)}")


def check_suite(target: str, of_model: Mapping[str, Any]) -> None:
    """UsageError if `target` is no suite, or an option of `of_model`, which only models have, was given."""
    if not target.endswith(".toml") and target not in shipped():
        raise UsageError(f"{unknown('suite or model', target, {*shipped(), *models.names()})}, or {models.FILES}")
    for option, value in of_model.items():
        if value is not None and value != []:
            raise UsageError(f"{option} is for a model; a suite says it itself (see --only), and {target} is a suite")


def suite_of_model(
    target: str,
    chosen: Sequence[str],
    threads: int | Sequence[Any] | None,
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
        UsageError: as of `read_values` and `of_model`.
    """
    values = read_values(target, chosen)
    form = models.get(target).form
    able = [name for name in BACKENDS if backends.cannot_run(BackendRef(name), form) is None]
    fields = {"backends": able, "baseline": BASELINES.get(form, "eager"), **fields}
    asked = split_list("fp32" if precision is None else precision)
    return of_model(target, values, threads=1 if threads is None else threads, precision=asked, **fields)


def split_list(text: str) -> list[str]:
    """Values that commas separate."""
    return [value.strip() for value in text.split(",")]


def read_values(target: str, chosen: Sequence[str]) -> dict[str, list[Any]]:
    """Size or option of a model -> its values, of the texts of ``--set``. The model checks them when it is used.

    Raises:
        ModelError: an unknown model.
        UsageError: text that is not ``key=value[,value...]``.
    """
    spec, found = models.get(target), dict[str, list[Any]]()
    for text in chosen:
        key, equals, values = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {text!r}: expected KEY=VALUE, such as sequence=128")
        found.setdefault(key, []).extend(spec.read(key, value) for value in split_list(values))
    return found


def read_arguments(target: str, chosen: Sequence[str]) -> dict[str, Any]:
    """The same for a command that measures one case: each with its only value; UsageError if it has several."""
    found = read_values(target, chosen)
    for key, values in found.items():
        if len(values) > 1:
            raise UsageError(f"--set {key}: expected one value, got {len(values)}; enginebench run sweeps several")
    return {key: value for key, (value,) in found.items()}


def read_engine(label: str, option: str = "--backend") -> BackendRef:
    """The engine that the label of `option` names, with its options; UsageError for anything else."""
    ref = BackendRef.parse(label)
    if ref.name != versions.ENGINE:
        raise UsageError(f"{option} {label}: expected engine or engine[option=value,...]")
    backends.check(ref)
    return ref


def check_form(model: str, ref: BackendRef, advice: str) -> None:
    """UsageError if the backend runs no models of this form, whatever their sizes; `advice` ends the message."""
    reason = backends.cannot_run(ref, models.get(model).form)
    if reason is not None:
        raise UsageError(f"model {model}: {reason}; {advice}")
