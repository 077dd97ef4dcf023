"""The overview of a run and its blocks: who wins, in words and marks, at every width."""

from __future__ import annotations

import io
import itertools
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from suites.harness.judge import judged_case
from suites.harness.present import (
    details,
    names,
    notes,
    overview,
    picture,
    plot,
    ranked,
)
from suites.harness.present.report import print_report, write_markdown
from suites.harness.present.table import BREAK, Cell, Column, Table
from suites.harness.record import store
from suites.harness.record.reasons import join_lines
from suites.harness.record.schema import Compared, Error, Latency, PerToken, Speed
from tests.forms import shorten
from tests.harness import records

PEERS = {"eager": 4.0, "torch_compile": 3.0, "onnxruntime": 2.0, "onnxruntime[without=SkipLayerNormFusion]": 1.9}
VERDICTS = ("faster", "slower", "same", "unclear")


def row(backend, seconds, **fields):
    latency = Latency(p50=seconds, p90=seconds, p99=seconds, min=seconds, n=30) if seconds else None
    return records.summary(**{"backend": backend, "latency": latency, "floor": 0.05} | fields)


def case(name="mlp", engine=1e-3, verdict="faster", peers=PEERS, engine_fields=(), **fields):
    """Rows of a case in which the engine takes `engine` seconds and the peers multiples of a millisecond."""
    fields = {"case": f"{name}/b1/t1/fp32", "model": name} | fields
    rows = [row(label, seconds * 1e-3, **fields) for label, seconds in peers.items()]
    best = min(peers, key=peers.get)
    value = peers[best] * 1e-3 / engine
    peer = Compared(backend=best, speed=Speed(value, value / 1.1, value / 0.9), verdict=verdict, detectable=0.1)
    return [*rows, row("engine", engine, **fields, best_peer=peer, **dict(engine_fields))]


def described(*cases, **environment):
    rows = [line for lines in cases for line in lines]
    return overview.describe(rows, records.environment(**environment), datetime(2026, 11, 22, tzinfo=UTC))


def report(*cases):
    rows = [line for lines in cases for line in lines]
    return overview.make_report(rows, records.environment(), datetime(2026, 11, 22, tzinfo=UTC))


def printed(parts, width, **options):
    console = Console(width=width, file=io.StringIO(), **options)
    print_report(console, parts)
    return console.file.getvalue()


# --- what it says -----------------------------------------------------------------------


def test_the_lead_is_the_speed_of_the_engine_against_the_fastest_other_backend():
    (line,) = described(case()).lines
    assert line.leads == (overview.LeadCell("1.90x", "[1.73, 2.11]", "faster"),)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_verdict_is_that_of_the_engine(verdict):
    assert described(case(verdict=verdict)).lines[0].leads[0].verdict == verdict


def test_one_unit_holds_for_a_line_and_the_fastest_is_marked_in_it():
    (line,) = described(case(engine=0.95e-3)).lines
    assert line.unit == "us"
    assert [time.text for time in line.times] == ["950", "4,000", "3,000", "1,900"]
    assert [time.is_best for time in line.times] == [True, False, False, False]


def test_forms_of_a_backend_share_a_column_that_has_the_fastest_and_a_mark():
    found = described(case())
    assert found.columns == ("engine", "eager", "torch_compile", "onnxruntime")
    assert "f" in found.lines[0].marks
    assert any("onnxruntime[without=SkipLayerNormFusion], its fastest form, in mlp" in note for note in found.notes)
    plain = {label: seconds for label, seconds in PEERS.items() if "[" not in label}
    assert "f" not in described(case(peers=plain)).lines[0].marks


def test_forms_of_the_engine_have_columns_of_their_own():
    rows = [*case(), row("engine[only=none]", 1.5e-3)]
    assert described(rows).columns[:2] == ("engine", "engine[only=none]")


def test_the_sentence_counts_who_is_first_and_what_is_told_from_noise():
    slow = case("bert", engine=3e-3, verdict="slower")
    found = described(case("a"), case("b", verdict="unclear"), slow)
    expected = "Engine first in 2 of 3 cases, beyond noise in 1; another backend first in 1, beyond noise in 1."
    assert found.closing == expected
    missing = case("c")
    missing[-1] = row("engine", None, case="c/b1/t1/fp32", model="c", status="failed", reason="no room")
    assert described(case("a"), missing).closing.endswith("1 further without a comparison.")


def test_the_lead_of_another_form_is_not_that_of_an_engine_that_failed():
    rows = case()
    other = row("engine_dynamo", 0.3, best_peer=rows[-1].best_peer)
    rows[-1] = row("engine", None, status="failed", reason="no room", case=rows[0].case, model="mlp")
    rows.append(other.model_copy(update={"case": rows[0].case}))
    found = described(rows)
    assert (found.leads, found.lines[0].leads) == ((), ())
    assert found.closing == "No case has a time of the engine and of another backend."
    for text in (printed(report(rows), 200), write_markdown(report(rows))):
        assert "vs best other" not in text
        assert "1.90x" not in text
    ran = described(case("bert"), rows)
    assert ran.lines[1].leads == (overview.LeadCell(),)
    assert ran.closing == "Engine first in 1 of 1 case, beyond noise in 1. 1 further without a comparison."


def test_where_only_another_form_was_planned_the_lead_is_that_of_it():
    rows = [one.model_copy(update={"backend": one.backend.replace("engine", "engine_dynamo")}) for one in case()]
    assert described(rows).lines[0].leads == (overview.LeadCell("1.90x", "[1.73, 2.11]", "faster"),)


def test_without_the_engine_there_is_no_lead_and_no_sentence():
    found = described(case()[:-1])
    assert (found.leads, found.closing) == ((), "")


def test_the_heading_has_machine_commit_date_and_the_floor_as_a_factor():
    found = described(case(floor=0.07), case("bert", floor=0.213), commit="0123abc", dirty=True)
    assert found.heading == "x, 2 cores, commit 0123abc (dirty), 2026-11-22, 1 thread, fp32; A/A floor 1.07x to 1.21x"


def test_a_token_is_the_unit_where_text_is_generated():
    lines = case(s_per_token=PerToken(decode=4e-3))
    assert described(lines).lines[0].unit == "ms/token"


# --- marks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sign", "said"),
    [
        ({"floor": 0.25}, "~", "noisy"),
        ({"engine_fields": {"disturbed": 0.3}}, "d", "30% of rounds"),
        ({"engine_fields": {"neighbours": 0.061, "neighbours_flagged": True}}, "n", "engine +6.1% certain in bert"),
        ({"engine_fields": {"neighbours": 0.236, "neighbours_flagged": False}}, "n?", "engine +23.6% unclear in bert"),
        ({"engine_fields": {"error": Error(relative=6e-6, max_abs=1, tolerance=1e-5)}}, "e", "6.0e-06 of 1.0e-05"),
        ({"engine_fields": {"slow_launches": 10, "launches": 18}}, "s", "run 10 of 18 launches of engine in bert"),
        ({"engine_fields": {"slow_launches": 1, "launches": 1}}, "s", "run the only launch of engine in bert"),
    ],
)
def test_a_mark_is_explained_below_where_it_occurs_and_nowhere_else(fields, sign, said):
    clean = described(case())
    found = described(case(), case("bert", **fields))
    assert sign not in clean.lines[0].marks + found.lines[0].marks
    assert sign in found.lines[1].marks
    (note,) = [note for note in found.notes if note.startswith(f"{sign} ")]
    assert said in note
    assert "bert" in note
    assert not any(note.startswith(f"{sign} ") for note in clean.notes)


@pytest.mark.parametrize(
    "fields",
    [
        {"floor": 0.19},
        {"engine_fields": {"disturbed": 0.0}},
        {"engine_fields": {"neighbours": 0.09, "neighbours_flagged": False}},
        {"engine_fields": {"neighbours": -0.3, "neighbours_flagged": False}},
        {"engine_fields": {"error": Error(relative=4e-6, max_abs=1, tolerance=1e-5)}},
        {"engine_fields": {"slow_launches": 0, "launches": 18}},
    ],
)
def test_what_is_within_bounds_has_no_mark(fields):
    assert described(case(**fields)).lines[0].marks == "f"


def test_a_certain_and_an_unclear_effect_of_neighbours_share_a_note_and_the_certain_one_gives_the_mark():
    rows = case(engine_fields={"neighbours": 0.047, "neighbours_flagged": True})
    rows[0] = rows[0].model_copy(update={"neighbours": 0.236, "neighbours_flagged": False})
    found = described(rows)
    assert found.lines[0].marks == "n f"
    (note,) = [note for note in found.notes if note.startswith("n n? ")]
    assert "eager +23.6% unclear" in note
    assert "engine +4.7% certain" in note


@pytest.mark.parametrize(
    ("effect", "is_flagged", "text"),
    [
        (0.047, True, "+4.7% certain"),
        (0.236, False, "+23.6% unclear"),
        (-0.05, False, "-5.0%"),
        (0.02, False, "+2.0%"),
        (None, None, "-"),
    ],
)
def test_an_effect_of_neighbours_says_whether_it_is_beyond_noise(effect, is_flagged, text):
    line = row("eager", 1e-3, neighbours=effect, neighbours_flagged=is_flagged)
    assert notes.write_neighbours(line) == text
    assert details.QUANTITIES["beside neighbours"](line) == text


def test_noisy_and_disturbed_lines_do_not_look_like_clean_ones():
    clean, noisy = described(case(), case("bert", floor=0.25)).lines
    assert (clean.is_doubtful, noisy.is_doubtful) == (False, True)
    text = write_markdown(report(case(), case("bert", floor=0.25)))
    assert "| mlp\N{NO-BREAK SPACE}b1" in text
    assert "| *bert\N{NO-BREAK SPACE}b1*" in text
    in_colour = printed(report(case("bert", floor=0.25)), 120, force_terminal=True, color_system="truecolor")
    assert re.search(r"\x1b\[2m.*bert", in_colour), "dim"


def test_a_row_without_a_time_says_what_happened_and_why():
    broken = case("bert")
    broken[1] = row("torch_compile", None, case="bert/b1/t1/fp32", model="bert", status="wrong", reason="off by 1")
    broken[0] = row("eager", None, case="bert/b1/t1/fp32", model="bert", status="unavailable", reason="no torch")
    found = described(case(), broken)
    assert [time.text for time in found.lines[1].times[1:3]] == ["n/a", "wrong"]
    assert "torch_compile wrong (bert b1): off by 1" in found.notes
    assert "eager unavailable (bert b1): no torch" in found.notes


def broken_at(threads, backends=("torch_compile",), reason="\x1b[31mno compiler\x1b[0m at 0x7f12345678"):
    rows = case(case=f"mlp/b1/t{threads}/fp32", threads=threads)
    failed = {"case": rows[0].case, "threads": threads, "status": "failed", "reason": reason}
    return [row(one.backend, None, **failed) if one.backend in backends else one for one in rows]


def test_a_reason_is_given_once_with_all_its_cases_and_backends_and_has_no_colours():
    rows = [*broken_at(1), *broken_at(2, reason="no compiler at 0x7f99999999")]
    (note,) = [note for note in described(rows).notes if "no compiler" in note]
    assert note == "torch_compile failed (all cases): no compiler at 0x..."
    rows = [*case("bert"), *broken_at(1, ("eager", "torch_compile"))]
    (note,) = [note for note in described(rows).notes if "no compiler" in note]
    assert note == "eager, torch_compile failed (mlp b1): no compiler at 0x..."


def test_why_the_reference_is_not_float64_is_said_below():
    assert "mlp b1: RuntimeError: no double here" in described(case(note="RuntimeError: no double here")).notes


# --- names ------------------------------------------------------------------------------


def test_short_names_keep_what_tells_cases_apart_and_drop_what_most_share():
    shape = {"batch": 1, "sequence": 16}
    rows = [
        records.summary(case="1", shape={"batch": 1}, options={"widths": "small"}),
        records.summary(case="2", shape={"batch": 1}, options={"widths": "small"}, io="numpy"),
        records.summary(case="3", shape={"batch": 32}, options={"widths": "large"}, threads=2),
        records.summary(case="4", model="transformer", shape=shape, options={"heads": 4, "width": 256}),
    ]
    short = names.shorten_names(rows)
    assert list(short.values()) == ["mlp b1 small", "mlp b1 small numpy", "mlp b32 large t2", "transformer b1 s16"]
    assert names.describe_common(rows) == "1 thread unless named, fp32"
    assert names.describe_options(rows) == ["transformer heads=4, width=256"]
    assert described(rows).notes[0] == "Options that all cases of a model have: transformer heads=4, width=256."


def test_options_that_differ_within_a_model_do_not_stand_below_the_table():
    rows = [records.summary(case=str(n), shape={"batch": 1}, options={"n": n, "phase": "decode"}) for n in (1, 2)]
    assert list(names.shorten_names(rows).values()) == ["mlp b1 n=1", "mlp b1 n=2"]
    assert names.describe_options(rows) == ["mlp phase=decode"]
    assert names.describe_options(rows[:1]) == ["mlp n=1, phase=decode"]


def test_numbers_of_options_are_named_where_two_names_would_be_equal():
    rows = [records.summary(case=str(width), options={"width": width}) for width in (64, 128)]
    assert list(names.shorten_names(rows).values()) == ["mlp b1 width=64", "mlp b1 width=128"]


def test_two_workloads_have_two_names_in_every_precision():
    settings = [("fp32", {}), ("fp32", {"phase": "decode", "steps": 16}), ("bf16", {"phase": "decode", "steps": 16})]
    rows = [
        records.summary(case=f"gpt2/b1/t1/{precision}/{options}", model="gpt2", precision=precision, options=options)
        for precision, options in settings
    ]
    assert list(names.name_workloads(rows).values()) == ["gpt2 b1", "gpt2 b1 decode", "gpt2 b1 decode"]


def test_cases_that_differ_in_switches_alone_are_named_by_their_ids():
    rows = [records.summary(case=f"mlp/b1/t1/fp32{switch}") for switch in ("", "/tf32=on")]
    assert list(names.name_workloads(rows).values()) == ["mlp/b1/t1/fp32", "mlp/b1/t1/fp32/tf32=on"]


@pytest.mark.parametrize("step", shorten([8, 1], 8))
def test_names_of_a_stored_run_are_unique(root, step):
    paths = sorted((root / "results").glob("runs/*/*.jsonl"))
    assert len(paths) > 50
    for path in paths[::step]:
        rows = store.read(path).summaries()
        short = names.shorten_names(rows) if rows else {}
        assert len(set(short.values())) == len({line.case for line in rows}), path.name


# --- how it looks -----------------------------------------------------------------------


def stored(root, suite):
    path = max((root / "results").glob(f"runs/*/*_{suite}.jsonl"))
    run = store.read(path)
    return run.summaries(), run.environment, run.started


def all_forms(console, found):
    """Print everything that has a terminal form."""
    summaries, environment, started = found
    print_report(console, overview.make_report(summaries, environment, started))
    print_report(console, plot.describe_leads(summaries, environment, started))
    for one in judged_case.judge_cases(summaries):
        print_report(console, [*ranked.describe_case(one), *details.describe_details(one, environment)])


@pytest.mark.parametrize(
    ("suite", "width"),
    shorten(
        itertools.product(("default", "stages", "generation", "models", "bert"), (60, 80, 110, 160)),
        ("default", 60), ("default", 160), ("generation", 80), ("models", 60), ("bert", 110),
    ),
)  # fmt: skip
def test_no_name_or_number_is_cut_at_any_width(root, suite, width):
    console = Console(width=width, file=io.StringIO())
    found = stored(root, suite)
    all_forms(console, found)
    lines = console.file.getvalue().splitlines()
    assert not [line for line in lines if len(line.rstrip()) > width]
    assert "\u2026" not in console.file.getvalue()
    words = set(re.split(r"[\s,;:]+", console.file.getvalue()))
    for line in found[0]:
        for part in overview.fold_label(line.backend.partition("[")[0].partition("#")[0]).split(BREAK):
            assert any(part in word for word in words), part


@pytest.mark.parametrize("suite", ["default", "bert", "models"])
def test_a_case_is_one_line_of_at_most_110_columns_with_the_default_backends(root, suite):
    summaries, environment, started = stored(root, suite)
    text = printed(overview.make_report(summaries, environment, started), 110)
    for name in names.shorten_names(summaries).values():
        assert [line for line in text.splitlines() if line.startswith(f"{name} ")], name


def test_an_output_that_has_only_ascii_gets_only_ascii(root):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(width=80, file=stream)
    all_forms(console, stored(root, "default"))
    stream.flush()
    text = stream.buffer.getvalue().decode("ascii")
    assert "####" in text
    assert "--" in text
    assert "\x1b" not in text


def test_the_fastest_is_bold_or_starred_where_nothing_can_be_bold():
    assert "1.00*" in printed(report(case()), 110)
    in_colour = printed(report(case()), 110, force_terminal=True, color_system="truecolor")
    assert re.search(r"\x1b\[1m\s*1\.00", in_colour)
    assert "1.00*" not in in_colour


def test_markdown_is_one_line_a_case_with_the_fastest_in_bold_and_a_link_to_the_words():
    text = write_markdown(report(case(), case("bert")), lambda page: "guide.md")
    table = [line.replace("\N{NO-BREAK SPACE}", " ") for line in text.splitlines() if line.startswith("| ")][2:]
    assert table == [
        f"| {name} b1 | 1.90x [1.73, 2.11] | faster | ms | **1.00** | 4.00 | 3.00 | 1.90 | 1.05x | f |"
        for name in ("mlp", "bert")
    ]
    assert "<br>" not in text
    assert "(guide.md)" in text
    assert text.index("A/A floor") < text.index("| mlp\N{NO-BREAK SPACE}b1")
    assert text.index("| bert\N{NO-BREAK SPACE}b1") < text.index("**Engine first in 2 of 2 cases, beyond noise in 2.**")


# --- blocks -----------------------------------------------------------------------------


def block(one, width=80):
    console = Console(width=width, file=io.StringIO())
    (found,) = judged_case.judge_cases(one)
    print_report(console, ranked.describe_case(found))
    return console.file.getvalue()


def test_a_block_ranks_the_rows_and_says_who_leads_by_how_much():
    text = block(case("bert", shape={"batch": 1, "sequence": 128}), 100)
    title, header, *lines = text.splitlines()
    assert title == "bert  batch 1, sequence 128, 1 thread, fp32"
    assert header.strip() == "engine first, 1.90x as fast as onnxruntime[a] [1.73, 2.11]: faster"
    order = [line.split()[0] for line in lines[1:6]]
    assert order == ["engine", "onnxruntime[a]", "onnxruntime", "torch_compile", "eager"]
    assert "[a] without=SkipLayerNormFusion" in text


def test_a_block_gives_no_speed_against_a_baseline_without_a_time():
    rows = case(peers={"onnxruntime": 2.0})
    without = block([row("eager", None, status="unavailable"), *rows], 100)
    assert "onnxruntime      2.00 ms  █" in without
    assert "speed" not in without
    assert "1.00x" not in without
    header, *lines = block([row("eager", 4e-3), *rows], 100).splitlines()[2:6]
    assert "speed vs eager" in header
    assert [line.split()[3] for line in lines] == ["-", "-", "1.00x"]


def test_a_case_with_forms_of_the_engine_only_says_which_form_is_compared_with_which():
    one, other = "engine[fallback=torch]", "engine[disable=fuse_gelu]"
    over = Compared(backend=other, speed=Speed(1.25, 1 / 0.9, 1 / 0.75), verdict="faster", detectable=0.1)
    rows = [
        row(one, 1e-3, baseline=one, runner_up=over),
        row(other, 1.25e-3, baseline=one, speed=Speed(0.8, 0.77, 0.91)),
    ]
    told = f"mlp b1: {one} is 1.25x as fast as {other} [1.11, 1.33]: faster."
    assert told in " ".join(printed(report(rows), 160).split())
    assert told in write_markdown(report(rows))
    text = block(rows, 100)
    assert "engine[fallback=torch] first, 1.25x as fast as engine[a] [1.11, 1.33]: faster" in text
    assert "speed vs engine[fallback=torch]" in text
    long = "engine[disable=fuse_gelu+fuse_rope]"
    text = block([row(long, 1e-3, baseline=long), row("engine[plans=2]", 2e-3, baseline=long)], 100)
    assert "speed vs engine[a]" in text
    assert "[a] disable=fuse_gelu+fuse_rope" in text


def test_an_overview_says_which_form_of_the_engine_is_compared():
    rows = [*case()[:-1], *(one.model_copy(update={"backend": f"{one.backend}[plans=2]"}) for one in case()[-1:])]
    named = "The comparisons of the engine are of engine[plans=2], its fastest form (mlp b1)."
    assert named not in described(rows).notes, "the only form needs no name"
    assert named in described([*rows, row("engine[plans=3]", 2e-3)]).notes


def test_a_block_says_when_medians_and_paired_rounds_give_different_orders():
    def compared(value):
        peer = Compared(backend="eager", speed=Speed(value, value / 2, value * 2), verdict="unclear")
        return {"best_peer": peer}

    first = [row("eager", 1.02e-3), row("engine", 1e-3, **compared(0.80))]
    expected = (
        "engine first by median latency, but in paired rounds engine 0.80x as fast as eager [0.40, 1.60]: unclear"
    )
    assert expected in block(first, 160)
    second = [row("eager", 1e-3), row("engine", 1.02e-3, **compared(1.25))]
    expected = "eager first by median latency, but in paired rounds engine 1.25x as fast as eager [0.62, 2.50]: unclear"
    assert expected in block(second, 160)


def test_a_block_says_when_the_engine_is_slower_or_not_told_from_noise():
    expected = "onnxruntime[a] first, engine 0.63x as fast as onnxruntime[a] [0.58, 0.70]: slower"
    assert expected in block(case(engine=3e-3, verdict="slower"), 160)
    assert block(case(verdict="unclear"), 160).splitlines()[1].endswith("[1.73, 2.11]: unclear")


def test_bars_are_as_long_as_the_times():
    lines = block(case(peers={"eager": 4.0, "onnxruntime": 2.0})).splitlines()
    bars = [line.count("\u2588") for line in lines if "\u2588" in line]
    assert bars == [ranked.BAR // 4, ranked.BAR // 2, ranked.BAR]


def test_speeds_are_baseline_over_row():
    lines = case(peers={"eager": 4.0})
    lines[-1].speed = Speed(4.0, 2.0, 5.0)
    assert "4.00x [2.00, 5.00]" in block(lines)


def test_details_have_what_the_overview_leaves_out():
    lines = case(peers={"eager": 4.0, "onnxruntime": 2.0})
    lines[-1] = lines[-1].model_copy(
        update={"launches": 1234, "arena_bytes": 1 << 20, "compile_s": 1.5, "executed_share": 0.5, "neighbours": 0.021}
    )
    console = Console(width=80, file=io.StringIO())
    print_report(console, details.describe_details(judged_case.judge_cases(lines)[0], records.environment()))
    text = console.file.getvalue()
    for name, value in (("launches", "1,234"), ("arena", "1.00 MiB"), ("compile", "1.50 s"), ("beside", "+2.1%")):
        (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
        assert value in line
    assert "fallbacks" not in text, "a line that no row has"
    assert "2 generations of processes, 30 samples a backend; A/A floor 1.05x" in " ".join(text.split())


def test_the_lead_over_a_backend_whose_row_is_missing_is_told():
    (one,) = judged_case.judge_cases([row for row in case() if row.backend == "engine"])
    console = Console(width=80, file=io.StringIO())
    print_report(console, ranked.describe_case(one))
    assert f"engine first, 1.90x as fast as {one.lead.other} " in console.file.getvalue()


# --- pictures ---------------------------------------------------------------------------


def test_a_picture_is_drawn_for_light_and_dark_pages_and_is_the_same_again(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra plots")
    lines = [*case("bert"), *case("mlp", engine=3e-3, verdict="slower")]
    target = tmp_path / "lead.svg"
    picture.draw(target, lines, records.environment(), None)
    first = target.read_text()
    for text in (first, (tmp_path / "lead-dark.svg").read_text()):
        assert "1.90x faster" in text
        assert "0.63x slower" in text
        assert "bert b1" in text
    assert picture.LIGHT.text in first
    picture.draw(target, lines, records.environment(), None)
    assert target.read_text() == first


def test_a_plot_has_the_axis_in_the_middle_and_the_interval_on_its_side():
    console = Console(width=80, file=io.StringIO())
    print_report(console, plot.describe_leads(case(peers={"eager": 2.0}), records.environment(), None))
    (line,) = [line for line in console.file.getvalue().splitlines() if line.startswith("mlp b1 ")]
    assert line.index("\u2502") < line.index("\u25cf")
    assert "2.00x eager" in line
    assert "faster" in line


def test_marks_are_single_signs():
    assert all(len(sign) == 1 for mark, sign in notes.LETTERS.items() if not mark.startswith("unclear"))
    assert len(set(notes.LETTERS.values())) == len(notes.LETTERS)
    assert notes.MEANINGS.keys() == notes.LETTERS.keys()


@pytest.mark.parametrize("width", [60, 80, 110, 160])
def test_options_of_the_engine_are_shown_and_not_read_as_markup(width):
    rows = case(peers={"eager": 4.0})
    rows[-1] = rows[-1].model_copy(update={"backend": "engine[planner=in_order]"})
    assert "[planner=in_order]" in printed(report(rows), width)


def test_the_lines_of_a_table_have_no_blanks_at_their_ends():
    table = Table([Column("name"), Column("value")], has_rule=False)
    table.add("a", "long value")
    table.add(Cell("b", "bold"), "")
    written = io.StringIO()
    table.to_terminal(Console(file=written, width=40, color_system=None), indent=2)
    assert written.getvalue() == "  name  value\n  a     long value\n  b\n"
    written = io.StringIO()
    table.to_terminal(Console(file=written, width=40, force_terminal=True, color_system="standard"))
    assert "\x1b[1mb" in written.getvalue()


def test_a_reason_of_many_lines_is_told_in_one_with_its_items_apart():
    text = "UnsupportedOp: 1 operation:\n- rand: it draws (f.py:6)\nConfig(x) lets torch\n run calls"
    assert join_lines(text) == "UnsupportedOp: 1 operation: rand: it draws (f.py:6); Config(x) lets torch run calls"


def test_a_backend_that_lacks_two_precisions_has_one_note():
    cases = [
        records.summary(
            case=f"a/b1/t1/{precision}", model="a", precision=precision, backend="torchao", status="unavailable",
            reason=f"torchao does int8_weight on cpu; the case asks for {precision} on cpu",
        )
        for precision in ("fp32", "bf16")
    ]  # fmt: skip
    told = list(notes.explain_missing(judged_case.judge_cases(cases), names.shorten_names(cases)))
    assert told == ["torchao unavailable (all cases): torchao does int8_weight on cpu"]


def test_cases_that_share_a_precision_are_named_by_it():
    cases = [
        records.summary(
            case=f"{model}/b1/t1/{precision}", model=model, precision=precision, backend="torchao",
            status="unavailable", reason="no" if precision == "fp32" or model == "c" else "other",
        )
        for model in "abc" for precision in ("fp32", "bf16")
    ]  # fmt: skip
    judged = judged_case.judge_cases(cases)
    short = names.shorten_names(cases)
    told = list(notes.explain_missing(judged, short))
    assert [one.partition(" (")[2] for one in told] == [
        "a b1 fp32, b b1 fp32, c b1 fp32, c b1 bf16): no",
        "a b1 bf16, b b1 bf16): other",
    ]
    (whole,) = notes.explain_missing(
        [one for one in judged if next(iter(one.rows.values())).precision == "fp32"], short
    )
    assert whole == "torchao unavailable (all cases): no"
    assert notes.name_cases([short[f"{model}/b1/t1/fp32"] for model in "abc"], judged, short) == "all cases in fp32"
