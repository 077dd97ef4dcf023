"""Run neighbouring pointwise ops as one kernel, whose source is made of them."""

from __future__ import annotations

from engine.graph import Graph
from engine.passes.base import Pass
from engine.passes.chains import fuse_chains

MAX_INPUTS = 8  # each needs a pointer and strides in registers
MAX_STEPS = 32


def run(graph: Graph) -> int:
    """Number of chains that became one node."""
    return fuse_chains(graph, most_inputs=MAX_INPUTS, most_steps=MAX_STEPS)


_LATE = "it looks for single pointwise ops, and not inside of a program"

PASS = Pass(
    "fuse_pointwise_triton",
    run,
    after=dict.fromkeys(("fuse_gated_linear", "fuse_epilogue", "fuse_embedding_norm", "fuse_add_norm"), _LATE),
    target="triton",
)
