"""The small models of switches.toml that cases.py lacks: each public function returns a model and inputs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # its usual name

from tests.inspect.planted.cases import Case, _Model, _seeded


@_seeded
def gelu_by_hand() -> Case:
    """Behind a residual, which a linear adds with or without the activation."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.layer(x) + x
        return y * 0.5 * (1.0 + torch.erf(y / math.sqrt(2.0)))

    return _Model(forward, layer=nn.Linear(37, 37)), (torch.randn(5, 37),)


@_seeded
def scaled_queries() -> Case:
    """The factor is that of the queries, so that attention is one node with it inside of the product or before it."""

    def forward(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return ((q * 0.2) @ k.transpose(-1, -2)).softmax(-1) @ v

    return _Model(forward), tuple(torch.randn(2, 3, 19, 24) for _ in range(3))


@_seeded
def two_orders() -> Case:
    """Two orders of the axes of x: one of them twice, the other behind views that together change nothing."""

    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        same = x.reshape(49, 7).reshape(7, 7, 7)
        return torch.cumsum(x.permute(2, 1, 0), 1) * x.permute(2, 1, 0) - torch.cumsum(same.permute(1, 0, 2), 1)

    return _Model(forward), (torch.randn(7, 7, 7),)


@_seeded
def table_and_layer() -> Case:
    """A table that is added, and a weight of as many bytes."""
    held = {"table": torch.randn(64, 64), "layer": nn.Linear(64, 64, bias=False)}
    return _Model(lambda m, x: m.layer(x + m.table), **held), (torch.randn(64, 64),)


@_seeded
def less_the_first_row() -> Case:
    """A value less a part of itself."""

    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.cumsum(x, -1)
        return torch.softmax(y - y[:1], -1)

    return _Model(forward), (torch.randn(19, 37),)


@_seeded
def widely_padded_mean() -> Case:
    """Some windows lie in the zeros alone."""
    return _Model(lambda _, x: F.avg_pool2d(F.pad(x, (4, 4, 4, 4)), 3, 2)), (torch.randn(2, 5, 9, 13),)


@_seeded
def one_large_layer() -> Case:
    """So many bytes that threads pack them, in fewer constants than there are threads."""
    return _Model(lambda m, x: m.layer(x), layer=nn.Linear(640, 512, bias=False)), (torch.randn(3, 640),)


@_seeded
def lower_rows() -> Case:
    """An op reads rows that do not begin where their buffer does."""
    return _Model(lambda _, x: torch.softmax(torch.tanh(x[4:]), -1)), (torch.randn(19, 37),)


@_seeded
def three_products() -> Case:
    """A large value, which is dead when the small one is made, and between them one that is alive with both."""

    def forward(_: Any, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        wide = torch.softmax(x, -1) @ y
        return torch.cat((wide, wide @ z), 1)

    return _Model(forward), (torch.randn(64, 64), torch.randn(64, 40), torch.randn(40, 8))
