"""The texts of errors and warnings, kept in one file: tests/messages.json, a list of texts for each test.

A test checks the class and the fields of an error; `messages.raises` and `messages.warns` also compare its text with
the file. `make messages` writes the file again, or with TEST_OPTIONS=tests/ops the texts of those tests, and the
difference is read with the change that made it. What differs from run to run or between machines is replaced: folders,
lines of source files, addresses. The packages are those of constraints.txt.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "tests" / "messages.json"
_REPLACED = (
    (re.compile(r"/\S*?pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?[\w.-]+"), "TMP"),
    (re.compile(r"[^\s('\"]*/site-packages"), "PACKAGES"),
    (re.compile(re.escape(str(ROOT))), "ROOT"),
    (re.compile(r"(\.py):\d+"), r"\1:LINE"),
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
)
_shown: dict[str, list[str]] = defaultdict(list)
"""Test -> the texts that it has seen so far."""
_state: dict[str, Any] = {"renews": False, "kept": None}


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...]) -> Iterator[pytest.ExceptionInfo]:
    """As `pytest.raises`; the text of the error is that of the file."""
    with pytest.raises(kind) as caught:
        yield caught
    check(str(caught.value))


@contextmanager
def warns(kind: type[Warning]) -> Iterator[pytest.WarningsRecorder]:
    """As `pytest.warns`; the texts of the warnings of this kind are those of the file."""
    with pytest.warns(kind) as caught:
        yield caught
    check("\n".join(str(one.message) for one in caught if isinstance(one.message, kind)))


def check(text: str) -> None:
    """Compare TEXT with the one that the file has for this place of the running test."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    text = normalise(text)
    _shown[test].append(text)
    if _state["renews"]:
        return
    if _state["kept"] is None:
        _state["kept"] = read()
    expected = _state["kept"].get(test, [])[len(_shown[test]) - 1 : len(_shown[test])]
    assert [text] == expected, f"not the text of {PATH.relative_to(ROOT)}; `make messages` renews it"


def normalise(text: str) -> str:
    """TEXT without what differs from run to run."""
    for pattern, word in _REPLACED:
        text = pattern.sub(word, text)
    return text


def read() -> dict[str, list[str]]:
    """The texts of the file."""
    return json.loads(PATH.read_text()) if PATH.exists() else {}


class Plugin:
    """Forgets the texts of a test before it runs again; writes the file where that is asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        _state["renews"] = config.getoption("renew_messages")

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        _shown[item.nodeid] = []

    def pytest_sessionfinish(self) -> None:
        workeroutput = getattr(self.config, "workeroutput", None)
        if workeroutput is not None:
            workeroutput["messages"] = dict(_shown)
        elif _state["renews"]:
            write(_shown)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        _shown.update(getattr(node, "workeroutput", {}).get("messages", {}))


def write(shown: dict[str, list[str]]) -> None:
    """Replace the texts of the tests of SHOWN; those of tests that did not run stay."""
    texts = {test: texts for test, texts in sorted({**read(), **shown}.items()) if texts}
    PATH.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n")
