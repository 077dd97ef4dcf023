"""Elements that move and do not change: copies, transposes, flips, rolls, pads, joins, triangles, patches."""

import torch
from torch import Tensor
from torch.nn import functional

_TYPES = ("f32", "bf16", "f64", "i64", "u8")
_MAP = "[4,64,56,56]"


def _shift_windows(x: Tensor) -> Tensor:
    """Windows of a Swin transformer, shifted."""
    rolled = torch.roll(x, (-3, -3), (1, 2))
    return rolled.reshape(8, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96)


CASES = [
    *(("transpose", lambda x: x.mT.contiguous(), f"{dtype}[1024,1024]") for dtype in _TYPES),
    ("transpose beyond caches", lambda x: x.mT.contiguous(), "f32[4096,4096]"),
    ("copy beyond caches", lambda x: x.clone(), "f32[4096,4096]"),
    *(("copy", lambda x: x.clone(), f"{dtype}[8,128,768]") for dtype in _TYPES),
    ("copy of every other column", lambda x: x.clone(memory_format=torch.contiguous_format), "f32[1024,512] sliced"),
    ("every other row and column", lambda x: x[..., ::2, ::2].contiguous(), f"f32{_MAP}"),
    *(
        ("heads apart", lambda x: x.view(8, 128, 12, 64).transpose(1, 2).contiguous(), f"{t}[8,128,768]")
        for t in _TYPES
    ),
    ("heads together", lambda x: x.transpose(1, 2).reshape(8, 128, 768), "f32[8,12,128,64]"),
    ("heads together", lambda x: x.transpose(1, 2).reshape(8, 128, 768), "bf16[8,12,128,64]"),
    ("channels last", lambda x: x.permute(0, 2, 3, 1).contiguous(), f"f32{_MAP}"),
    ("channels first", lambda x: x.permute(0, 3, 1, 2).contiguous(), "f32[4,56,56,64]"),
    ("channels first", lambda x: x.permute(0, 3, 1, 2).contiguous(), "u8[1,512,512,3]"),
    ("tokens of a picture", lambda x: x.flatten(2).transpose(1, 2).contiguous(), "f32[4,768,14,14]"),
    ("reversed axes", lambda x: x.permute(2, 1, 0).contiguous(), "f32[64,128,96]"),
    *(("flip of the last axis", lambda x: x.flip(-1), f"{dtype}[512,1024]") for dtype in _TYPES),
    ("flip of the first axis", lambda x: x.flip(0), "f32[512,1024]"),
    ("flip of a picture", lambda x: x.flip(-1), "f32[8,3,224,224]"),
    ("flip of height and width", lambda x: x.flip(-1, -2), f"f32{_MAP}"),
    *(("roll of the last axis", lambda x: x.roll(3, -1), f"{dtype}[512,1024]") for dtype in ("f32", "i64", "u8")),
    ("roll of height and width", lambda x: x.roll((-3, -3), (1, 2)), "f32[8,56,56,96]"),
    ("shifted windows", _shift_windows, "f32[8,56,56,96]"),
    ("rotation by 90 degrees", lambda x: torch.rot90(x, 1, (2, 3)), f"f32{_MAP}"),
    *(("zero pad", lambda x: functional.pad(x, (1, 1, 1, 1)), f"{dtype}{_MAP}") for dtype in ("f32", "bf16", "u8")),
    ("zero pad, channels last", lambda x: functional.pad(x, (1, 1, 1, 1)), f"f32{_MAP} channels_last"),
    ("zero pad of a sequence", lambda x: functional.pad(x, (0, 0, 0, 128)), "f32[8,384,768]"),
    ("zero pad of tokens", lambda x: functional.pad(x, (0, 128)), "i64[8,384]"),
    ("reflecting pad", lambda x: functional.pad(x, (3, 3, 3, 3), "reflect"), f"f32{_MAP}"),
    ("replicating pad", lambda x: functional.pad(x, (1, 1, 1, 1), "replicate"), f"f32{_MAP}"),
    ("circular pad", lambda x: functional.pad(x, (1, 1, 1, 1), "circular"), f"f32{_MAP}"),
    ("reflecting pad of a signal", lambda x: functional.pad(x, (200, 200), "reflect"), "f32[4,1,16000]"),
    *(("upper triangle", torch.triu, f"{dtype}[1024,1024]") for dtype in ("f32", "bf16", "i64", "bool")),
    ("lower triangle of heads", torch.tril, "f32[4,12,256,256]"),
    ("diagonal", lambda x: torch.diagonal(x, dim1=-2, dim2=-1).contiguous(), "f32[64,128,128]"),
    ("matrix of a diagonal", torch.diag_embed, "f32[64,128]"),
    *(("join of channels", lambda x, y: torch.cat([x, y], 1), f"{t}{_MAP}", f"{t}{_MAP}") for t in ("f32", "bf16")),
    ("join of the last axis", lambda x, y: torch.cat([x, y], -1), "f32[8,128,384]", "f32[8,128,384]"),
    ("join of a class token", lambda c, x: torch.cat([c.expand(8, -1, -1), x], 1), "f32[1,1,768]", "f32[8,196,768]"),
    ("join of eight", lambda *x: torch.cat(x, 1), *["f32[4,32,28,28]"] * 8),
    ("join of a cache", lambda x, y: torch.cat([x, y], 2), "f32[1,12,511,64]", "f32[1,12,1,64]"),
    ("stack", lambda x, y: torch.stack([x, y], -1), "f32[8,128,384]", "f32[8,128,384]"),
    ("stack", lambda x, y: torch.stack([x, y], 1), "i64[8,4096]", "i64[8,4096]"),
    ("split in three", lambda x: [part.contiguous() for part in x.chunk(3, -1)], "f32[8,128,2304]"),
    ("repeat", lambda x: x.repeat(1, 4, 1), "f32[8,128,768]"),
    ("repeat of heads", lambda x: x.repeat_interleave(4, 1), "f32[1,8,512,64]"),
    ("repeat of heads", lambda x: x[:, :, None].expand(-1, -1, 4, -1, -1).reshape(1, 32, 512, 64), "bf16[1,8,512,64]"),
    ("repeat of elements", lambda x: x.repeat_interleave(2, -1), "f32[8,128,384]"),
    ("tile of a row", lambda x: x.expand(1024, 768).contiguous(), "f32[1,768]"),
    ("tile of a column", lambda x: x.expand(1024, 768).contiguous(), "f32[1024,1]"),
    ("pixel shuffle", lambda x: functional.pixel_shuffle(x, 2), "f32[1,256,64,64]"),
    ("pixel unshuffle", lambda x: functional.pixel_unshuffle(x, 2), "f32[1,64,128,128]"),
    ("channel shuffle", lambda x: functional.channel_shuffle(x, 4), f"f32{_MAP}"),
    ("patches of 16", lambda x: functional.unfold(x, 16, stride=16), "f32[4,3,224,224]"),
    ("patches of 3", lambda x: functional.unfold(x, 3, padding=1), "f32[1,32,56,56]"),
    ("fold of patches of 2", lambda x: functional.fold(x, (56, 56), 2, stride=2), "f32[4,256,784]"),
    ("fold of overlapping patches", lambda x: functional.fold(x, (56, 56), 3, padding=1), "f32[1,288,3136]"),
    ("frames of a signal", lambda x: x.unfold(-1, 400, 160).contiguous(), "f32[4,16000]"),
    ("patch merge", lambda x: torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1), "f32[4,56,56,96]"),
    ("mesh of coordinates", lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij")), "f32[512]", "f32[512]"),
    ("rotary halves", lambda x: torch.cat([-x[..., 32:], x[..., :32]], -1), "f32[1,12,512,64]"),
    ("rotary pairs", lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2), "f32[1,12,512,64]"),
    (
        "relative positions",
        lambda x: functional.pad(x, (1, 0)).view(96, 257, 256)[:, 1:].contiguous(),
        "f32[96,256,256]",
    ),
    ("write of a slice", lambda x, y: torch.slice_scatter(x, y, 1, 64, 192), "f32[8,512,768]", "f32[8,128,768]"),
    (
        "write of every other column",
        lambda x, y: torch.slice_scatter(x, y, 1, 0, 768, 2),
        "f32[1024,768]",
        "f32[1024,384]",
    ),
]
