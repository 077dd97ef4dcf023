"""Pictures at other sizes and at any points."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional


def _to(mode: str, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.interpolate(x, mode=mode, **options)


_CORNERS = {"align_corners": False}
CASES = [
    ("nearest, twice", _to("nearest", scale_factor=2), "f32[1,128,32,32]"),
    ("nearest, twice", _to("nearest", scale_factor=2), "bf16[1,128,32,32]"),
    ("nearest, twice, channels last", _to("nearest", scale_factor=2), "f32[1,128,32,32] channels_last"),
    ("nearest, three times", _to("nearest", scale_factor=3), "f32[1,64,32,32]"),
    ("nearest of a mask", _to("nearest", size=(64, 64)), "u8[1,1,512,512]"),
    ("bilinear, twice", _to("bilinear", scale_factor=2, **_CORNERS), "f32[1,128,32,32]"),
    ("bilinear, twice", _to("bilinear", scale_factor=2, **_CORNERS), "bf16[1,128,32,32]"),
    ("bilinear, twice, channels last", _to("bilinear", scale_factor=2, **_CORNERS), "f32[1,128,32,32] channels_last"),
    ("bilinear to 512", _to("bilinear", size=(512, 512), **_CORNERS), "f32[1,21,128,128]"),
    ("bilinear to 224", _to("bilinear", size=(224, 224), **_CORNERS), "f32[1,3,512,384]"),
    ("bilinear, corners", _to("bilinear", scale_factor=2, align_corners=True), "f32[1,128,32,32]"),
    ("bilinear with antialiasing", _to("bilinear", size=(224, 224), antialias=True), "f32[1,3,512,512]"),
    ("bicubic, twice", _to("bicubic", scale_factor=2, **_CORNERS), "f32[1,64,32,32]"),
    ("bicubic of positions", _to("bicubic", size=(24, 24), **_CORNERS), "f32[1,768,14,14]"),
    ("area to half", _to("area", scale_factor=0.5), "f32[1,64,64,64]"),
    ("linear of a signal", _to("linear", scale_factor=2, **_CORNERS), "f32[4,64,1000]"),
    ("nearest of a volume", _to("nearest", scale_factor=2), "f32[1,32,8,28,28]"),
    ("trilinear of a volume", _to("trilinear", scale_factor=2, **_CORNERS), "f32[1,32,8,28,28]"),
    *(
        (
            f"sampling of points, {mode}",
            lambda x, at, m=mode: functional.grid_sample(x, at.tanh(), m, align_corners=False),
            "f32[1,32,56,56]",
            "f32[1,56,56,2]",
        )
        for mode in ("bilinear", "nearest", "bicubic")
    ),
    (
        "sampling of few points",
        lambda x, at: functional.grid_sample(x, at.tanh(), align_corners=False),
        "f32[8,32,50,50]",
        "f32[8,300,4,2]",
    ),
    (
        "sampling over the border",
        lambda x, at: functional.grid_sample(x, at, padding_mode="border", align_corners=True),
        "f32[1,64,28,28]",
        "f32[1,28,28,2]",
    ),
    (
        "affine sampling",
        lambda x, t: functional.grid_sample(
            x, functional.affine_grid(t, x.shape, align_corners=False), align_corners=False
        ),
        "f32[4,3,64,64]",
        "f32[4,2,3]",
    ),
]
