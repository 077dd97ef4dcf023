"""The planted faults: enough of them can be planted, and none would be reported as killed for another reason."""

import ast

import pytest

from tests.mutants import __main__ as mutants

MUTANTS = mutants.read_mutants()


def test_enough_faults_can_be_planted_and_their_names_differ():
    assert sum(not mutant.is_stale() for mutant in MUTANTS) >= mutants.FEWEST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_tests_that_should_see_a_fault_exist():
    named = {test for mutant in MUTANTS for test in mutant.tests if not test.startswith(mutants.KERNELS)}
    assert not [test for test in sorted(named) if not (mutants.ROOT / test).is_file()]


def test_a_fault_of_python_is_valid_python():
    for mutant in MUTANTS:
        if not mutant.is_native and not mutant.is_stale():
            ast.parse((mutants.ROOT / mutant.file).read_text().replace(mutant.old, mutant.new))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with one module, one test that sees a fault of it, and one that sees none."""
    made = object.__new__(mutants.Tree)
    made.folder, made.environment = tmp_path, {"PYTHONPATH": str(tmp_path)}
    (tmp_path / "module.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "test_sees.py").write_text("import module\ndef test_add(): assert module.add(2, 3) == 5\n")
    (tmp_path / "test_blind.py").write_text("import module\ndef test_zero(): assert module.add(0, 0) == 0\n")
    return made


def plant(tree, test, old="a + b", new="a - b"):
    return tree.plant(mutants.Mutant("fault", "module.py", old, new, (test,), "drawn"), 0)


def test_a_fault_is_killed_by_the_test_that_fails_and_survives_otherwise(tree):
    text = (tree.folder / "module.py").read_text()
    assert plant(tree, "test_sees.py") == "test_sees.py::test_add"
    assert plant(tree, "test_blind.py") is None
    assert (tree.folder / "module.py").read_text() == text


def test_a_fault_without_its_text_is_stale(tree):
    fault = mutants.Mutant("fault", "module.py", "a + b", "a - b", (), "drawn")
    assert not fault.is_stale(tree.folder)
    (tree.folder / "module.py").write_text("a + b\na + b\n")
    assert fault.is_stale(tree.folder)
    assert mutants.Mutant("fault", "gone.py", "a", "b", (), "drawn").is_stale(tree.folder)


def test_too_few_faults_fail_the_command(monkeypatch, capsys):
    stale = [mutants.Mutant(f"fault-{number}", "gone.py", "a", "b", (), "drawn") for number in range(mutants.FEWEST)]
    monkeypatch.setattr(mutants, "read_mutants", lambda: [*MUTANTS[: mutants.FEWEST - 1], *stale])
    monkeypatch.setattr("sys.argv", ["mutants"])
    with pytest.raises(SystemExit) as ended:
        mutants.main()
    assert ended.value.code
    assert "stale     fault-0" in capsys.readouterr().out
