"""``enginebench profile --against``: two programs of the engine side by side, layer by layer."""

from __future__ import annotations

import json

import pytest

from engine.runtime.report import NodeProfile, Profile, ThreadProfile
from suites.cli import main
from suites.cli.profile_against import compare, explain, tabulate

LABELS = "engine in int8_dynamic", "engine[precision=fp32]"


def profile(*launches):
    """Of (op, arithmetic, module, microseconds)."""
    nodes = tuple(
        NodeProfile(op, "k", "", (1,), us * 1e-6, 0, 0, 0, 0.0, None, "compute", module, compute=compute)
        for op, compute, module, us in launches
    )
    seconds = sum(node.seconds for node in nodes)
    return Profile(nodes, (ThreadProfile(seconds, 0.0),), seconds, seconds, 1, 0.0, 0.0, "clock")


OWN = profile(
    ("quantize_rows", "", "layer.0.up", 2),
    ("linear", "int8", "layer.0.up", 30),
    ("quantize_rows", "", "layer.1.up", 2),
    ("linear", "int8", "layer.1.up", 30),
    ("conv", "element", "stem", 9),
    ("softmax", "", "", 1),
)
OTHER = profile(
    ("linear", "element", "layer.0.up", 50),
    ("linear", "element", "layer.1.up", 50),
    ("conv", "element", "stem", 6),
    ("softmax", "", "", 1),
)


def test_layers_that_differ_in_numbers_alone_are_one_row_and_the_largest_difference_is_first():
    first, second, third = compare(OWN, OTHER)
    assert (first.name, first.ops, first.multiplies) == ("layer.*.up", "quantize_rows+linear", ("integers",))
    assert first.times == pytest.approx((64e-6, 100e-6))
    assert first.conversions == pytest.approx((4e-6, 0))
    assert (second.name, second.multiplies) == ("stem", ("float32: a convolution",))
    assert (third.name, third.multiplies) == ("-", ())
    row = tabulate([first], LABELS[1])[0]
    assert (row["time"], row[LABELS[1]], row["speed"], row["conversions"]) == ("64.0 us", "100 us", "1.56", "4.00 us")


def test_one_sentence_says_what_saves_and_what_costs():
    assert explain(OWN, OTHER, LABELS) == (
        "engine in int8_dynamic: 74.0 us against 107 us of engine[precision=fp32], 1.45x its speed: layers that "
        "multiply integers save 40.0 us (37.4%), conversions cost 4.00 us (3.7%), all other layers cost 3.00 us (2.8%)."
    )


def test_a_program_of_floats_alone_needs_no_reasons():
    assert all(layer.multiplies == () for layer in compare(OTHER, OWN))


def test_the_command_compares_both_programs(capsys):
    with pytest.raises(SystemExit) as ended:
        main(
            ["profile", "mlp", "--set", "widths=16-16", "--precision", "int8_dynamic", "--against", LABELS[1], "--json"]
        )
    assert not ended.value.code
    answer = json.loads(capsys.readouterr().out)
    assert [node["op"] for node in answer["nodes"]] == ["quantize_rows", "linear"]
    against = answer["against"]
    assert against["backend"] == LABELS[1]
    assert [layer["multiplies"] for layer in against["layers"]] == [["integers"]]
    assert against["summary"].startswith("engine in int8_dynamic: ")


def test_an_option_of_the_engine_goes_before_the_precision_of_the_model(capsys):
    """The float32 model is compared, not a bf16 one whose values are widened: its first launch has float32's bytes."""
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", "--set", "widths=16-16", "--precision", "bf16", "--backend", LABELS[1], "--json"])
    assert not ended.value.code
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert node["bytes"] == 4 * (16 + 16 * 16 + 16 + 16), "x, weight, bias, y"


def test_only_the_engine_is_compared_layer_by_layer(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", "--against", "eager"])
    assert ended.value.code
    assert "--against eager: expected engine or engine[option=value,...]" in capsys.readouterr().err
