"""Reductions, positions of extremes, variances and running sums."""

from tests.targets.on_triton.steps import Case, Input

_INFINITY, _NAN = float("inf"), float("nan")
_SINGLE = ("float32",)
_FOLDS = ("sum", "mean", "amax", "amin", "any", "all")
_NUMBERS = ("sum", "amax", "amin")
_POSITIONS = ("argmax", "argmin")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_WIDE = (2, 5003)

RAGGED = (
    # folds: the last axis, the first, two that are apart, all, none; one lane and many
    *(Case(op, (Input((19, 37)),), {"axes": (1,)}, variant="loop") for op in _FOLDS),
    *(Case(op, (Input((19, 37)),), {"axes": (0,), "keepdims": True}, variant="loop") for op in _FOLDS),
    *(Case("sum", (Input((3, 4, 5, 6)),), {"axes": axes}, _SINGLE) for axes in ((0, 2), (1, 3), (0, 1, 2, 3), ())),
    *(
        Case("mean", (Input((3, 4, 5, 6), order=(2, 0, 3, 1)),), {"axes": axes}, _SINGLE)
        for axes in ((0, 2), (1, 3), (2,))
    ),
    Case("amax", (Input((6, 20), gap=4),), {"axes": (1,)}),
    *(Case("prod", (Input((3, 9), low=0.5, high=1.5),), {"axes": (axis,)}) for axis in (0, 1)),
    *(Case(op, (Input((2, 3, 7), low=-9, high=9),), {"axes": (0, 2)}, _INTEGERS[:-1]) for op in _NUMBERS),
    *(Case(op, (Input((2, 3, 7), low=0, high=200),), {"axes": (2,)}, _INTEGERS[-1:]) for op in _NUMBERS),
    Case("sum", (Input((9, 30), low=1 << 61, high=1 << 62),), {"axes": (1,)}, ("int64",)),
    Case("prod", (Input((4, 9), low=3, high=99),), {"axes": (1,)}, ("int32", "uint8")),
    *(Case(op, (Input((40, 3)),), {"axes": (1,)}, ("bool", "int64")) for op in ("any", "all")),
    *(Case(op, (Input((9, 30)),), {"axes": (1,)}, ("float64",)) for op in ("sum", "mean", "amax")),
    # nothing to reduce, nothing to write, one element
    *(Case(op, (Input((3, 0)),), {"axes": (1,)}, _SINGLE) for op in ("sum", "mean", "prod", "any", "all")),
    *(Case(op, (Input((0, 3)),), {"axes": (1,)}, _SINGLE) for op in ("sum", "amax")),
    Case("sum", (Input(()),), {"axes": ()}, _SINGLE),
    # NaN and infinities; elements of one sign, so that the masked lanes of 0 would win; bits that only any and all see
    *(Case(op, (Input((16, 7), special=(_NAN, _INFINITY, -_INFINITY)),), {"axes": (1,)}) for op in _FOLDS),
    Case("amax", (Input((5, 37), low=-9, high=-8),), {"axes": (1,)}),
    Case("amin", (Input((5, 37), low=8, high=9),), {"axes": (1,)}),
    *(Case(op, (Input((30, 5), special=(0.0, 1e-7, _NAN)),), {"axes": (1,)}) for op in ("any", "all")),
    *(Case("any", (Input((9, 70), low=value, high=value + 1e-30),), {"axes": (1,)}, _SINGLE) for value in (0.0, 1.0)),
    # folds that are split
    *(Case(op, (Input(_WIDE),), {"axes": (1,)}, variant="split") for op in _FOLDS),
    *(Case(op, (Input(_WIDE, low=-9, high=9),), {"axes": (1,)}, ("int64", "int8"), variant="split") for op in _NUMBERS),
    *(Case(op, (Input((2503, 3)),), {"axes": (0,)}, _SINGLE, variant="split") for op in ("sum", "amax", "all")),
    *(
        Case(op, (Input(_WIDE, special=(_NAN,), run=900),), {"axes": (1,)}, _SINGLE, variant="split")
        for op in ("amax", "amin")
    ),
    Case("prod", (Input((1100,), low=0.99, high=1.01),), {"axes": (0,)}, _SINGLE, variant="split"),
    Case("amax", (Input(_WIDE, low=-9, high=-8),), {"axes": (1,)}, _SINGLE, variant="split"),
    # positions: few different values, so that there are equals
    *(Case(op, (Input((19, 37), low=-3, high=3),), {"axis": 1}, (*_INTEGERS[:-1], "float32")) for op in _POSITIONS),
    *(Case(op, (Input((19, 37)),), {"axis": 0, "keepdims": True}) for op in _POSITIONS),
    *(Case(op, (Input((4, 5, 6), order=(1, 2, 0)),), {"axis": 1}) for op in _POSITIONS),
    *(Case(op, (Input((9, 33)),), {"axis": 1}, ("float64", "uint8")) for op in _POSITIONS),
    *(Case(op, (Input((16, 7), special=(_NAN, _INFINITY, -_INFINITY)),), {"axis": 1}) for op in _POSITIONS),
    *(
        Case(op, (Input((3, 5), special=(value,)),), {"axis": 0})
        for op in _POSITIONS
        for value in (_INFINITY, -_INFINITY)
    ),
    *(Case(op, (Input((1, 7)),), {"axis": 0}, _SINGLE) for op in _POSITIONS),
    *(Case(op, (Input((0, 7)),), {"axis": 1}, _SINGLE) for op in _POSITIONS),
    # the last row has its first NaN in the second block
    *(
        Case(op, (Input((3, 5003), special=(_NAN,), run=900),), {"axis": 1}, _SINGLE, variant="loop", multiprocessors=1)
        for op in _POSITIONS
    ),
    *(Case(op, (Input(_WIDE),), {"axis": 1}, variant="split") for op in _POSITIONS),
    *(Case(op, (Input(_WIDE, low=-3, high=3),), {"axis": 1}, ("int64", "int32"), variant="split") for op in _POSITIONS),
    *(Case(op, (Input(_WIDE, special=(_NAN,), run=900),), {"axis": 1}, _SINGLE, variant="split") for op in _POSITIONS),
    *(Case(op, (Input((2503, 3)),), {"axis": 0}, _SINGLE, variant="split") for op in _POSITIONS),
    *(
        Case(op, (Input((1, 5003), special=(value,), run=6000),), {"axis": 1}, _SINGLE, variant="split")
        for op in _POSITIONS
        for value in (_INFINITY, -_INFINITY)
    ),
    # variances
    *(Case("var", (Input((19, 37)),), {"axes": (axis,)}, variant="loop") for axis in (0, 1)),
    *(Case("var", (Input((9, 37)),), {"axes": (1,), "correction": c}, _SINGLE) for c in (0.0, 0.5, 37.0, 99.0)),
    Case("var", (Input((3, 4, 5)),), {"axes": (0, 2), "keepdims": True}, ("float32", "float64")),
    Case("var", (Input((2, 2500), low=999, high=1001),), {"axes": (1,)}, _SINGLE, variant="loop", multiprocessors=1),
    *(Case("var", (Input(shape),), {"axes": (1,)}, _SINGLE) for shape in ((3, 0), (0, 3), (3, 1))),
    Case("var", (Input((16, 7), special=(_NAN, _INFINITY, 1.0)),), {"axes": (1,)}),
    Case("var", (Input(_WIDE, low=999, high=1001),), {"axes": (1,)}, ("float32", "bfloat16"), variant="split"),
    Case("var", (Input((2503, 3)),), {"axes": (0,), "correction": 0.0}, _SINGLE, variant="split"),
    # running sums
    *(Case("cumsum", (Input((5, 37)),), {"axis": axis}, scale=2) for axis in (0, 1)),
    Case("cumsum", (Input((3, 1500), order=(1, 0)),), {"axis": 1}, _SINGLE, scale=2),
    Case("cumsum", (Input((2, 2500), low=-9, high=9),), {"axis": 1}, ("int64", "int8"), multiprocessors=1),
    *(Case("cumprod", (Input((2, 9), low=0.5, high=1.5),), {"axis": axis}) for axis in (0, 1)),
    Case("cumprod", (Input((1, 1100), low=0.99, high=1.01),), {"axis": 1}, _SINGLE),
    Case("cumsum", (Input((0, 3)),), {"axis": 0}, _SINGLE),
)

_GPU = 132
_VOCABULARIES = (50257, 151936)

REAL = (
    *(
        Case("argmax", (Input((batch, size)),), {"axis": 1}, variant="split", multiprocessors=_GPU)
        for size in _VOCABULARIES
        for batch in (1, 8)
    ),
    Case("argmax", (Input((512, 151936)),), {"axis": 1}, variant="loop", multiprocessors=_GPU),
    *(Case(op, (Input((512, 768)),), {"axis": 1}, ("int32",), multiprocessors=_GPU) for op in ("argmax", "argmin")),
    Case("argmin", (Input((8, 151936)),), {"axis": 1}, ("float64", "int64"), variant="split", multiprocessors=_GPU),
    *(Case("mean", (Input((8, 512, 768)),), {"axes": (axis,)}, multiprocessors=_GPU) for axis in (1, 2)),
    *(Case("amax", (Input((8, 512, 768)),), {"axes": axes}, multiprocessors=_GPU) for axes in ((0,), (0, 1, 2))),
    Case("sum", (Input((8, 512)),), {"axes": (1,)}, ("int64", "int32", "float64"), multiprocessors=_GPU),
    Case("mean", (Input((8, 2048, 7, 7)),), {"axes": (2, 3)}, multiprocessors=_GPU),
    *(Case(op, (Input((8, 512)),), {"axes": (1,)}, ("bool", "float32"), multiprocessors=_GPU) for op in ("any", "all")),
    *(
        Case(op, (Input((1, 1 << 20)),), {"axes": (1,)}, ("bool", "float16"), multiprocessors=_GPU)
        for op in ("any", "all")
    ),
    Case("amin", (Input((512, 768)),), {"axes": (1,)}, ("float32", "int8", "int64"), multiprocessors=_GPU),
    Case("prod", (Input((512, 768)),), {"axes": (1,)}, ("float32", "int64"), multiprocessors=_GPU),
    *(
        Case("var", (Input((8, 64, 56, 56)),), {"axes": axes}, multiprocessors=_GPU)
        for axes in ((0, 2, 3), (2, 3), (0, 1, 2, 3))
    ),
    Case("var", (Input((512, 768)),), {"axes": (1,)}, ("float64",), multiprocessors=_GPU),
    *(
        Case(op, (Input((1, 1 << 20)),), {"axes": (1,)}, ("float32",), multiprocessors=_GPU)
        for op in ("sum", "mean", "prod", "amin")
    ),
    Case("cumsum", (Input((8, 2048)),), {"axis": 1}, ("int64", "float32", "bfloat16"), multiprocessors=_GPU),
    Case("cumsum", (Input((1, 151936)),), {"axis": 1}, ("float32",), multiprocessors=_GPU),
    Case("cumprod", (Input((8, 2048)),), {"axis": 1}, ("int64", "float32"), multiprocessors=_GPU),
)
