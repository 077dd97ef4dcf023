"""The passes of the CPU, which run behind the common ones: layout of images, and what its kernels run as one."""

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
