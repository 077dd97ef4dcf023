"""The program as data: an artifact (linear instructions and constants), its file, shared constants."""

from engine.program.artifact import (
    Artifact,
    Constants,
    Instruction,
    Signature,
    Slot,
    tensor_name,
    with_modules,
    write,
)
from engine.program.graphs import from_graph, to_graph
from engine.program.versions import FORMAT, VERSION

__all__ = [
    "FORMAT",
    "VERSION",
    "Artifact",
    "Constants",
    "Instruction",
    "Signature",
    "Slot",
    "from_graph",
    "tensor_name",
    "to_graph",
    "with_modules",
    "write",
]
