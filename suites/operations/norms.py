"""Softmax and normalisations, over any axis."""

import torch
from torch import Tensor
from torch.nn import functional

_HIDDEN, _MAP = "[8,128,768]", "[4,64,56,56]"
_STATISTICS = ("f32[64] fixed", "f32[64] fixed positive")
_AFFINE = ("f32[64] fixed", "f32[64] fixed")


def _scale_by_norm(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=1)


def _norm_of_channels(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm of ConvNeXt on a picture whose channels come first."""
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).pow(2).mean(1, keepdim=True)
    return weight[:, None, None] * ((x - mean) / torch.sqrt(variance + 1e-6)) + bias[:, None, None]


CASES = [
    *(("softmax of attention", lambda x: x.softmax(-1), f"{t}[8,12,128,128]") for t in ("f32", "bf16", "f16", "f64")),
    ("softmax of logits", lambda x: x.softmax(-1), "f32[8,32000]"),
    ("softmax of a short axis", lambda x: x.softmax(-1), "f32[8192,9]"),
    ("softmax over channels", lambda x: x.softmax(1), "f32[1,21,128,128]"),
    ("softmax over channels", lambda x: x.softmax(1), "bf16[1,21,128,128]"),
    ("softmax over channels, channels last", lambda x: x.softmax(1), "f32[1,21,128,128] channels_last"),
    ("softmax over the first axis", lambda x: x.softmax(0), "f32[1024,1024]"),
    ("softmax over tokens", lambda x: x.softmax(1), f"f32{_HIDDEN}"),
    ("softmax of masked attention", lambda x, m: (x + m).softmax(-1), "f32[8,12,128,128]", "f32[8,1,1,128]"),
    ("softmax with a temperature", lambda x: (x / 0.7).softmax(-1), "f32[8,32000]"),
    ("log_softmax of logits", lambda x: x.log_softmax(-1), "f32[8,32000]"),
    ("log_softmax over channels", lambda x: x.log_softmax(1), "f32[1,21,128,128]"),
    ("softmin", lambda x: functional.softmin(x, -1), "f32[1024,512]"),
    ("gumbel-free top class", lambda x: x.softmax(-1).max(-1), "f32[8,1000]"),
    *(
        (
            "layer_norm",
            lambda x, w, b: functional.layer_norm(x, (768,), w, b),
            f"{t}{_HIDDEN}",
            *[f"{t}[768] fixed"] * 2,
        )
        for t in ("f32", "bf16", "f16", "f64")
    ),
    ("layer_norm without weights", lambda x: functional.layer_norm(x, (768,)), f"f32{_HIDDEN}"),
    ("layer_norm over two axes", lambda x: functional.layer_norm(x, (128, 64)), "f32[32,128,64]"),
    ("layer_norm of a short axis", lambda x: functional.layer_norm(x, (48,)), "f32[4,3136,48]"),
    ("layer_norm over channels", _norm_of_channels, f"f32{_MAP}", *_AFFINE),
    *(
        ("rms_norm", lambda x, w: functional.rms_norm(x, (768,), w), f"{t}{_HIDDEN}", f"{t}[768] fixed")
        for t in ("f32", "bf16")
    ),
    ("rms_norm of heads", lambda x, w: functional.rms_norm(x, (64,), w), "f32[1,512,16,64]", "f32[64] fixed"),
    *(
        ("group_norm", lambda x, w, b: functional.group_norm(x, 32, w, b), f"{t}{_MAP}", *[f"{t}[64] fixed"] * 2)
        for t in ("f32", "bf16")
    ),
    (
        "group_norm, channels last",
        lambda x, w, b: functional.group_norm(x, 32, w, b),
        f"f32{_MAP} channels_last",
        *_AFFINE,
    ),
    (
        "group_norm with silu",
        lambda x, w, b: functional.silu(functional.group_norm(x, 32, w, b)),
        f"f32{_MAP}",
        *_AFFINE,
    ),
    ("instance_norm", functional.instance_norm, f"f32{_MAP}"),
    ("batch_norm", functional.batch_norm, f"f32{_MAP}", *_STATISTICS),
    ("batch_norm", functional.batch_norm, "bf16[4,64,56,56]", "bf16[64] fixed", "bf16[64] fixed positive"),
    ("batch_norm, channels last", functional.batch_norm, f"f32{_MAP} channels_last", *_STATISTICS),
    ("batch_norm of features", functional.batch_norm, "f32[1024,64]", *_STATISTICS),
    ("rows of unit length", lambda x: functional.normalize(x, dim=-1), f"f32{_HIDDEN}"),
    ("columns of unit length", _scale_by_norm, f"f32{_HIDDEN}"),
    ("pixels of unit length", _scale_by_norm, f"f32{_MAP}"),
    ("local response norm", lambda x: functional.local_response_norm(x, 5), f"f32{_MAP}"),
    (
        "global response norm",
        lambda x: x / (x.norm(dim=(1, 2), keepdim=True).mean(-1, keepdim=True) + 1e-6),
        "f32[4,28,28,192]",
    ),
    ("standard score", lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), f"f32{_HIDDEN}"),
    ("cosine of pairs", functional.cosine_similarity, "f32[1024,768]", "f32[1024,768]"),
    ("cross entropy", functional.cross_entropy, "f32[64,32000]", "i64[64] <32000"),
]
