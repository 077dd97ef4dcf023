"""The passes of the cpu, which run after the common passes: image layout, readable weights, and fusions."""

from __future__ import annotations

from engine import passes

PIPELINE: tuple[str, ...] = (
    "channels_last",
    "dead_code",
    "decode_convolutions",
    "fuse_expand_depthwise",
    "fuse_pointwise",
    "dead_code",
)

passes.add_stage("cpu", __name__, PIPELINE)
