"""Checks a graph. Shares no code with the passes that change graphs.

A violated rule is a `VerificationError`: a defect of the engine. After a pass from outside of this repository,
`engine.passes.own` makes a `ConfigError` of it.
"""

from __future__ import annotations

from engine.errors import VerificationError
from engine.graph.ir import Graph, Value
from engine.ops import TABLE


def graph(g: Graph) -> None:
    """Check order, arity, attributes and types of every node, that outputs exist and that names are unique.

    Raises a VerificationError that names the first node that breaks a rule.
    """
    known: set[Value] = set(g.inputs)
    names: set[str] = set()
    for value in g.inputs:
        _name(names, value)
    for node in g.nodes:
        where = f"node {node!r}"
        if TABLE.get(node.op.name) is not node.op:
            raise VerificationError(f"{where}: not an op of the table")
        for position, operand in enumerate(node.inputs):
            if operand is None:
                if not node.op.inputs[position].endswith("?"):
                    raise VerificationError(f"{where}: required input {position} is absent")
            elif not operand.is_constant and operand not in known:
                raise VerificationError(f"{where}: reads %{operand.name} before it is computed")
        try:
            node.op.check_arity(len(node.inputs))
            complete = node.op.complete(node.attributes)
            types = node.op.infer_types([None if v is None else v.type for v in node.inputs], node.attributes)
        except ValueError as error:
            raise VerificationError(f"{where}: {error}") from error
        if dict(node.attributes) != complete:
            raise VerificationError(f"{where}: attributes are not complete")
        if [v.type for v in node.outputs] != list(types):
            raise VerificationError(f"{where}: the op infers the output types {types}")
        for value in node.outputs:
            if value.node is not node:
                raise VerificationError(f"{where}: %{value.name} belongs to another node")
            _name(names, value)
            known.add(value)
    for output in g.outputs:
        if not output.is_constant and output not in known:
            raise VerificationError(f"output %{output.name} is never computed")


def _name(names: set[str], value: Value) -> None:
    if value.name in names:
        raise VerificationError(f"two values are called %{value.name}")
    names.add(value.name)
