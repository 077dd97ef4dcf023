"""The table of lines that `make lint` prints."""

import tomllib

from tests.lines import ROOT, count_lines, write_kept


def test_lines_are_those_of_sources_in_all_folders_below(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one.py").write_text("1\n2\n")
    (tmp_path / "a" / "b" / "two.c").write_text("3\n")
    (tmp_path / "a" / "b" / "data.json").write_text("{}\n")
    assert count_lines(tmp_path, "a") == 3


def test_what_is_kept_is_written_to_pyproject_and_nothing_else():
    text = (ROOT / "pyproject.toml").read_text()
    before, after = tomllib.loads(text), tomllib.loads(write_kept(text, {"engine": 1, "csrc": 2}))
    assert after["tool"].pop("enginebench") == {"lines": {"engine": 1, "csrc": 2}}
    before["tool"].pop("enginebench")
    assert after == before


def test_every_package_of_the_engine_is_counted():
    kept = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["enginebench"]["lines"]
    packages = {f"engine/{file.parent.name}" for file in ROOT.glob("engine/*/__init__.py")}
    assert packages <= kept.keys()
