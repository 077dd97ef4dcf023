"""What the child process that imports a user's file answers, however the import ends."""

from __future__ import annotations

import os
import sys

import pytest

from suites import models, user_file
from suites.harness.run import session
from tests import messages
from tests.harness.commands import call

DEFINING = """
import os
from collections import OrderedDict
from collections.abc import Sized

print("printed", flush=True)
os.write(2, b"written")

def make(width: int = 8, **others): pass
async def later(): pass
class Half(Sized):
    def __init__(self, size): pass
limit = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(DEFINING)
    return tmp_path / "mine.py"


def test_the_answer_has_kinds_signatures_and_bases_and_nothing_that_the_file_prints(file, capfd):
    found = user_file.ask(file)
    assert {name: one.kind for name, one in found.items() if one.is_own} == {
        "make": user_file.FUNCTION,
        "later": user_file.ASYNC_FUNCTION,
        "Half": user_file.CLASS,
    }
    assert (found["limit"].kind, found["OrderedDict"].kind) == (user_file.VALUE, user_file.CLASS)
    assert [str(one) for one in found["make"].signature.parameters.values()] == [
        "width: 'int' = None",
        "**others: None",
    ]
    assert list(found["Half"].signature.parameters) == ["size"]
    assert found["Half"].bases[1:] == ["collections.abc.Sized", "builtins.object"]
    assert capfd.readouterr() == ("", "")


def test_a_file_is_imported_once_and_not_in_this_process(file):
    file.write_text(
        "import os\nwith open('processes.txt', 'a') as file: print(os.getpid(), file=file)\ndef make(): pass\n"
    )
    for _ in range(2):
        models.get("mine.py:make")
        user_file.ask(file)
    (process,) = (file.parent / "processes.txt").read_text().split()
    assert int(process) != os.getpid()


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.exit(3)",
        "raise ValueError('two\\nlines')",
        "def make(:",
        "import nowhere_at_all.part",
        "import os\nos._exit(3)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        "while True: pass",
    ],
    ids=["exits", "raises", "syntax", "missing", "ends", "crashes", "never_ends"],
)
def test_a_file_whose_import_fails_is_one_line_and_exit_2(source, file, capsys, monkeypatch):
    file.write_text(source + "\n")
    if source.startswith("while"):
        monkeypatch.setattr(user_file, "TIMEOUT_S", 2.0)
    with messages.raises(user_file.ImportFailed) as raised:
        user_file.ask(file)
    told = f"enginebench: model 'mine.py:make': {raised.value}\n"
    assert call(capsys, "run", "mine.py:make", "--dry-run", "--results", "results") == (2, "", told)


def test_a_file_may_import_modules_of_its_folder_in_the_child(file):
    (file.parent / "neighbour_of_user_file.py").write_text("def make(width): pass\n")
    file.write_text("from neighbour_of_user_file import make\n")
    assert list(user_file.ask(file)["make"].signature.parameters) == ["width"]
    assert str(file.parent) not in sys.path


def test_a_worker_executes_a_file_only_to_build_its_model(file, monkeypatch):
    file.write_text("raise SystemExit('executed')\n")
    variable = user_file.IN_WORKER
    monkeypatch.setenv(variable, session._environment(None, 1, file.parent)[variable])
    spec = models.get("mine.py:make")
    assert dict(spec.complete({"width": 3})) == {"width": 3}
    with messages.raises(models.ModelError):
        spec.build()
