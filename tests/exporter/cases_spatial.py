"""Convolutions, pooling, channel norms, padding and interpolation: every keyword, one to three spatial axes."""

import torch

from tests.exporter.cases import case, f32, i64, positive

CASES = []
LINE, PICTURE, SOLID = f32(2, 4, 9), f32(2, 4, 7, 8), f32(1, 4, 4, 5, 6)
BY_AXES = {1: LINE, 2: PICTURE, 3: SOLID}


def of(*shape, dtype=torch.float32):
    """Weights, small enough for sums of a few dozen to stay near 1."""
    return f32(*shape, dtype=dtype) / 4


# --- convolutions -----------------------------------------------------------------------------------------------

for axes, x in BY_AXES.items():
    weight, bias, halves = of(6, 4, *[3] * axes), of(6), of(6, 2, *[3] * axes)
    uneven = list(range(1, axes + 1))
    CASES += [
        case(
            f"conv{axes}d",
            (x, weight, bias, halves, of(8, 1, *[2] * axes)),
            lambda op, x, w, b, _h, _d: op(x, w),
            lambda op, x, w, b, _h, _d, s=uneven: op(x, w, b, s, [1]),
            lambda op, x, w, b, _h, _d: op(x, w, None, [2], [2], dilation=[2]),
            lambda op, x, w, b, h, _d: op(x, h, b, groups=2),
            lambda op, x, w, b, _h, d: op(x, d, groups=4, padding=[1]),
        ),
        case(f"conv{axes}d", (x[0], weight, bias)),  # without a batch axis
        case(
            f"conv{axes}d.padding",
            (x, weight, bias, halves, of(3, 4, *[2] * axes)),
            lambda op, x, w, b, _h, _e: op(x, w, b),
            lambda op, x, w, b, _h, _e: op(x, w, b, [2], "valid"),
            lambda op, x, w, b, _h, _e: op(x, w, padding="same", dilation=[2]),
            lambda op, x, w, b, h, _e: op(x, h, b, padding="same", groups=2),
            lambda op, x, w, b, _h, e: op(x, e, padding="same"),  # one more behind than before
        ),
        case(
            f"conv_transpose{axes}d" + (".input" if axes > 1 else ""),
            (x, of(4, 6, *[3] * axes), bias, of(4, 3, *[3] * axes)),
            lambda op, x, w, b, _h: op(x, w),
            lambda op, x, w, b, _h: op(x, w, b, [2], [1]),
            lambda op, x, w, b, _h, s=uneven: op(x, w, b, s, dilation=[2]),
            lambda op, x, w, b, _h: op(x, w, b, stride=[3], output_padding=[2]),
            lambda op, x, w, b, _h: op(x, w, b, stride=[3], padding=[2], output_padding=[1]),
            lambda op, x, w, b, h: op(x, h, b, groups=2),
        ),
        case(f"conv_transpose{axes}d" + (".input" if axes > 1 else ""), (x[0], of(4, 2, *[2] * axes))),
    ]
CASES += [
    case("conv2d", (f32(0, 4, 7, 8), of(6, 4, 3, 3))),
    case("conv2d", (f32(2, 4, 7, 8, dtype=torch.float64), of(6, 4, 3, 3, dtype=torch.float64))),
    case(
        "convolution",
        (PICTURE, of(6, 4, 3, 2), of(6), of(4, 6, 3, 2)),
        lambda op, x, w, b, _t: op(x, w, b, [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
        lambda op, x, w, b, t: op(x, t, b, [2, 3], [1, 0], [1, 2], True, [1, 2], 1),
        lambda op, x, w, b, t: op(x, t, None, [2, 3], [1, 0], [1, 1], True, [1, 2], 2),
    ),
]

# --- pooling ----------------------------------------------------------------------------------------------------

WITH_SPECIALS = f32(2, 3, 6, 7)
WITH_SPECIALS[0, 0, 1, 1] = float("nan")
WITH_SPECIALS[1, 1, 2, 2] = float("inf")
WITH_SPECIALS[1, 2] = -float("inf")
MAX = (
    lambda op, x: op(x, [2]),
    lambda op, x: op(x, 3, 2),
    lambda op, x: op(x, 3, 1, 1),
    lambda op, x: op(x, 2, 1, dilation=2),
    lambda op, x: op(x, 3, 2, 1, ceil_mode=True),
    lambda op, x: op(x, 2, 3, ceil_mode=True),  # a last window would begin behind the input
)
FIRST = tuple(lambda op, x, call=call: call(op, x)[0] for call in MAX)
AVG = (
    lambda op, x: op(x, [2]),
    lambda op, x: op(x, 3, 2),
    lambda op, x: op(x, 3, 1, 1),
    lambda op, x: op(x, 3, 2, 1, ceil_mode=True),
    lambda op, x: op(x, 3, 2, 1, count_include_pad=False),
    lambda op, x: op(x, 3, 2, 1, True, False),
)
OVERRIDE = (lambda op, x: op(x, 2, divisor_override=3), lambda op, x: op(x, 3, 2, 1, True, False, 7))
for axes, x in BY_AXES.items():
    longer = (lambda op, x, a=axes: op(x, [n + 1 for n in x.shape[-a:]], 2, ceil_mode=True),)  # than the input
    for given in (x, x[0]):
        CASES += [
            case(f"max_pool{axes}d", (given,), *MAX, *longer),
            case(f"max_pool{axes}d_with_indices", (given,), *FIRST),
            case(f"avg_pool{axes}d", (given,), *AVG, *(longer if axes < 3 else ()), *(OVERRIDE if axes > 1 else ())),
        ]
        sizes = (
            lambda op, x, a=axes: op(x, [1] * a),
            lambda op, x, a=axes: op(x, [2] * a),
            lambda op, x, a=axes: op(x, [3, 2, 5][:a]),
            lambda op, x, a=axes: op(x, list(x.shape[-a:])),
            lambda op, x, a=axes: op(x, [11] * a),
            lambda op, x, a=axes: op(x, [0, 2, 3][:a]),  # no elements
        )
        CASES += [case(f"adaptive_avg_pool{axes}d", (given,), *sizes)]
        if axes > 1:
            CASES += [case(f"_adaptive_avg_pool{axes}d", (given,), *(s for i, s in enumerate(sizes) if i))]
        firsts = (lambda op, x, call=call: call(op, x)[0] for call in sizes)
        CASES += [case(f"adaptive_max_pool{axes}d", (given,), *firsts)]
CASES += [
    case("max_pool2d", (WITH_SPECIALS,), *MAX[:3]),
    case("avg_pool2d", (WITH_SPECIALS,), *AVG[:2]),
    case("adaptive_avg_pool2d", (WITH_SPECIALS,), lambda op, x: op(x, [3, 2])),
    case("adaptive_max_pool2d", (WITH_SPECIALS,), lambda op, x: op(x, [3, 2])[0]),
    case("max_pool2d", (f32(2, 4, 7, 8, dtype=torch.float64),), *MAX[:3]),
    case("adaptive_avg_pool2d", (f32(2, 4, 7, 8, dtype=torch.bfloat16),), lambda op, x: op(x, [3, 5])),
    case("avg_pool2d", (f32(2, 4, 7, 8, dtype=torch.bfloat16),), *AVG[:2]),
]

# --- norms of channels ------------------------------------------------------------------------------------------

STATISTICS = (of(4), positive(4), f32(4), positive(4))  # weight, bias, mean, variance
for x in (f32(3, 4), LINE, PICTURE, SOLID, f32(2, 4, 5, dtype=torch.bfloat16)):
    CASES += [
        case(
            "batch_norm",
            (x, *STATISTICS),
            lambda op, x, w, b, m, v: op(x, w, b, m, v, False, 0.1, 1e-5, True),
            lambda op, x, w, b, m, v: op(x, None, b, m, v, False, 0.5, 0.1, False),
            lambda op, x, w, b, m, v: op(x, w, None, m, v, False, 0.1, 1e-3, True),
            lambda op, x, w, b, _m, _v: op(x, w, b, None, None, True, 0.1, 1e-5, True),
        ),
        case(
            "group_norm",
            (x, *STATISTICS[:2]),
            lambda op, x, w, b: op(x, 2),
            lambda op, x, w, b: op(x, 4 if x.dim() > 2 else 1, w.to(x.dtype), b.to(x.dtype), 0.1, False),
        ),
    ]
for x in (LINE, PICTURE, SOLID):
    CASES += [
        case(
            "instance_norm",
            (x, *STATISTICS),
            lambda op, x, w, b, m, v: op(x, w, b, m, v, False, 0.1, 1e-5, True),
            lambda op, x, w, b, _m, _v: op(x, w, b, None, None, True, 0.5, 0.1, False),
            lambda op, x, w, b, _m, _v: op(x, None, None, None, None, True, 0.1, 1e-5, True),
        ),
    ]
CASES += [
    case(
        "_native_batch_norm_legit_no_training",
        (PICTURE, *STATISTICS),
        lambda op, x, w, b, m, v: op(x, w, b, m, v, 0.1, 1e-5)[0],
        lambda op, x, w, b, m, v: op(x, None, None, m, v, 0.5, 0.1)[0],
    ),
    case(
        "_native_batch_norm_legit.no_stats",
        (PICTURE, *STATISTICS[:2]),
        lambda op, x, w, b: op(x, w, b, True, 0.1, 1e-5)[0],
        lambda op, x, w, b: op(x, None, None, True, 0.5, 0.1)[0],
    ),
    case(
        "native_group_norm",
        (PICTURE, *STATISTICS[:2]),
        lambda op, x, w, b: op(x, w, b, 2, 4, 56, 2, 1e-5)[0],
        lambda op, x, w, b: op(x, None, None, 2, 4, 56, 4, 0.1)[0],
    ),
]

# --- padding ----------------------------------------------------------------------------------------------------

CASES += [
    case(
        "pad",
        (PICTURE,),
        lambda op, x: op(x, [1, 2]),
        lambda op, x: op(x, [1, 2, 3, 0], "constant", 2.5),
        lambda op, x: op(x, [-1, 2, 0, -3], value=-1.0),
        lambda op, x: op(x, [-1, -2]),
        lambda op, x: op(x, [1, 1, 0, 0, 2, 0, 0, 1], value=float("-inf")),
        *(
            lambda op, x, m=mode, p=pads: op(x, p, m)
            for mode in ("reflect", "replicate", "circular")
            for pads in ([1, 2, 3, 0], [6, 0, 0, 2], [-1, 2, 1, -3])
        ),
    ),
    case("pad", (i64(2, 3, 4),), lambda op, x: op(x, [1, 2], value=3), lambda op, x: op(x, [1, 2], "circular")),
    *(
        case("pad", (x,), *(lambda op, x, m=m: op(x, [1, 2], m) for m in ("reflect", "replicate", "circular")))
        for x in (LINE,)
    ),
    case("pad", (SOLID,), *(lambda op, x, m=m: op(x, [1, 2] * 3, m) for m in ("reflect", "replicate", "circular"))),
    case("constant_pad_nd", (LINE,), lambda op, x: op(x, [2, 1]), lambda op, x: op(x, [0, 1, -1, 1], 3)),
]
for axes, x in BY_AXES.items():
    CASES += [
        case(f"{name}_pad{axes}d", (x,), lambda op, x, a=axes: op(x, [1, 2, 2, 0, 3, 1][: 2 * a]))
        for name in ("reflection", "replication")
    ]

# --- interpolation ----------------------------------------------------------------------------------------------

FACTORS = ([2.0, 2.0, 2.0], [1.5, 0.7, 2.3], [0.4, 3.0, 1.0])
SIZES = ([5, 3, 8], [9, 8, 6], [1, 1, 1], [23, 31, 13])


def calls_of(axes, *keywords):
    """With a size, and with factors (from which torch gets both the size and the step), and further arguments."""
    for more in keywords or ((),):
        yield from (lambda op, x, s=s, m=more: op(x, s[:axes], *m, None) for s in SIZES)
        yield from (lambda op, x, f=f, m=more: op(x, None, *m, f[:axes]) for f in FACTORS)


CORNERS = ((False,), (True,))
for axes, x in BY_AXES.items():
    linear = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}[axes]
    CASES += [
        case(f"upsample_nearest{axes}d.vec", (x,), *calls_of(axes)),
        case(f"_upsample_nearest_exact{axes}d.vec", (x,), *calls_of(axes)),
        case(f"upsample_{linear}.vec", (x,), *calls_of(axes, *CORNERS)),
    ]
SCALED = (lambda op, x: op(x, [9, 15]), lambda op, x: op(x, [10, 6], 1.5, 0.8))
CASES += [
    case("upsample_bicubic2d.vec", (PICTURE,), *calls_of(2, *CORNERS)),
    case("upsample_nearest1d", (LINE,), lambda op, x: op(x, [5]), lambda op, x: op(x, [13], 1.5)),
    case("upsample_nearest2d", (PICTURE,), *SCALED),
    case(
        "upsample_bilinear2d",
        (PICTURE,),
        lambda op, x: op(x, [9, 15], False),
        lambda op, x: op(x, [10, 6], False, 1.5, 0.8),
        lambda op, x: op(x, [10, 6], True),
    ),
    *(
        case(
            f"_upsample_{name}2d_aa",
            (PICTURE,),
            lambda op, x: op(x, [3, 4], False),
            lambda op, x: op(x, [14, 8], False),
            lambda op, x: op(x, [5, 2], True),
            lambda op, x: op(x, [4, 6], False, 0.6, 0.8),
        )
        for name in ("bilinear", "bicubic")
    ),
    case("upsample_nearest2d.vec", (i64(2, 3, 4, 5, dtype=torch.uint8),), *calls_of(2)),
    case("upsample_bilinear2d.vec", (f32(1, 2, 4, 5, dtype=torch.float64),), *calls_of(2, *CORNERS)),
    case("upsample_bilinear2d.vec", (f32(1, 2, 4, 5, dtype=torch.bfloat16),), *calls_of(2, *CORNERS)),
    case(
        "affine_grid_generator",
        (f32(2, 2, 3), f32(2, 3, 4)),
        lambda op, flat, _solid: op(flat, [2, 4, 5, 6], False),
        lambda op, flat, _solid: op(flat, [2, 4, 1, 7], True),
        lambda op, _flat, solid: op(solid, [2, 1, 3, 4, 5], False),
    ),
    case("grid_sampler_2d", (f32(1, 2, 4, 4), f32(1, 3, 3, 2) * 0.5), lambda op, x, g: op(x, g, 0, 0, False)),
]
