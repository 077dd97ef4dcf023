"""Ops that join elements or make them from nothing."""

from tests.targets.on_triton.steps import Case, Input

RAGGED = (
    Case("concat", (Input((2, 3, 5)), Input((2, 1, 5), order=(1, 0, 2)), Input((2, 0, 5))), {"axis": 1}),
    Case("concat", (Input((3, 4)), Input((3, 5), gap=2)), {"axis": 1}),
    Case("full", (), {"shape": (3, 7), "value": -2.5, "dtype": "float32"}, ("float32",)),
    Case("full", (), {"shape": (), "value": 1.0, "dtype": "bool"}, ("bool",)),
    Case("full", (), {"shape": (1030,), "value": 7.0, "dtype": "int64"}, ("int64",)),
    Case("arange", (), {"start": 3.0, "step": 2.0, "length": 1025, "dtype": "int64"}, ("int64",)),
    Case("arange", (), {"start": 0.5, "step": 0.25, "length": 9, "dtype": "float32"}, ("float32",)),
)

REAL = (
    Case("concat", (Input((8, 512, 64)), Input((8, 512, 64))), {"axis": 2}),
    Case("full", (), {"shape": (8, 512), "value": 1.0, "dtype": "float32"}, ("float32",)),
    Case("arange", (), {"start": 0.0, "step": 1.0, "length": 4096, "dtype": "int64"}, ("int64",)),
)
