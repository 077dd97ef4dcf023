"""Pooling of pictures, signals and volumes with any window, stride and layout."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

_LAST = " channels_last"


def _max(window: int, stride: int | None = None, padding: int = 0) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.max_pool2d(x, window, stride, padding)


def _average(window: int, stride: int | None = None, padding: int = 0) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.avg_pool2d(x, window, stride, padding)


CASES = [
    *(("max 3, stride 2", _max(3, 2, 1), f"{operand}") for operand in ("f32[4,64,112,112]", "bf16[4,64,112,112]")),
    ("max 3, stride 2, channels last", _max(3, 2, 1), f"f32[4,64,112,112]{_LAST}"),
    ("max 2", _max(2), "f32[4,64,112,112]"),
    ("max 2, channels last", _max(2), f"f32[4,64,112,112]{_LAST}"),
    ("max 3, stride 1", _max(3, 1, 1), "f32[4,192,28,28]"),
    ("max 5, stride 1", _max(5, 1, 2), "f32[1,256,20,20]"),
    ("max 9, stride 1", _max(9, 1, 4), "f32[1,256,20,20]"),
    ("max 13, stride 1", _max(13, 1, 6), "f32[1,256,20,20]"),
    ("max 2 of an odd picture", _max(2), "f32[4,64,57,57]"),
    ("max 2 with indices", lambda x: functional.max_pool2d(x, 2, return_indices=True), "f32[1,64,56,56]"),
    ("max 3, dilated", lambda x: functional.max_pool2d(x, 3, 1, 1, 2), "f32[1,64,56,56]"),
    ("average 2", _average(2), "f32[4,64,112,112]"),
    ("average 2", _average(2), "bf16[4,64,112,112]"),
    ("average 2, channels last", _average(2), f"f32[4,64,112,112]{_LAST}"),
    ("average 3, stride 1", _average(3, 1, 1), "f32[4,192,28,28]"),
    ("average 3, stride 1, channels last", _average(3, 1, 1), f"f32[4,192,28,28]{_LAST}"),
    ("average 7", _average(7), "f32[1,512,14,14]"),
    ("average 7", _average(7), "f32[8,512,14,14]"),
    ("average 8, stride 8", _average(8), "f32[1,64,224,224]"),
    ("average 11, stride 1", _average(11, 1), "f32[1,3,224,224]"),
    ("adaptive average to 1", lambda x: functional.adaptive_avg_pool2d(x, 1), "f32[8,512,7,7]"),
    ("adaptive average to 1", lambda x: functional.adaptive_avg_pool2d(x, 1), "bf16[8,512,7,7]"),
    ("adaptive average to 1, channels last", lambda x: functional.adaptive_avg_pool2d(x, 1), f"f32[8,512,7,7]{_LAST}"),
    ("adaptive average to 7", lambda x: functional.adaptive_avg_pool2d(x, 7), "f32[4,256,28,28]"),
    ("adaptive average to 6", lambda x: functional.adaptive_avg_pool2d(x, 6), "f32[1,256,13,13]"),
    ("adaptive maximum to 1", lambda x: functional.adaptive_max_pool2d(x, 1), "f32[8,512,7,7]"),
    ("maximum of a signal", lambda x: functional.max_pool1d(x, 4), "f32[4,64,4000]"),
    ("average of a signal", lambda x: functional.avg_pool1d(x, 10), "f32[4,64,4000]"),
    ("maximum of a volume", lambda x: functional.max_pool3d(x, 2), "f32[1,32,16,56,56]"),
    ("average of a volume", lambda x: functional.avg_pool3d(x, 2), "f32[1,32,16,56,56]"),
    ("power average", lambda x: functional.lp_pool2d(x, 2.0, 2), "f32[1,64,56,56]"),
]
