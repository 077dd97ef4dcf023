"""The graph between the exporter and the program: values, nodes, text form, verifier."""

from engine.graph.ir import Form, Graph, Joined, Node, Value, identity

__all__ = ["Form", "Graph", "Joined", "Node", "Value", "identity"]
