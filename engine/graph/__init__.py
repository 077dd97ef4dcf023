"""The graph between the exporter and the program: values, nodes, text form, verifier."""

from engine.graph.ir import Form, Graph, Joined, Node, Value, identity
from engine.graph.origin import Origin

__all__ = ["Form", "Graph", "Joined", "Node", "Origin", "Value", "identity"]
