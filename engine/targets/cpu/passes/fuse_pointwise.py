"""Run neighbouring pointwise ops as one program, in one pass over memory."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.ops.fused import STEPS
from engine.passes.base import Pass
from engine.sizes import same

# What the kernels of programs have room for; their plans refuse more.
MAX_INPUTS = 6  # EB_LOOP_OPERANDS of csrc/iterate.h, less the output
MAX_STEPS = 16  # PROGRAM_STEPS of csrc/ref/pointwise.c and csrc/kernels/vector/program.h


def _step_name(node: Node) -> str | None:
    """What a program calls the node, or None where it cannot: another op, or another element type than float32."""
    name = next((n for n, (op, a) in STEPS.items() if op == node.op.name and a == node.attributes), None)
    if name is None:
        return None
    # The condition of `where` is bool and stays an input of the program.
    operands = [node.operand(operand) for operand in node.op.input_names if operand != "condition"]
    return name if all(v.dtype == "float32" for v in (*operands, *node.outputs)) else None


def _outer(group: list[Node]) -> list[Value]:
    """What `group` reads and does not make, once each, in order of first use."""
    made = {v for n in group for v in n.outputs}
    return list(dict.fromkeys(v for n in group for v in n.inputs if v is not None and v not in made))


def _grow(root: Node, users: dict[Value, list[Node]], kept: set[Value]) -> set[Node]:
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
                and same(value.shape, root.output.shape)
                and all(user in group for user in users[value])
                and _step_name(node) is not None
                and len(group) < MAX_STEPS
            )
            if fits and node is not None and len(_outer([*group, node])) <= MAX_INPUTS:
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


def run(graph: Graph) -> int:
    """Number of chains that became one node."""
    count = 0
    fused: set[Node] = set()
    users = graph.users()
    for root in reversed(list(graph.nodes)):  # from the end of each chain, so that it is taken whole
        if root in fused or _step_name(root) is None:
            continue
        group = _grow(root, users, set(graph.outputs))
        if len(group) > 1:
            _emit(graph, root, [n for n in graph.nodes if n in group])
            fused |= group
            users = graph.users()
            count += 1
    return count


PASS = Pass(
    "fuse_pointwise",
    run,
    after={
        "fuse_gated_linear": "it looks for single pointwise ops, and not inside of a program",
        "fuse_epilogue": "it looks for single pointwise ops, and not inside of a program",
        "fuse_embedding_norm": "it looks for single pointwise ops, and not inside of a program",
        "fuse_add_norm": "it looks for single pointwise ops, and not inside of a program",
        "channels_last": "it looks for single pointwise ops, and not inside of a program",
    },
    target="cpu",
)
