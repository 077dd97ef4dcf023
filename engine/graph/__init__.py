"""The graph between the exporter and the program: values, nodes, forms of constants, text form, verifier."""

from engine.graph.forms import (
    Cast,
    Decoded,
    Filled,
    Form,
    Joined,
    Permuted,
    Reshaped,
    View,
    elements,
    identity,
    is_decoded,
    joined_sizes,
    roots,
)
from engine.graph.ir import Graph, Node, Value, can_cut, can_join, can_reshape
from engine.graph.origin import NOWHERE, Origin, Source, join_sources
from engine.graph.views import VIEWS, find_constant, spread_scale, stem_of

__all__ = [
    "NOWHERE",
    "VIEWS",
    "Cast",
    "Decoded",
    "Filled",
    "Form",
    "Graph",
    "Joined",
    "Node",
    "Origin",
    "Permuted",
    "Reshaped",
    "Source",
    "Value",
    "View",
    "can_cut",
    "can_join",
    "can_reshape",
    "elements",
    "find_constant",
    "identity",
    "is_decoded",
    "join_sources",
    "joined_sizes",
    "roots",
    "spread_scale",
    "stem_of",
]
