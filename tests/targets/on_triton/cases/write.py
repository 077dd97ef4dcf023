"""Writes at positions given by integers. The ranges of positions are small, so that many name the same place."""

from tests.targets.on_triton.steps import Case, Input


def _ids(shape: tuple[int, ...], high: int, dtype: str = "int64", low: int = 0, **layout: object) -> Input:
    """Positions from `low` to below `high`."""
    return Input(shape, dtype, low=low, high=high, **layout)


RAGGED = (
    # one position
    Case("index_put", (Input((2, 3, 9, 5)), Input((2, 3, 1, 5)), _ids((1,), 9)), {"axes": (2,)}),
    Case("index_put", (Input((2, 9)), Input(()), _ids((), 2), _ids((), 9)), {"axes": (0, 1)}, ("bool", "int64")),
    # a few
    Case("index_put", (Input((6, 9, 7)), Input((6, 30, 7)), _ids((30,), 9, low=-9)), {"axes": (1,)}),
    Case(
        "index_put", (Input((6, 9, 5)), Input((5,)), _ids((8, 1), 6, low=-6), _ids((3,), 9, "int32")), {"axes": (0, 1)}
    ),
    Case("index_put", (Input((3, 9, 5)), Input((6, 1)), _ids((6,), 3, low=-3), _ids((6,), 5)), {"axes": (0, 2)}),
    Case(
        "index_put",
        (Input((3, 9, 5), order=(2, 1, 0)), Input((4, 6, 9, 5), order=(3, 1, 0, 2)), _ids((4, 6), 3, order=(1, 0))),
        {"axes": (0,)},
        ("float16",),
    ),
    # many
    Case("index_put", (Input((2, 30, 7)), Input((2, 1100, 7)), _ids((1100,), 30, low=-30)), {"axes": (1,)}),
    Case("index_put", (Input((3, 9, 5)), Input((70, 9)), _ids((70,), 3, low=-3), _ids((70,), 5)), {"axes": (0, 2)}),
    Case("index_put", (Input((6, 40)), Input((1, 33)), _ids((13, 1), 6), _ids((33,), 40)), {"axes": (0, 1)}, ("bool",)),
    # none
    Case("index_put", (Input((6, 4)), Input((1,)), _ids((0,), 6)), {"axes": (0,)}, ("float32",)),
    Case("index_put", (Input((6, 0)), Input((1,)), _ids((5,), 6)), {"axes": (0,)}, ("float32",)),
    # scatter
    Case("scatter", (Input((5, 9)), _ids((5, 12), 9), Input((5, 12))), {"axis": 1}),
    Case("scatter", (Input((9, 6, 4)), _ids((20, 5, 3), 9, "int32"), Input((21, 7, 3))), {"axis": 0}),
    Case(
        "scatter",
        (Input((4, 9, 5), order=(2, 1, 0)), _ids((3, 30, 5), 9, gap=2), Input((3, 30, 5), order=(1, 2, 0))),
        {"axis": 1},
        ("float32",),
    ),
    Case("scatter", (Input((150, 3)), _ids((140, 2), 3), Input((140, 2))), {"axis": 1}, ("bool", "int64")),
    Case("scatter", (Input((5,)), _ids((1,), 5), Input((1,))), {"axis": 0}, ("float16",)),
    Case("scatter", (Input((5, 2)), _ids((0, 2), 5), Input((3, 2))), {"axis": 0}, ("float32",)),
)

REAL = (
    Case("index_put", (Input((1, 8, 2048, 128)), Input((1, 8, 1, 128)), _ids((1,), 2048)), {"axes": (2,)}),
    Case(
        "index_put", (Input((8, 8, 2048, 128)), Input((8, 8, 128)), _ids((8,), 8), _ids((8,), 2048)), {"axes": (0, 2)}
    ),
    Case("index_put", (Input((8, 2048)), Input((1,)), _ids((1,), 8), _ids((1,), 2048)), {"axes": (0, 1)}, ("float32",)),
    Case(
        "index_put",
        (Input((8, 2048, 128)), Input((512, 128)), _ids((512,), 8), _ids((512,), 2048)),
        {"axes": (0, 1)},
        ("float32",),
    ),
    Case("index_put", (Input((8, 12, 2048, 64)), Input((8, 12, 512, 64)), _ids((512,), 2048)), {"axes": (2,)}),
    Case("index_put", (Input((300000, 8, 1024)), Input((8, 8, 1024)), _ids((8,), 300000)), {"axes": (0,)}),
    Case("scatter", (Input((512, 128)), _ids((512, 8), 128), Input((512, 8))), {"axis": 1}),
    Case("scatter", (Input((8, 512, 1024)), _ids((8, 1, 1024), 512), Input((8, 1, 1024))), {"axis": 1}),
)
