"""The page of ablations: runs of one case beside each other, and verdicts below their headings."""

from __future__ import annotations

import math

import pytest

from suites.harness.judge.ablation import ADD_ONE_IN, LEAVE_ONE_OUT, PAIR
from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.harness.record.schema import AblationRecord, Speed
from suites.site import build
from tests.harness import records
from tests.site.test_build import read_data


def write_ablation(results, stamp, suite, lines):
    folder = results / "runs" / "cpu-2c"
    with store.Writer(folder / f"{stamp}_abc_{suite}.jsonl") as writer:
        writer.append(records.environment(suite=suite, plan_digest=stamp), *lines)


def effect(switch, mode, value, verdict, case=records.CASE):
    return AblationRecord(
        case=case, switch=switch, switch_kind="pass", mode=mode, reached=True, without="engine[x]", verdict=verdict,
        speed=Speed(value, value * 0.9, value * 1.1), **{"with": "engine"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Switches of one case and later its pairs; and another case, measured last, that has switches left out alone."""
    results = tmp_path_factory.mktemp("ablations")
    singles = [effect(name, LEAVE_ONE_OUT, 1.5, "faster") for name in ("a", "b")]
    alone = [effect(name, ADD_ONE_IN, 1.25, "faster") for name in ("a", "b")]
    write_ablation(results, "20261120T120000Z", "ablate_x", [*singles, *alone])
    pairs = [effect("a+b", PAIR, 1.4, "unclear"), effect("a+c", PAIR, 0.8, "slower")]
    write_ablation(results, "20261121T120000Z", "ablate_x_pairs", pairs)
    write_ablation(
        results, "20261122T120000Z", "ablate_y", [effect("a", LEAVE_ONE_OUT, 1.5, "faster", "mlp/b9/t1/fp32")]
    )
    build.build_site(collect(results), results / "site")
    return results / "site"


def test_a_later_run_of_pairs_does_not_hide_the_switches_of_its_case(visit, folder):
    first, second = read_data(folder / "ablations.html")["cases"]
    assert first["case"] == records.CASE  # the case with all three, though the other one is newer
    assert {row["switch"] for row in first["switches"]} == {"a", "b"}
    assert all(row["left_out"] and row["alone"] for row in first["switches"])
    assert [pair["switches"] for pair in first["pairs"]] == [["a", "b"], ["a", "c"]]
    assert (second["pairs"], second["pairs_run"]) == ([], None)
    page = visit("ablations.html")
    assert "Pairs were measured 2026-11-21" in page.inner_text("#about")
    assert page.locator("#pairs").is_visible()


def test_a_pair_within_noise_has_no_colour_of_a_verdict(visit):
    page = visit("ablations.html")
    page.wait_for_selector("#pairs .js-plotly-plot")
    names, numbers = page.evaluate("(one => [one.data[0].x, one.data[0].z])(document.querySelector('#pairs .plot'))")
    found = {(a, b): numbers[i][j] for i, a in enumerate(names) for j, b in enumerate(names)}
    assert found["a", "b"] == 0
    assert found["a", "c"] == pytest.approx(math.log2(0.8))


def test_each_verdict_stands_below_the_name_of_its_mode(visit):
    page = visit("ablations.html")
    headings = page.locator("#switches thead th").all_inner_texts()
    assert headings[2:6] == ["left out", "verdict left out", "alone", "verdict alone"]
    page.locator('select[name="case"]').select_option("mlp/b9/t1/fp32 engine")
    assert "alone" not in page.locator("#switches thead th").all_inner_texts()
    titles = [text.removesuffix("#").strip() for text in page.locator("h1, h2").all_inner_texts()]
    assert len(set(titles)) == len(titles)
