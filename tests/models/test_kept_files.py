"""Files in a user's cache: every kind is listed with its size and can be removed."""

from __future__ import annotations

import json
import re

import pytest

from engine.targets.triton import configurations
from suites import kept_files, paths
from tests.harness.test_command_line import call


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_folder_that_the_code_keeps_is_listed(root):
    sources = [path.read_text() for path in (root / "suites").rglob("*.py")]
    used = {name for text in sources for name in re.findall(r'user_cache\(\) / "(\w+)"', text)}
    assert used | {configurations.user_folder().name} == set(kept_files.KINDS)
    assert configurations.user_folder() == paths.user_cache() / "triton"


def test_the_cache_is_listed_by_size_and_cleared_by_name(capsys):
    for kind, size in (("gguf", 3_000_000), ("revisions", 500_000), ("triton", 100_000)):
        folder = kept_files.find_folder(kind) / "below"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(size))
    status, out, _ = call(capsys, "data", "cache", "--json")
    assert status == 0
    sizes = {row["name"]: row["megabytes"] for row in json.loads(out)}
    assert sizes == {"data": 0, "gguf": 3.0, "provisioned": 0, "revisions": 0.5, "triton": 0.1}
    told = "removed gguf: 3.0 MB\nremoved data: 0.0 MB\n"
    assert call(capsys, "data", "clear", "gguf", "data", "gguf") == (0, told, "")
    assert json.loads(call(capsys, "data", "clear", "triton", "--json")[1]) == {"triton": 100_000}
    assert sorted(path.name for path in paths.user_cache().iterdir()) == ["revisions"]


def test_an_unknown_name_removes_nothing(capsys):
    kept_files.find_folder("gguf").mkdir(parents=True)
    status, out, err = call(capsys, "data", "clear", "gguf", "revision")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "did you mean 'revisions'" in err
    assert kept_files.find_folder("gguf").is_dir()


def test_the_help_of_clear_asks_for_kinds_and_not_for_names_of_data(capsys):
    status, out, _ = call(capsys, "data", "clear", "--help")
    assert status == 0
    assert "KIND" in out.splitlines()[1]
