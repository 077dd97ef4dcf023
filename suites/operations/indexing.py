"""Rows and elements by their indices: embeddings, gathers, scatters, caches, graphs."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

_TABLE = "f32[32000,768] fixed"
_EDGES = "i64[8192] <1000"


def _pool_bags(table: Tensor, ids: Tensor) -> Tensor:
    return functional.embedding(ids, table).mean(1)


def _aggregate(reduce: str) -> Callable[..., Tensor]:
    return lambda x, rows, ids: x.index_reduce(0, ids, rows, reduce)


CASES = [
    ("embedding", lambda table, ids: functional.embedding(ids, table), _TABLE, "i64[8,128] <32000"),
    ("embedding", lambda table, ids: functional.embedding(ids, table), "bf16[32000,768] fixed", "i64[8,128] <32000"),
    ("embedding of int32 ids", lambda table, ids: functional.embedding(ids, table), _TABLE, "i32[8,128] <32000"),
    (
        "embedding of short rows",
        lambda table, ids: functional.embedding(ids, table),
        "f32[100000,16] fixed",
        "i64[64,26] <100000",
    ),
    ("mean of bags", _pool_bags, "f32[100000,64] fixed", "i64[256,32] <100000"),
    ("one hot", lambda ids: functional.one_hot(ids, 1000), "i64[64] <1000"),
    *(
        ("rows", lambda x, ids: x[ids], f"{dtype}[1000,256]", "i64[4096] <1000")
        for dtype in ("f32", "bf16", "i64", "u8")
    ),
    ("rows of 3", lambda x, ids: x[ids], "f32[10000,3]", "i64[8192] <10000"),
    ("rows of every batch", lambda x, ids: x[:, ids], "f32[8,512,256]", "i64[128] <512"),
    ("columns", lambda x, ids: x.index_select(-1, ids), "f32[1024,1024]", "i64[512] <1024"),
    ("columns", lambda x, ids: x.index_select(-1, ids), "f64[1024,1024]", "i64[512] <1024"),
    ("channels", lambda x, ids: x.index_select(1, ids), "f32[4,64,56,56]", "i64[32] <64"),
    ("channels, channels last", lambda x, ids: x.index_select(1, ids), "f32[4,64,56,56] channels_last", "i64[32] <64"),
    ("one token of each row", lambda x, ids: x[torch.arange(64), ids], "f32[64,128,768]", "i64[64] <128"),
    ("pairs of indices", lambda x, i, j: x[i, j], "f32[512,512]", "i64[16384] <512", "i64[16384] <512"),
    ("pairs of indices of rows", lambda x, i, j: x[i, j], "f32[64,64,64]", "i64[4096] <64", "i64[4096] <64"),
    (
        "window bias",
        lambda table, ids: table[ids.view(-1)].view(49, 49, 12).permute(2, 0, 1).contiguous(),
        "f32[169,12]",
        "i64[49,49] <169",
    ),
    *(
        ("elements of rows", lambda x, ids: x.gather(-1, ids), f"{t}[1024,1024]", "i64[1024,256] <1024")
        for t in ("f32", "bf16", "i64")
    ),
    ("elements of columns", lambda x, ids: x.gather(0, ids), "f32[1024,1024]", "i64[256,1024] <1024"),
    (
        "rows by gather",
        lambda x, ids: x.gather(1, ids[..., None].expand(-1, -1, 256)),
        "f32[8,512,256]",
        "i64[8,128] <512",
    ),
    ("logit of each label", lambda x, ids: x.gather(-1, ids[..., None]), "f32[1024,32000]", "i64[1024] <32000"),
    ("along an axis", lambda x, ids: torch.take_along_dim(x, ids, -1), "f32[1024,512]", "i64[1024,512] <512"),
    ("flat elements", torch.take, "f32[512,512]", "i64[65536] <262144"),
    *(
        ("add of rows", lambda x, ids, rows: x.index_add(0, ids, rows), f"{t}[1000,64]", _EDGES, f"{t}[8192,64]")
        for t in ("f32", "bf16", "f64")
    ),
    (
        "add of wide rows",
        lambda x, ids, rows: x.index_add(0, ids, rows),
        "f32[1000,768]",
        "i64[2048] <1000",
        "f32[2048,768]",
    ),
    (
        "add of elements",
        lambda x, ids, e: x.scatter_add(-1, ids, e),
        "f32[512,512]",
        "i64[512,1024] <512",
        "f32[512,1024]",
    ),
    (
        "add of rows by scatter",
        lambda x, ids, e: x.scatter_add(0, ids[:, None].expand(-1, 64), e),
        "f32[1000,64]",
        _EDGES,
        "f32[8192,64]",
    ),
    (
        "histogram",
        lambda ids: torch.zeros(1000, dtype=torch.int64).scatter_add(0, ids, torch.ones_like(ids)),
        "i64[65536] <1000",
    ),
    ("histogram of floats", lambda x, ids: torch.zeros(1000).index_add(0, ids, x), "f32[65536]", "i64[65536] <1000"),
    ("maximum of rows", _aggregate("amax"), "f32[1000,64]", "f32[8192,64]", _EDGES),
    ("mean of rows", _aggregate("mean"), "f32[1000,64]", "f32[8192,64]", _EDGES),
    (
        "write of rows",
        lambda x, ids, rows: x.index_copy(0, ids, rows),
        "f32[1000,256]",
        "i64[512] <1000",
        "f32[512,256]",
    ),
    (
        "write of rows",
        lambda x, ids, rows: x.index_put((ids,), rows),
        "bf16[1000,256]",
        "i64[512] <1000",
        "bf16[512,256]",
    ),
    (
        "write of elements",
        lambda x, ids, e: x.scatter(-1, ids, e),
        "f32[1024,1024]",
        "i64[1024,256] <1024",
        "f32[1024,256]",
    ),
    ("write of a number", lambda x, ids: x.scatter(-1, ids, 1.0), "f32[1024,1000]", "i64[1024,5] <1000"),
    (
        "write of a token",
        lambda x, i, row: x.index_copy(2, i, row),
        "f32[1,12,512,64]",
        "i64[1] <512",
        "f32[1,12,1,64]",
    ),
    (
        "add of pairs",
        lambda x, i, j, e: x.index_put((i, j), e, accumulate=True),
        "f32[512,512]",
        *["i64[16384] <512"] * 2,
        "f32[16384]",
    ),
    ("graph layer", lambda x, i, j: torch.zeros(1000, 64).index_add(0, j, x[i]), "f32[1000,64]", _EDGES, _EDGES),
    ("masked write", lambda x, m, y: torch.where(m[..., None], y, x), "f32[8,128,768]", "bool[8,128]", "f32[768]"),
]
