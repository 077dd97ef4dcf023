"""Convolutions of all kinds and widths of groups."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional


def _conv(stride: int = 1, padding: Any = 0, dilation: int = 1, groups: int = 1) -> Callable[..., Tensor]:
    return lambda x, w, b: functional.conv2d(x, w, b, stride, padding, dilation, groups)


def _case(name: str, picture: str, weight: str, *options: Any, words: str = "", dtype: str = "f32") -> tuple[Any, ...]:
    outputs = weight.partition(",")[0]
    operands = (f"{dtype}[{picture}]{words}", f"{dtype}[{weight}] fixed", f"{dtype}[{outputs}] fixed")
    return (name, _conv(*options), *operands)


_GROUPED = (
    (4, 128, 56),
    (8, 256, 28),
    (12, 96, 28),
    (16, 256, 14),
    (24, 240, 28),
    (24, 672, 14),
    (32, 512, 14),
    (40, 240, 14),
    (48, 240, 28),
)
_DENSE = (
    ("1 x 1", "1,64,56,56", "256,64,1,1", 1, 0),
    ("1 x 1", "1,1024,14,14", "256,1024,1,1", 1, 0),
    ("1 x 1, stride 2", "1,256,56,56", "512,256,1,1", 2, 0),
    ("3 x 3", "1,64,56,56", "64,64,3,3", 1, 1),
    ("3 x 3", "1,256,14,14", "256,256,3,3", 1, 1),
    ("3 x 3, stride 2", "1,128,56,56", "128,128,3,3", 2, 1),
    ("3 x 3, dilated by 2", "1,128,28,28", "128,128,3,3", 1, 2, 2),
    ("3 x 3 of a picture, stride 2", "1,3,224,224", "32,3,3,3", 2, 1),
    ("7 x 7 of a picture, stride 2", "1,3,224,224", "64,3,7,7", 2, 3),
    ("16 x 16 patches", "1,3,224,224", "768,3,16,16", 16, 0),
    ("5 x 5", "1,32,28,28", "64,32,5,5", 1, 2),
    ("1 x 7", "1,128,17,17", "128,128,1,7", 1, (0, 3)),
    ("3 x 3 to one channel", "1,64,128,128", "1,64,3,3", 1, 1),
    ("3 x 3 to three channels", "1,64,128,128", "3,64,3,3", 1, 1),
    ("3 x 3 of 17 channels", "1,17,56,56", "33,17,3,3", 1, 1),
    ("3 x 3 of two pixels", "1,512,2,2", "512,512,3,3", 1, 1),
)

CASES = [
    *(_case(*dense) for dense in _DENSE),
    *(_case(*dense, dtype="bf16") for dense in (_DENSE[0], _DENSE[3], _DENSE[4], _DENSE[8])),
    *(_case(*dense, words=" channels_last") for dense in (_DENSE[0], _DENSE[3], _DENSE[8])),
    *(
        _case(
            f"3 x 3, groups of {width}",
            f"1,{channels},{size},{size}",
            f"{channels},{width},3,3",
            1,
            1,
            1,
            channels // width,
        )
        for width, channels, size in _GROUPED
    ),
    _case("3 x 3, groups of 24, stride 2", "1,240,56,56", "240,24,3,3", 2, 1, 1, 10),
    _case("3 x 3, groups of 24", "1,240,28,28", "240,24,3,3", 1, 1, 1, 10, dtype="bf16"),
    _case("3 x 3, groups of 4", "1,128,56,56", "128,4,3,3", 1, 1, 1, 32, dtype="bf16"),
    _case("1 x 1, groups of 30", "1,240,28,28", "240,30,1,1", 1, 0, 1, 8),
    _case("3 x 3, depthwise", "1,144,56,56", "144,1,3,3", 1, 1, 1, 144),
    _case("3 x 3, depthwise", "1,144,56,56", "144,1,3,3", 1, 1, 1, 144, dtype="bf16"),
    _case("3 x 3, depthwise, stride 2", "1,144,56,56", "144,1,3,3", 2, 1, 1, 144),
    _case("5 x 5, depthwise", "1,240,28,28", "240,1,5,5", 1, 2, 1, 240),
    _case("7 x 7, depthwise", "1,96,56,56", "96,1,7,7", 1, 3, 1, 96),
    _case("7 x 7, depthwise, channels last", "1,96,56,56", "96,1,7,7", 1, 3, 1, 96, words=" channels_last"),
    _case("3 x 3, depthwise with two outputs", "1,32,56,56", "64,1,3,3", 1, 1, 1, 32),
    ("3 of a signal", lambda x, w: functional.conv1d(x, w, padding=1), "f32[1,80,3000]", "f32[384,80,3] fixed"),
    (
        "10 of a signal, stride 5",
        lambda x, w: functional.conv1d(x, w, stride=5),
        "f32[1,1,16000]",
        "f32[512,1,10] fixed",
    ),
    (
        "4 of a signal, depthwise",
        lambda x, w: functional.conv1d(x, w, padding=3, groups=768),
        "f32[1,768,128]",
        "f32[768,1,4] fixed",
    ),
    (
        "128 of a signal, groups of 48",
        lambda x, w: functional.conv1d(x, w, padding=64, groups=16),
        "f32[1,768,49]",
        "f32[768,48,128] fixed",
    ),
    (
        "3 x 3 x 3 of a volume",
        lambda x, w: functional.conv3d(x, w, padding=1),
        "f32[1,32,8,28,28]",
        "f32[32,32,3,3,3] fixed",
    ),
    (
        "transposed, 2 x 2, stride 2",
        lambda x, w: functional.conv_transpose2d(x, w, stride=2),
        "f32[1,128,28,28]",
        "f32[128,64,2,2] fixed",
    ),
    (
        "transposed, 4 x 4, stride 2",
        lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1),
        "f32[1,128,28,28]",
        "f32[128,64,4,4] fixed",
    ),
    (
        "transposed, 3 x 3",
        lambda x, w: functional.conv_transpose2d(x, w, padding=1),
        "f32[1,64,28,28]",
        "f32[64,64,3,3] fixed",
    ),
    (
        "transposed of a signal",
        lambda x, w: functional.conv_transpose1d(x, w, stride=8, padding=4),
        "f32[1,256,200]",
        "f32[256,128,16] fixed",
    ),
    ("with a kernel of an input", lambda x, w: functional.conv2d(x, w, padding=1), "f32[1,64,28,28]", "f32[64,64,3,3]"),
    (
        "correlation of two pictures",
        lambda x, w: functional.conv2d(x, w, groups=256),
        "f32[1,256,31,31]",
        "f32[256,1,7,7]",
    ),
]
