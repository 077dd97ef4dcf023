"""From one element type to another, alone and with the arithmetic that follows in models."""

import torch
from torch import Tensor

_HIDDEN = "[8,128,768]"
_PICTURE = "u8[1,3,512,512]"
_PAIRS = (
    ("f32", torch.bfloat16),
    ("f32", torch.float16),
    ("f32", torch.float64),
    ("f32", torch.int64),
    ("f32", torch.int32),
    ("f32", torch.uint8),
    ("f32", torch.bool),
    ("bf16", torch.float32),
    ("bf16", torch.float16),
    ("f16", torch.float32),
    ("f64", torch.float32),
    ("i64", torch.float32),
    ("i64", torch.int32),
    ("i64", torch.bool),
    ("i32", torch.float32),
    ("i32", torch.int64),
    ("i16", torch.float32),
    ("i8", torch.float32),
    ("u8", torch.float32),
    ("u8", torch.bfloat16),
    ("u8", torch.int64),
    ("bool", torch.float32),
    ("bool", torch.int64),
)


def _normalise(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return (x.float() / 255 - mean) / deviation


CASES = [
    *((f"to {str(to)[6:]}", lambda x, to=to: x.to(to), f"{code}{_HIDDEN}") for code, to in _PAIRS),
    ("picture to float / 255", lambda x: x.float() / 255, _PICTURE),
    ("picture to float / 255", lambda x: x.float() / 255, "u8[8,3,224,224]"),
    ("picture normalised", _normalise, _PICTURE, "f32[3,1,1] fixed", "f32[3,1,1] fixed"),
    ("picture of rows to planes", lambda x: x.permute(0, 3, 1, 2).float() / 255, "u8[1,512,512,3]"),
    ("picture of rows to planes", lambda x: x.permute(0, 3, 1, 2).float(), "u8[8,224,224,3]"),
    ("float to picture", lambda x: (x.clamp(0, 1) * 255).to(torch.uint8), "f32[1,3,512,512]"),
    ("quantise", lambda x: (x / 0.05).round().clamp(-128, 127).to(torch.int8), f"f32{_HIDDEN}"),
    ("dequantise", lambda x: x.float() * 0.05, f"i8{_HIDDEN}"),
    ("dequantise by rows", lambda x, scale: x.float() * scale, "i8[1024,768]", "f32[1024,1]"),
    ("mask to additive", lambda m: (1 - m[:, None, None].float()) * -1e4, "i64[8,512] <2"),
    ("mask to additive", lambda m: torch.where(m[:, None, None], 0.0, -1e4), "bool[8,512]"),
    ("tokens not padding", lambda ids: (ids != 1).long(), "i64[8,512] <32000"),
]
