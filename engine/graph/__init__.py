"""The graph between the exporter and the program: values, nodes, forms of constants, text form, verifier."""

from engine.graph.forms import Decoded, Form, Joined, Permuted, Reshaped, View, elements, identity, roots
from engine.graph.ir import Graph, Node, Value, can_cut, can_join, can_reshape
from engine.graph.origin import Origin

__all__ = [
    "Decoded",
    "Form",
    "Graph",
    "Joined",
    "Node",
    "Origin",
    "Permuted",
    "Reshaped",
    "Value",
    "View",
    "can_cut",
    "can_join",
    "can_reshape",
    "elements",
    "identity",
    "roots",
]
