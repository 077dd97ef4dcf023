"""Sums, means, extremes over one or several axes, wherever these lie."""

from typing import Any

import torch

_HIDDEN, _MAP, _ROWS = "[8,128,768]", "[4,64,56,56]", "[1024,1024]"
_NAMES = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "var": torch.var}
_AXES: dict[str, tuple[str, Any]] = {
    "last axis": (f"f32{_ROWS}", -1),
    "first axis": (f"f32{_ROWS}", 0),
    "middle axis": (f"f32{_HIDDEN}", 1),
    "channels": (f"f32{_MAP}", 1),
    "pixels": (f"f32{_MAP}", (2, 3)),
    "batch and pixels": (f"f32{_MAP}", (0, 2, 3)),
    "pixels, channels last": (f"f32{_MAP} channels_last", (2, 3)),
}

CASES = [
    *(
        (f"{name} over {where}", lambda x, f=function, axes=axes: f(x, axes), operand)
        for name, function in _NAMES.items()
        for where, (operand, axes) in _AXES.items()
    ),
    *(
        (f"sum over the {where} axis", lambda x, axis=axis: x.sum(axis), f"{dtype}{_ROWS}")
        for where, axis in (("last", -1), ("first", 0))
        for dtype in ("bf16", "f16", "f64", "i64", "i32", "u8", "bool")
    ),
    *(
        (f"amax over the {where} axis", lambda x, axis=axis: x.amax(axis), f"{dtype}{_ROWS}")
        for where, axis in (("last", -1), ("first", 0))
        for dtype in ("bf16", "f64", "i64", "u8")
    ),
    *(
        (f"argmax over the {where} axis", lambda x, axis=axis: x.argmax(axis), f"{dtype}{_ROWS}")
        for where, axis in (("last", -1), ("first", 0))
        for dtype in ("f32", "bf16", "i64")
    ),
    ("argmax of logits", lambda x: x.argmax(-1), "f32[8,32000]"),
    ("argmax over classes of pixels", lambda x: x.argmax(1), "f32[1,21,128,128]"),
    ("argmin of distances", lambda x: x.argmin(-1), "f32[1024,512]"),
    ("max with index over the last axis", lambda x: x.max(-1), f"f32{_ROWS}"),
    ("max with index over channels", lambda x: x.max(1), f"f32{_MAP}"),
    ("sum of everything", torch.sum, f"f32{_HIDDEN}"),
    ("mean of everything", torch.mean, f"bf16{_HIDDEN}"),
    ("sum of everything beyond caches", torch.sum, "f32[4096,4096]"),
    ("product over the last axis", lambda x: x.prod(-1), f"f32{_ROWS}"),
    ("any over the last axis", lambda x: x.any(-1), f"bool{_ROWS}"),
    ("all over the first axis", lambda x: x.all(0), f"bool{_ROWS}"),
    ("count of true", lambda x: x.sum(), f"bool{_HIDDEN}"),
    ("norm of rows", lambda x: torch.linalg.vector_norm(x, dim=-1), f"f32{_HIDDEN}"),
    ("norm of columns", lambda x: torch.linalg.vector_norm(x, dim=0), f"f32{_ROWS}"),
    ("1-norm of rows", lambda x: x.abs().sum(-1), f"f32{_HIDDEN}"),
    ("logsumexp of logits", lambda x: torch.logsumexp(x, -1), "f32[8,32000]"),
    ("logsumexp over the first axis", lambda x: torch.logsumexp(x, 0), f"f32{_ROWS}"),
    ("deviation of rows", lambda x: x.std(-1), f"f32{_HIDDEN}"),
    ("deviation and mean of rows", lambda x: torch.var_mean(x, -1), f"f32{_HIDDEN}"),
    ("mean of tokens under a mask", lambda x, m: (x * m).sum(1) / m.sum(1), f"f32{_HIDDEN}", "f32[8,128,1]"),
    ("mean over tokens", lambda x: x.mean(1), f"bf16{_HIDDEN}"),
    ("mean of transposed rows", lambda x: x.mean(-1), "f32[1024,1024] transposed"),
    ("squeeze of an excitation", lambda x: x.mean((2, 3), keepdim=True), "f32[8,672,14,14]"),
    ("sum of a short axis", lambda x: x.sum(-1), "f32[8,56,56,4]"),
    ("minimum and maximum", torch.aminmax, f"f32{_HIDDEN}"),
    ("amax of a short axis", lambda x: x.amax(-1), "f32[32768,3]"),
]
