"""Finds torch's decompositions of calls, and selects some that torch.export does not use by default. Knows no Graph.

torch does not decompose the calls of its core set, so the default table has no rule for them. This module names such
a call, in place of a handler, if torch has a rule for it that gives calls that the engine translates, without loss of
speed or accuracy. If the results of torch's rule differ from those of the call, this module has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch.export import default_decompositions

from engine.exporter.handlers import overload
from engine.exporter.torch_internals import OpOverload, can_decompose, decomposition

_BILINEAR, _BICUBIC = 0, 2
_ZEROS, _BORDER = 0, 1
"""Codes of ATen for the interpolation and the padding of `grid_sampler_2d`."""


def sample_grid(
    image: torch.Tensor, grid: torch.Tensor, mode: int = 0, padding: int = 0, align_corners: bool = False
) -> torch.Tensor:
    """As `aten.grid_sampler_2d` on a CPU, also where a coordinate is NaN or, in pixels, infinite; torch's rule gives 0.

    There the call gives NaN if it is bicubic, or bilinear and zeros pad; 0 if it is nearest and zeros pad; else the
    first pixel of the axis, because it clamps NaN to 0. `image` is [images, channels, height, width], `grid` is
    [images, rows, columns, 2], x before y, in -1 to 1 from edge to edge. `mode` is 0 bilinear, 1 nearest, 2 bicubic;
    `padding` is 0 zeros, 1 border, 2 reflection. With `align_corners` -1 and 1 are centres of border pixels.
    """
    rule = decomposition(overload("grid_sampler_2d"))
    axes = [axis.to(torch.promote_types(grid.dtype, torch.float32)) for axis in grid.unbind(-1)]
    if padding == _BORDER:
        axes = [axis.clamp(-2, 2) for axis in axes]  # these lie outside, too, and the pixels beside them are the same
    # 0 times an infinite number, or NaN, is NaN; 0 times any other number is 0.
    lost = [axis * size * 0 for axis, size in zip(axes, (image.shape[3], image.shape[2]), strict=True)]
    if padding != _ZEROS and mode != _BICUBIC:
        kept = [torch.where(torch.isnan(nan), -1, axis) for nan, axis in zip(lost, axes, strict=True)]
        grid = torch.stack(kept, -1).to(grid.dtype)
    found: torch.Tensor = rule(image, grid, mode, padding, align_corners)
    if padding == _ZEROS and mode == _BILINEAR:
        return found + (lost[0] + lost[1]).unsqueeze(1).to(found.dtype)
    return found


CHOSEN: Mapping[OpOverload, Any] = {
    **{op: decomposition(op) for op in map(overload, ("elu", "leaky_relu"))},
    overload("grid_sampler_2d"): sample_grid,
}
KEPT = frozenset(
    map(
        overload,
        (
            "inverse",
            *(f"linalg_{name}" for name in ("cholesky", "inv", "ldl_factor", "lu_factor", "solve", "tensorinv")),
        ),
    )
)
"""Calls that stay whole, although torch decomposes them into a computation and a check for errors. The check has only a
side effect, with which nothing could be done; torch can run the whole call (`Config.fallback`)."""


def chosen(unknown: Iterable[OpOverload]) -> dict[OpOverload, Any]:
    """The rules for those calls of `unknown` that torch does not decompose by default."""
    return {op: CHOSEN[op] for op in CHOSEN.keys() & set(unknown)}


_default_rules: dict[OpOverload, Any] = {}
_looked_up: set[OpOverload] = set()
"""Calls of other packages for which the rules were listed."""


def find_default_rules(unknown: AbstractSet[OpOverload]) -> dict[OpOverload, Any]:
    """The rules by which torch.export decomposes by default, for those calls of `unknown` that have one.

    torch needs a third of a second to list them. They are listed once, and again for a call of another package, which
    may have been registered since.
    """
    added = {op for op in unknown if op.namespace != "aten"} - _looked_up
    if added or not _default_rules:
        _default_rules.update(default_decompositions().items())
        _looked_up.update(added)
    return {op: _default_rules[op] for op in unknown - KEPT if op in _default_rules}


def composite(unknown: AbstractSet[OpOverload]) -> set[OpOverload]:
    """The calls of `unknown` that torch defines only by other calls; it decomposes them even without a rule."""
    return {op for op in unknown - KEPT if can_decompose(op)}
