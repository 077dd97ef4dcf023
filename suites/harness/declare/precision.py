"""The precisions that a case may ask for: one table, and the conversion of a model and its inputs.

Three classes:

- ``exact``: the model and its inputs as they are, in float32.
- ``rounded``: the harness converts the floating-point weights and inputs to a narrower type. Everybody gets the same
  rounded numbers. Outputs, and the values that operators hand to each other, have that type; sums are wider.
- ``quantised``: the float32 model with float32 inputs and outputs. The backend stores the weights as integers with
  scales, and ``int8_dynamic`` multiplies integers.

Knows no model and no backend; imports torch only to convert.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["exact", "rounded", "quantised"]


@dataclass(frozen=True)
class Precision:
    """One precision.

    Attributes:
        name: as suites and case ids spell it.
        kind: its class, as the text of the module says.
        rule: name of the rule that outputs are verified by, a key of `suites.harness.judge.verify.RULES`.
        roof: name of the roof of its arithmetic; there may be no such roof.
        dtype: torch's name of the type that the harness converts floating-point weights and inputs to; None: no
            conversion.
        weight_bits: of an element of a weight that is stored as integers; None: as the model has it.
        refused: why no backend can do it; None where some can.
    """

    name: str
    kind: Kind
    rule: str
    roof: str
    dtype: str | None = None
    weight_bits: int | None = None
    refused: str | None = None


PRECISIONS: dict[str, Precision] = {
    one.name: one
    for one in (
        Precision("fp32", "exact", "exact", "fp32"),
        Precision("bf16", "rounded", "rounded", "bf16", "bfloat16"),
        Precision("fp16", "rounded", "rounded", "fp16", "float16"),
        Precision("int8_weight", "quantised", "quantised", "fp32", weight_bits=8),
        Precision("int8_weight_tensor", "quantised", "quantised", "fp32", weight_bits=8),
        Precision("int8_dynamic", "quantised", "dynamic", "int8", weight_bits=8),
        Precision("int4_weight", "quantised", "quantised", "fp32", weight_bits=4),
        Precision(
            "int8_static",
            "quantised",
            "dynamic",
            "int8",
            weight_bits=8,
            refused="int8_static needs scales of activations from sample data, which the engine does not measure; "
            "backends that do are rows of int8_dynamic",
        ),
    )
}


def choose_rule(name: str, recipe: Sequence[Sequence[str]]) -> str:
    """Name of the rule that outputs are verified by, where a recipe may give layers other precisions than `name`."""
    if not recipe:
        return PRECISIONS[name].rule
    return "dynamic" if "int8_dynamic" in {name, *(one for _, one in recipe)} else "recipe"


def convert_model(model: Any, name: str) -> Any:
    """`model` with the floating-point parameters and buffers of precision `name`, changed in place where they differ.

    Complex and integer tensors stay as they are.
    """
    dtype = PRECISIONS[name].dtype
    if dtype is None:
        return model
    return model.half() if dtype == "float16" else model.bfloat16()  # `Module.to` would drop imaginary parts


def convert_inputs(tensors: Iterable[Tensor], name: str) -> tuple[Tensor, ...]:
    """Input tensors with the floating-point ones rounded to the type of precision `name`, half to even."""
    dtype = PRECISIONS[name].dtype
    if dtype is None:
        return tuple(tensors)
    import torch

    wanted = getattr(torch, dtype)
    return tuple(tensor.to(wanted) if tensor.is_floating_point() else tensor for tensor in tensors)
