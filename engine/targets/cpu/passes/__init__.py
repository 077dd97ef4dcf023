"""The passes of the cpu, which run after the common passes: image layout, and fusions for its kernels."""

from __future__ import annotations

from engine import passes

PIPELINE: tuple[str, ...] = (
    "channels_last",
    "dead_code",
    "fuse_expand_depthwise",
    "fuse_pointwise",
    "dead_code",
)

passes.add_stage("cpu", __name__, PIPELINE)
