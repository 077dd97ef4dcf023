"""Makes one node of a chain of pointwise ops, for targets that run such a program in one pass over memory."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.ops.fused import RELATIONS, STEPS
from engine.sizes import same


def _step_name(node: Node) -> str | None:
    """What a program calls the node, or None where it cannot: another op, or another element type than float32.

    A cast to float32 can begin a program and a cast from it can end one. Truth values are made and read inside of it.
    """
    name = next((n for n, (op, a) in STEPS.items() if op == node.op.name and a == node.attributes), None)
    if name is None:
        return None
    operands = [node.operand(operand) for operand in node.op.input_names if operand != "condition"]
    results = [] if _is_test(node) else node.outputs
    others = sum(v.dtype != "float32" for v in (*operands, *results))
    return name if others == (node.op.name == "cast") else None


def _is_test(node: Node) -> bool:
    return node.op.name in (*RELATIONS, "isnan", "isinf")


def _outer(group: list[Node]) -> list[Value]:
    """What `group` reads and does not make, once each, in order of first use."""
    made = {v for n in group for v in n.outputs}
    return list(dict.fromkeys(v for n in group for v in n.inputs if v is not None and v not in made))


def _grow(root: Node, users: dict[Value, list[Node]], kept: set[Value], most_inputs: int, most_steps: int) -> set[Node]:
    """`root` and all that only the group reads, as long as the result's shape stays and the program fits."""
    group = {root}
    grown = True
    while grown:
        grown = False
        for value in _outer(list(group)):
            node = value.node
            fits = (
                node is not None
                and value not in kept
                and (value.dtype == "float32" or _is_test(node))
                and same(value.shape, root.output.shape)
                and all(user in group for user in users[value])
                and _step_name(node) is not None
                and len(group) < most_steps
            )
            if fits and node is not None and len(_outer([*group, node])) <= most_inputs:
                group.add(node)
                grown = True
    return group


def _emit(graph: Graph, root: Node, group: list[Node]) -> None:
    inputs = _outer(group)
    numbers = {v: i for i, v in enumerate([*inputs, *(n.output for n in group)])}
    program = tuple((_step_name(n), *(numbers[v] for v in n.inputs if v is not None)) for n in group)
    fused = graph.emit("pointwise", inputs, before=root, source=root.source, program=program)
    graph.replace(root.output, fused)
    graph.remove(group)


def fuse_chains(graph: Graph, *, most_inputs: int, most_steps: int) -> int:
    """Make one node of each chain of pointwise ops. Returns the number of chains.

    `most_inputs` and `most_steps` are the operands and ops that a kernel of the target can take in one program.
    """
    count = 0
    fused: set[Node] = set()
    users = graph.users()
    for root in reversed(graph.candidates()):  # from the end of each chain, so that it is taken whole
        if root in fused or _step_name(root) is None:
            continue
        group = _grow(root, users, set(graph.outputs), most_inputs, most_steps)
        if len(group) > 1:
            _emit(graph, root, [n for n in graph.nodes if n in group])
            fused |= group
            users = graph.users()
            count += 1
    return count
