"""Products of matrices: linear layers, gated layers, batched products."""

from math import inf

from engine.encodings import BFLOAT16, FLOAT16, INT8_CHANNEL
from engine.ops.matmul import ACTIVATIONS
from tests.targets.on_triton.steps import Case, Input, allow_tf32

_LAYER = {"transpose_weight": True}
_BF16 = _LAYER | {"compute": "bfloat16"}
_INT8, _INT8_COLUMNS = INT8_CHANNEL.along(0), INT8_CHANNEL.along(1)


def _linear(m: int, n: int, k: int, *, bias: bool = True, residual: bool = False) -> tuple[Input | None, ...]:
    return Input((m, k)), Input((n, k)), Input((n,)) if bias else None, Input((m, n)) if residual else None


RAGGED = (
    *(
        Case("linear", _linear(m, 50, 70), _LAYER, variant=name)
        for m, name in ((1, "vector"), (3, "vector"), (5, "tiles"))
    ),
    *(Case("linear", _linear(m, 70, 45, residual=True), _LAYER, variant="tiles") for m in (17, 33, 130)),
    *(Case("linear", _linear(6, 20, 33, residual=True), _LAYER | {"activation": one}) for one in ACTIVATIONS),
    Case("linear", (Input((2, 3, 40)), Input((40, 30)), None, None), {"transpose_weight": False, "alpha": 0.5}),
    Case("linear", (Input((9, 24), gap=8), Input((8, 24)), None, Input((9, 8), gap=3)), _LAYER),
    Case("linear", _linear(2, 40, 2100, residual=True), _LAYER, variant="vector", multiprocessors=8, scale=4),
    Case("linear", _linear(7, 40, 900), _LAYER, variant="tiles", multiprocessors=8, scale=4),
    Case("linear", (Input((0, 8)), Input((5, 8)), None, None), _LAYER),
    Case("linear", (Input((4, 0)), Input((5, 0)), Input((5,)), None), _LAYER),
    *(
        Case("linear", (Input((m, 64)), Input((40, 64), encoding=one), Input((40,)), None), _LAYER)
        for m in (1, 6)
        for one in (BFLOAT16, FLOAT16, _INT8)
    ),
    Case("linear", (Input((6, 64)), Input((64, 40), encoding=_INT8_COLUMNS), None, None), {"transpose_weight": False}),
    Case("linear", (Input((6, 4), special=(inf,)), Input((40, 4), encoding=_INT8), None, None), _LAYER),
    *(
        Case("linear", (Input((m, 64)), Input((40, 64), encoding=BFLOAT16), None, None), _BF16, ("float32",))
        for m in (1, 6)
    ),
    *(
        Case("gated_linear", (Input((m, 33)), Input((60, 33)), Input((60,))), _LAYER, variant=v)
        for m, v in ((2, "vector"), (9, "tiles"))
    ),
    Case("gated_linear", (Input((1, 1100)), Input((60, 1100)), Input((60,))), _LAYER, multiprocessors=8, scale=8),
    Case(
        "gated_linear", (Input((6, 600)), Input((60, 600)), None), _LAYER, variant="tiles", multiprocessors=8, scale=8
    ),
    Case(
        "gated_linear", (Input((3, 33)), Input((33, 20)), None), {"transpose_weight": False, "activation": "gelu_tanh"}
    ),
    Case("gated_linear", (Input((2, 32)), Input((60, 32), encoding=_INT8), None), _LAYER),
    Case("matmul", (Input((3, 17, 33)), Input((3, 33, 20)))),
    Case(
        "matmul", (Input((2, 3, 17, 33), order=(0, 2, 1, 3)), Input((3, 20, 33))), {"transpose_b": True, "alpha": 0.25}
    ),
    Case("matmul", (Input((33, 17)), Input((2, 33, 20))), {"transpose_a": True}),
    Case("matmul", (Input((2, 1, 5, 7)), Input((1, 3, 7, 4)))),
    *allow_tf32(
        *(Case("linear", _linear(m, 70, 45, residual=True), _LAYER, variant="tiles") for m in (17, 130)),
        Case("linear", _linear(7, 40, 900), _LAYER, variant="tiles", multiprocessors=8, scale=4),
        Case("linear", (Input((40, 64)), Input((40, 64), encoding=_INT8), None, None), _LAYER),
        Case("gated_linear", (Input((70, 33)), Input((60, 33)), None), _LAYER, variant="tiles"),
        Case("matmul", (Input((2, 17, 33)), Input((2, 33, 20)))),
    ),
)

_TILES = ("multiply_tiles",)


def _real(m: int, n: int, k: int, *, residual: bool = False, transpose: bool = True, **more: object) -> Case:
    weight = Input((n, k)) if transpose else Input((k, n))
    operands = (Input((m, k)), weight, Input((n,)), Input((m, n)) if residual else None)
    attributes = {"transpose_weight": transpose, **more}
    products = _TILES if m > 32 else ()
    return Case("linear", operands, attributes, multiprocessors=132, has_products=products)


_SCORES = Case("matmul", (Input((12, 512, 64)), Input((12, 64, 512))), multiprocessors=132, has_products=_TILES)

REAL = (
    *(_real(m, 2304, 768, transpose=False) for m in (1, 8, 32, 64, 512, 4096)),
    *(_real(m, 768, 3072, transpose=False, residual=True) for m in (1, 512)),
    *(_real(m, 3072, 768, transpose=False, activation="gelu_tanh") for m in (2, 512)),
    *(_real(512, 3072, 768, activation=one)._replace(dtypes=("bfloat16",)) for one in ACTIVATIONS),
    *(_real(m, 4096, 1024) for m in (1, 8, 512)),
    _real(1, 151936, 1024),
    _real(8, 50257, 768),
    _real(4096, 4096, 4096),
    *(
        Case(
            "gated_linear",
            (Input((m, 1024)), Input((6144, 1024)), None),
            _LAYER,
            multiprocessors=132,
            has_products=_TILES if m > 32 else (),
        )
        for m in (1, 8, 512)
    ),
    *(
        Case("linear", (Input((m, 1024)), Input((4096, 1024), encoding=one), None, None), _LAYER, multiprocessors=132)
        for m in (1, 512)
        for one in (BFLOAT16, FLOAT16, _INT8)
    ),
    *(
        Case(
            "linear",
            (Input((m, 1024)), Input((4096, 1024), encoding=BFLOAT16), None, None),
            _BF16,
            ("float32",),
            multiprocessors=132,
        )
        for m in (1, 512)
    ),
    _SCORES,
    *allow_tf32(
        *(_real(m, 4096, 1024) for m in (8, 32, 64, 512)),
        _real(512, 2304, 768, transpose=False),
        *(
            Case(
                "linear",
                (Input((512, 1024)), Input((4096, 1024), encoding=one), None, None),
                _LAYER,
                multiprocessors=132,
                has_products=_TILES,
            )
            for one in (BFLOAT16, _INT8)
        ),
        Case(
            "gated_linear",
            (Input((512, 1024)), Input((6144, 1024)), None),
            _LAYER,
            multiprocessors=132,
            has_products=_TILES,
        ),
        _SCORES,
    ),
)
