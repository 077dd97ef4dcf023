"""Ops that join elements or make them from nothing."""

from tests.targets.on_triton.steps import Case, Input

_ALL = ("float32", "float16", "bfloat16", "int64", "bool")

RAGGED = (
    Case("concat", (Input((2, 3, 5)), Input((2, 1, 5), order=(1, 0, 2)), Input((2, 0, 5))), {"axis": 1}),
    Case("concat", (Input((3, 4)), Input((3, 5), gap=2)), {"axis": 1}),
    Case("pad", (Input((2, 3, 5)),), {"low": (0, 1, 2), "high": (1, 0, 3), "value": -1.5}),
    Case("pad", (Input((4, 6), order=(1, 0)),), {"low": (0, 2), "high": (0, 0)}, _ALL),
    Case("pad", (Input((0, 3)),), {"low": (2, 0), "high": (0, 1), "value": 3.0}, ("float32",)),
    *(
        Case(op, inputs, {"diagonal": diagonal}, _ALL)
        for op in ("tril", "triu")
        for inputs, diagonal in (
            ((Input((2, 5, 9), low=-9, high=9),), 0),
            ((Input((37, 31), low=-9, high=9),), 2),
            ((Input((9, 5), low=-9, high=9),), -3),
            ((Input((3, 3), low=-9, high=9, special=(float("nan"), float("inf"))),), 1 << 40),
        )
    ),
    Case("flip", (Input((4, 5, 37)),), {"axes": (0, 2)}, _ALL),
    Case("flip", (Input((40, 33), order=(1, 0)),), {"axes": (1,)}, ("float32",)),
    Case("flip", (Input((0, 3)),), {"axes": (0, 1)}, ("float32",)),
    Case("full", (), {"shape": (3, 7), "value": -2.5, "dtype": "float32"}, ("float32",)),
    Case("full", (), {"shape": (), "value": 1.0, "dtype": "bool"}, ("bool",)),
    Case("full", (), {"shape": (1030,), "value": 7.0, "dtype": "int64"}, ("int64",)),
    Case("arange", (), {"start": 3.0, "step": 2.0, "length": 1025, "dtype": "int64"}, ("int64",)),
    Case("arange", (), {"start": 0.5, "step": 0.25, "length": 9, "dtype": "float32"}, ("float32",)),
)

REAL = (
    Case("concat", (Input((8, 512, 64)), Input((8, 512, 64))), {"axis": 2}),
    Case("pad", (Input((8, 512, 64)),), {"low": (0, 1, 0), "high": (0, 0, 0)}),
    *(Case(op, (Input((1, 1024, 1024)),)) for op in ("tril", "triu")),
    Case("flip", (Input((8, 512, 64)),), {"axes": (2,)}),
    Case("full", (), {"shape": (8, 512), "value": 1.0, "dtype": "float32"}, ("float32",)),
    Case("arange", (), {"start": 0.0, "step": 1.0, "length": 4096, "dtype": "int64"}, ("int64",)),
)
