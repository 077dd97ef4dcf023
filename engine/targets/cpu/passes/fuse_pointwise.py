"""Run neighbouring pointwise ops as one program, in one pass over memory."""

from __future__ import annotations

from engine.graph import Graph
from engine.passes.base import Pass
from engine.passes.chains import fuse_chains

# What the kernels of programs have room for; their plans refuse more.
MAX_INPUTS = 6  # EB_LOOP_OPERANDS of csrc/iterate.h, less the output
MAX_STEPS = 16  # PROGRAM_STEPS of csrc/ref/pointwise.c and csrc/kernels/vector/program.h


def run(graph: Graph) -> int:
    """Number of chains that became one node."""
    return fuse_chains(graph, most_inputs=MAX_INPUTS, most_steps=MAX_STEPS)


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
