"""The small models under which the faults of faults.toml are planted: each public function returns a model and inputs.

Most sizes are no multiple of a vector, so that columns, rows and elements are left over. Those that name a fast kernel
are large enough for it. Several sets of inputs are a list: a model that writes to its buffers is called with each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # its usual name

Case = tuple[nn.Module, Any]


class _Model(nn.Module):
    """Calls ``forward(model, *inputs)``; modules, parameters and buffers are its attributes."""

    def __init__(self, forward: Callable[..., Any], **held: Any) -> None:
        super().__init__()
        self._forward = forward
        for name, one in held.items():
            if isinstance(one, torch.Tensor) and not isinstance(one, nn.Parameter):
                self.register_buffer(name, one)
            else:
                setattr(self, name, one)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._forward(self, *inputs)


def _seeded(make: Callable[[], Case]) -> Callable[[], Case]:
    """The same weights and inputs in each call, and a model that does not train."""

    @functools.wraps(make)
    def made() -> Case:
        torch.manual_seed(0)
        model, inputs = make()
        return model.eval(), inputs

    return made


def _norm(channels: int, eps: float = 1e-5, least_scale: float = 0.5) -> nn.BatchNorm2d:
    """A batch norm that has seen data: fresh statistics would hide a wrong mean, and a variance of 1 an epsilon."""
    norm = nn.BatchNorm2d(channels, eps=eps)
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.02, 0.3)
        norm.weight.uniform_(least_scale, 1.5)
        norm.bias.normal_()
    return norm


# --- convolutions and norms -------------------------------------------------------------------------------------------


@_seeded
def conv_norm() -> Case:
    model = _Model(
        lambda m, x: torch.relu(m.norm(m.conv(x))), conv=nn.Conv2d(7, 19, 3, padding=1), norm=_norm(19, 0.05)
    )
    return model, (torch.randn(2, 7, 11, 13),)


@_seeded
def deconv_norm() -> Case:
    """Of two groups: a factor of each channel lies elsewhere in the weight than of an ordinary convolution."""
    conv = nn.ConvTranspose2d(12, 10, 3, stride=2, groups=2)
    return _Model(lambda m, x: m.norm(m.conv(x)), conv=conv, norm=_norm(10)), (torch.randn(2, 12, 7, 9),)


@_seeded
def norm_alone() -> Case:
    return _Model(lambda m, x: torch.sigmoid(m.norm(x)), norm=_norm(5)), (torch.randn(2, 5, 11, 13),)


@_seeded
def norm_before_padded_conv() -> Case:
    """The zeros of the padding stand behind the norm, which therefore cannot be part of the second convolution."""
    held = {"one": nn.Conv2d(3, 11, 3, padding=1), "norm": _norm(11), "two": nn.Conv2d(11, 7, 3, padding=1)}
    return _Model(lambda m, x: m.two(m.norm(torch.relu(m.one(x)))), **held), (torch.randn(2, 3, 9, 13),)


@_seeded
def norm_before_max_pool() -> Case:
    """A negative factor makes the least element of a window the largest one."""
    held = {"conv": nn.Conv2d(3, 11, 3, padding=1), "norm": _norm(11, least_scale=-1.5)}
    model = _Model(lambda m, x: F.max_pool2d(m.norm(torch.relu(m.conv(x))), 3, 2, 1), **held)
    return model, (torch.randn(2, 3, 13, 17),)


@_seeded
def norm_before_linear() -> Case:
    held = {"conv": nn.Conv2d(3, 11, 3, padding=1), "norm": _norm(11), "linear": nn.Linear(11 * 5 * 7, 13)}
    model = _Model(lambda m, x: m.linear(m.norm(torch.relu(m.conv(x))).flatten(1)), **held)
    return model, (torch.randn(3, 3, 5, 7),)


@_seeded
def square_images() -> Case:
    """Rows and columns in equal number, which no shape tells apart."""
    held = {"one": nn.Conv2d(3, 20, 3, padding=1), "two": nn.Conv2d(20, 9, 5, padding=2)}
    return _Model(lambda m, x: m.two(torch.relu(m.one(x))), **held), (torch.randn(2, 3, 9, 9),)


@_seeded
def large_kernel() -> Case:
    """Neither a fast transform nor a product for 1 x 1: the direct kernel, which copies padded rows."""
    model = _Model(lambda m, x: F.relu6(m.conv(x) * 2), conv=nn.Conv2d(7, 37, 5, padding=2))
    return model, (torch.randn(2, 7, 11, 13),)


@_seeded
def depthwise() -> Case:
    model = _Model(lambda m, x: m.conv(x) + x, conv=nn.Conv2d(37, 37, 3, padding=1, groups=37))
    return model, (torch.randn(2, 37, 9, 13),)


@_seeded
def even_kernel() -> Case:
    """Padding of three elements: one in front and two behind."""
    return _Model(lambda m, x: m.conv(x), conv=nn.Conv1d(5, 11, 4, padding="same")), (torch.randn(2, 5, 37),)


@_seeded
def padded_with_ones() -> Case:
    model = _Model(lambda m, x: torch.relu(m.conv(F.pad(x, (1, 1, 1, 1), value=1.0))), conv=nn.Conv2d(5, 11, 3))
    return model, (torch.randn(2, 5, 9, 13),)


@_seeded
def padded_mean() -> Case:
    """The zeros are part of what is pooled, so they count in the means."""
    model = _Model(lambda _, x: F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2, count_include_pad=False))
    return model, (torch.randn(2, 5, 9, 13),)


@_seeded
def bordered_mean() -> Case:
    """The zeros are those of the pooling, so they do not count."""
    model = _Model(lambda _, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    return model, (torch.randn(2, 5, 19, 37),)


@_seeded
def group_norm() -> Case:
    """Between convolutions, so with channels last; channels of a group have means that differ."""
    held = {"one": nn.Conv2d(3, 24, 3), "norm": nn.GroupNorm(4, 24), "two": nn.Conv2d(24, 7, 3)}
    nn.init.normal_(held["one"].bias, std=2.0)
    return _Model(lambda m, x: m.two(m.norm(m.one(x))), **held), (torch.randn(2, 3, 11, 13),)


# --- linear layers ----------------------------------------------------------------------------------------------------


@_seeded
def mlp() -> Case:
    """Whole panels and a part of one, more rows than a vector; all layers but the last are of one width."""
    held = {f"layer{i}": nn.Linear(96, 96) for i in range(2)} | {"last": nn.Linear(96, 37)}
    model = _Model(lambda m, x: m.last(F.gelu(m.layer1(F.gelu(m.layer0(x)))) + x), **held)
    return model, (torch.randn(21, 96),)


@_seeded
def skewed_weights() -> Case:
    """Weights whose largest magnitudes are those of negative ones."""
    layer = nn.Linear(96, 48)
    with torch.no_grad():
        layer.weight.sub_(0.15)
    return _Model(lambda m, x: torch.tanh(m.layer(x)) + x[:, :48], layer=layer), (torch.randn(21, 96),)


@_seeded
def uneven_weights() -> Case:
    """Inputs of which some have far larger weights than others, so that scales of groups differ."""
    layer = nn.Linear(96, 48)
    with torch.no_grad():
        layer.weight.mul_(torch.logspace(-1, 1, 96))
    return _Model(lambda m, x: torch.tanh(m.layer(x)) + x[:, :48], layer=layer), (torch.randn(21, 96),)


@_seeded
def deep_relu() -> Case:
    """Sums of so many products are made in two parts."""
    return _Model(lambda m, x: torch.relu(m.layer(x)), layer=nn.Linear(1500, 37)), (torch.randn(5, 1500),)


@_seeded
def odd_depth() -> Case:
    """Pairs of bfloat16 behind the last whole tile of them."""
    return _Model(lambda m, x: m.layer(x).relu(), layer=nn.Linear(90, 64)), (torch.randn(37, 90),)


@_seeded
def tied_square() -> Case:
    """One matrix, read as it is and transposed."""
    weight = nn.Parameter(torch.randn(48, 48) / 7)
    return _Model(lambda m, x: torch.relu(x @ m.weight) @ m.weight.T, weight=weight), (torch.randn(5, 48),)


@_seeded
def residual_after_gelu() -> Case:
    return _Model(lambda m, x: F.gelu(m.layer(x)) + x, layer=nn.Linear(64, 64)), (torch.randn(5, 64),)


@_seeded
def residual_before_gelu() -> Case:
    return _Model(lambda m, x: F.gelu(m.layer(x) + x), layer=nn.Linear(37, 37)), (torch.randn(5, 37),)


@_seeded
def bias_after_relu() -> Case:
    held = {"layer": nn.Linear(64, 37, bias=False), "shift": nn.Parameter(torch.randn(37))}
    return _Model(lambda m, x: torch.relu(m.layer(x)) + m.shift, **held), (torch.randn(5, 64),)


@_seeded
def projections() -> Case:
    """Queries of more heads than keys and values, all of one x, which the sum reads, too."""
    held = {"q": nn.Linear(64, 64), "k": nn.Linear(64, 32), "v": nn.Linear(64, 32), "out": nn.Linear(64, 64)}

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one(x).unflatten(-1, (-1, 16)).transpose(1, 2) for one in (m.q, m.k, m.v))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return x + m.out(y.transpose(1, 2).flatten(2))

    return _Model(forward, **held), (torch.randn(2, 11, 64),)


@_seeded
def scaled_projections() -> Case:
    """Two products of one x that differ in their factor alone."""
    held = {name: nn.Parameter(torch.randn(64, 37) / 8) for name in ("one", "two")}
    held |= {name: nn.Parameter(torch.randn(37)) for name in ("low", "high")}

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.addmm(m.low, x, m.one)) * torch.addmm(m.high, x, m.two, alpha=0.5)

    return _Model(forward, **held), (torch.randn(5, 64),)


@_seeded
def gate_second() -> Case:
    """The activation is that of the second half."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        up, gate = m.both(x).chunk(2, -1)
        return m.down(F.silu(gate) * up) + x

    return _Model(forward, both=nn.Linear(64, 2 * 75), down=nn.Linear(75, 64)), (torch.randn(2, 5, 64),)


@_seeded
def moved_rows() -> Case:
    """Three axes trade places in a ring, so that there and back differ; their sizes are equal."""
    held = {"layer": nn.Linear(33, 37)}
    model = _Model(lambda m, x: torch.tanh(m.layer(x.permute(1, 2, 0, 3)).reshape(25, 5, 37)), **held)
    return model, (torch.randn(5, 5, 5, 33),)


# --- attention --------------------------------------------------------------------------------------------------------


def _heads(*sizes: int, count: int = 3) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(sizes) for _ in range(count))


@_seeded
def softly_masked_attention() -> Case:
    """A number that is filled in is no ban: such keys still have a weight."""
    held = {"mask": torch.rand(19, 19) < 0.4}

    def forward(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(m.mask, -2.0)
        return scores.softmax(-1) @ v

    return _Model(forward, **held), _heads(2, 3, 19, 24)


@_seeded
def unscaled_attention() -> Case:
    return _Model(lambda _, q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v), _heads(2, 3, 19, 24)


@_seeded
def divided_attention() -> Case:
    def forward(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2) / math.sqrt(24)).softmax(-1) @ v

    return _Model(forward), _heads(2, 3, 19, 24)


@_seeded
def masked_attention() -> Case:
    """The mask, an input, says which keys are left out; one key of each row is seen."""
    drop = torch.rand(2, 1, 19, 19) < 0.4
    drop[..., 0], drop[..., 1] = False, True

    def forward(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, drop: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2) * 0.2).masked_fill(drop, -math.inf).softmax(-1) @ v

    return _Model(forward), (*_heads(2, 3, 19, 24), drop)


@_seeded
def continued_attention() -> Case:
    """The last queries of a longer sequence: each sees the keys in front of all of them, too."""
    held = {"mask": torch.ones(5, 19, dtype=torch.bool).tril(14)}
    model = _Model(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, m.mask), **held)
    return model, (torch.randn(2, 3, 5, 24), *_heads(2, 3, 19, 24, count=2))


@_seeded
def causal_attention() -> Case:
    """More queries than two vectors, so that a tile begins past the first one."""
    return _Model(lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), _heads(2, 3, 75, 24)


@_seeded
def tiled_heads() -> Case:
    """Heads of keys one after the other and again, not each one twice."""

    def forward(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))

    return _Model(forward), (torch.randn(2, 4, 19, 24), *_heads(2, 2, 19, 24, count=2))


@_seeded
def wide_values() -> Case:
    model = _Model(lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v))
    return model, (*_heads(2, 3, 19, 24, count=2), torch.randn(2, 3, 19, 96))


@_seeded
def blind_query() -> Case:
    """One query sees no key, and torch makes zeros of it."""
    mask = torch.rand(37, 37) < 0.5
    mask[:, 0], mask[3] = True, False
    model = _Model(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, m.mask) + q, mask=mask)
    return model, _heads(2, 3, 37, 24)


def _turned(_: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def _angles(rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.outer(torch.arange(rows), 0.6 ** torch.arange(width // 2)).repeat(1, 2)
    return angles.cos(), angles.sin()


@_seeded
def rope() -> Case:
    """Half a head is no multiple of a vector."""
    return _Model(_turned), (torch.randn(2, 3, 19, 44), *_angles(19, 44))


@_seeded
def long_rope() -> Case:
    """So many rows that threads share them."""
    return _Model(_turned), (torch.randn(2, 4, 301, 64), *_angles(301, 64))


# --- norms, softmax, elements -----------------------------------------------------------------------------------------


@_seeded
def rms_over_rows() -> Case:
    """Not over the last axis."""
    model = _Model(lambda _, x: x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + 1e-5))
    return model, (torch.randn(2, 19, 37) * torch.linspace(0.2, 3, 37),)


@_seeded
def rms_scaled_twice() -> Case:
    held = {name: nn.Parameter(torch.rand(37) + 0.5) for name in ("one", "two")}

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * m.one * m.two

    return _Model(forward, **held), (torch.randn(2, 19, 37),)


@_seeded
def layer_norm() -> Case:
    """Small numbers, of which epsilon decides, in rows that end in a part of a vector."""
    norm = nn.LayerNorm(37, eps=1e-3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return _Model(lambda m, x: m.norm(x + x.tanh()), norm=norm), (torch.randn(2, 19, 37) / 50,)


@_seeded
def constant_row() -> Case:
    """Without epsilon it would be 0 / 0."""
    x = torch.randn(5, 37)
    x[2] = 1.0
    return _Model(lambda m, x: m.norm(x), norm=nn.LayerNorm(37)), (x,)


@_seeded
def row_of_zeros() -> Case:
    """Torch chooses the epsilon, the least that the type has."""
    x = torch.randn(5, 37)
    x[2] = 0.0
    return _Model(lambda m, x: m.norm(x), norm=nn.RMSNorm(37)), (x,)


@_seeded
def large_logits() -> Case:
    """Over the middle axis; exp of most of them overflows."""
    return _Model(lambda _, x: torch.softmax(x * 200, 1)), (torch.randn(3, 37, 21),)


@_seeded
def softmax_both_ways() -> Case:
    """Two nodes that differ in an attribute alone, on an x whose axes have one size."""
    return _Model(lambda _, x: x.softmax(-1) * x.softmax(-2)), (torch.randn(3, 37, 37),)


@_seeded
def saturated_tanh() -> Case:
    return _Model(lambda _, x: torch.tanh(x * 60) - x), (torch.randn(5, 37),)


@_seeded
def gaussian() -> Case:
    return _Model(lambda _, x, y: torch.exp(-(x - y).square())), (torch.randn(5, 37) * 3, torch.randn(5, 37) * 3)


@_seeded
def later_less_earlier() -> Case:
    """Of two values of one chain the later one is the first operand."""

    def forward(_: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product = x * y
        return torch.exp(product * 0.3) - product

    return _Model(forward), (torch.randn(5, 37), torch.randn(5, 37))


@_seeded
def one_minus() -> Case:
    return _Model(lambda _, x: (1 - torch.sigmoid(x)) * x), (torch.randn(5, 37),)


@_seeded
def variance() -> Case:
    """Of few elements, so that one less of them counts."""
    return _Model(lambda _, x: x / (x.var(-1, keepdim=True) + 0.1)), (torch.randn(5, 19),)


@_seeded
def turned_twice() -> Case:
    """Axes of one size, in orders that do not commute, around an op that both orders reach."""
    model = _Model(lambda _, x: torch.cumsum(x.permute(1, 2, 0).permute(1, 0, 2), 1))
    return model, (torch.randn(7, 7, 7),)


# --- buffers ----------------------------------------------------------------------------------------------------------


@_seeded
def cache() -> Case:
    """Rows of keys and values at given places; the third call writes again where the first ones did."""
    held = {"keys": torch.zeros(2, 19, 24), "values": torch.zeros(2, 19, 24), "make": nn.Linear(24, 48)}

    def forward(m: Any, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        key, value = m.make(x).chunk(2, -1)
        m.keys[:, place] = key
        m.values[:, place] = value
        return F.scaled_dot_product_attention(x[:, None], m.keys[:, None], m.values[:, None])

    places = ((0, 1, 2), (3, 4, 5), (1, 4, 7))
    return _Model(forward, **held), [(torch.randn(2, 3, 24), torch.tensor(one)) for one in places]
