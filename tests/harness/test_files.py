"""A file of a user is written whole, or stays as it was."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from suites.cli.output import check_writable
from suites.harness.errors import UsageError
from suites.harness.files import write_text_file
from suites.harness.judge import gate, stats
from suites.harness.present import markdown, picture
from suites.harness.record.schema import Compared, Speed
from tests.harness import records
from tests.harness.full_disk import full_after

PAGE = "The user's own text.\n<!-- table -->\n<!-- /table -->\n"
LINES = [
    records.summary(
        backend="engine",
        latency=stats.latency([[[1e-3]]]),
        best_peer=Compared(backend="eager", speed=Speed(1.25, 1.2, 1.3), verdict="faster"),
    ),
    records.summary(latency=stats.latency([[[2e-3]]])),
]


def draw(path):
    pytest.importorskip("matplotlib", reason="pictures need the extra plots")
    picture.draw(path, LINES, records.environment(), None)


WRITERS = {
    "page.md": lambda path: markdown.write_between(path, "table", "| a |\n" * 100),
    "lead.svg": draw,
    "baselines.toml": lambda path: gate.write(path, gate.Baselines(suite="s", counts={"c" * 200: {}})),
    "rows.csv": lambda path: write_text_file(path, "a,b\n" * 100),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_earlier_file_as_it_was(tmp_path, name):
    path = tmp_path / name
    path.write_text(PAGE)
    with full_after(100), pytest.raises(UsageError, match=f"{name}: .*File too large"):
        WRITERS[name](path)
    assert path.read_text() == PAGE
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"
    WRITERS[name](path)
    assert path.read_text() != PAGE


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual_mode(tmp_path):
    script, new, usual = tmp_path / "kept", tmp_path / "new", tmp_path / "usual"
    script.write_text("old")
    script.chmod(0o764)
    usual.write_text("")
    write_text_file(script, "ä")
    write_text_file(new, "ä")
    assert script.read_bytes() == new.read_bytes() == "ä".encode()
    assert stat.S_IMODE(script.stat().st_mode) == 0o764
    assert new.stat().st_mode == usual.stat().st_mode


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder/page.md", tmp_path / "link.md"
    target.write_text("old")
    link.symlink_to("folder/page.md")
    write_text_file(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_check_before_measuring_leaves_a_link_to_nothing(tmp_path):
    link = tmp_path / "link.md"
    link.symlink_to("page.md")
    check_writable(link)
    assert list(tmp_path.iterdir()) == [link]


def test_a_pipe_is_written_in_place(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_text_file(path, "text")
    reader.join(timeout=60)
    assert read == ["text"]
    assert path.is_fifo()


def test_a_name_may_be_as_long_as_names_of_files_can_be(tmp_path):
    path = tmp_path / ("n" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    write_text_file(path, "text")
    assert path.read_text() == "text"


def test_halves_of_characters_are_written_with_a_backslash(tmp_path):
    write_text_file(tmp_path / "a", "caf\udce9")
    assert (tmp_path / "a").read_text() == "caf\\udce9"
