"""The graph between the exporter and the program: values, nodes, text form, verifier."""

from engine.graph.ir import Form, Graph, Joined, Node, Reshaped, Value, identity
from engine.graph.origin import Origin

__all__ = ["Form", "Graph", "Joined", "Node", "Origin", "Reshaped", "Value", "identity"]
