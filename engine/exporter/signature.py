"""Reads what an exported program says about the arguments of its calls."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node


def list_user_inputs(program: ExportedProgram) -> list[Node]:
    """The placeholders for arguments of a call."""
    placeholders = program.graph_module.graph.find_nodes(op="placeholder")
    specs = program.graph_signature.input_specs
    return [n for n, spec in zip(placeholders, specs, strict=True) if spec.kind is InputKind.USER_INPUT]


def names_of_parameters(program: ExportedProgram) -> tuple[str, ...]:
    """The name of each positional argument of a call, from `forward`; empty if torch does not tell them."""
    entry = next((one for one in program.module_call_graph if one.fqn == ""), None)
    known = entry.signature.forward_arg_names if entry is not None and entry.signature is not None else None
    count = program.call_spec.in_spec.children()[0].num_children
    names = tuple((known or [])[:count])
    return names if len(set(names)) == count else ()
