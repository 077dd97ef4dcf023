"""Softmax and its logarithm."""

from tests.targets.on_triton.steps import Case, Input

_INFINITY, _NAN = float("inf"), float("nan")
_OPS = ("softmax", "log_softmax")
_SINGLE = ("float32",)

RAGGED = (
    *(
        Case(op, (Input(shape),), {"axis": len(shape) - 1}, variant="rows")
        for op in _OPS
        for shape in ((9, 37), (2, 3, 300), (5, 1))
    ),
    *(Case(op, (Input(shape),), {"axis": 1}, _SINGLE) for op in _OPS for shape in ((0, 5), (3, 0))),
    *(Case(op, (Input((33,)),), {"axis": 0}, ("float64",)) for op in _OPS),
    # other axes and layouts
    *(Case(op, (Input((3, 21, 19)),), {"axis": axis}, _SINGLE) for op in _OPS for axis in (0, 1)),
    Case("softmax", (Input((3, 5, 7), order=(2, 0, 1)),), {"axis": 2}),
    Case("softmax", (Input((2, 3, 4, 5), order=(3, 1, 0, 2)),), {"axis": 1}, _SINGLE),
    Case("log_softmax", (Input((6, 20), gap=4),), {"axis": 1}),
    # far from 0; rows of nothing but -inf; NaN and +inf in their rows alone
    *(Case(op, (Input((4, 30), low=-300, high=300),), {"axis": 1}, scale=4) for op in _OPS),
    *(Case(op, (Input((30, 5), special=(-_INFINITY,)),), {"axis": 1}) for op in _OPS),
    *(Case(op, (Input((3, 5), special=(-_INFINITY,)),), {"axis": 0}) for op in _OPS),
    *(Case(op, (Input((30, 6), special=(-_INFINITY, _NAN, _INFINITY, 1.0)),), {"axis": 1}) for op in _OPS),
    *(Case(op, (Input((9, 70)),), {"axis": 1}, over=0) for op in _OPS),
    # loop
    *(Case(op, (Input((4, 9001)),), {"axis": 1}, variant="loop", over=over) for op in _OPS for over in (-1, 0)),
    *(
        Case(op, (Input((4, 9005), special=(value,)),), {"axis": 1}, _SINGLE, variant="loop")
        for op in _OPS
        for value in (-_INFINITY, _NAN, _INFINITY)
    ),
    *(Case(op, (Input((2, 300, 130)),), {"axis": 1}, _SINGLE, variant="loop") for op in _OPS),
    # a row that begins with a whole block of -inf; a row of nothing else
    *(
        Case(op, (Input((4, 9001), special=(-_INFINITY,), run=4100),), {"axis": 1}, _SINGLE, variant="loop")
        for op in _OPS
    ),
    *(
        Case(op, (Input((2, 9001), special=(-_INFINITY,), run=4100),), {"axis": 1}, _SINGLE, variant="split")
        for op in _OPS
    ),
    *(Case(op, (Input((9000, 5), special=(-_INFINITY,)),), {"axis": 0}, _SINGLE, variant="split") for op in _OPS),
    # split
    *(Case(op, (Input((2, 9001)),), {"axis": 1}, variant="split", over=over) for op in _OPS for over in (-1, 0)),
    *(
        Case(op, (Input((2, 9005), special=(value,)),), {"axis": 1}, _SINGLE, variant="split")
        for op in _OPS
        for value in (-_INFINITY, _NAN, _INFINITY)
    ),
    Case("softmax", (Input((1, 9001)),), {"axis": 1}, ("float64",), variant="split", multiprocessors=2),
    Case("softmax", (Input((2, 9001), low=-300, high=300),), {"axis": 1}, variant="split"),
    Case("softmax", (Input((9001, 3)),), {"axis": 0}, variant="split"),
)

_GPU = 132

REAL = (
    *(Case("softmax", (Input((batch, 12, 512, 512)),), {"axis": 3}, multiprocessors=_GPU) for batch in (1, 8)),
    Case("softmax", (Input((8, 16, 1, 2048)),), {"axis": 3}, multiprocessors=_GPU),
    Case("softmax", (Input((8, 512, 64)),), {"axis": 1}, multiprocessors=_GPU),
    Case("softmax", (Input((4096, 64)),), {"axis": 0}, multiprocessors=_GPU),
    *(Case(op, (Input((256, 1000)),), {"axis": 1}, multiprocessors=_GPU) for op in _OPS),
    *(
        Case(op, (Input((rows, size)),), {"axis": 1}, multiprocessors=_GPU, variant=variant)
        for op in _OPS
        for size in (50257, 151936)
        for rows, variant in ((1, "split"), (8, "split"), (512, "loop"))
    ),
    Case("softmax", (Input((512, 768)),), {"axis": 1}, ("float64",), multiprocessors=_GPU),
)
