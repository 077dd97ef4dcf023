"""Ablations: which programs are compared, what is said of planted switches, and how it is told."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import engine
from suites import models
from suites.backends import stepwise
from suites.backends.base import BackendSwitch, NotApplicable
from suites.backends.engine import Engine
from suites.cli import main
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.harness.judge import ablation
from suites.harness.judge.ablation import ADD_ONE_IN, ALL, LEAVE_ONE_OUT, PAIR, Ablation
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import ablation_table
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import AblationRecord, Contention, Samples
from suites.harness.run import ablate
from tests import messages
from tests.harness import planted_switches as planted
from tests.harness import records
from tools.simulated_noise import Noise, bursts

FILE = Path(__file__).with_name("planted_switches.py")
CASE = Case("mlp", {"batch": 1})
ENGINE = Ablation(
    BackendRef("engine", {"disable": "fuse_gelu"}),
    [
        BackendSwitch("pass", "fuse_rope", {"disable": "fuse_rope"}, {"only": "fuse_rope"}),
        BackendSwitch("planner", "planner=no_reuse", {"planner": "no_reuse"}),
        BackendSwitch("planner", "planner=in_order", {"planner": "in_order"}),
    ],
    {"only": "none"},
    ("disable", "only"),
)


# --- which programs -----------------------------------------------------------------------------------------------


def test_what_the_whole_leaves_out_stays_out_when_a_switch_is_turned():
    assert ENGINE.options({"disable": "fuse_rope"}) == {"disable": "fuse_gelu+fuse_rope"}
    assert ENGINE.options({"planner": "in_order"}) == {"disable": "fuse_gelu", "planner": "in_order"}


def test_two_alternatives_to_one_choice_are_no_pair():
    assert ENGINE.options({"planner": "in_order"}, {"planner": "no_reuse"}) is None
    pairs = ENGINE.pairs([switch.name for switch in ENGINE.switches])
    assert [(one.name, other.name) for one, other, _ in pairs] == [
        ("fuse_rope", "planner=no_reuse"), ("fuse_rope", "planner=in_order"),
    ]  # fmt: skip


def test_every_program_is_asked_for_once_and_the_whole_first():
    asked = ENGINE.asked(ablation.MODES)
    assert asked[0] == {"disable": "fuse_gelu"}
    assert len(asked) == 6  # the whole, the bare, three left out, one added in
    assert len({tuple(sorted(one.items())) for one in asked}) == 6


def told(digests=None, **failed):
    """Facts by label, all different where `digests` says nothing else."""
    labels = [ENGINE.ref(one).label for one in ENGINE.asked(ablation.MODES)]
    found = {label: {"run_digest": (digests or {}).get(label, label), "nodes": 3} for label in labels}
    return found | {label: ablation.refused("failed", reason) for label, reason in failed.items()}


def test_a_switch_that_leaves_the_program_as_it_is_is_not_reached_and_not_timed():
    whole = ENGINE.base.label
    same = "engine[disable=fuse_gelu,planner=in_order]"
    trials = ENGINE.trials(ablation.MODES, told({same: whole}))
    quiet = [trial for trial in trials if not trial.reached]
    assert [(trial.switch, trial.mode) for trial in quiet] == [("planner=in_order", LEAVE_ONE_OUT)]
    timed = {label for part in ablation.parts(ENGINE, [t for t in trials if t.reached], 8) for label in part}
    assert same not in timed


def test_a_switch_that_names_a_value_is_on_where_that_value_is():
    whole, value = ENGINE.base.label, "engine[disable=fuse_gelu,planner=no_reuse]"
    trials = {(one.switch, one.mode): one for one in ENGINE.trials(ablation.MODES, told())}
    trial = trials["planner=no_reuse", LEAVE_ONE_OUT]
    assert (trial.on, trial.off) == (value, whole)
    assert trials["fuse_rope", LEAVE_ONE_OUT].on == whole
    lines = [records.samples(backend=label, seconds=[[seconds]] * 3) for label, seconds in ((whole, 1.0), (value, 2.0))]
    (line,) = ablation.judge(CASE, [trial], lines, SPREAD, 0.0, 0.02)
    assert line.speed.value == pytest.approx(0.5), "the value takes twice as long as the usual one"
    assert ablation_table.get_whole([line]) == whole


def test_a_backend_that_tells_no_digest_is_always_timed():
    trials = ENGINE.trials(ablation.MODES, {label: {} for label in told()})
    assert all(trial.reached for trial in trials)


def test_a_program_that_cannot_be_made_is_a_row_of_its_own():
    facts = told()
    facts["engine[disable=fuse_gelu,planner=no_reuse]"] = ablation.refused("failed", "out of memory")
    line = next(
        line for line in ablation.judge(CASE, ENGINE.trials([LEAVE_ONE_OUT], facts), [], SPREAD, 0.0, 0.02)
        if line.switch == "planner=no_reuse"
    )  # fmt: skip
    assert (line.status, line.reason, line.reached, line.speed) == ("failed", "out of memory", False, None)


def test_a_reason_that_holds_in_both_modes_is_printed_once():
    failed = [
        AblationRecord(
            case="c", switch="s", switch_kind="pass", mode=mode, reached=False, with_="a", without="b",
            status="failed", reason="out of memory",
        )
        for mode in ablation.MODES
    ]  # fmt: skip
    assert ablation_table.write_notes(failed).count("s: failed: out of memory") == 1


@pytest.mark.parametrize("size", [5, 6, 8, 20])
def test_each_comparison_takes_turns_within_one_part_with_the_whole_beside_it(size):
    switches = [BackendSwitch("pass", name, {"disable": name}, {"only": name}) for name in "abcdefghijk"]
    many = Ablation(BackendRef("engine"), switches, {"only": "none"}, ("disable", "only"))
    facts = {many.ref(one).label: {"run_digest": many.ref(one).label} for one in many.asked(ablation.MODES)}
    trials = many.trials(ablation.MODES, facts)
    parts = ablation.parts(many, trials, size)
    assert all(any({trial.on, trial.off} <= set(part) for part in parts) for trial in trials)
    assert all(part[:2] == ["engine", "engine#2"] and len(part) == len(set(part)) <= size for part in parts)


# --- what is said ---------------------------------------------------------------------------------------------------

SPREAD = MachineNoise().spread(1)
PLANTED = Ablation(BackendRef("planted"), planted.Planted.switches(), planted.Planted.bare(), planted.Planted.lists)


def off_of(label):
    options = BackendRef.parse(label).options
    if "on" in options:
        return set(planted.NAMES) - {options["on"]}
    return set(filter(None, options.get("off", "").split("+")))


def facts_of(labels):
    return {label: {"run_digest": "+".join(sorted(off_of(label) - {"no_op"}))} for label in labels}


def simulated(labels, generations, seed):
    """`samples` lines of planted switches on a noisy machine: everybody takes turns in every round."""
    generator, noise = np.random.default_rng(seed), Noise()
    lines = []
    for number in range(generations):
        shape = 15, len(labels), 3
        slow = bursts(generator, noise, math.prod(shape)).reshape(shape)
        times = generator.normal(0.0, noise.sample, shape) + slow
        turn = generator.permuted(np.tile(np.arange(len(labels)), (15, 1)), axis=1)
        for index, label in enumerate(labels):
            mine = np.take_along_axis(times, np.argwhere(turn == index)[:, 1].reshape(15, 1, 1), 1)[:, 0]
            offset = math.log(planted.factor(off_of(label))) + generator.normal(0.0, noise.process / math.sqrt(2))
            seconds = (np.exp(mine + offset) * 1e-3).tolist()
            lines.append(records.samples(backend=label, generation=number, seconds=seconds))
    return lines


def judged(seed, generations=10):
    """Lines of single switches and of the two planted pairs, with what is true of each."""
    singles = PLANTED.asked(ablation.MODES)
    pairs = [pair for pair in PLANTED.pairs(planted.NAMES) if pair[0].name[:-2] == pair[1].name[:-2]]
    labels = [PLANTED.ref(one).label for one in (*singles, *(options for _, _, options in pairs))]
    facts = facts_of(labels)
    trials = PLANTED.trials(ablation.MODES, facts) + [PLANTED.pair_trial(*pair, facts) for pair in pairs]
    timed = [*dict.fromkeys(label for trial in trials if trial.reached for label in trial.labels), "planted#2"]
    samples = simulated(timed, generations, seed)
    floor = ablation.floor_of(samples, PLANTED.base, SPREAD)
    return ablation.conclude(ablation.judge(CASE, trials, samples, SPREAD, floor, 0.02))


@pytest.fixture(scope="module")
def repeated():
    """The same ablation on 60 noisy machines: (switch, mode) -> its lines."""
    found = {}
    for seed in range(60):
        for line in judged(seed):
            found.setdefault((line.switch, line.mode), []).append(line)
    return found


def share(lines, verdict):
    return sum(line.verdict == verdict for line in lines) / len(lines)


def test_a_no_op_is_not_reached(repeated):
    assert not any(line.reached for line in repeated["no_op", LEAVE_ONE_OUT])


def test_a_no_op_that_changes_the_program_alone_is_no_difference(repeated):
    lines = repeated["digest_only", LEAVE_ONE_OUT] + repeated["digest_only", ADD_ONE_IN]
    assert share(lines, "faster") + share(lines, "slower") <= 0.05
    inside = [line.speed.low <= 1 <= line.speed.high for line in lines]
    assert np.mean(inside) >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / len(lines))


def test_twenty_percent_and_a_cost_of_ten_are_found_both_ways(repeated):
    for mode in ablation.MODES:
        assert share(repeated["pays20", mode], "faster") == 1
        assert share(repeated["costs10", mode], "slower") == 1


def test_two_percent_are_recovered_within_the_interval(repeated):
    lines = repeated["pays2", LEAVE_ONE_OUT]
    inside = [line.speed.low <= 1.02 <= line.speed.high for line in lines]
    assert np.mean(inside) >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / len(lines))
    assert share(lines, "slower") == 0


def test_redundant_switches_are_nothing_alone_and_named_as_a_pair(repeated):
    assert share(repeated["redundant_a", LEAVE_ONE_OUT], "faster") <= 0.05
    assert share(repeated["redundant_a", ADD_ONE_IN], "faster") == 1  # alone it does the work of both
    assert share(repeated["redundant_a+redundant_b", PAIR], "slower") >= 0.9


def test_switches_that_work_only_together_are_named_so(repeated):
    assert share(repeated["synergy_a", LEAVE_ONE_OUT], "faster") == 1
    assert share(repeated["synergy_a", ADD_ONE_IN], "faster") <= 0.05
    assert share(repeated["synergy_a+synergy_b", PAIR], "faster") >= 0.9


def test_everything_together_is_the_first_row(repeated):
    lines = repeated[ALL, LEAVE_ONE_OUT]
    assert share(lines, "faster") == 1
    true = planted.factor(set(planted.NAMES))
    inside = [line.speed.low <= true <= line.speed.high for line in lines]
    assert np.mean(inside) >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / len(lines))


def test_the_strongest_are_those_that_move_time_in_either_mode():
    names = ablation.strongest(judged(0), 3)
    assert names[0] == "pays20"
    assert set(names[1:]) <= {"redundant_a", "redundant_b", "synergy_a", "synergy_b"}


def test_a_note_says_in_how_many_rounds_others_used_the_processors():
    (record,) = [
        AblationRecord(
            case="c", switch="s", switch_kind="pass", mode=LEAVE_ONE_OUT, reached=True, with_="a", without="b", p=1.0,
            verdict="faster",
        )
    ]  # fmt: skip
    # Two groups of programs, whose rounds they share; the whole program "a" is in both. 3 of 20 rounds were disturbed.
    lines = [
        records.samples(case=case, backend=label, seconds=[[1.0]] * 10, contention=Contention(disturbed=count))
        for case, label, count in (
            ("c", "a", 3), ("c", "b", 3), ("c", "d", 3), ("c", "a", 0), ("c", "e", 0), ("another", "a", 10),
        )
    ]  # fmt: skip
    assert [text for text in ablation_table.write_notes([record], lines) if "disturbed" in text] == [
        "d disturbed: other processes used the processors, also when rounds were repeated (15% of rounds)."
    ]
    assert not ablation_table.write_notes([record], lines[3:4])


def test_the_legend_explains_the_columns_that_are_there():
    def legend(*modes):
        return ablation_table.write_legend(
            [
                AblationRecord(
                    case="c", switch="s", switch_kind="pass", mode=mode, reached=True, with_="a", without="b"
                )
                for mode in modes
            ]
        )

    assert "alone" not in legend(LEAVE_ONE_OUT)
    assert "alone: the same" in legend(LEAVE_ONE_OUT, ADD_ONE_IN)


def test_many_switches_at_once_need_more_than_five_percent_each():
    lines = [
        AblationRecord(
            case="c", switch=str(p), switch_kind="pass", mode=LEAVE_ONE_OUT, reached=True, with_="a", without="b",
            p=p, verdict="faster",
        )
        for p in (0.001, 0.03, 0.04)
    ]  # fmt: skip
    found = ablation.conclude(lines)
    assert [line.verdict for line in found] == ["faster", "unclear", "unclear"]
    assert [line.p for line in found] == pytest.approx([0.003, 0.06, 0.06])


@pytest.mark.parametrize(
    ("kinds", "text"), [(["planner"], "kind planner."), (["isa", "planner"], "kinds isa, planner.")]
)
def test_the_note_names_the_kinds_of_which_no_switch_changes(kinds, text):
    lines = [
        AblationRecord(
            case="c", switch=kind, switch_kind=kind, mode=mode, reached=True, with_="a", without="b", p=1.0,
            verdict="faster",
        )
        for kind, mode in [("pass", LEAVE_ONE_OUT), ("pass", ADD_ONE_IN), *((kind, LEAVE_ONE_OUT) for kind in kinds)]
    ]  # fmt: skip
    whole = AblationRecord(
        case="c", switch=ALL, switch_kind="all", mode=LEAVE_ONE_OUT, reached=True, with_="a", without="none", p=1.0,
        verdict="faster",
    )  # fmt: skip
    assert ablation_table.write_notes([whole, *lines])[0].endswith(f"; it changes no switch of the {text}")


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (12, "fuse_gelu, op0=vector, op1=vector"),
        (13, "fuse_gelu, 13 kernel variants, which enginebench show RUN --csv"),
    ],
)
def test_a_note_has_the_number_of_unreached_kernel_variants_if_there_are_many(count, told):
    names = [("fuse_gelu", "pass"), *((f"op{number}=vector", "kernel") for number in range(count))]
    lines = [
        AblationRecord(
            case="c", switch=name, switch_kind=kind, mode=LEAVE_ONE_OUT, reached=False, with_="a", without="b",
        )
        for name, kind in names
    ]  # fmt: skip
    (note,) = ablation_table.write_notes(lines)
    assert note.startswith(f"Not reached (the same program, so not timed): {told}")


# --- the whole way ----------------------------------------------------------------------------------------------------


ARGUMENTS = (
    "ablate", "mlp", "--set", "batch=2", "--set", "widths=16-16", "--backend", f"{FILE}:Planted",
    "--switches", "pays20,no_op,digest_only,inapplicable", "--mode", "leave-one-out", "--pairs", "2",
    "--generations", "2",
)  # fmt: skip


def enginebench(*arguments):
    """Standard output of the command line."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return out.getvalue()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What the command line says in JSON, the results folder, and the CSV file that it wrote."""
    folder = tmp_path_factory.mktemp("ablated")
    where = ("--results", str(folder / "results"))
    told = enginebench(*ARGUMENTS, *where, "--json", "--csv", str(folder / "numbers.csv"))
    return json.loads(told), where, folder


def line_of(outcome, switch, mode=LEAVE_ONE_OUT):
    return next(line for line in outcome[0]["ablation"] if (line["switch"], line["mode"]) == (switch, mode))


def test_planted_switches_are_named_rightly_from_processes_to_the_record(outcome):
    assert line_of(outcome, "pays20")["verdict"] == "faster"
    speed = line_of(outcome, "pays20")["speed"]
    assert speed["low"] <= 1.2 <= speed["high"]
    assert line_of(outcome, "digest_only")["verdict"] in ("same", "unclear")
    assert line_of(outcome, "no_op")["verdict"] is None
    assert line_of(outcome, "pays20+digest_only", PAIR)["verdict"] in ("same", "unclear")


def test_the_record_holds_the_samples_and_what_was_made_of_them(outcome):
    stored = [store.read(Path(path)) for path in outcome[0]["paths"]]
    lines = [store.to_json(line) for run in stored for line in run.of(AblationRecord)]
    assert lines == outcome[0]["ablation"]
    assert not any("no_op" in line.backend for line in stored[0].of(Samples))
    assert line_of(outcome, "pays20")["deltas"] == {"nodes": [10, 11]}


def test_every_key_of_an_ablation_is_described(outcome, root):
    named = set(re.findall(r"`(\w+)`", (root / "docs/results-format.md").read_text()))
    assert {key for line in outcome[0]["ablation"] for key in line} <= named


def test_an_ablation_goes_on_where_it_was_interrupted(outcome, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    shutil.copytree(Path(outcome[1][1]), results)
    singles, pairs = (results / "runs" / Path(path).parent.name / Path(path).name for path in outcome[0]["paths"])
    invocation = Invocation("ablate", [*ARGUMENTS[1:], "--json"])
    invocation.keep(singles)
    invocation.keep(pairs)
    again = json.loads(enginebench("ablate", "--resume", pairs.stem))
    assert [Path(path).stem for path in again["paths"]] == [singles.stem, pairs.stem]
    assert again["ablation"] == outcome[0]["ablation"], "both records were complete"

    pairs.unlink()
    Invocation("ablate", [*ARGUMENTS[1:], "--json"]).keep(singles)
    again = json.loads(enginebench("ablate", "--resume", singles.stem))
    assert Path(again["paths"][0]).stem == singles.stem
    assert line_of([again], "pays20+digest_only", PAIR)["speed"] is not None
    assert not list(results.rglob("*.args.json"))


def test_pairs_of_fewer_than_two_switches_are_said_to_be_none_and_store_no_run(tmp_path, capsys):
    arguments = [*ARGUMENTS[: ARGUMENTS.index("--switches") + 1], "no_op", *ARGUMENTS[-6:]]
    answer = json.loads(enginebench(*arguments, "--results", str(tmp_path), "--json"))
    assert len(answer["paths"]) == len(list(tmp_path.rglob("*.jsonl"))) == 1
    assert "no pairs, because no two switches that were timed can be left out together" in capsys.readouterr().err


def test_facts_are_those_of_the_program_that_is_timed():
    """Mamba shows the engine an operator that it shows torch.export as a loop."""
    model, inputs = models.get("mamba-tiny").build()
    facts = Engine(1, {}).program_facts(model, inputs, {})
    assert facts["nodes"] == engine.compile(model, inputs).report().to_dict()["nodes"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--backend", "onnxruntime", "--mode", "add-one-in"], "onnxruntime has no program without switches"),
    ],
)
def test_an_ablation_that_would_measure_nothing_is_refused(options, told, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["ablate", "mlp", *options, "--results", str(tmp_path / "results")])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_tables_show_what_was_reached_and_name_the_rest(outcome):
    name = Path(outcome[0]["paths"][0]).stem
    text = enginebench("show", name, *outcome[1], "--markdown")
    row, counts = (line for line in text.splitlines() if line.startswith("| `pays20`"))
    assert "| faster |" in row
    assert "11\N{NO-BREAK SPACE}(+1)" in counts
    assert "Not reached (the same program, so not timed): no_op." in text
    note = "Slow kernels run 1 of 4 launches of planted_switches.py:Planted["
    assert note in text
    printed = enginebench("show", name, *outcome[1])
    assert printed.startswith(f"run {name}\n")
    assert "taken apart" in printed
    assert "Slow kernels run" in printed
    shown = json.loads(enginebench("show", name, *outcome[1], "--json"))
    assert [line["switch"] for line in shown["ablation"]] == [ALL, "pays20", "digest_only", "no_op", "inapplicable"]
    page = outcome[2] / "page.md"
    page.write_text("before\n<!-- here -->\n<!-- /here -->\nafter\n")
    enginebench("show", name, *outcome[1], "--into", str(page), "--marker", "here")
    assert row in page.read_text()


def test_a_switch_that_no_part_of_the_program_can_use_is_not_applicable_and_no_failure(outcome):
    """The fixture asserts the exit status: 0."""
    line = line_of(outcome, "inapplicable")
    assert (line["status"], line["reason"]) == ("not applicable", "no layer of this model can use it")
    assert (line["reached"], line["speed"], line["verdict"]) == (False, None, None)
    text = enginebench("show", Path(outcome[0]["paths"][0]).stem, *outcome[1])
    assert "Not applicable (no part of the program can use it): inapplicable." in text
    assert text.count("inapplicable") == 1


@pytest.mark.parametrize(("status", "succeeded"), [("not applicable", True), ("ok", True), ("failed", False)])
def test_an_ablation_succeeds_unless_a_program_that_makes_sense_fails(status, succeeded):
    line = AblationRecord(case=CASE.id, switch="a", switch_kind="x", mode=LEAVE_ONE_OUT, reached=False, status=status,
                          with_="a", without="b")  # fmt: skip
    assert ablate.Outcome([], None, [line]).succeeded == succeeded


def test_a_kernel_variant_that_no_step_can_run_is_not_applicable():
    model, inputs = torch.nn.Conv2d(4, 8, 3, stride=2).eval(), (torch.ones(1, 4, 9, 9),)
    with messages.raises(NotApplicable):
        stepwise.program_facts(Engine(1, {}), model, inputs, {"variant.conv": "winograd2"})


def test_the_numbers_are_there_for_a_spreadsheet(outcome):
    table = list(csv.DictReader((outcome[2] / "numbers.csv").read_text().splitlines()))
    assert len(table) == len(outcome[0]["ablation"])
    row = next(row for row in table if row["switch"] == "pays20")
    assert float(row["speed_low"]) <= 1.2 <= float(row["speed_high"])
    assert (row["nodes_with"], row["nodes_without"]) == ("10", "11")


def test_unknown_switches_and_backends_without_any_are_refused():
    with pytest.raises(UsageError, match="fuse_gelu"):
        ablate.of_backend("engine", ["fuse_geluu"])
    with pytest.raises(UsageError, match="eager: it has no switches"):
        ablate.of_backend("eager")


@pytest.mark.parametrize(
    ("backend", "given", "nearest", "is_engine"),
    [("engine", "fuse_atention", "fuse_attention", True), (f"{FILE}:Planted", "no_ops", "no_op", False)],
)
def test_of_an_unknown_switch_the_nearest_few_are_named_and_of_the_engine_how_a_pass_becomes_one(
    backend, given, nearest, is_engine
):
    with pytest.raises(UsageError) as raised:
        ablate.of_backend(backend, [given])
    told = str(raised.value)
    assert f" are {nearest}, " in told
    assert "`enginebench list switches` lists all" in told
    assert ("engine[passes=FILE.py:FUNCTION]" in told) == is_engine
    assert len(told) < 400


def test_a_kind_stands_for_its_usual_switches():
    kernels = ablate.of_backend("engine", ["kernel"]).switches
    assert kernels
    assert not any(switch.name.endswith("=reference") for switch in kernels)
    assert [switch.name for switch in ablate.of_backend("engine", ["linear=reference"]).switches] == [
        "linear=reference"
    ]


def test_a_dry_run_says_in_words_which_switches_are_tried_alone(capsys, tmp_path):
    asked = ["ablate", "mlp", "--switches", "fuse_gelu,threads", "--dry-run", "--results", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(asked)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("fuse_gelu", "threads"))]
    assert (ended.value.code, rows) == (0, [["threads=1", "threads", "no"], ["fuse_gelu", "pass", "yes"]])
    with pytest.raises(SystemExit):
        main([*asked, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [(one["switch"], one["alone"]) for one in answer["switches"]] == [("threads=1", False), ("fuse_gelu", True)]
