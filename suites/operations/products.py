"""Matrix products of all proportions, attention, and what models make of einsum."""

import torch
from torch import Tensor
from torch.nn import functional

_LINEAR = functional.linear
_SHAPES = (
    (1, 768, 768),
    (1, 4096, 4096),
    (1, 768, 32000),
    (4, 768, 3072),
    (16, 768, 768),
    (128, 768, 768),
    (1024, 768, 768),
)
_ODD_SHAPES = (
    (64, 1024, 1),
    (1024, 768, 2),
    (4096, 4, 64),
    (4096, 3, 32),
    (1024, 64, 64),
    (8, 13, 512),
    (1, 512, 1),
    (256, 17, 17),
)
_HEADS = "[1,12,128,64]"


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, is_causal: bool = False) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)


def _attend_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / 8).softmax(-1) @ v


CASES = [
    *(
        ("linear", _LINEAR, f"f32[{m},{k}]", f"f32[{n},{k}] fixed", f"f32[{n}] fixed")
        for m, k, n in (*_SHAPES, *_ODD_SHAPES)
    ),
    *(("linear", _LINEAR, f"bf16[{m},{k}]", f"bf16[{n},{k}] fixed", f"bf16[{n}] fixed") for m, k, n in _SHAPES),
    ("linear", _LINEAR, "f16[128,768]", "f16[768,768] fixed", "f16[768] fixed"),
    ("linear", _LINEAR, "f64[128,768]", "f64[768,768] fixed", "f64[768] fixed"),
    (
        "linear with relu",
        lambda x, w, b: _LINEAR(x, w, b).relu(),
        "f32[128,768]",
        "f32[3072,768] fixed",
        "f32[3072] fixed",
    ),
    ("bilinear", functional.bilinear, "f32[64,128]", "f32[64,128]", "f32[32,128,128] fixed"),
    ("product of inputs", torch.matmul, "f32[512,512]", "f32[512,512]"),
    ("product of inputs", torch.matmul, "bf16[512,512]", "bf16[512,512]"),
    ("product of inputs", torch.matmul, "f64[256,256]", "f64[256,256]"),
    ("product of integers", torch.matmul, "i64[128,128]", "i64[128,128]"),
    ("product with a transposed input", lambda x, y: x @ y.mT, "f32[512,512]", "f32[512,512]"),
    ("product of a transposed input", lambda x, y: x.mT @ y, "f32[512,512]", "f32[512,512]"),
    ("batch of products", torch.bmm, "f32[96,128,64]", "f32[96,64,128]"),
    ("batch of small products", torch.bmm, "f32[4096,4,4]", "f32[4096,4,4]"),
    ("batch of 3 x 3 products", torch.bmm, "f32[10000,3,3]", "f32[10000,3,1]"),
    ("matrix and vector", torch.mv, "f32[1024,1024]", "f32[1024]"),
    ("vector and matrix", torch.matmul, "f32[1024]", "f32[1024,1024]"),
    ("dot product", torch.dot, "f32[65536]", "f32[65536]"),
    ("rows with rows", lambda x, y: (x * y).sum(-1), "f32[1024,768]", "f32[1024,768]"),
    ("outer product", torch.outer, "f32[1024]", "f32[1024]"),
    ("distances", torch.cdist, "f32[512,64]", "f32[512,64]"),
    (
        "similarities",
        lambda x, y: functional.normalize(x, dim=-1) @ functional.normalize(y, dim=-1).mT,
        *["f32[256,512]"] * 2,
    ),
    ("einsum bhid,bhjd", lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), *["f32[4,12,128,64]"] * 2),
    (
        "einsum bnd,de of heads",
        lambda x, w: torch.einsum("bnd,dhe->bhne", x, w),
        "f32[4,128,768]",
        "f32[768,12,64] fixed",
    ),
    (
        "einsum of relative positions",
        lambda q, r: torch.einsum("bhwc,hkc->bhwk", q, r),
        "f32[96,14,14,64]",
        "f32[14,14,64]",
    ),
    *(("attention", _attend, *[f"{dtype}[4,12,128,64]"] * 3) for dtype in ("f32", "bf16", "f16")),
    ("attention of a long row", _attend, *["f32[1,12,1024,64]"] * 3),
    ("attention of windows", _attend, *["f32[64,3,49,32]"] * 3),
    ("attention of one query", _attend, "f32[1,12,1,64]", "f32[1,12,512,64]", "f32[1,12,512,64]"),
    ("attention of odd heads", _attend, *["f32[1,8,256,40]"] * 3),
    (
        "causal attention",
        lambda q, k, v: _attend(q, k, v, is_causal=True),
        *["f32[1,12,512,64]"] * 3,
    ),
    (
        "masked attention",
        functional.scaled_dot_product_attention,
        *[f"f32{_HEADS}"] * 3,
        "bool[1,1,128,128]",
    ),
    ("attention written out", _attend_by_hand, *["f32[4,12,128,64]"] * 3),
    (
        "attention of channels",
        lambda q, k: (functional.normalize(q, dim=-1) @ functional.normalize(k, dim=-1).mT).softmax(-1),
        *["f32[4,8,24,3136]"] * 2,
    ),
    ("linear attention", lambda q, k, v: q.softmax(-1) @ (k.softmax(-2).mT @ v), *["f32[4,8,1024,32]"] * 3),
    ("experts", torch.bmm, "f32[8,64,512]", "f32[8,512,1024] fixed"),
]
