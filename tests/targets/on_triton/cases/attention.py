"""Attention, by both kernels."""

from typing import Any

from tests.targets.on_triton.steps import Case, Input, allow_tf32

HALF = ("float16", "bfloat16")
_ROWS_FIRST = (0, 2, 1, 3)  # rows lie before heads in memory: a projection that was cut into heads


def _case(
    query: tuple[int, ...],
    key: tuple[int, ...],
    e: int = 0,
    mask: Input | None = None,
    *,
    variant: str = "tiles",
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16"),
    multiprocessors: int = 4,
    order: tuple[int, ...] = (),
    gap: int = 0,
    narrow: bool = False,
    products: tuple[str, ...] = (),
    **attributes: Any,
) -> Case:
    """A case with `e` columns of values (0: as many as keys have), and keys and values of bfloat16 if `narrow`."""
    kind = "bfloat16" if narrow else ""
    keys = Input(key, kind, order, gap)
    values = Input((*key[:-1], e or key[-1]), kind, order, gap)
    attributes = {"scale": key[-1] ** -0.5 if key[-1] else 1.0, **attributes}
    inputs = (Input(query, order=order, gap=gap), keys, values, mask)
    return Case("attention", inputs, attributes, dtypes, variant, multiprocessors, 1.0, products)


def _bool(*shape: int) -> Input:
    return Input(shape, "bool")


TILES = (
    _case((2, 2, 70, 24), (2, 2, 70, 24), causal=True),
    _case((1, 4, 33, 16), (1, 2, 90, 16), 40, causal=True, transpose_output=True),
    _case((2, 90, 16), (1, 33, 16), causal=True, masked_rows="nan"),
    _case((2, 3, 20, 20), (2, 1, 131, 20), mask=_bool(2, 1, 20, 131), order=_ROWS_FIRST, gap=4),
    _case((2, 2, 130, 64), (2, 2, 70, 64), multiprocessors=1, dtypes=("float32", "bfloat16")),
    _case((2, 2, 17, 8), (2, 2, 9, 8), mask=Input((2, 17, 9)), causal=True, transpose_output=True),
    _case((2, 2, 17, 8), (2, 2, 9, 8), mask=_bool(2, 1, 17, 1), masked_rows="nan"),
    _case((2, 2, 17, 8), (2, 2, 9, 8), mask=_bool(2, 17, 1), dtypes=("float32",)),
    _case((1, 2, 40, 16), (1, 2, 40, 16), narrow=True, causal=True, dtypes=("float32",)),
    _case((2, 3, 18, 130), (2, 3, 19, 130), 66, dtypes=("float32", "float16")),
    _case((1, 1, 1, 300), (1, 1, 33, 300), causal=True, dtypes=("float32", "float16")),
    _case((2, 2, 2, 17, 8), (2, 2, 2, 9, 8), mask=_bool(2, 1, 1, 17, 9), dtypes=("float32",)),
    _case((2, 18, 8), (2, 0, 8), masked_rows="nan"),
    _case((2, 18, 8), (2, 0, 8), 1, causal=True, dtypes=("float32",)),
    _case((2, 0, 8), (2, 5, 8), dtypes=("float32",), variant=""),
)
SPLIT = (
    _case((2, 4, 1, 24), (2, 2, 500, 24), variant="split"),
    _case((1, 4, 3, 16), (1, 2, 300, 16), 40, variant="split", transpose_output=True, mask=_bool(3, 300)),
    _case((2, 6, 1, 20), (2, 3, 131, 20), variant="split", mask=_bool(2, 1, 1, 131), order=_ROWS_FIRST, gap=4),
    _case((1, 40, 2, 16), (1, 1, 200, 16), variant="split", mask=Input((40, 1, 200)), dtypes=("float32", "bfloat16")),
    _case((2, 2, 1, 8), (2, 2, 1, 8), variant="split", mask=_bool(2, 2, 1, 1), masked_rows="nan"),
    _case((2, 4, 2, 8), (2, 4, 7, 8), variant="split", mask=_bool(4, 2, 1)),
    _case((1, 4, 1, 32), (1, 2, 400, 32), variant="split", narrow=True, dtypes=("float32",)),
    _case((1, 4, 1, 32), (1, 2, 400, 32), variant="split", narrow=True, dtypes=("float32",), mask=_bool(400)),
    _case((1, 2, 20, 16), (1, 2, 1030, 16), variant="split", multiprocessors=12, dtypes=("float32", "float16")),
    _case((1, 3, 2, 130), (1, 3, 70, 130), 66, variant="split", dtypes=("float32", "float16")),
    _case((1, 1, 1, 300), (1, 1, 33, 300), variant="split", dtypes=("float32", "float16")),
    _case((2, 2, 2, 1, 8), (2, 2, 2, 99, 8), variant="split", mask=_bool(2, 1, 1, 1, 99), dtypes=("float32",)),
    _case((2, 1, 8), (2, 0, 8), variant="split", masked_rows="nan"),
    _case((2, 3, 0), (2, 5, 0), 7, variant="split", dtypes=("float32",)),
)
TF32 = allow_tf32(
    _case((2, 2, 70, 24), (2, 2, 70, 24), causal=True),
    _case((1, 2, 33, 130), (1, 2, 40, 130), 66, mask=_bool(33, 40)),
    _case((2, 4, 1, 24), (2, 2, 500, 24), variant="split"),
    _case((1, 3, 2, 130), (1, 3, 70, 130), 66, variant="split"),
)
RAGGED = (*TILES, *SPLIT, *TF32)


def _twice(*cases: Case) -> tuple[Case, ...]:
    """In TF32 with twice its tolerance: attention multiplies twice, and an H100 was 2.4e-3 off for 512 keys."""
    return tuple(case._replace(scale=2 * case.scale) for case in allow_tf32(*cases))


def _real(variant: str, batch: int, heads: tuple[int, int], rows: tuple[int, int], width: int, **others: Any) -> Case:
    """A layer of a model: `heads` of queries and of keys, `rows` of queries and of keys."""
    query, key = ((batch, h, r, width) for h, r in zip(heads, rows, strict=True))
    products = ("attend_tiles",) if variant == "tiles" else ()
    return _case(query, key, variant=variant, multiprocessors=132, products=products, **others)


REAL_TF32 = _twice(
    _real("tiles", 1, (12, 12), (512, 512), 64, causal=True, order=_ROWS_FIRST),
    _real("tiles", 8, (12, 12), (512, 512), 64, mask=_bool(8, 1, 1, 512), transpose_output=True),
    _real("tiles", 1, (16, 8), (512, 512), 128, causal=True, order=_ROWS_FIRST),
    _real("tiles", 8, (16, 8), (512, 2048), 128, mask=Input((8, 1, 512, 2048))),
    # Blocks of fewer than 64 rows, which warpgroup instructions do not multiply.
    _real("tiles", 1, (8, 1), (512, 512), 256, causal=True)._replace(has_products=()),
    _real("tiles", 4, (1, 1), (4096, 4096), 512)._replace(has_products=()),
    _real("split", 8, (12, 12), (1, 2048), 64, mask=_bool(8, 1, 1, 2048)),
    _real("split", 1, (12, 12), (64, 2048), 64),
    _real("split", 1, (16, 8), (1, 2048), 128, mask=_bool(1, 1, 1, 2048)),
    _real("split", 1, (16, 8), (64, 2048), 128),
    _real("split", 1, (8, 1), (1, 2048), 256),
    _real("split", 1, (8, 1), (16, 2048), 256),
    _real("split", 1, (4, 4), (64, 2048), 512),
)
REAL = (
    _real("tiles", 1, (12, 12), (512, 512), 64, causal=True, order=_ROWS_FIRST),  # GPT-2
    _real("tiles", 8, (12, 12), (512, 512), 64, causal=True, order=_ROWS_FIRST),
    _real("tiles", 8, (12, 12), (512, 512), 64, mask=_bool(8, 1, 1, 512), transpose_output=True),  # BERT
    _real("tiles", 1, (16, 8), (512, 512), 128, causal=True, order=_ROWS_FIRST),  # Qwen3-0.6B
    _real("tiles", 8, (16, 8), (512, 512), 128, causal=True, order=_ROWS_FIRST),
    _real("tiles", 8, (16, 8), (512, 2048), 128, mask=Input((8, 1, 512, 2048))),
    _real("tiles", 1, (16, 8), (512, 512), 128, causal=True, narrow=True, dtypes=("float32",)),
    _real("tiles", 8, (12, 12), (512, 512), 64, causal=True, narrow=True, dtypes=("float32",)),
    _real("tiles", 8, (16, 8), (512, 512), 128, causal=True, narrow=True, dtypes=("float32",)),
    _real("tiles", 1, (8, 1), (512, 512), 256, narrow=True, dtypes=("float32",)),
    _real("tiles", 1, (32, 32), (1024, 1024), 80, causal=True, dtypes=HALF),
    _real("tiles", 1, (8, 1), (512, 512), 256, causal=True),
    _real("tiles", 4, (1, 1), (4096, 4096), 512),
    _real("tiles", 4, (1, 1), (4096, 4096), 512, narrow=True, dtypes=("float32",)),
    *(
        _real(v, 1, (12, 12), (rows, 2048), 64, mask=_bool(1, 1, rows, 2048), masked_rows="nan", dtypes=("bfloat16",))
        for v, rows in (("tiles", 512), ("split", 1))
    ),
    _real("split", 1, (12, 12), (1, 2048), 64, mask=_bool(1, 1, 1, 2048)),
    _real("split", 8, (12, 12), (1, 2048), 64, mask=_bool(8, 1, 1, 2048)),
    _real("split", 1, (16, 8), (1, 2048), 128, mask=_bool(1, 1, 1, 2048)),
    _real("split", 8, (16, 8), (1, 2048), 128, mask=Input((8, 1, 1, 2048))),
    _real("split", 1, (16, 8), (1, 2048), 128, mask=_bool(1, 1, 1, 2048), narrow=True, dtypes=("float32",)),
    _real("split", 1, (16, 8), (64, 2048), 128),
    _real("split", 1, (12, 12), (32, 2048), 64, narrow=True, dtypes=("float32",)),
    _real("split", 1, (12, 12), (64, 2048), 64),
    _real("split", 1, (8, 1), (16, 2048), 256),
    _real("split", 1, (4, 4), (64, 2048), 512),
    _real("split", 1, (16, 8), (64, 2048), 128, narrow=True, dtypes=("float32",)),
    _real("split", 1, (8, 1), (16, 2048), 256, narrow=True, dtypes=("float32",)),
    _real("split", 1, (4, 4), (64, 2048), 512, narrow=True, dtypes=("float32",)),
    _real("split", 8, (32, 32), (1, 16), 80, dtypes=HALF),
    _real("split", 1, (8, 1), (1, 2048), 256),
    _real("split", 1, (4, 4), (1, 2048), 512),
    *REAL_TF32,
)
