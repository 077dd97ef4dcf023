"""Running sums and extremes along an axis."""

import torch

CASES = [
    *(("running sum", lambda x: x.cumsum(-1), f"{dtype}[1024,1024]") for dtype in ("f32", "bf16", "f64", "i64", "i32")),
    ("running sum over the first axis", lambda x: x.cumsum(0), "f32[1024,1024]"),
    ("running sum over tokens", lambda x: x.cumsum(1), "f32[8,128,768]"),
    ("running sum of one long row", lambda x: x.cumsum(-1), "f32[1,262144]"),
    ("positions of a mask", lambda m: m.cumsum(-1) * m, "i64[8,512] <2"),
    ("positions of a mask", lambda m: m.cumsum(-1) - 1, "bool[8,512]"),
    ("running product", lambda x: x.cumprod(-1), "f32[1024,1024]"),
    ("running maximum", lambda x: x.cummax(-1).values, "f32[1024,1024]"),
    ("running maximum over the first axis", lambda x: x.cummax(0).values, "f32[1024,1024]"),
    ("running logsumexp", lambda x: x.logcumsumexp(-1), "f32[256,1024]"),
    ("differences", lambda x: torch.diff(x, dim=-1), "f32[1024,1024]"),
    ("differences over the first axis", lambda x: torch.diff(x, dim=0), "f32[1024,1024]"),
    ("nucleus of sorted probabilities", lambda x: (x.cumsum(-1) - x) > 0.9, "f32[8,32000]"),
]
