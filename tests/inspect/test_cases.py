"""The cases of other runtimes in the documentation still fail, in the versions that are pinned."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CASES = sorted((Path(__file__).resolve().parents[2] / "docs/cases").glob("*.py"))


@pytest.mark.long  # each imports torch and a runtime in a process of its own
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_fails_as_it_says(path, tmp_path):
    failure = re.match(r'"""(\w+):', path.read_text())[1]
    ended = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert re.search(rf"^{failure}: ", ended.stderr, re.MULTILINE), ended.stderr
