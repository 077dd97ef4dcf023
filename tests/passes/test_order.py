"""The order of passes: the pipelines keep what each pass says about its place, and a wrong order is found."""

from __future__ import annotations

import pytest

import engine
from engine import passes
from engine.passes.base import Constraint, Pass, constraints, violations
from tests import messages

TARGETS = sorted({one.target for one in passes.PASSES.values() if one.target is not None})
STATED = list(constraints(list(passes.PASSES.values())))


def ordered(names):
    return [passes.PASSES[name] for name in names]


def kept(names):
    return [str(found) for found in violations(ordered(names))]


def exchanged(names, one, other):
    swap = {one: other, other: one}
    return [swap.get(name, name) for name in names]


@pytest.mark.parametrize("target", TARGETS)
def test_a_default_pipeline_keeps_every_constraint(target):
    assert kept(passes.pipeline(target)) == []


def test_constraints_name_passes_and_give_a_reason():
    assert len(STATED) > 40
    for found in STATED:
        assert {found.earlier, found.later} <= set(passes.PASSES), found
        assert len(found.reason) > 15, found


@pytest.mark.parametrize("found", STATED, ids=lambda found: f"{found.earlier}-{found.later}")
def test_two_constrained_passes_that_trade_places_are_found(found):
    for target in TARGETS:
        usual = passes.pipeline(target)
        if {found.earlier, found.later} <= set(usual):
            assert found in violations(ordered(exchanged(usual, found.earlier, found.later)))
            return
    pytest.fail("the two passes run for no target")


def test_a_pass_that_is_missing_breaks_nothing():
    for left_out in passes.PASSES:
        assert kept([name for name in passes.pipeline("cpu") if name != left_out]) == []


def test_of_a_pass_that_runs_twice_every_run_counts():
    early = Pass("early", lambda _graph: 0)
    late = Pass("late", lambda _graph: 0, after={"early": "it reads"})
    assert violations([early, late, early, late]) == []
    assert violations([late, early, late]) == [Constraint("early", "late", "late", "it reads")]
    first = Pass("first", lambda _graph: 0, before={"late": "it writes"})
    assert violations([first, late, first, late]) == []
    assert violations([first, late, first]) == [Constraint("first", "late", "first", "it writes")]


def test_a_constraint_is_told_with_its_reason():
    rope = next(found for found in STATED if found.owner == "fuse_rope" and found.later == "drop_identities")
    assert str(rope).startswith("fuse_rope must run before drop_identities: at position 0 ")


def test_a_pipeline_of_a_user_may_break_a_constraint():
    names = ("merge_linear", "fuse_gated_linear")
    common, own = passes.stages(engine.Config(pipeline=names))
    assert [one.name for one in common] == list(names)
    assert own == []
    assert len(kept(names)) == 1


# --- stages ------------------------------------------------------------------------------------------------------


def names_of(config):
    return tuple([one.name for one in stage] for stage in passes.stages(config))


def test_the_common_stage_holds_no_pass_of_a_target():
    common, own = passes.stages(engine.Config())
    assert {one.target for one in common} == {None}
    assert {one.target for one in own} == {None, "cpu"}
    assert [one.name for one in common] == list(passes.PIPELINE)


def test_a_pipeline_is_cut_at_the_first_pass_of_a_target():
    names = ("fold_constants", "channels_last", "dead_code", "fuse_epilogue")
    assert names_of(engine.Config(pipeline=names)) == (
        ["fold_constants"],
        ["channels_last", "dead_code", "fuse_epilogue"],
    )
    assert names_of(engine.Config(pipeline=names, disable=("channels_last",)))[0] == ["fold_constants"]


def test_a_disabled_pass_is_in_neither_stage():
    common, own = names_of(engine.Config(disable=("dead_code", "fuse_pointwise")))
    assert "dead_code" not in common + own
    assert own == ["channels_last", "decode_convolutions", "fuse_expand_depthwise"]


def test_a_pass_of_another_target_is_refused(monkeypatch):
    other = Pass("fuse_pointwise", lambda _graph: 0, target="elsewhere")
    monkeypatch.setitem(passes.PASSES, "fuse_pointwise", other)
    with messages.raises(engine.ConfigError):
        passes.stages(engine.Config(pipeline=("fuse_pointwise",)))


def test_every_pass_is_called_as_its_file():
    for name, one in passes.PASSES.items():
        assert one.name == name == one.run.__module__.rpartition(".")[2]
        assert one.summary
