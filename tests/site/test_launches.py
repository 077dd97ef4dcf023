"""Kernels and launches of profiles on the site: the numbers are the record's, and filters and links work."""

from __future__ import annotations

import csv
import json
import re
from urllib.parse import urlencode

import pytest

from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.harness.record.roofs import Roof, Roofs
from suites.site import build
from suites.site.page import Site
from tests.harness import records
from tests.site.test_build import read_data, write_run

LARGER = "mlp/b8/t1/fp32"
KERNELS = [
    records.kernel(),
    records.kernel(name="16384 x 1024", op="gelu", kernel="f32_gelu__avx512_vector", bound="memory", flops=1.6e7,
                   bytes=1.3e8, roof_share=0.35, executed_share=0.35, openblas_speed=None, torch_speed=1.25),
    records.kernel(name="128 x 768", op="gelu", kernel="f32_gelu__avx512_vector", bound=None, roof_share=None,
                   executed_share=None, openblas_speed=None),
]  # fmt: skip
SLOWER = [
    records.kernel(isa="avx2", kernel="f32_linear__avx2_packed", seconds=4e-4, roof_share=0.9, executed_share=0.5)
]
NODES = [
    records.node(),
    records.node(index=1, op="copy", kernel="any_copy__generic_blocked", flops=0, executed_flops=0, roof_share=None,
                 bound="memory"),
    records.node(index=2, op="gelu", kernel="f32_gelu__avx512_vector", executed_flops=1000, flops=1000, bytes=8000,
                 seconds=1e-6, roof_share=0.4, bound="memory"),
]  # fmt: skip


def write(results, name, suite, *lines, options=(), machine="cpu-2c", **environment):
    plan = {"name": suite, "options": list(options)}
    path = results / "runs" / machine / f"{name}_abc_{suite}.jsonl"
    with store.Writer(path) as writer:
        writer.append(records.environment(plan=plan, machine=machine, suite=suite, **environment), *lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site of a run of cases, runs of kernels with two instruction sets, and profiles."""
    results = tmp_path_factory.mktemp("stored")
    write_run(results, "20261121T120000Z")
    write_run(results, "20261121T120001Z", case=LARGER)
    write(results, "20261121T130000Z", "kernels", *KERNELS, options=["--isa", "avx512"], commit="def")
    write(results, "20261121T140000Z", "kernels", *SLOWER, options=["--isa", "avx2"])
    write(results, "20261121T150000Z", "kernels", records.kernel(seconds=9.0), options=["--filter", "linear"])
    write(results, "20261121T160000Z", "nodes_mlp", records.node(seconds=9.0))
    write(results, "20261121T170000Z", "nodes_mlp", *NODES)
    write(results, "20261121T180000Z", "nodes_bert", records.node(case="bert/b1_s128/t2/fp32"))
    build.build_site(collect(results), results / "site")
    return results / "site"


def read_rows(page, table):
    return [[cell.inner_text() for cell in row.query_selector_all("th, td")] for row in page.query_selector_all(table)]


def test_the_numbers_of_kernels_are_those_of_the_newest_whole_run_of_each_instruction_set(folder):
    with (folder / "data" / "kernels-kernels.csv").open() as file:
        rows = list(csv.DictReader(file))
    stored = [*SLOWER, *KERNELS]
    for name in ("seconds", "flops", "bytes", "roof_share", "executed_share", "torch_speed", "openblas_speed"):
        values = [getattr(line, name) for line in stored]
        assert [float(row[name]) if row[name] else None for row in rows] == values
    data = read_data(folder / "kernels.html")
    shown = [row for group in data["groups"] for row in group["rows"]]
    assert [(row["kernel"], row["name"], row["share"]) for row in shown] == [
        (line.kernel, line.name, line.roof_share) for line in stored
    ]
    assert json.loads((folder / "data" / "kernels-kernels.json").read_text())[1]["peak_flops"] == 1e11


def test_a_run_of_some_kernels_is_shown_only_without_one_of_all(tmp_path):
    write(tmp_path, "20261121T150000Z", "kernels", records.kernel(seconds=9.0), options=["--filter", "linear"])
    build.build_site(collect(tmp_path), tmp_path / "site")
    (group,) = read_data(tmp_path / "site" / "kernels.html")["groups"]
    assert [row["seconds"] for row in group["rows"]] == [9.0]


def test_a_site_without_such_runs_names_the_commands_that_make_them(tmp_path):
    write_run(tmp_path, "20261121T120000Z")
    build.build_site(collect(tmp_path), tmp_path / "site")
    assert "enginebench kernels" in (tmp_path / "site" / "kernels.html").read_text()
    assert "enginebench profile mlp --record" in (tmp_path / "site" / "model-mlp.html").read_text()


def test_texts_of_kernels_and_launches_are_never_markup(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    write(tmp_path, "20261121T150000Z", "kernels", records.kernel(kernel=evil, name=evil, op=evil))
    write(tmp_path, "20261121T160000Z", "nodes_mlp", records.node(kernel=evil, op=evil, module=evil, case="<img>/x"))
    build.build_site(collect(tmp_path), tmp_path / "site")
    assert len(list((tmp_path / "site").glob("model-*.html"))) == 1
    for page in (tmp_path / "site").glob("*.html"):
        assert "<img" not in page.read_text()
    assert read_data(tmp_path / "site" / "kernels.html")["groups"][0]["rows"][0]["kernel"] == evil


def test_the_pages_of_runs_count_lines_and_nothing_is_a_case(folder):
    runs = {one["suite"]: one for one in read_data(folder / "machines.html")["runs"]}
    assert (runs["kernels"]["rows"], runs["nodes_mlp"]["rows"]) == (3, 1)  # the oldest of each suite
    assert {one["unfinished"] for one in runs.values()} == {""}
    assert [one["case"] for one in read_data(folder / "index.html")["entries"]] == [LARGER, records.CASE]


def test_a_newer_run_without_roofs_leaves_the_roofs_of_the_machine(tmp_path):
    roofs = Roofs((Roof("fp32", 1, 1e11, "FLOP/s", believed=True),), 1.0)
    write(tmp_path, "20261121T150000Z", "kernels", records.kernel(), roofs=roofs, commit="old")
    write(tmp_path, "20261121T160000Z", "nodes_mlp", records.node(), commit="new")
    known = Site(collect(tmp_path)).machines["cpu-2c"]
    assert (known.roofs, known.commit) == (roofs, "new")


def test_filters_of_kernels_leave_rows_out_and_stand_in_the_address(visit):
    page = visit("kernels.html")
    assert len(read_rows(page, "#kernels tbody tr")) == 4
    page.locator('select[name="op"]').select_option("gelu")
    page.get_by_text("memory", exact=True).first.click()
    fragment = page.url.partition("#")[2]
    assert {"op=gelu", "bound=memory"} <= set(fragment.split("&"))
    again = visit("kernels.html", fragment)
    assert read_rows(again, "#kernels tbody tr") == [
        ["f32_gelu__avx512_vector", "16384 x 1024", "avx512", "200 us", "80.0", "650.0", "35% memory", "-", "1.25"]
    ]
    assert again.query_selector("#compute").get_attribute("hidden") is not None
    assert again.query_selector("#memory .main-svg")
    permalink = again.query_selector('[data-permalink="memory"]').get_attribute("href")
    assert {"op=gelu", "bound=memory", "show=memory"} <= set(permalink.lstrip("#").split("&"))
    again.get_by_label("Kernel or size contains").fill("no such kernel")
    assert "No kernel fits these filters." in again.inner_text("#about")


def test_charts_of_kernels_have_the_shares_and_speeds_of_the_record(visit):
    page = visit("kernels.html")
    page.wait_for_selector("#openblas .main-svg")
    read = "(id) => document.querySelector(`#${id} .plot`).data.map((one) => [one.name, [...one.x], [...one.y]])"
    assert page.evaluate(read, "compute") == [["avx2", [2e7], [0.5]], ["avx512", [2e7], [0.97]]]  # what is executed
    assert page.evaluate(read, "memory") == [["avx512", [1.3e8], [0.35]]]
    assert page.evaluate(read, "openblas") == [["avx2", [4e-4], [0.58]], ["avx512", [2e-4], [0.58]]]
    page.locator('input[name="by"]').first.focus()
    page.keyboard.press("ArrowRight")  # by the work of the op
    assert "by=op" in page.url
    assert page.evaluate(read, "compute") == [["avx2", [2e7], [0.9]], ["avx512", [2e7], [0.97]]]


def test_the_roofline_of_launches_has_the_newest_profile_of_the_case(visit):
    page = visit("model-mlp.html", urlencode({"case": records.CASE}))
    page.wait_for_selector("#nodes .main-svg")
    assert "20261121T170000Z_abc_nodes_mlp" in page.inner_text("#profile")
    read = "() => document.querySelector('#nodes .plot').data.map((one) => [one.name, [...one.x], [...one.y]])"
    roof, linear, gelu = page.evaluate(read)
    assert linear == ["linear", [20 / 3], [pytest.approx(100.0)]]
    assert gelu == ["gelu", [0.125], [pytest.approx(1.0)]]
    name, x, y = roof
    assert name == "roof of one core"
    assert y == pytest.approx([min(1e11, one * 3e10) / 1e9 for one in x])
    rows = read_rows(page, "#nodes-table tbody tr")
    assert [row[:3] for row in rows] == [[str(line.index), line.op, line.kernel] for line in NODES]
    assert [row[8] for row in rows] == ["97% FMA", "-", "40% memory"]


def test_the_only_machine_of_a_page_is_named_without_a_choice(visit, folder):
    (machine,) = read_data(folder / "kernels.html")["machines"]
    page = visit("kernels.html")
    assert machine["name"] in page.inner_text("#filters .only")
    assert not page.query_selector("select[name=machine]")


def test_a_model_that_was_only_profiled_has_a_page(visit, folder):
    page = visit("model-bert.html")
    assert "was profiled" in page.inner_text("#about")
    assert page.query_selector("#measured").get_attribute("hidden") is not None
    assert len(read_rows(page, "#nodes-table tbody tr")) == 1
    assert re.search(r'href="model-bert.html"', (folder / "index.html").read_text())


def test_a_case_without_a_profile_links_to_the_one_that_has_it(visit):
    page = visit("model-mlp.html", urlencode({"case": LARGER}))
    assert page.query_selector("#profiled").get_attribute("hidden") is not None
    page.locator("#profile a").click()
    page.wait_for_selector("#nodes-table tbody tr")  # the page follows its address a moment later
    assert urlencode({"case": records.CASE}) in page.url
    assert len(read_rows(page, "#nodes-table tbody tr")) == len(NODES)
