"""Reads what an exported program says about the arguments and the weights of its calls."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from engine.exporter.weights import Held

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)


def list_user_inputs(program: ExportedProgram) -> list[Node]:
    """The placeholders for arguments of a call."""
    return [node for node, spec in _list_placeholders(program) if spec.kind is InputKind.USER_INPUT]


def list_held(program: ExportedProgram) -> dict[Node, Held]:
    """The placeholders for parameters, buffers and lifted constants, each with what the program holds for it."""
    # `constants` has what is not saved: lifted constants, and some buffers.
    known = {**program.constants, **program.state_dict}
    return {
        node: Held(known[spec.target], str(spec.target), spec.kind is InputKind.PARAMETER)
        for node, spec in _list_placeholders(program)
        if spec.kind in _HELD
    }


def _list_placeholders(program: ExportedProgram) -> Any:
    placeholders = program.graph_module.graph.find_nodes(op="placeholder")
    return list(zip(placeholders, program.graph_signature.input_specs, strict=True))


def list_slots(program: ExportedProgram) -> tuple[list[Any], list[str]]:
    """For each argument the position among those that are tensors, or ``{"constant": value}``; names of the tensors."""
    slots, names = list[Any](), list[str]()
    for node in list_user_inputs(program):
        value = node.meta.get("val")
        is_tensor = isinstance(value, torch.Tensor)
        slots.append(len(names) if is_tensor else {"constant": value})
        names += [node.name] if is_tensor else []
    return slots, names


def names_of_parameters(program: ExportedProgram) -> tuple[str, ...]:
    """The name of each positional argument of a call, from `forward`; empty if torch does not tell them."""
    entry = next((one for one in program.module_call_graph if one.fqn == ""), None)
    known = entry.signature.forward_arg_names if entry is not None and entry.signature is not None else None
    count = program.call_spec.in_spec.children()[0].num_children
    names = tuple((known or [])[:count])
    return names if len(set(names)) == count else ()
