"""The pipeline: Graph -> Graph, in order, by name. One small pass a file; each is a switch.

A pass is a function that changes the graph and returns how many changes it made. After each, the graph verifies and
computes the same function. A name may stand several times in the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import Config
from engine.graph import Graph, verify
from engine.passes import (
    absorb_groups,
    absorb_mask,
    absorb_pad,
    absorb_scalar,
    absorb_transpose,
    channels_last,
    common_subexpressions,
    dead_code,
    drop_identities,
    fold_batch_norm,
    fold_constants,
    fold_norm_forward,
    fuse_add_norm,
    fuse_attention,
    fuse_embedding_norm,
    fuse_epilogue,
    fuse_expand_depthwise,
    fuse_gated_linear,
    fuse_gelu,
    fuse_layer_norm,
    fuse_pointwise,
    fuse_rms_norm,
    fuse_rope,
    fuse_softmax,
    merge_linear,
    move_permute,
    move_reshape,
    pick_rows,
    simplify_views,
    use_linear,
)


@dataclass(frozen=True)
class Pass:
    """A named step of the pipeline."""

    name: str
    run: Callable[[Graph], int]
    summary: str


PASSES: dict[str, Pass] = {
    module.__name__.rsplit(".", 1)[1]: Pass(
        module.__name__.rsplit(".", 1)[1], module.run, (module.__doc__ or "").split("\n")[0].rstrip(".")
    )
    for module in (
        fold_constants,
        common_subexpressions,
        drop_identities,
        simplify_views,
        absorb_transpose,
        absorb_scalar,
        absorb_pad,
        fold_batch_norm,
        fold_norm_forward,
        fuse_softmax,
        fuse_layer_norm,
        fuse_rms_norm,
        fuse_rope,
        fuse_gelu,
        fuse_attention,
        absorb_groups,
        absorb_mask,
        use_linear,
        move_reshape,
        move_permute,
        pick_rows,
        fuse_gated_linear,
        merge_linear,
        fuse_epilogue,
        channels_last,
        fuse_expand_depthwise,
        fuse_embedding_norm,
        fuse_add_norm,
        fuse_pointwise,
        dead_code,
    )
}

# Folding first, so that masks and scalars are constants when patterns look at them; rotations before identities, for
# at position 0 the cosines are all 1; transposes and scalars before attention, whose pattern then has one spelling;
# pads before layout, which would have to turn them; batch norms before epilogues, since nothing can be folded into a
# convolution that activates, and first into the one in front, which may pad; reshapes and permutes of rows out of the
# way of gated pairs, merging and epilogues, and before transposes are absorbed once more, among them those that
# follow an attention, whose only reader must be such a one; rows picked while no op has another one inside of it, and
# equal picks made one; gated pairs before merging, which would take them; merging before epilogues, since a linear
# with an epilogue of its own cannot be merged; epilogues before norms, since a residual costs least where a linear
# adds it in its registers; layout after epilogues, when convolutions have all that they will have, and before chains,
# which then run on images as they lie; behind it convolutions of what is then a linear, once the permutes are gone
# that nobody reads; gathers before other residuals, which would take one of their terms. Chains of pointwise ops
# last: nothing else knows how to look inside of them.
PIPELINE: tuple[str, ...] = (
    "fold_constants",
    "common_subexpressions",
    "fuse_rope",
    "drop_identities",
    "simplify_views",
    "absorb_transpose",
    "absorb_scalar",
    "absorb_pad",
    "fold_batch_norm",
    "fold_norm_forward",
    "fuse_softmax",
    "fuse_layer_norm",
    "fuse_rms_norm",
    "fuse_gelu",
    "fuse_attention",
    "absorb_groups",
    "absorb_mask",
    "use_linear",
    "move_reshape",
    "move_permute",
    "simplify_views",
    "dead_code",
    "absorb_transpose",
    "pick_rows",
    "common_subexpressions",
    "fuse_gated_linear",
    "merge_linear",
    "fuse_epilogue",
    "channels_last",
    "dead_code",
    "fuse_expand_depthwise",
    "fuse_embedding_norm",
    "fuse_add_norm",
    "fuse_pointwise",
    "dead_code",
)


def run(graph: Graph, config: Config, *, check: bool = False) -> tuple[tuple[str, int], ...]:
    """Run the pipeline that `config` describes on `graph`. Returns (pass, changes) in order.

    Args:
        graph: changed in place.
        config: `pipeline` and `disable` are read.
        check: verify the graph after every pass (tests do).
    """
    log = []
    with graph.scope.deciding():
        for name in PIPELINE if config.pipeline is None else config.pipeline:
            if name in config.disable:
                continue
            log.append((name, PASSES[name].run(graph)))
            if check:
                verify.graph(graph)
    return tuple(log)
