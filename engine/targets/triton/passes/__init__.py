"""The passes of the Triton target, which run after the common passes."""

from __future__ import annotations

from engine import passes

PIPELINE: tuple[str, ...] = ("fuse_pointwise_triton", "dead_code")

passes.add_stage("triton", __name__, PIPELINE)
