"""The file of messages: another text fails a test, and what differs from run to run does not."""

import json
import warnings

import pytest

from tests import messages


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Makes the file hold these texts of the running test."""
    monkeypatch.setattr(messages, "PATH", tmp_path / "messages.json")
    monkeypatch.setattr(messages, "_shown", messages.defaultdict(list))
    monkeypatch.setattr(messages, "_state", {"renews": False, "kept": None})
    monkeypatch.setattr(messages, "ROOT", tmp_path)

    def keep(*texts):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_a.py::test_it (call)")
        messages.PATH.write_text(json.dumps({"tests/test_a.py::test_it": texts, "tests/test_b.py::test_it": ["b"]}))

    return keep


def refuse(text):
    with messages.raises(ValueError):
        raise ValueError(text)


def test_the_texts_of_a_test_are_compared_in_their_order(kept):
    kept("one", "two")
    refuse("one")
    with pytest.raises(AssertionError, match="make messages"):
        refuse("one")


def test_a_text_that_is_not_in_the_file_fails(kept):
    kept()
    with pytest.raises(AssertionError, match="make messages"):
        refuse("one")


def test_warnings_are_compared_too(kept):
    kept("one", "other")
    with messages.warns(UserWarning):
        warnings.warn("one", UserWarning, stacklevel=1)
    with pytest.raises(AssertionError, match="make messages"), messages.warns(UserWarning):
        warnings.warn("two", UserWarning, stacklevel=1)


def test_renewing_replaces_the_texts_of_the_tests_that_ran(kept):
    kept("one", "two")
    messages._state["renews"] = True
    refuse("three")
    messages.write(messages._shown)
    assert messages.read() == {"tests/test_a.py::test_it": ["three"], "tests/test_b.py::test_it": ["b"]}
    messages.write({"tests/test_b.py::test_it": []})
    assert messages.read() == {"tests/test_a.py::test_it": ["three"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{messages.ROOT}/engine/x.py:12: no", "ROOT/engine/x.py:LINE: no"),
        ("no (/a/.venv/lib/python3.11/site-packages/torch/x.py:3)", "no (PACKAGES/torch/x.py:LINE)"),
        ("<function f at 0x7f0011223344>", "<function f at ADDRESS>"),
        ("/tmp/pytest-of-root/pytest-3/popen-gw1/test_it0/a.engine: no", "TMP/a.engine: no"),
        ("/tmp/pytest-of-root/pytest-3/test_it0: no", "TMP: no"),
    ],
)
def test_what_differs_from_run_to_run_is_replaced(text, expected):
    assert messages.normalise(text) == expected
