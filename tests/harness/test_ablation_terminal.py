"""An ablation on a terminal leaves out no effect and no interval, however narrow the terminal is."""

import io

import pytest
from rich.console import Console

from suites.harness.judge.ablation import ADD_ONE_IN, ALL, LEAVE_ONE_OUT, PAIR
from suites.harness.present.ablation_table import make_report
from suites.harness.present.report import print_report, write_markdown
from suites.harness.record.schema import AblationRecord, Speed
from tests.harness import records


def effect(switch, mode, value, verdict):
    return AblationRecord(
        case=records.CASE, switch=switch, switch_kind="pass", mode=mode, reached=True, with_="a", without="b",
        verdict=verdict, speed=Speed(value, value - 0.02, value + 0.03),
    )  # fmt: skip


LEFT_OUT = [
    effect(ALL, LEAVE_ONE_OUT, 1.50, "faster"),
    effect("common_subexpressions", LEAVE_ONE_OUT, 1.20, "faster"),
    effect("fuse_gelu", LEAVE_ONE_OUT, 1.10, "unclear"),
]
ALONE = [
    effect("common_subexpressions", ADD_ONE_IN, 1.30, "faster"),
    effect("fuse_gelu", ADD_ONE_IN, 0.92, "slower"),
]
PAIRS = [effect("common_subexpressions+fuse_gelu", PAIR, 0.80, "slower")]


def show(lines, width, samples=()):
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    print_report(console, make_report(lines, records.environment(), None, samples))
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_all_effects_are_shown_with_their_intervals(width):
    text = show([*LEFT_OUT, *ALONE, *PAIRS], width)
    for shown in (
        "1.50x [1.48, 1.53] faster",
        "1.20x [1.18, 1.23] faster",
        "1.10x [1.08, 1.13] unclear",
        "1.30x [1.28, 1.33] faster",
        "0.92x [0.90, 0.95] slower",
        "0.80x [0.78, 0.83] slower",
    ):
        assert " ".join(text.split()).count(shown) == 1
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [40, 80, 200])
def test_an_ablation_of_one_mode_names_no_other(width):
    tables = show(ALONE, width).partition("left out: speed")[0]
    assert "alone" in tables
    assert "left out" not in tables
    tables = show(LEFT_OUT, width).partition("left out: speed")[0]
    assert "alone" not in tables


def test_a_switch_that_is_not_applicable_for_another_reason_shows_that_reason():
    unused = "variant conv='winograd': no conv of this program can use it here"
    refused = "precision: int8_static: scales of activations, which it needs, cannot be measured yet"
    lines = [
        AblationRecord(
            case=records.CASE, switch=switch, switch_kind="variant", mode=LEAVE_ONE_OUT, reached=False,
            status="not applicable", reason=reason, with_="a", without="b",
        )
        for switch, reason in (("conv=winograd", unused), ("precision=int8_static", refused))
    ]  # fmt: skip
    text = show([*LEFT_OUT, *lines], 200)
    assert "Not applicable (no part of the program can use it): conv=winograd." in text
    assert f"precision=int8_static: not applicable: {refused}" in text
    assert text.count("int8_static") == 2, "the name, and the name in the reason"


def test_programs_on_slow_kernels_are_named_below_the_table_and_in_markdown():
    slow = {"slow_launches": 2, "launches": 5}
    facts = {"a": {"slow_launches": 0, "launches": 5}, "b": slow, "b#2": slow, "c": slow}
    samples = [
        records.samples(backend=label, generation=number, facts=told)
        for label, told in facts.items()
        for number in range(2)
    ]
    samples.append(records.samples(case="other", backend="d", facts=slow))
    note = "Slow kernels run 2 of 5 launches of b, c."
    assert note in show(LEFT_OUT, 200, samples)
    assert f"- {note}" in write_markdown(make_report(LEFT_OUT, records.environment(), None, samples))
    assert "eference kernels" not in show(LEFT_OUT, 200, samples[:2])
