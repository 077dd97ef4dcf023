"""Reads at positions given by integers."""

from engine.encodings import BFLOAT16, FLOAT16, INT8_CHANNEL, INT8_TENSOR
from tests.targets.on_triton.steps import Case, Input

FLOATS = ("float32", "float16", "bfloat16")


def _ids(shape: tuple[int, ...], high: int, dtype: str = "int64", low: int = 0, **layout: object) -> Input:
    """Positions from `low` to below `high`."""
    return Input(shape, dtype, low=low, high=high, **layout)


def _norm(norm: str, *inputs: Input | None) -> Case:
    padded = (*inputs, *[None] * (8 - len(inputs)))
    return Case("embedding_norm", padded, {"norm": norm, "epsilon": 1e-5}, ("float32",))


_W70, _W768, _W1024 = Input((70,)), Input((768,)), Input((1024,))

RAGGED = (
    # embedding: rows
    Case("embedding", (Input((11, 70)), _ids((5,), 11)), variant="rows"),
    Case("embedding", (Input((11, 70)), _ids((2, 9), 11, "int32")), dtypes=("bool", "int64", "int8"), variant="rows"),
    Case("embedding", (Input((11, 130), gap=3), _ids((3, 4), 11, order=(0, 1))), variant="rows"),
    Case("embedding", (Input((7, 5, 27)), _ids((4,), 7)), dtypes=("float32",), variant="rows"),
    Case("embedding", (Input((7, 70)), _ids((0,), 7)), dtypes=("float32",), variant="rows"),
    Case("embedding", (Input((0, 70)), _ids((0, 2), 7)), dtypes=("float32",), variant="rows"),
    Case("embedding", (Input((3, 1100)), _ids((), 3)), dtypes=("float16",), variant="rows"),
    Case("embedding", (Input((9, 300)), _ids((35,), 9)), {}, ("float16",), "rows", 1),
    *(
        Case("embedding", (Input((11, columns), encoding=how), _ids((2, 5), 11)), variant="rows")
        for how, columns in ((BFLOAT16, 70), (FLOAT16, 130), (INT8_CHANNEL, 70), (INT8_TENSOR, 70), (INT8_CHANNEL, 5))
    ),
    # embedding: loop
    Case("embedding", (Input((11, 5)), _ids((2, 3), 11)), variant="loop"),
    Case("embedding", (Input((11,)), _ids((7,), 11)), dtypes=("bool", "float64"), variant="loop"),
    Case("embedding", (Input((7, 3, 5), order=(2, 0, 1)), _ids((4, 2), 7, order=(1, 0))), variant="loop"),
    # index_select
    Case("index_select", (Input((9, 7, 20)), _ids((4,), 9)), {"axis": 0}, variant="rows"),
    Case("index_select", (Input((9, 80), gap=1), _ids((1,), 9, "int32")), {"axis": 0}, variant="rows"),
    Case("index_select", (Input((9, 8)), _ids((4,), 9)), {"axis": 0}, variant="loop"),
    Case("index_select", (Input((11, 9, 7)), _ids((14,), 9)), {"axis": 1}, variant="loop"),
    Case("index_select", (Input((3, 9, 41), order=(2, 0, 1)), _ids((5,), 9)), {"axis": 2}, ("float32",)),
    Case("index_select", (Input((3, 4)), _ids((0,), 4)), {"axis": 1}, ("float32",)),
    # gather
    Case("gather", (Input((5, 9)), _ids((5, 3), 9)), {"axis": 1}),
    Case("gather", (Input((9, 6, 4)), _ids((11, 5, 3), 9, "int32")), {"axis": 0}),
    Case("gather", (Input((4, 9, 5), order=(2, 1, 0)), _ids((3, 30, 5), 9, gap=2)), {"axis": 1}),
    Case("gather", (Input((5,)), _ids((7,), 5)), {"axis": 0}, ("bool", "int64")),
    Case("gather", (Input((5, 0)), _ids((5, 0), 9)), {"axis": 1}, ("float32",)),
    # index
    Case("index", (Input((5, 70)), _ids((4, 3), 5, low=-5)), {"axes": (0,)}, variant="rows"),
    Case("index", (Input((5, 7)), _ids((4,), 5, low=-5)), {"axes": (0,)}, variant="loop"),
    Case("index", (Input((5, 7, 3)), _ids((4, 1), 7, low=-7), _ids((6,), 3, "int32", low=-3)), {"axes": (1, 2)}),
    Case("index", (Input((5, 7, 3)), _ids((4, 1), 5, low=-5), _ids((6,), 3, low=-3)), {"axes": (0, 2)}),
    Case("index", (Input((2, 5, 7, 3), order=(3, 0, 2, 1)), _ids((4, 6), 5, order=(1, 0))), {"axes": (1,)}),
    Case("index", (Input((4, 5, 6)), *(_ids((3,), n, low=-n) for n in (4, 5, 6))), {"axes": (0, 1, 2)}, ("bool",)),
    Case("index", (Input((9,)), _ids((3,), 9, "int32", low=-9)), {"axes": (0,)}, ("int32", "float64")),
    Case("index", (Input((5, 7)), _ids((), 5), _ids((), 7)), {"axes": (0, 1)}, ("float32",)),
    Case("index", (Input((5, 7)), _ids((0, 2), 5)), {"axes": (0,)}, ("float32",)),
    # embedding_norm
    _norm("layer_norm", Input((11, 70)), _ids((2, 5), 11)),
    _norm("rms_norm", Input((11, 70)), _ids((6,), 11, "int32"), None, None, None, None, _W70),
    _norm(
        "layer_norm", Input((11, 70)), _ids((2, 5), 11), Input((8, 70)), _ids((1, 5), 8), Input((2, 70), gap=5),
        _ids((2, 5), 2), _W70, _W70,
    ),
    _norm(
        "layer_norm", Input((11, 70), encoding=INT8_CHANNEL), _ids((3, 5), 11), Input((8, 70), encoding=BFLOAT16),
        _ids((5,), 8), Input((1, 1, 70)), None, _W70,
    ),
    _norm("rms_norm", Input((11, 33), encoding=INT8_TENSOR), _ids((4,), 11), Input((3, 1, 33)), None, Input((33,))),
    _norm("layer_norm", Input((9, 1200), encoding=FLOAT16), _ids((3,), 9), Input((3, 1200)), None, None, None),
    _norm("layer_norm", Input((9, 16)), _ids((2, 1, 3), 9), Input((2, 4, 1, 16), order=(2, 1, 0, 3)), None),
    _norm("rms_norm", Input((9, 16)), _ids((0, 3), 9), Input((3, 16)), None),
    _norm("rms_norm", Input((9, 1)), _ids((), 9)),
)  # fmt: skip

REAL = (
    Case("embedding", (Input((50257, 768)), _ids((8, 512), 50257)), variant="rows", multiprocessors=132),
    Case("embedding", (Input((151936, 1024)), _ids((1, 1), 151936)), variant="rows", multiprocessors=132),
    *(
        Case("embedding", (Input((40000, columns)), _ids((rows,), 40000)), variant="rows", multiprocessors=132)
        for columns, rows in ((64, 4096), (128, 4096), (128, 1500), (256, 4096), (256, 600), (512, 512), (4096, 512))
    ),
    *(
        Case("embedding", (Input((151936, 1024), encoding=how), _ids((1, 512), 151936)), variant="rows")
        for how in (BFLOAT16, FLOAT16, INT8_CHANNEL, INT8_TENSOR)
    ),
    Case("embedding", (Input((2, 32)), _ids((8, 512), 2)), variant="loop"),
    Case("index_select", (Input((8, 1024)), _ids((1,), 8)), {"axis": 0}, variant="rows"),
    Case("index_select", (Input((8, 512, 1024)), _ids((1,), 512)), {"axis": 1}, variant="loop"),
    Case("gather", (Input((8, 50257)), _ids((8, 50), 50257)), {"axis": 1}),
    Case("gather", (Input((8, 300000, 1024)), _ids((8, 1, 1024), 2048)), {"axis": 1}),
    Case("index", (Input((8, 512, 768)), _ids((8,), 8), _ids((8,), 512)), {"axes": (0, 1)}),
    Case("index", (Input((8, 512, 768)), *(_ids((8,), n) for n in (8, 512, 768))), {"axes": (0, 1, 2)}, ("float32",)),
    Case("index", (Input((151936, 1024)), _ids((8, 512), 151936)), {"axes": (0,)}, variant="rows"),
    Case("index", (Input((8, 512, 1024)), _ids((512,), 512)), {"axes": (1,)}, variant="loop"),
    _norm(
        "layer_norm", Input((30522, 768)), _ids((8, 512), 30522), Input((512, 768)), _ids((1, 512), 512),
        Input((2, 768)), _ids((8, 512), 2), _W768, _W768,
    ),
    _norm("layer_norm", Input((50257, 768), encoding=INT8_CHANNEL), _ids((1, 1), 50257), Input((1, 768)), None),
    _norm("rms_norm", Input((151936, 1024), encoding=BFLOAT16), _ids((8, 512), 151936), None, None, None, None, _W1024),
    _norm("rms_norm", Input((32000, 64)), _ids((8,), 32000)),
    _norm("rms_norm", Input((32000, 2048)), _ids((8,), 32000)),
    _norm("rms_norm", Input((32000, 16384), encoding=INT8_TENSOR), _ids((8,), 32000)),
    _norm("layer_norm", Input((32000, 4096), encoding=FLOAT16), _ids((8,), 32000), Input((8, 4096)), None),
)  # fmt: skip
