"""Rotary embedding."""

from tests.targets.on_triton.steps import Case, Input

ALL = ("float32", "float16", "bfloat16", "float64")
_HEADS_LAST = (0, 2, 1, 3)  # heads and rows are exchanged in memory
_ALTERNATING = Input((2, 1, 3, 1, 2, 1, 3, 4))  # broadcast along every second axis, so that no two axes join

RAGGED = (
    Case("rope", (Input((2, 3, 5, 6)), Input((5, 6)), Input((5, 6))), dtypes=ALL),
    Case("rope", (Input((2, 3, 5, 36), order=_HEADS_LAST), Input((2, 1, 5, 36)), Input((1, 5, 36)))),
    Case("rope", (Input((2, 3, 5, 8), order=_HEADS_LAST, gap=3), Input((3, 1, 8)), Input((2, 1, 1, 8)))),
    Case("rope", (Input((7, 40), gap=5), Input((7, 40), gap=1), Input((1, 40)))),
    Case("rope", (Input((14,)), Input((14,)), Input((14,)))),
    Case("rope", (Input((1, 2)), Input((2,)), Input((2,))), dtypes=("float32",)),
    Case("rope", (Input((3, 1400)), Input((1400,)), Input((3, 1400)))),
    Case("rope", (Input((3, 0, 8)), Input((8,)), Input((8,))), dtypes=("float32",)),
    Case("rope", (Input((3, 0)), Input((0,)), Input((0,))), dtypes=("float32",)),
    Case("rope", (Input((2, 2, 3, 2, 2, 2, 3, 4)), _ALTERNATING, _ALTERNATING), dtypes=("float32",)),
    Case("rope", (Input((500, 24)), Input((500, 24)), Input((24,))), dtypes=("float32",), multiprocessors=1),
)


def _qwen(batch: int, heads: int, rows: int) -> Case:
    x = Input((batch, heads, rows, 128), order=_HEADS_LAST)
    return Case("rope", (x, Input((batch, 1, rows, 128)), Input((batch, 1, rows, 128))), multiprocessors=132)


REAL = (
    _qwen(1, 16, 1),
    _qwen(1, 8, 512),
    _qwen(1, 16, 1024),
    _qwen(8, 16, 512),
    _qwen(8, 8, 1),
    Case("rope", (Input((1, 32, 512, 80)), Input((512, 80)), Input((512, 80))), multiprocessors=132),
)
