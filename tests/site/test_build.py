"""The site says what the records say, whatever is in them, and needs nothing from elsewhere."""

from __future__ import annotations

import csv
import errno
import json
import re
import shutil

import pytest

from suites.cli import main
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import log_speeds
from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.harness.record.schema import Compared, Latency, Samples, Speed, Summary
from suites.site import build
from suites.site.places import choose_places
from tests import messages
from tests.harness import records

TIMES = {"engine": 0.001, "openvino": 0.0015, "eager": 0.002}


def write_run(results, name, *, backends=TIMES, machine="cpu-2c", case=records.CASE, model="mlp", suite="tiny"):
    """A stored run whose rounds have these times, each a little different; the engine is against the best peer."""
    first = records.environment(
        plan={"baseline": "eager", "cases": {case: list(backends)}}, machine=machine, suite=suite, commit="abc",
        plan_digest=name,  # two runs never have the same bytes
    )  # fmt: skip
    lines = [first]
    for backend, seconds in backends.items():
        latency = Latency(p50=seconds, p90=seconds, p99=seconds, min=seconds, n=9)
        lines += [
            records.samples(
                case=case,
                backend=backend,
                generation=generation,
                seconds=[[seconds * (1 + 0.01 * (number + generation))] for number in range(3)],
            )
            for generation in range(2)
        ]
        lines.append(records.summary(case=case, model=model, backend=backend, latency=latency, floor=0.05))
        if backend == "engine" and len(backends) > 1:
            peer = min(set(backends) - {"engine"}, key=backends.get)
            speed = Speed(1.6, 1.5, 1.7)
            lines[-1].best_peer = Compared(backend=peer, speed=speed, verdict="faster", detectable=0.04)
    folder = results / "runs" / machine
    with store.Writer(folder / f"{name}_abc_{suite}.jsonl") as writer:
        writer.append(*lines)


def read_data(page):
    """What the scripts of a page read; the first page has its cases in a part for each machine."""
    text = page.read_text()
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data = json.loads(found)
    parts = sorted((page.parent / "data").glob(f"{page.stem}-*.js"))
    return data | ({"entries": [entry for part in parts for entry in read_part(part)]} if parts else {})


def read_part(path):
    """The data in a script that hands them to the page."""
    call, name, quoted = re.fullmatch(r'(\w+\.\w+)\("([\w-]+)", JSON\.parse\((".*")\)\);\n', path.read_text()).groups()
    assert call == "bench.receive"
    assert path.stem.endswith(f"-{name}")
    return json.loads(json.loads(quoted))


def test_the_numbers_of_the_page_are_those_of_the_record(tmp_path):
    write_run(tmp_path / "results", "20261121T120604Z")
    build.build_site(collect(tmp_path / "results"), tmp_path / "site")
    (entry,) = read_data(tmp_path / "site" / "index.html")["entries"]
    assert entry["best"] == {
        "other": "openvino", "value": 1.6, "low": 1.5, "high": 1.7, "text": "1.60x", "interval": "[1.50, 1.70]",
        "verdict": "faster", "detectable": 0.04,
    }  # fmt: skip
    assert {name: cell["seconds"] for name, cell in entry["cells"].items()} == TIMES
    assert entry["cells"]["openvino"]["lead"] == entry["best"]
    with (tmp_path / "site" / "data" / "index-cases.csv").open() as file:
        rows = {row["backend"]: row for row in csv.DictReader(file)}
    assert float(rows["openvino"]["engine_speed"]) == 1.6
    assert float(rows["eager"]["seconds_per_call"]) == TIMES["eager"]


def test_the_engine_is_compared_with_every_backend_and_not_with_the_best_alone(tmp_path):
    write_run(tmp_path, "20261121T120604Z")
    collection = collect(tmp_path)
    (place,) = choose_places(collection)
    (run,) = collection.runs
    samples = {name: [one for one in run.of(Samples) if one.backend == name] for name in TIMES}
    expected = stats.speed(log_speeds(samples["engine"], samples["eager"]), MachineNoise.of_runs([run]).spread(1))
    assert place.leads["eager"].speed == expected
    assert place.leads["eager"].speed.value == pytest.approx(2)  # eager takes twice the time of the engine
    assert place.leads["eager"].verdict == "faster"
    assert set(place.leads) == {"eager", "openvino"}


def test_the_site_claims_no_lead_of_an_engine_that_failed_beside_another_form_of_it(tmp_path):
    name = "20261121T120604Z"
    write_run(tmp_path / "results", name, backends={"engine_dynamo": 0.001, "openvino": 0.0015, "eager": 0.002})
    (path,) = store.all_run_files(tmp_path / "results")
    run = store.read(path)
    lines = [run.environment, *run.records]
    (other,) = [one for one in lines if isinstance(one, Summary) and one.backend == "engine_dynamo"]
    other.best_peer = Compared(backend="openvino", speed=Speed(1.6, 1.5, 1.7), verdict="faster", detectable=0.04)
    failed = records.summary(backend="engine", status="failed", reason="no room")
    path.unlink()
    with store.Writer(path) as writer:
        writer.append(*lines, failed)
    build.build_site(collect(tmp_path / "results"), tmp_path / "site")
    (entry,) = read_data(tmp_path / "site" / "index.html")["entries"]
    assert (entry["engine"], entry["best"], entry["first"]) == (None, None, False)
    assert {label for label, cell in entry["cells"].items() if cell["lead"] is not None} == set()
    assert "No case has a time of the engine and of another backend." in (tmp_path / "site" / "index.html").read_text()


def read_recorded_speeds(run, case, engine):
    """Backend -> the speed of the engine against it and the verdict, wherever a record of the case has both."""
    rows = {row.backend: row for row in run.summaries() if row.case == case}
    mine = rows[engine]
    turned = {"faster": "slower", "slower": "faster"}
    found = {
        label: (1 / row.speed.value, 1 / row.speed.high, 1 / row.speed.low, turned.get(row.verdict, row.verdict))
        for label, row in rows.items()
        if row.baseline == engine and row.speed is not None
    }
    base = Compared(backend=mine.baseline, speed=mine.speed, verdict=mine.verdict)
    for one in (base, mine.runner_up, *(mine.versions or ()), mine.best_peer):
        if one is not None and one.speed is not None:
            found[one.backend] = one.speed.value, one.speed.low, one.speed.high, one.verdict
    return found


def test_every_interval_of_the_committed_results_is_that_of_the_record(collection):
    compared = 0
    for place in choose_places(collection):
        if place.judged.engine is None:
            continue
        recorded = read_recorded_speeds(place.run, place.judged.case, place.judged.engine.backend)
        for label, lead in place.leads.items():
            if label in recorded:
                compared += 1
                *numbers, verdict = recorded[label]
                where = place.run.name, place.judged.case, label
                assert [lead.speed.value, lead.speed.low, lead.speed.high] == pytest.approx(numbers), where
                assert lead.verdict == verdict, where
    assert compared > 150


def test_a_pair_that_no_record_has_is_judged_by_what_was_known_at_the_time_of_its_run(tmp_path):
    write_run(tmp_path, "20261120T120604Z", backends={"engine": 0.001, "eager": 0.002, "eager#2": 0.00201})
    write_run(tmp_path, "20261121T120604Z")
    before = {place.run.name: place for place in choose_places(collect(tmp_path))}
    write_run(tmp_path, "20261122T120604Z", backends={"eager": 0.002, "eager#2": 0.004})
    after = {place.run.name: place for place in choose_places(collect(tmp_path))}
    (name,) = [name for name in before if name.startswith("20261121")]
    assert after[name].leads["eager"] == before[name].leads["eager"]
    earlier, run, _ = collect(tmp_path).runs
    samples = {label: [one for one in run.of(Samples) if one.backend == label] for label in TIMES}
    expected = stats.speed(log_speeds(samples["engine"], samples["eager"]), MachineNoise.of_runs([earlier]).spread(1))
    assert after[name].leads["eager"].speed == expected


def test_no_two_workloads_of_the_committed_results_share_a_name(folder):
    workloads = {}
    for entry in read_data(folder / "index.html")["entries"]:
        model, sizes, _, _, *options = entry["case"].split("/")
        switches = [one for one in options if not one.startswith(("io=", "device="))]
        workloads.setdefault(entry["name"], set()).add((model, sizes, *switches))
    assert len(workloads) > 20
    assert {name: found for name, found in workloads.items() if len(found) > 1} == {}


def test_a_case_is_shown_from_the_newest_run_of_those_with_the_most_backends(tmp_path):
    write_run(tmp_path, "20261121T120604Z")
    write_run(tmp_path, "20261122T120604Z", backends={**TIMES, "engine@old": 0.001})
    write_run(tmp_path, "20261123T120604Z", backends={"engine": 0.001, "eager": 0.004, "engine@old": 0.001})
    write_run(tmp_path, "20261124T120604Z", backends={"engine": 0.0005})
    write_run(tmp_path, "20261120T120604Z", machine="other-4c")
    places = {place.machine: place for place in choose_places(collect(tmp_path))}
    assert places["cpu-2c"].run.name.startswith("20261122")
    assert places["other-4c"].run.name.startswith("20261120")


def test_a_run_that_stopped_before_its_first_row_is_unfinished_on_the_page_of_machines(tmp_path):
    write_run(tmp_path, "20261121T120604Z")
    plan = {"cases": {records.CASE: ["engine", "eager"]}}
    with store.Writer(tmp_path / "runs" / "cpu-2c" / "20261122T120000Z_abc_tiny.jsonl") as writer:
        writer.append(records.environment(plan=plan))
    build.build_site(collect(tmp_path), tmp_path / "site")
    rows = {row["run"]: row for row in read_data(tmp_path / "site" / "machines.html")["runs"]}
    assert rows["20261122T120000Z_abc_tiny"]["unfinished"] == "0 of 2 rows"
    assert rows["20261121T120604Z_abc_tiny"]["unfinished"] == ""


def test_superseded_rows_say_why(tmp_path):
    write_run(tmp_path, "20261121T120604Z")
    (tmp_path / "superseded.toml").write_text(
        '[[fault]]\nreason = "measured wrongly"\nfixed = "def"\nbackends = ["eager"]\n'
        'runs = ["20261121T120604Z_abc_tiny"]\n'
    )
    build.build_site(collect(tmp_path), tmp_path / "site")
    (entry,) = read_data(tmp_path / "site" / "index.html")["entries"]
    assert {name: cell["fault"] for name, cell in entry["cells"].items()} == {
        "engine": None, "openvino": None, "eager": "measured wrongly",
    }  # fmt: skip
    assert "measured wrongly" in (tmp_path / "site" / "machines.html").read_text()


def test_texts_of_records_are_never_markup(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    write_run(tmp_path, "20261121T120604Z", model=evil, case=f"{evil}/b1/t1/fp32")
    build.build_site(collect(tmp_path), tmp_path / "site")
    pages = sorted(path.name for path in (tmp_path / "site").glob("*.html"))
    assert len(pages) == len(build.PAGES)  # one of them is that of the model
    assert all(re.fullmatch(r"[\w-]+\.html", name) for name in pages)
    for name in pages:
        text = (tmp_path / "site" / name).read_text()
        assert "<img" not in text
    assert read_data(tmp_path / "site" / "index.html")["entries"][0]["model"] == evil


def test_what_could_not_be_read_is_named_and_the_rest_is_shown(tmp_path, capsys):
    write_run(tmp_path, "20261121T120604Z")
    folder = tmp_path / "runs" / "cpu-2c"
    (folder / "20261122T120604Z_abc_tiny.jsonl").write_text("not a record\n")
    (folder / "copy.jsonl").write_text('{"schema": 99, "kind": "environment"}\n')
    with pytest.raises(SystemExit) as ended:
        main(["site", "--results", str(tmp_path), "--out", str(tmp_path / "site"), "--json"])
    assert not ended.value.code
    out, err = capsys.readouterr()
    assert len(json.loads(out)["problems"]) == 2
    assert "not a JSON line" in err
    assert "newer than" in err
    page = (tmp_path / "site" / "machines.html").read_text()
    assert "not a JSON line" in page
    assert "newer than" in page
    assert len(read_data(tmp_path / "site" / "index.html")["entries"]) == 1


def test_a_folder_with_other_files_is_left_alone(tmp_path, capsys):
    write_run(tmp_path, "20261121T120604Z")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    for out in (tmp_path / "out", tmp_path / "out" / "thesis.txt"):
        with pytest.raises(SystemExit) as ended:
            main(["site", "--results", str(tmp_path), "--out", str(out)])
        assert ended.value.code == 2
    assert "neither a site nor an empty folder" in capsys.readouterr().err
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


def test_an_earlier_site_is_replaced_and_kept_if_building_fails(tmp_path, monkeypatch):
    write_run(tmp_path, "20261121T120604Z")
    site = tmp_path / "site"
    build.build_site(collect(tmp_path), site)
    with (site / build.MARK).open("a") as names:
        names.write("old.html\n")
    (site / "old.html").write_text("of an earlier site")

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(build, "_write_page", fail)
        with messages.raises(UsageError):
            build.build_site(collect(tmp_path), site)
    assert (site / "old.html").exists()
    build.build_site(collect(tmp_path), site)
    assert not (site / "old.html").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".site")] == []


def test_files_that_somebody_put_beside_a_site_are_kept(tmp_path, capsys):
    write_run(tmp_path, "20261121T120604Z")
    site = tmp_path / "site"
    build.build_site(collect(tmp_path), site)
    (site / "CNAME").write_text("bench.example")
    (site / "mine").mkdir()
    (site / "mine" / "thesis.txt").write_text("mine")
    build.build_site(collect(tmp_path), site)
    build.build_site(collect(tmp_path), site)
    assert (site / "CNAME").read_text() == "bench.example"
    assert (site / "mine" / "thesis.txt").read_text() == "mine"
    (site / "model-new.html").write_text("mine")
    write_run(tmp_path, "20261122T120604Z", model="new", case="new/b1/t1/fp32")
    for _ in range(2):
        build.build_site(collect(tmp_path), site)
        assert (site / "model-new.html").read_text() == "mine"


def test_nothing_to_show_is_a_mistake(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["site", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "site")])
    assert ended.value.code == 2
    assert "no runs; measure something first" in capsys.readouterr().err


def test_the_committed_results_make_a_site_that_loads_nothing_from_elsewhere(committed):
    assert committed.built.problems == ()
    pages = list(committed.folder.glob("*.html"))
    assert len(pages) == committed.built.pages
    for page in pages:
        for place in re.findall(r'(?:src|href)="([^"#]*)', page.read_text()):
            assert place in ("", "data:,") or (committed.folder / place).exists(), (page.name, place)


@pytest.mark.parametrize(
    "error",
    [
        shutil.Error([("a.css", "made/a.css", "[Errno 28] No space left on device: 'a.css' -> 'made/a.css'")]),
        shutil.Error([("a.css", "made/a.css", "it is a named pipe")]),
        OSError("the disk is gone"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_site_that_cannot_be_written_says_why(tmp_path, monkeypatch, error):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr(build.shutil, "copytree", fail)
    with messages.raises(UsageError):
        build.build_site(collect(tmp_path), tmp_path / "site")
