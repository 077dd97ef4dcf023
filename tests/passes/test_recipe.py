"""Recipes: a precision for each layer. Expected values come from models whose weights torch has rounded itself."""

from __future__ import annotations

import copy
import os
import re

import numpy as np
import pytest
import torch
from torch import nn

import engine
from tests import messages


class Attention(nn.Module):
    """Three linears of one value, which a pass merges if nothing keeps them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.o = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, S, 32] -> [B, S, 32]."""
        return self.o(torch.softmax(self.q(x) @ self.k(x).mT, -1) @ self.v(x))


class Tied(nn.Module):
    """A table that is the weight of the last linear, too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([Attention(), Attention()])
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids [B, S] -> logits [B, S, 50]."""
        x = self.table(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Tied().eval()


@pytest.fixture(scope="module")
def exported(model):
    """The model, exported for all tests."""
    return torch.export.export(model, (IDS,), strict=False)


IDS = torch.arange(24).reshape(2, 12)


def encodings(program) -> dict[str, list[tuple[int, ...]]]:
    """Encoding -> shapes of the constants that have it."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for value in program.graph.constants():
        if value.components:
            found.setdefault(str(value.type.encoding).partition("@")[0], []).append(value.shape)
    return {name: sorted(shapes) for name, shapes in found.items()}


def quantised(weight: torch.Tensor) -> torch.Tensor:
    """int8 with a scale for each row, decoded: the rule of `docs/quantization.md`, in torch."""
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round().clamp(-127, 127) * scale


@pytest.mark.parametrize(
    "precision",
    [
        "bf16",
        "int4_weight",
        *(
            pytest.param(precision, marks=pytest.mark.long)
            for precision in ("fp16", "int8_weight", "int8_weight_tensor", "int8_dynamic")
        ),
    ],
)
def test_a_recipe_for_every_layer_is_the_precision(exported, precision):
    """The same bits and the same encodings as `Config.precision`."""
    whole = engine.compile(exported, (IDS,), engine.Config(precision=precision))
    layers = engine.compile(exported, (IDS,), engine.Config(recipe={"*": precision}))
    assert encodings(layers) == encodings(whole)
    assert torch.equal(layers(IDS), whole(IDS))


def test_only_the_named_layers_are_rounded(model, exported):
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for name in ("q", "o"):
            linear = getattr(rounded.layers[1], name)
            linear.weight.copy_(quantised(linear.weight))
        expected = rounded(IDS)
    program = engine.compile(exported, (IDS,), engine.Config(recipe={"layers.1.[qo]": "int8_weight"}))
    assert encodings(program) == {"int8_channel": [(32, 32), (32, 32)]}
    # Both compute the same numbers in float32; only the order of sums differs. Rounding moves the results by 4e-3.
    torch.testing.assert_close(program(IDS), expected, rtol=1e-5, atol=1e-5)


def test_linears_of_different_precision_are_not_merged(exported):
    program = engine.compile(
        exported, (IDS,), engine.Config(recipe={"layers.0.q": "bf16", "layers.0.*": "int8_weight"})
    )
    assert encodings(program) == {"bfloat16": [(32, 32)], "int8_channel": [(32, 32), (64, 32)]}


def test_the_first_pattern_that_matches_decides(exported):
    program = engine.compile(exported, (IDS,), engine.Config(recipe={"layers.0.*": "bf16", "*.q": "int8_weight"}))
    assert encodings(program) == {"bfloat16": [(32, 32), (96, 32)], "int8_channel": [(32, 32)]}


def test_a_pattern_that_earlier_ones_leave_without_effect_is_refused(exported):
    """A line that asks for another precision than its layers get; one that repeats their precision does no harm."""
    for recipe in ({"*": "bf16", "head": "int8_weight"}, {"head": "bf16", "layers.*": "bf16", "*.q": "int8_weight"}):
        with messages.raises(engine.ConfigError):
            engine.compile(exported, (IDS,), engine.Config(recipe=recipe))
    engine.compile(exported, (IDS,), engine.Config(recipe={"*": "bf16", "head": "bf16"}))


def test_patterns_that_exchange_places_without_effect_are_to_be_removed(exported):
    """Of two patterns for the same layers, neither has an effect behind the other one."""
    for recipe in ({"head": "bf16", "hea?": "int8_weight"}, {"hea?": "int8_weight", "head": "bf16"}):
        with messages.raises(engine.ConfigError):
            engine.compile(exported, (IDS,), engine.Config(recipe=recipe))
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"*": "bf16", "head": "int8_weight"}))


def test_other_layers_have_the_precision_of_the_config(exported):
    config = engine.Config(precision="int8_weight", recipe={"head": "fp32", "table": "bf16"})
    program = engine.compile(exported, (IDS,), config)
    assert encodings(program) == {"bfloat16": [(50, 32)], "int8_channel": [(32, 32), (32, 32), (96, 32), (96, 32)]}


def test_a_tied_weight_may_have_two_precisions(model, exported):
    """The table stays float32 where only the head is rounded."""
    program = engine.compile(exported, (IDS,), engine.Config(recipe={"head": "int8_weight"}))
    with torch.no_grad():
        x = model.table(IDS)
        for layer in model.layers:
            x = x + layer(x)
        expected = x @ quantised(model.head.weight).T
    torch.testing.assert_close(program(IDS), expected, rtol=1e-5, atol=1e-5)  # orders of sums, as above


def test_a_convolution_keeps_its_precision_when_a_norm_is_folded_into_it():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
    x = torch.linspace(-1, 1, 3 * 36).reshape(1, 3, 6, 6)
    program = engine.compile(net, (x,), engine.Config(recipe={"0": "int8_weight"}))
    assert encodings(program) == {"int8_channel": [(8, 3, 3, 3)]}


def test_a_bfloat16_model_keeps_the_layers_that_no_pattern_matches():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 8)).eval().bfloat16()
    x = torch.linspace(-1, 1, 64).reshape(2, 32).bfloat16()
    program = engine.compile(net, (x,), engine.Config(recipe={"2": "fp32"}))
    assert encodings(program) == {"bfloat16": [(16, 32)]}


def test_a_recipe_is_read_from_a_file_and_stays_in_a_saved_program(exported, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('[layers]\n"layers.0.*" = "bf16"\nhead = "int8_weight"\n')
    config = engine.Config(recipe=path)
    assert config.recipe == (("layers.0.*", "bf16"), ("head", "int8_weight"))
    assert hash(config) == hash(engine.Config(recipe={"layers.0.*": "bf16", "head": "int8_weight"}))
    program = engine.compile(exported, (IDS,), config)
    program.save(tmp_path / "tied.engine")
    loaded = engine.load(tmp_path / "tied.engine")
    assert encodings(loaded) == encodings(program) != {}
    np.testing.assert_array_equal(loaded(IDS.numpy()), program(IDS).numpy())
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "tied.engine", config=config)


def test_a_pattern_that_matches_nothing_names_the_nearest_layer(exported):
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"layers.0.p": "bf16"}))
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"head.weight": "bf16"}))
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"HEAD": "bf16"}))


def test_a_pattern_that_names_a_module_gets_the_pattern_of_its_layers(exported):
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"layers.0": "bf16"}))
    program = engine.compile(exported, (IDS,), engine.Config(recipe={"layers.0.*": "bf16"}))
    assert encodings(program) == {"bfloat16": [(32, 32), (96, 32)]}


FILES = {
    "too many digits": f"[layers]\na = {'1' * 5000}",
    "too deep": f"layers = {'[' * 100_000}",
    "empty": "",
    "an empty table": "[layers]\n",
    "other tables": '[layer]\n"a" = "bf16"\n',
    "one table too many": '[layers]\n"a" = "bf16"\n[more]\nb = 1\n',
    "an unknown precision": '[layers]\n"a" = "bf17"\n',
    "a number": '[layers]\n"a" = 8\n',
    "a name with dots": '[layers]\na.b.0 = "bf16"\n',
    "no pattern": '[layers]\n"" = "bf16"\n',
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
def test_a_wrong_file_is_refused_by_name(content, tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(content)
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("layers = [", "not a TOML file: ")],
    ids=["no such file", "no TOML"],
)
def test_a_file_that_the_system_or_python_cannot_read_is_refused_by_name(content, reason, tmp_path):
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(engine.ConfigError, match=f"^recipe: {re.escape(str(path))}: {reason}"):
        engine.Config(recipe=path)


def test_a_pipe_is_not_read_because_every_process_reads_the_recipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=tmp_path / "pipe")


def test_a_device_is_not_read_because_it_may_have_no_end():
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=os.devnull)


@pytest.mark.parametrize("value", [3, ["bf16"], {"": "bf16"}, [("a", "bf16", 1)], {3: "bf16"}])
def test_other_values_are_refused(value):
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=value)


def test_a_pattern_with_two_precisions_is_refused():
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=(("0", "bf16"), ("1", "bf16"), ("0", "fp16")))
    assert engine.Config(recipe=(("0", "bf16"), ("0", "bf16"))).recipe is not None


@pytest.mark.parametrize("value", [{}, (), ""])
def test_an_empty_recipe_is_refused(value):
    with messages.raises(engine.ConfigError):
        engine.Config(recipe=value)


def test_a_weight_that_is_made_from_other_weights_belongs_to_its_layer():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(32, 16)), nn.Linear(16, 8)).eval()
    x = torch.linspace(-1, 1, 64).reshape(2, 32)
    assert engine.list_layers(net, (x,)) == ("0", "1")
    program = engine.compile(net, (x,), engine.Config(recipe={"0": "int8_weight"}))
    assert encodings(program) == {"int8_channel": [(16, 32)]}
    with torch.no_grad():
        expected = net[1](x @ quantised(net[0].weight).T + net[0].bias)
    torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5)  # orders of sums


class Quantised(nn.Module):
    """A linear whose weight is integers with scales, as torchao makes it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(-64, 64).reshape(4, 32).to(torch.int8))
        self.register_buffer("scale", torch.linspace(0.01, 0.02, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, 32] -> [B, 4]."""
        return x @ self.weight.float().T * self.scale


def test_a_weight_that_the_model_has_quantised_keeps_what_it_has():
    net, x = nn.Sequential(nn.Linear(32, 32), Quantised()).eval(), torch.linspace(-1, 1, 64).reshape(2, 32)
    for precision in ("fp32", "bf16", "int4_weight"):
        with messages.raises(engine.ConfigError):
            engine.compile(net, (x,), engine.Config(recipe={"*": precision}))
    program = engine.compile(net, (x,), engine.Config(recipe={"1": "int8_weight", "*": "bf16"}))
    assert encodings(program) == {"bfloat16": [(32, 32)], "int8_channel": [(4, 32)]}


class Reads(nn.Module):
    """A stack of matrices, of which each multiplies a part of a batch, and a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.linear = nn.Parameter(torch.ones(4, 32, 16)), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [4, B, 32] -> [4, B, 16]."""
        return torch.bmm(self.linear(x), self.stack)


@pytest.mark.parametrize("switches", [{"precision": "int8_weight"}, {"recipe": {"*": "bf16"}}])
def test_weights_that_an_op_reads_as_floats_alone_are_named(switches):
    config = engine.Config(**switches)
    with messages.warns(engine.PlainWeightsWarning):
        engine.compile(Reads().eval(), (torch.ones(4, 2, 32),), config)
    transposed = nn.Sequential(nn.ConvTranspose2d(3, 4, 2)).eval()
    with messages.warns(engine.PlainWeightsWarning):
        engine.compile(transposed, (torch.ones(1, 3, 4, 4),), config)


class Upsampling(nn.Module):
    """A transposed convolution, whose weight stays float32, with a norm that is folded into it, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.out = nn.ConvTranspose2d(4, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, 4, H, W] -> [B, 4, H, W]."""
        return self.out(self.norm(self.up(x)))


def test_a_recipe_may_name_a_layer_whose_weight_stays_in_float32():
    net, x = Upsampling().eval(), torch.ones(1, 4, 5, 5)
    assert engine.list_layers(net, (x,)) == ("up", "out")
    for recipe in ({"*": "int8_weight"}, {"up": "int8_weight"}, {"up.weight": "bf16", "out": "bf16"}):
        with messages.warns(engine.PlainWeightsWarning):
            engine.compile(net, (x,), engine.Config(recipe=recipe))
    program = engine.compile(net, (x,), engine.Config(precision="bf16", recipe={"up": "fp32"}))
    assert encodings(program) == {"bfloat16": [(4, 8, 3, 3)]}


class Rows(nn.Module):
    """Rows of a parameter or of a buffer, read as `read` says."""

    def __init__(self, read, *, is_parameter: bool = True) -> None:
        super().__init__()
        table = torch.linspace(-1, 1, 320).reshape(10, 32)
        if is_parameter:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table)
        self.read = read

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids [B] -> [B, 32]."""
        return self.read(self.table, ids)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("switches", [{"precision": "int8_weight"}, {"recipe": {"table": "int8_weight"}}])
def test_a_table_that_index_select_or_brackets_read_is_encoded(switches, dtype):
    """As that of an embedding. The same positions are errors as in float32, where brackets take negative ones."""
    ids = torch.tensor([0, 9, 3], dtype=dtype)
    select = Rows(lambda table, ids: table.index_select(0, ids)).eval()
    brackets = Rows(lambda table, ids: table[ids.reshape(3, 1)].reshape(3, 32)).eval()
    for net, good, bad in ((select, (0, 9), (-1, 10)), (brackets, (0, 9, -1, -10), (-11, 10, torch.iinfo(dtype).min))):
        program, plain = (engine.compile(net, (ids,), config) for config in (engine.Config(**switches), None))
        assert encodings(program) == {"int8_channel": [(10, 32)]}
        for one in good:
            given = torch.tensor([0, one, 3], dtype=dtype)
            # The product of an integer and its scale is rounded once.
            torch.testing.assert_close(program(given), quantised(net.table)[given.long()], rtol=0, atol=1e-6)
        for one in bad:
            for each in (program, plain):
                with messages.raises(engine.ExecutionError):
                    each(torch.tensor([0, one, 3], dtype=dtype))


def test_a_buffer_that_is_indexed_is_no_weight():
    """For example, a table of angles or masks."""
    ids, net = torch.tensor([0, -1, 3]), Rows(lambda table, ids: table[ids], is_parameter=False).eval()
    assert engine.list_layers(net, (ids,)) == ()
    assert encodings(engine.compile(net, (ids,), engine.Config(precision="int8_weight"))) == {}


@pytest.mark.parametrize("equation", ["bi,io->bo", pytest.param("bi,oi->bo", marks=pytest.mark.long), "bti,oi->bto"])
def test_a_matrix_that_einsum_multiplies_is_encoded(equation):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weight, x = torch.randn(32, 32), torch.randn(*(2, 3)[: equation.index("i")], 32)
    net = Rows(lambda table, x: torch.einsum(equation, x, table)).eval()
    net.table = nn.Parameter(weight)
    program = engine.compile(net, (x,), engine.Config(precision="int8_weight"))
    assert encodings(program) == {"int8_channel": [(32, 32)]}
    rounded = quantised(weight) if "oi" in equation else quantised(weight.T).T
    expected = torch.einsum(equation, x, rounded)
    torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5)  # orders of sums, as above


def test_precisions_that_need_measurements_are_refused(exported):
    with messages.raises(engine.ConfigError):
        engine.compile(exported, (IDS,), engine.Config(recipe={"head": "int8_static"}))


def test_parts_of_a_model_take_the_patterns_that_concern_them():
    """A call that torch runs cuts the model; neither part has all layers."""

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.special.bessel_j0(self.first(x)))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Cut().eval()
    x = torch.eye(8)
    config = engine.Config(recipe={"first": "int8_weight", "second": "bf16"}, fallback="torch")
    with torch.no_grad():
        rounded = copy.deepcopy(net)
        rounded.first.weight.copy_(quantised(rounded.first.weight))
        program, expected = engine.compile(net, (x,), config), rounded(x)
    # `second` multiplies in bfloat16, which has 8 bits.
    torch.testing.assert_close(program(x), expected, rtol=2e-2, atol=2e-2)
    assert not torch.allclose(program(x), expected, rtol=1e-5, atol=1e-6)
