"""Layer norm, RMS norm and group norm."""

from tests.targets.on_triton.steps import Case, Input

_EPSILON = {"axes": 1, "epsilon": 1e-5}


def _layer(x: Input, *, weight: bool = True, bias: bool = True, addend: Input | None = None, **others) -> Case:
    attributes = _EPSILON | {name: others.pop(name) for name in ("axes", "epsilon") if name in others}
    row = Input(x.shape[-attributes["axes"] :])
    return Case("layer_norm", (x, row if weight else None, row if bias else None, addend), attributes, **others)


def _rms(x: Input, *, weight: bool = True, addend: Input | None = None, **others) -> Case:
    attributes = _EPSILON | {name: others.pop(name) for name in ("axes", "epsilon") if name in others}
    row = Input(x.shape[-attributes["axes"] :])
    return Case("rms_norm", (x, row if weight else None, addend), attributes, **others)


def _group(x: Input, groups: int, *, last: bool = False, weight: bool = True, bias: bool = True, **others) -> Case:
    channels = Input((x.shape[-1 if last else 1],))
    attributes = {"groups": groups, "epsilon": 1e-5, "channels_last": last}
    return Case("group_norm", (x, channels if weight else None, channels if bias else None), attributes, **others)


_WIDE = Input((3, 9001))

RAGGED = (
    # rows: none, one and many; narrow and not a power of two; far from 0, where the mean itself is rounded
    *(make(Input(shape), variant="rows") for make in (_layer, _rms) for shape in ((37, 5), (3, 300), (2, 3, 1))),
    *(make(Input(shape), dtypes=("float32",)) for make in (_layer, _rms) for shape in ((0, 5), (3, 0), (1,))),
    _layer(Input((5, 40), low=999, high=1001), dtypes=("float32", "bfloat16"), scale=5),
    _layer(Input((5, 40)), dtypes=("float64",)),
    # absent operands, the sum, several axes
    *(make(Input((4, 33)), weight=False, addend=Input((4, 33))) for make in (_layer, _rms)),
    _layer(Input((4, 33)), bias=False, addend=Input((4, 33), gap=3)),
    # the sum is rounded first: to multiples of 4 here, of 0.5 in float16
    _layer(Input((5, 40), low=999, high=1001), addend=Input((5, 40), low=-9, high=9), dtypes=("float16", "bfloat16")),
    *(make(Input((4, 3, 11)), axes=2, epsilon=0.5) for make in (_layer, _rms)),
    # heads between the rows, a slice, columns apart
    _rms(Input((2, 7, 3, 16), order=(0, 2, 1, 3)), epsilon=1e-6, multiprocessors=1),
    _rms(Input((6, 20), gap=12), addend=Input((6, 20), order=(1, 0))),
    _layer(Input((2, 35, 24), order=(0, 2, 1))),
    _layer(Input((2, 6, 5), order=(0, 2, 1)), axes=2, dtypes=("float32",)),
    # special values stay in their rows
    *(make(Input((16, 7), special=(float("nan"), float("inf"), -1.0))) for make in (_layer, _rms)),
    # written over x or over the sum's other part
    *(
        make(Input((9, 70)), addend=Input((9, 70)), over=over)
        for make, last in ((_layer, 3), (_rms, 2))
        for over in (0, last)
    ),
    # rows have weights of their own: groups of channels, first and last
    _group(Input((2, 6, 5, 7)), 3, variant="rows"),
    _group(Input((2, 5, 7, 6)), 3, last=True, bias=False),
    _group(Input((3, 12)), 4, weight=False),
    _group(Input((2, 4, 9, 3), order=(0, 2, 3, 1)), 4, dtypes=("float32",)),
    _group(Input((2, 9, 3)), 1, last=True, dtypes=("float32", "float64")),
    _group(Input((2, 4, 0)), 2, dtypes=("float32",)),
    _group(Input((2, 8, 7), special=(float("nan"), float("inf"))), 4, over=0),
    _group(Input((2, 6, 53, 57)), 2, variant="loop"),
    _group(Input((1, 53, 57, 6)), 2, last=True, dtypes=("float32",), variant="loop"),
    # loop
    *(make(_WIDE, variant="loop") for make in (_layer, _rms)),
    *(make(Input((2, 9001)), addend=Input((2, 9001)), over=0, variant="loop") for make in (_layer, _rms)),
    _layer(Input((2, 9001), low=999, high=1001), dtypes=("float32",), variant="loop", scale=5),
    _layer(Input((2, 5001)), dtypes=("float64",), variant="loop"),
    _layer(Input((2, 20, 700), order=(0, 2, 1)), axes=2, dtypes=("float32",), variant="loop"),
    _layer(Input((40, 300), order=(1, 0)), dtypes=("float32",), variant="loop"),
    _layer(Input((3, 9001), special=(float("nan"),)), dtypes=("float32",), variant="loop"),
)

_GPU = 132

REAL = (
    *(_layer(Input((rows, 768)), multiprocessors=_GPU) for rows in (1, 8, 512, 4096)),
    _layer(Input((8, 512, 768)), addend=Input((8, 512, 768)), multiprocessors=_GPU),
    *(_rms(Input((rows, 1024)), addend=Input((rows, 1024)), multiprocessors=_GPU) for rows in (1, 8, 512)),
    *(_rms(Input((1, rows, heads, 128)), multiprocessors=_GPU) for rows in (1, 8, 512) for heads in (16, 8)),
    _rms(Input((1, 512, 12, 64), order=(0, 2, 1, 3)), multiprocessors=_GPU),
    _rms(Input((512, 8192)), multiprocessors=_GPU, variant="rows"),
    _rms(Input((512, 16384)), multiprocessors=_GPU, variant="loop"),
    _layer(Input((8, 16384)), addend=Input((8, 16384)), multiprocessors=_GPU, variant="loop"),
    _layer(Input((8, 56, 56, 96), order=(0, 3, 1, 2)), multiprocessors=_GPU, variant="rows"),
    _layer(Input((8, 14, 14, 384), order=(0, 3, 1, 2)), multiprocessors=_GPU, variant="loop"),
    _group(Input((4, 64, 56, 56)), 32, multiprocessors=_GPU, variant="rows"),
    _group(Input((4, 56, 56, 64)), 32, last=True, multiprocessors=_GPU, variant="rows"),
    _group(Input((2, 320, 64, 64)), 32, multiprocessors=_GPU, variant="loop"),
    _layer(Input((512, 768)), dtypes=("float64",), multiprocessors=_GPU),
    _layer(Input((512, 768)), weight=False, bias=False, dtypes=("float32",), multiprocessors=_GPU),
)
