"""Remove nodes that nothing reads."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass


def run(graph: Graph) -> int:
    """Number of nodes removed."""
    needed: set[Value] = set(graph.outputs)
    dead: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            dead.append(node)
        else:
            needed.update(v for v in node.inputs if v is not None)
    graph.remove(dead)
    return len(dead)


PASS = Pass("dead_code", run)
