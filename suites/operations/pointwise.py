"""Arithmetic element by element: activations of transformers and convolutional networks, in every element type."""

import torch
from torch import Tensor
from torch.nn import functional

_HIDDEN = "[8,128,768]"
_FLOATS = ("f32", "bf16", "f16", "f64")
_INTEGERS = ("i64", "i32", "i16", "i8", "u8")

_ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "relu6": functional.relu6,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "celu": functional.celu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "hardshrink": functional.hardshrink,
    "logsigmoid": functional.logsigmoid,
}
_FUNCTIONS = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "erf": torch.erf,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "sinh": torch.sinh,
    "abs": torch.abs,
    "neg": torch.neg,
    "floor": torch.floor,
    "round": torch.round,
    "sign": torch.sign,
    "square": torch.square,
    "exp2": torch.exp2,
}
_POSITIVE = {
    "log": torch.log,
    "log2": torch.log2,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "x ** 0.5": lambda x: x**0.5,
    "x ** 1.7": lambda x: x**1.7,
    "lgamma": torch.lgamma,
}
_TRANSCENDENTAL = ("gelu", "silu", "tanh", "softplus")


def _scale_add(x: Tensor, y: Tensor) -> Tensor:
    return x * 3 + y


CASES = [
    *((name, function, f"f32{_HIDDEN}") for name, function in _ACTIVATIONS.items()),
    *((name, function, f"f32{_HIDDEN}") for name, function in _FUNCTIONS.items()),
    *((name, function, f"f32{_HIDDEN} positive") for name, function in _POSITIVE.items()),
    *((name, _ACTIVATIONS[name], f"{dtype}{_HIDDEN}") for name in _TRANSCENDENTAL for dtype in ("bf16", "f16", "f64")),
    *(("x * 3 + y", _scale_add, f"{dtype}{_HIDDEN}", f"{dtype}{_HIDDEN}") for dtype in (*_FLOATS, *_INTEGERS)),
    *(("exp", torch.exp, f"{dtype}{_HIDDEN}") for dtype in ("f64", "bf16")),
    *(("sqrt", torch.sqrt, f"{dtype}{_HIDDEN} positive") for dtype in ("f64", "bf16")),
    *(("clamp", lambda x: x.clamp(-1, 1), f"{dtype}{_HIDDEN}") for dtype in ("f32", "bf16", "f64", "i64", "u8")),
    *(("x // 7", lambda x: x // 7, f"{dtype}{_HIDDEN}") for dtype in ("i64", "i32")),
    *(("x % 7", lambda x: x % 7, f"{dtype}{_HIDDEN}") for dtype in ("i64", "i32", "f32")),
    *(("x << 2", lambda x: x << 2, f"{dtype}{_HIDDEN}") for dtype in ("i64", "u8")),
    *(("x & 15", lambda x: x & 15, f"{dtype}{_HIDDEN}") for dtype in ("i64", "u8")),
    *(("x > 0", lambda x: x > 0, f"{dtype}{_HIDDEN}") for dtype in ("f32", "bf16", "f64", "i64", "u8")),
    *(("x == y", torch.eq, f"{dtype}{_HIDDEN}", f"{dtype}{_HIDDEN}") for dtype in ("f32", "i64", "u8", "bool")),
    ("x & ~y", lambda x, y: x & ~y, f"bool{_HIDDEN}", f"bool{_HIDDEN}"),
    ("(x > 0) & (x < 1)", lambda x: (x > 0) & (x < 1), f"f32{_HIDDEN}"),
    ("isnan", torch.isnan, f"f32{_HIDDEN}"),
    ("nan_to_num", torch.nan_to_num, f"f32{_HIDDEN}"),
    *(("where", torch.where, f"bool{_HIDDEN}", f"{t}{_HIDDEN}", f"{t}{_HIDDEN}") for t in ("f32", "bf16", "i64", "u8")),
    ("masked_fill", lambda x, mask: x.masked_fill(mask, -1e4), "f32[4,12,128,128]", "bool[4,1,1,128]"),
    ("row bias", torch.add, f"f32{_HIDDEN}", "f32[768]"),
    ("row bias", torch.add, f"bf16{_HIDDEN}", "bf16[768]"),
    ("column scale", torch.mul, f"f32{_HIDDEN}", "f32[8,128,1]"),
    ("column scale", torch.mul, f"bf16{_HIDDEN}", "bf16[8,128,1]"),
    ("channel scale", torch.mul, "f32[4,64,56,56]", "f32[4,64,1,1]"),
    ("channel scale, channels last", torch.mul, "f32[4,64,56,56] channels_last", "f32[4,64,1,1]"),
    ("outer difference", lambda x, y: x[:, None] - y[None], "f32[1024]", "f32[1024]"),
    ("outer difference", lambda x, y: x[:, None] - y[None], "i64[1024]", "i64[1024]"),
    ("add of a transposed matrix", torch.add, "f32[1024,1024]", "f32[1024,1024] transposed"),
    ("relu of a transposed matrix", functional.relu, "f32[1024,1024] transposed"),
    ("relu of every other column", functional.relu, "f32[1024,512] sliced"),
    ("relu, channels last", functional.relu, "f32[4,64,56,56] channels_last"),
    ("swiglu", lambda x: functional.silu(x[..., :1536]) * x[..., 1536:], "f32[8,128,3072]"),
    ("glu", functional.glu, "f32[8,128,1536]"),
    ("glu over channels", lambda x: functional.glu(x, 1), "f32[4,128,56,56]"),
    ("prelu of channels", functional.prelu, "f32[4,64,56,56]", "f32[64] fixed"),
    ("x ** y", torch.pow, f"f32{_HIDDEN} positive", f"f32{_HIDDEN}"),
    ("atan2", torch.atan2, f"f32{_HIDDEN}", f"f32{_HIDDEN}"),
    ("hypot", torch.hypot, f"f32{_HIDDEN}", f"f32{_HIDDEN}"),
    ("lerp", lambda x, y: torch.lerp(x, y, 0.3), f"f32{_HIDDEN}", f"f32{_HIDDEN}"),
    ("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), *[f"f32{_HIDDEN}"] * 3),
    ("maximum", torch.maximum, f"f32{_HIDDEN}", f"f32{_HIDDEN}"),
    ("minimum", torch.minimum, f"bf16{_HIDDEN}", f"bf16{_HIDDEN}"),
    ("sum of four", lambda a, b, c, d: a + b + c + d, *[f"f32{_HIDDEN}"] * 4),
    ("one activation beyond caches", functional.gelu, "f32[32,512,1024]"),
    ("sum of two beyond caches", torch.add, "f32[32,512,1024]", "f32[32,512,1024]"),
    ("relu of a small vector", functional.relu, "f32[64]"),
    ("gelu of a token", functional.gelu, "f32[1,3072]"),
]
