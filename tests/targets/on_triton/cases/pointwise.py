"""Elementwise ops and copies."""

from tests.targets.on_triton.steps import Case, Input

FLOATS = ("float32", "float16", "bfloat16")
_UNARY = ("neg", "abs", "sign", "exp", "exp2", "sin", "cos", "tanh", "sigmoid", "erf", "relu", "silu", "floor", "ceil")
_POSITIVE = ("log", "log2", "sqrt", "rsqrt", "reciprocal")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
_ROUNDING = ("expm1", "log1p", "trunc", "round")
# Their code for large angles needs local memory: https://docs.nvidia.com/cuda/cuda-c-programming-guide.
_ANGLES = ("sin", "cos")
_LOGIC = ("logical_and", "logical_or", "logical_xor", "add", "mul")

RAGGED = (
    *(Case(op, (Input((3, 50), low=-0.9, high=4),)) for op in ("expm1", "log1p", "trunc")),
    Case("round", (Input((40,), low=-6, high=6),)),
    Case("pow", (Input((300,), low=0.1, high=3), Input((300,), low=-3, high=3)), dtypes=("float32", "float16")),
    Case("pow", (Input((9,)), Input((1,), low=2, high=2.000001)), dtypes=("float32",)),
    *(Case(op, (Input((3, 37)),)) for op in _UNARY),
    *(Case(op, (Input((1031,), low=0.1, high=9),)) for op in _POSITIVE),
    *(Case(op, (Input((2, 5, 7)), Input((5, 1)))) for op in _BINARY),
    *(Case(op, (Input((2, 9)), Input((9,))), dtypes=("bool",)) for op in _LOGIC),
    Case("add", (Input((2, 1), low=-9, high=9), Input((5,))), dtypes=("int64", "int32")),
    Case("bitwise_xor", (Input((12,), low=-9, high=9), Input((12,))), dtypes=("int64", "int32")),
    Case("bitwise_and", (Input((12,), low=-9, high=9), Input((12,))), dtypes=("int64", "int32", "bool")),
    Case("bitwise_or", (Input((12,), low=-9, high=9), Input((12,))), dtypes=("int64", "int32")),
    Case(
        "pointwise",
        (Input((2, 9)), Input((9,)), Input((2, 1), "bool")),
        {"program": (("mul", 0, 1), ("gelu_tanh", 3), ("add", 4, 0), ("where", 2, 5, 1))},
        ("float32",),
    ),
    Case("where", (Input((3, 1, 5), "bool"), Input((4, 1)), Input((1,)))),
    Case("gelu", (Input((40,)),), {"approximate": "none"}),
    Case("gelu", (Input((40,)),), {"approximate": "tanh"}),
    Case("cast", (Input((6, 5), low=-100, high=100),), {"dtype": "int64"}),
    Case("cast", (Input((6, 5)),), {"dtype": "bool"}),
    Case("cast", (Input((6, 5), low=-9, high=9),), {"dtype": "bfloat16"}, ("int64", "float32", "bool")),
    Case("add", (Input((4, 6), order=(1, 0)), Input((4, 6), gap=3))),
    Case("copy", (Input((3, 4, 5), order=(2, 0, 1)),)),
    Case(
        "copy",
        (
            Input(
                (),
            ),
        ),
    ),
    Case("logical_not", (Input((7,)),), dtypes=("float32", "bool", "int64")),
    Case("isnan", (Input((7,), special=(float("nan"), float("inf"))),)),
    Case("isinf", (Input((21,), special=(float("inf"), float("-inf"), float("nan"))),)),
    Case("bitwise_not", (Input((3, 9), high=99),), dtypes=("int64", "int32", "int8", "uint8", "bool")),
)

_ARRAY = Input((512, 4096))

REAL = (
    *(Case(op, (_ARRAY,)) for op in (*_UNARY, *_POSITIVE, *_ROUNDING) if op not in _ANGLES),
    *(Case(op, (_ARRAY,), stack=32) for op in _ANGLES),
    *(Case(op, (_ARRAY, _ARRAY)) for op in _BINARY),
    *(Case(op, (_ARRAY, _ARRAY), dtypes=("bool",)) for op in _LOGIC),
    *(Case(op, (_ARRAY, _ARRAY), dtypes=("int64",)) for op in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    Case("pow", (_ARRAY, _ARRAY), dtypes=("float32", "float16")),
    Case("where", (_ARRAY._replace(dtype="bool"), _ARRAY, _ARRAY)),
    Case("cast", (_ARRAY,), {"dtype": "int64"}),
    Case("logical_not", (_ARRAY,), dtypes=("bool",)),
    *(Case(op, (_ARRAY,)) for op in ("isnan", "isinf")),
    Case("bitwise_not", (_ARRAY,), dtypes=("int64", "bool")),
    Case("mul", (Input((8, 512, 1024)), Input((1024,)))),
    Case("gelu", (Input((512, 3072)),), {"approximate": "tanh"}),
    Case(
        "pointwise",
        (Input((8, 512, 768)), Input((768,)), Input((8, 512, 1), "bool")),
        {"program": (("mul", 0, 1), ("gelu_tanh", 3), ("where", 2, 4, 0))},
        ("float32",),
    ),
    Case("copy", (Input((8, 512, 12, 64), order=(0, 2, 1, 3)),)),
)
