"""Reports of programs that consist of several parts."""

from __future__ import annotations

from engine.runtime.report import _sum_passes


def test_entries_that_only_some_parts_have_keep_their_place():
    common = [("fold_constants", 2), ("dead_code", 1), ("fuse_gelu", 0), ("dead_code", 3)]
    quantised = [("weights=decoded", 1), *common, ("weights=quantised", 4)]
    summed = (("fold_constants", 4), ("dead_code", 2), ("fuse_gelu", 0), ("dead_code", 6), ("weights=quantised", 4))
    assert _sum_passes([common, quantised]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([quantised, common]) == (("weights=decoded", 1), *summed)
    assert _sum_passes([[], common]) == tuple(common)
