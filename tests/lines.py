"""Prints the lines of each folder beside those that pyproject.toml keeps from the last completed piece of work.

    python -m tests.lines [--keep]

With `--keep` the lines of today are written to pyproject.toml. Nothing fails: CONTRIBUTING.md says what growth needs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TABLE = "[tool.enginebench.lines]"
_KINDS = (".py", ".c", ".h", ".inc", ".md", ".js", ".html", ".css")


def count_lines(root: Path, folder: str) -> int:
    """Lines of the sources and pages in a folder, without those of folders that Git ignores."""
    files = (file for file in (root / folder).rglob("*") if file.suffix in _KINDS and "__pycache__" not in file.parts)
    return sum(file.read_text().count("\n") for file in files)


def write_kept(text: str, lines: dict[str, int]) -> str:
    """The text of pyproject.toml with these lines in its table."""
    rows = "".join(f'"{folder}" = {count}\n' for folder, count in lines.items())
    return re.sub(re.escape(_TABLE) + r"\n(\"[^\n]*\n)*", lambda _match: f"{_TABLE}\n{rows}", text)


def main() -> int:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="write the lines of today to pyproject.toml")
    keep, path = parser.parse_args().keep, ROOT / "pyproject.toml"
    kept: dict[str, int] = tomllib.loads(path.read_text())["tool"]["enginebench"]["lines"]
    lines = {folder: count_lines(ROOT, folder) for folder in kept}
    for folder, count in lines.items():
        print(f"{folder:24} {count:7,} lines {count - kept[folder]:+7,}")
    if keep:
        path.write_text(write_kept(path.read_text(), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
