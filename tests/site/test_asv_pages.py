"""asv's pages in the site: they load only local files, show the benchmark, and never cost the rest of the site."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import itertools
import json
import re
import shutil
import threading

import pytest

from suites import data
from suites.cli import main
from suites.data import DataError, asv_scripts, fetch
from suites.harness.record.collection import collect
from suites.site import asv_pages, build
from tests import messages
from tests.forms import shorten
from tests.site import asv_files, conftest, test_build

pytest.importorskip("asv", reason="needs asv, of the extra dev")
REFERENCE = re.compile(r'<(?:script|link|img)\b[^>]*?\b(?:src|href)="([^"]*)"')


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository whose results/asv has a result for each of its commits."""
    made = tmp_path_factory.mktemp("toy") / "project"
    asv_files.write_results(made / "results" / "asv", asv_files.make_repository(made))
    return made


@pytest.fixture
def dummies(tmp_path, monkeypatch):
    """Scripts that were fetched, as far as the code can see: each a comment."""
    scripts = {}
    for name in asv_scripts._FILES:
        scripts[name] = tmp_path / "scripts" / name
        scripts[name].parent.mkdir(exist_ok=True)
        scripts[name].write_text("/* dummy */")
    monkeypatch.setattr(asv_scripts, "find_scripts", lambda: scripts)
    monkeypatch.setattr(asv_scripts, "find_licences", lambda: {"asv-jquery": scripts["jquery-3.3.1.min.js"]})
    monkeypatch.setattr(data, "missing", lambda _name: None)
    return scripts


def publish(repository, out):
    copied = shutil.copytree(repository / "results" / "asv", out.with_name("copied"))
    asv_pages.write_pages(copied, repository, out, "../index.html")
    return out


def test_pages_load_only_files_that_are_beside_them(repository, tmp_path, dummies):
    out = publish(repository, tmp_path / "asv")
    references = REFERENCE.findall((out / "index.html").read_text())
    assert len(references) > len(dummies)
    assert [one for one in references if not (out / one).is_file()] == []
    assert {path.name for path in (out / "vendor").iterdir()} == {*dummies, "LICENSE-jquery.txt"}
    loads = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import|integrity=")
    texts = [path for path in out.rglob("*") if path.suffix in (".html", ".css", ".xml")]
    assert [path.name for path in texts if loads.search(path.read_text())] == []
    assert "internet" not in (out / "error.html").read_text()


def test_every_file_of_data_is_also_a_script(repository, tmp_path, dummies):
    out = publish(repository, tmp_path / "asv")
    values = {path: json.loads(path.read_text()) for path in out.rglob("*.json")}
    assert any(path.name == f"{asv_files.NAME}.json" for path in values)
    for path, value in values.items():
        script = path.with_name(f"{path.name}.js").read_text()
        assert json.loads(script.removeprefix("window.asvAnswer = ").removesuffix(";\n")) == value


def test_a_step_is_listed_with_its_commit(repository, tmp_path, dummies):
    out = publish(repository, tmp_path / "asv")
    (found,) = json.loads((out / "regressions.json").read_text())["regressions"]
    assert found[0] == f"{asv_files.NAME}('mlp')"
    (((_, revision, before, after),), last) = found[6], found[4]
    assert (before, after, last) == (0.001, 0.002, 0.002)
    hashes = json.loads((out / "index.json").read_text())["revision_to_hash"]
    assert hashes[str(revision)] == asv_files.run_git(repository, "rev-parse", "HEAD~2")


def test_a_script_that_another_version_of_asv_loads_is_named(repository, tmp_path, dummies):
    del dummies["md5.min.js"]
    with messages.raises(asv_pages.AsvPagesError):
        publish(repository, tmp_path / "asv")


def test_results_of_unknown_commits_are_counted_and_left_out(repository, tmp_path, dummies):
    results = shutil.copytree(repository / "results" / "asv", tmp_path / "results")
    samples = [[1.0, 1.1, 1.2]] * 2
    asv_files.write_result(results, "f" * 40, 1_700_000_000_000, samples)
    (results / "toy" / "broken.json").write_text("{")
    (problem,) = asv_pages.write_pages(results, repository, tmp_path / "asv", "../index.html")
    assert problem.startswith("2 of 8 results are left out: ")
    assert len(json.loads((tmp_path / "asv" / "index.json").read_text())["revision_to_hash"]) == 6


def test_settings_of_the_repository_are_kept(repository, tmp_path, dummies, monkeypatch):
    clone = tmp_path / "clone"
    asv_files.run_git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    (clone / "asv.conf.json").write_text('{"project": "mine", "html_dir": "other", // a comment\n}')
    shutil.copytree(repository / "results", clone / "results")
    publish(clone, tmp_path / "asv")
    assert json.loads((tmp_path / "asv" / "index.json").read_text())["project"] == "mine"


def build_with(capsys, results, out, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["site", "--results", str(results), "--out", str(out), "--json", *arguments])
    assert not ended.value.code
    said = capsys.readouterr()
    return json.loads(said.out)["asv"], said.err


@pytest.mark.parametrize(
    ("lack", "problem"),
    [
        ("results", "no history and no results of asv; run: enginebench history --since HEAD~20"),
        ("asv", "asv is not installed; run: pip install asv"),
        ("repository", "no git repository here has the commits of the results; run it in a clone with all of them"),
        ("commits", "no git repository here has the commits of the results; run it in a clone with all of them"),
        ("scripts", "the scripts of asv's pages are not here; run: enginebench data fetch asv-scripts"),
    ],
)
def test_the_site_without_pages_of_asv_says_what_is_missing(repository, tmp_path, monkeypatch, capsys, lack, problem):
    project = shutil.copytree(repository, tmp_path / "project")
    test_build.write_run(project / "results", "20261121T120604Z")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if lack == "results":
        shutil.rmtree(project / "results" / "asv")
    elif lack == "asv":
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "asv" else found(name))
    elif lack in ("repository", "commits"):
        shutil.rmtree(project / ".git")
    if lack == "commits":
        asv_files.run_git(project, "init", "--quiet")
    part, said = build_with(capsys, project / "results", tmp_path / "site")
    assert part == {"page": None, "problem": problem}
    assert said == f"pages of asv left out: {problem}\n"
    assert not (tmp_path / "site" / "asv").exists()
    assert "asv/" not in (tmp_path / "site" / "index.html").read_text()


def test_results_that_asv_cannot_use_are_told(repository, tmp_path, dummies, capsys):
    project = shutil.copytree(repository, tmp_path / "project")
    test_build.write_run(project / "results", "20261121T120604Z")
    paths = sorted((project / "results" / "asv" / "toy").glob("*-*.json"))

    def drop_date(path):
        path.write_text(
            json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "date"})
        )

    drop_date(paths[0])
    part, said = build_with(capsys, project / "results", tmp_path / "site")
    told = f"Error loading results file 'toy/{paths[0].name}': missing key 'date'"
    assert part == {"page": "asv/index.html", "problem": told}
    assert said == f"pages of asv incomplete: {told}\n"
    assert '<a href="asv/index.html">' in (tmp_path / "site" / "index.html").read_text()
    for path in paths[1:]:
        drop_date(path)
    part, _ = build_with(capsys, project / "results", tmp_path / "site")
    assert part["page"] is None
    assert part["problem"].startswith("asv has nothing to show of the results; Error loading")


def test_a_failure_of_asv_is_told_and_the_site_is_built(repository, tmp_path, dummies, monkeypatch, capsys):
    project = shutil.copytree(repository, tmp_path / "project")
    test_build.write_run(project / "results", "20261121T120604Z")
    (project / "results" / "asv" / "benchmarks.json").write_text("{}")
    part, said = build_with(capsys, project / "results", tmp_path / "site")
    assert part["problem"].startswith("asv publish failed: ")
    assert said.startswith("pages of asv left out: asv publish failed: ")
    assert (tmp_path / "site" / "index.html").is_file()


# --- in a browser -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(repository, tmp_path_factory):
    """A site with pages of asv, with the real scripts, which are fetched if they are not in the user's cache."""
    if conftest.CHROMIUM is None:
        pytest.skip("pages are tested in Debian's chromium, which is not installed")
    try:
        for source in data.expand(asv_scripts.GROUP):
            fetch.fetch(source)
    except DataError as error:
        pytest.skip(f"the scripts of asv's pages cannot be fetched: {error}")
    test_build.write_run(repository / "results", "20261121T120604Z")
    made = tmp_path_factory.mktemp("built") / "site"
    built = build.build_site(collect(repository / "results"), made, repository / "results" / "asv")
    assert built.asv == build.AsvPart("asv/index.html")
    return made


@pytest.fixture
def address(request, site):
    """The address of the site: on a server, or on disk."""
    if request.param == "disk":
        yield f"file://{site}"
        return
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass


@pytest.fixture
def tab(browser, address):
    """A tab that reaches nothing but the site. Complaints of its console or network fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    elsewhere, complaints = [], []

    def answer(route):
        if route.request.url.startswith((address, "data:")):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    context.route("**/*", answer)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    yield page
    context.close()
    assert elsewhere == []
    assert complaints == []


@pytest.mark.parametrize("address", shorten(["server", "disk"], "disk"), indirect=True)
def test_pages_of_asv_show_the_benchmark_without_a_network(tab, address):
    page = tab
    page.goto(f"{address}/index.html")
    page.click("nav >> text=asv")
    page.wait_for_selector(f"#summarygrid-display >> text={asv_files.NAME.rpartition('.')[2]}")
    page.click("text=Benchmark list")
    page.wait_for_selector("#summarylist-body td >> text=mlp")
    page.click("text=Regressions")
    page.wait_for_selector("#regressions-body >> text=2.00x")
    page.goto(f"{address}/asv/index.html#{asv_files.NAME}")
    page.wait_for_selector("#main-graph canvas")
    page.wait_for_function("$('#main-graph').data('plot') && $('#main-graph').data('plot').getData().length")
    drawn = page.evaluate("$('#main-graph').data('plot').getData().map(one => one.data.length)")
    assert max(drawn) == len(asv_files.SECONDS)
    assert page.inner_text("#title") == asv_files.NAME
    # asv asks for this file when a graph is missing, to tell that from a server that is down
    assert (
        page.evaluate("$.ajax({url: 'swallow.ico', dataType: 'text', cache: false}).then(() => 'up', () => 'down')")
        == "up"
    )
    page.click("text=enginebench results")
    page.wait_for_selector("#matrix")


@pytest.mark.parametrize(
    ("address", "width"),
    shorten(itertools.product(("server", "disk"), (390, 1200)), ("disk", 390)),
    indirect=["address"],
)
def test_no_part_of_a_page_of_asv_lies_below_its_menu_or_is_wider_than_the_window(tab, address, width):
    places = {"summarylist": "#summarylist-body", "regressions": "#regressions-body", asv_files.NAME: "#range"}
    for part, place in places.items():
        narrow = tab.context.new_page()  # asv complains if a window changes its width while a graph is hidden
        narrow.set_viewport_size({"width": width, "height": 900})
        narrow.goto(f"{address}/asv/index.html#{part}")
        narrow.wait_for_selector(place)
        menu, shown = (narrow.locator(one).bounding_box() for one in ("#nav", place))
        assert menu["y"] + menu["height"] <= shown["y"], (width, part)
        assert narrow.evaluate("document.documentElement.scrollWidth") <= width, part
        narrow.close()
