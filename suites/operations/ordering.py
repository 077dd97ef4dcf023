"""Sorting and selection: samplers, detections, routers of experts."""

import torch

CASES = [
    ("top 50 of logits", lambda x: x.topk(50), "f32[1,32000]"),
    ("top 50 of logits", lambda x: x.topk(50), "f32[8,32000]"),
    ("top 50 of logits", lambda x: x.topk(50), "bf16[1,32000]"),
    ("top 50 of logits", lambda x: x.topk(50), "f32[1,151936]"),
    ("top 5 of classes", lambda x: x.topk(5), "f32[64,1000]"),
    ("top 2 of experts", lambda x: x.topk(2), "f32[1024,8]"),
    ("top 8 of experts", lambda x: x.topk(8), "f32[512,128]"),
    ("top 300 of anchors", lambda x: x.topk(300), "f32[1,8400]"),
    ("top 1000 of anchors", lambda x: x.topk(1000), "f32[1,120000]"),
    ("lowest 20 of distances", lambda x: x.topk(20, largest=False), "f32[1024,1024]"),
    ("top 10 of columns", lambda x: x.topk(10, 0), "f32[1000,256]"),
    ("top 20 of integers", lambda x: x.topk(20), "i64[64,1000] <1000000"),
    ("below the 50th", lambda x: x.masked_fill(x < x.topk(50).values[..., -1:], -1e9), "f32[1,32000]"),
    ("sort of logits", lambda x: x.sort(-1, descending=True), "f32[1,32000]"),
    ("sort of logits", lambda x: x.sort(-1, descending=True), "f32[8,32000]"),
    ("sort of rows", lambda x: x.sort(-1), "f32[1024,128]"),
    ("sort of columns", lambda x: x.sort(0), "f32[128,1024]"),
    ("sort of integers", lambda x: x.sort(-1), "i64[64,1024] <1000000"),
    ("sort of halves", lambda x: x.sort(-1), "bf16[64,1024]"),
    ("order of rows", lambda x: x.argsort(-1), "f32[64,1024]"),
    ("stable order of experts", lambda x: x.argsort(dim=-1, stable=True), "i64[8192] <64"),
    ("k-th value", lambda x: x.kthvalue(50, -1).values, "f32[64,1000]"),
    ("median of rows", lambda x: x.median(-1).values, "f32[256,512]"),
    ("top experts with weights", lambda x: torch.topk(x.softmax(-1), 2), "f32[1024,8]"),
]
