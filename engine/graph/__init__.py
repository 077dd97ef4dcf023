"""The graph from the exporter to binding: values, nodes, constants, text form, verifier."""

from engine.graph.constant import Constant, compute_checksum
from engine.graph.copies import (
    copy_graph,
    find_constant_of,
    list_constants,
    own_borrowed,
    share_constants,
    specialise,
)
from engine.graph.forms import (
    Cast,
    Decoded,
    Filled,
    Form,
    Joined,
    Permuted,
    Reshaped,
    View,
    can_cut,
    can_join,
    can_reshape,
    elements,
    identity,
    is_decoded,
    joined_sizes,
    roots,
)
from engine.graph.ir import Graph, Node, Value
from engine.graph.origin import NOWHERE, Origin, Source, join_sources
from engine.graph.rewrites import MARK, Rewrite
from engine.graph.signature import Signature, sign_flat
from engine.graph.views import VIEWS, find_constant, spread_scale, stem_of

__all__ = [
    "MARK",
    "NOWHERE",
    "VIEWS",
    "Cast",
    "Constant",
    "Decoded",
    "Filled",
    "Form",
    "Graph",
    "Joined",
    "Node",
    "Origin",
    "Permuted",
    "Reshaped",
    "Rewrite",
    "Signature",
    "Source",
    "Value",
    "View",
    "can_cut",
    "can_join",
    "can_reshape",
    "compute_checksum",
    "copy_graph",
    "elements",
    "find_constant",
    "find_constant_of",
    "identity",
    "is_decoded",
    "join_sources",
    "joined_sizes",
    "list_constants",
    "own_borrowed",
    "roots",
    "share_constants",
    "sign_flat",
    "specialise",
    "spread_scale",
    "stem_of",
]
