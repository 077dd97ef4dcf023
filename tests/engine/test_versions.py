"""Versions of the file format: earlier ones are made into the newest one, step by step."""

from __future__ import annotations

import pytest

import engine
from engine import passes
from engine.errors import ConfigError, InternalError, ProgramError
from engine.program import VERSION, versions
from engine.targets.interpreter import INTERPRETER
from tests import messages
from tests.files import saved_with
from tests.golden import models as golden


def test_every_version_from_the_first_one_on_is_read():
    assert (*versions.UPGRADES, VERSION) == golden.VERSIONS == tuple(range(4, VERSION + 1))


def test_a_document_goes_through_every_version_in_between(monkeypatch):
    steps = {v: lambda document, v=v: {**document, "seen": [*document.get("seen", []), v]} for v in range(4, 7)}
    monkeypatch.setattr(versions, "UPGRADES", steps)
    monkeypatch.setattr(versions, "VERSION", 7)
    assert versions.upgrade({"version": 5}) == {"version": 7, "seen": [5, 6]}
    assert versions.upgrade({"version": 7}) == {"version": 7}
    several = versions.upgrade({"version": 6, "entries": {"a": {"version": 6}}, "facts": {}})
    assert several == {"version": 7, "entries": {"a": {"version": 7, "seen": [6]}}, "facts": {}}


def test_products_of_integers_of_an_earlier_definition_are_refused():
    def document(compute):
        linear = {"op": "linear", "inputs": [0, 1, None, None], "attributes": {"compute": compute}}
        return {"version": 5, "instructions": [linear]}

    assert versions.upgrade(document("element"))["instructions"][0]["inputs"] == [0, 1, None, None, None]
    with messages.raises(ProgramError):
        versions.upgrade(document("int8"))


@pytest.mark.parametrize("version", [None, 0, 2, 3, VERSION + 1, True, "3", 3.5, [3]])
def test_an_unknown_version_is_refused_by_number(version, tmp_path):
    saved_with(engine.load(golden.file("program")), tmp_path / "p", lambda header: header.update(version=version))
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p")


def test_entries_have_the_version_of_their_file(tmp_path):
    decoder = engine.load_decoder(golden.file("decoder"))
    saved_with(decoder, tmp_path / "d", lambda header: header["entries"]["decode"].update(version=2))
    with messages.raises(ProgramError):
        engine.load_decoder(tmp_path / "d")


# --- programs that are lowered ---------------------------------------------------------------------------------------


@pytest.fixture
def lowered(tmp_path):
    """A file that says that its graph has been through the passes of the cpu."""
    saved_with(engine.load(golden.file("images")), tmp_path / "p", lambda header: header.update(lowered="cpu"))
    return tmp_path / "p"


def test_a_program_that_is_lowered_for_a_target_runs_on_one_without_passes_of_its_own(lowered):
    loaded = engine.load(lowered, config=engine.Config(target="interpreter"))
    assert loaded.lowered.lowered == "cpu"


def test_a_program_that_is_lowered_for_another_target_is_refused_where_passes_would_run(lowered, monkeypatch):
    monkeypatch.setitem(passes._STAGES, "interpreter", ("dead_code",))
    with messages.raises(ProgramError):
        engine.load(lowered, config=engine.Config(target="interpreter"))
    assert engine.load(golden.file("images"), config=engine.Config(target="interpreter")).lowered.lowered == ""


def test_a_target_that_this_machine_lacks_is_refused_with_its_reason(monkeypatch):
    monkeypatch.setattr(type(INTERPRETER), "unavailable", lambda _self: "no such device")
    with messages.raises(ConfigError):
        engine.load(golden.file("program"), config=engine.Config(target="interpreter"))


@pytest.mark.parametrize("name", ["fuse_gelu", "absent"])
def test_a_pass_of_a_target_has_a_file_and_a_name_of_its_own(name):
    with messages.raises(InternalError):
        passes.add_stage("nowhere", "engine.passes", (name,))
