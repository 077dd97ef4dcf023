"""Who may import whom: the flow goes one way, and a saved program runs where torch is not installed.

Read from the source by AST, so that an import inside a function counts as well. What stands under `TYPE_CHECKING`
does not: it names a type that is received, and is never run.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import sources

ROOT = Path(__file__).resolve().parent.parent
TOOLS = {
    "dtypes",
    "encodings",
    "installed",
    "logs",
    "memory",
    "processors",
    "sizes",
    "suggest",
    "terms",
    "tree",
}  # know nothing of the flow; every stage may use them

TARGET_FOLDERS = [path.parent.name for path in sorted((ROOT / "engine/targets").glob("*/__init__.py"))]

# What each stage may import of the engine beside itself and TOOLS. The row with the longest name that fits counts.
STAGES: dict[str, set[str]] = {
    **{tool: set() for tool in TOOLS},
    "switches": set(),
    "config": {"switches"},
    "torch_ops": set(),
    "ops": set(),
    "graph": {"ops"},
    "exporter": {"ops", "graph", "config", "torch_ops"},
    "passes": {"ops", "graph", "config", "switches"},
    "program": {"ops", "graph"},
    "planner": {"ops", "switches"},
    "targets": {"ops", "graph", "config", "switches", "program", "planner", "_native"},
    "targets.lowering": {"graph", "passes", "config", "program"},
    **{f"targets.{target}.passes": {"ops", "graph", "passes"} for target in TARGET_FOLDERS},
}
ABOVE = {"runtime", "compiler", "dynamo", "torch_backend", "inspect"}  # stand above the flow

# Where torch may be imported: at the top of a module, or only inside of functions.
TORCH_AT_TOP = (
    "engine.exporter",
    "engine.exporter.torch_internals",
    "engine.torch_ops",
    "engine.torch_backend",
    "engine.inspect.observe",  # runs in processes of trials
    "engine.inspect.reduced",
    "engine.inspect.script",
)
TORCH_INSIDE = (
    "engine.targets.triton",  # memory of a GPU is a torch tensor
    "engine.inspect.exported",  # runs torch's program
    "engine.inspect.deterministic",  # sets flags of torch
    "engine.inspect.forking",  # loads torch's program
)
# Where triton may be imported at the top: modules that are themselves imported inside of functions only.
TRITON_AT_TOP = ("engine.targets.triton.kernels", "engine.targets.triton.strict")
# Where private names of torch may be used.
PRIVATE_OF_TORCH = (
    "engine.exporter.torch_internals",
    "engine.targets.triton.torch_internals",
    "suites.torch_internals",
)


class Import(NamedTuple):
    importer: str
    imported: str
    inside: bool
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _imports(node: ast.AST, importer: str, modules: set[str], *, inside: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if _is_type_checking(child):
            assert isinstance(child, ast.If)
            yield from _imports(ast.Module(child.orelse, []), importer, modules, inside=inside)
        elif isinstance(child, ast.Import):
            yield from (Import(importer, alias.name, inside, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{importer}:{child.lineno}: imports are written in full"
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                yield Import(importer, whole if whole in modules else str(child.module), inside, child.lineno)
        else:
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _imports(child, importer, modules, inside=inside or is_function)


class Source(NamedTuple):
    """What the tests ask of a module.

    Attributes:
        imports: what it imports when it is run.
        others: modules of the same package that it imports anywhere.
        taken: module and name of each `from module import name`.
        private: line and name of each private name of torch.
    """

    imports: list[Import]
    others: set[str]
    taken: set[tuple[str, str]]
    private: list[tuple[int, str]]


@cache
def _read(package: str) -> dict[str, Source]:
    """The modules of a package by name; each file is parsed once for all tests."""
    paths = sources.list_modules(ROOT, package)
    modules = {*paths, "engine._native"}
    found = {}
    for name, path in paths.items():
        tree = ast.parse(path.read_text())
        taken = {
            (str(node.module), alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        imports, private = list(_imports(tree, name, modules)), list(_private_names(tree))
        found[name] = Source(imports, sources.find_imports(tree, paths) - {name}, taken, private)
    return found


@cache
def _imports_of(package: str) -> list[Import]:
    return [one for source in _read(package).values() for one in source.imports]


def _within(name: str, prefixes: set[str] | tuple[str, ...]) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


def _of(stage: str) -> list[Import]:
    return [i for i in _imports_of("engine") if _within(i.importer, (f"engine.{stage}",))]


def test_there_is_something_to_read():
    assert {"engine.ops", "engine.ops.table", "engine.graph"} <= {i.importer for i in _imports_of("engine")}
    assert Import("engine.ops.table", "engine.dtypes", False, 0)[:3] in {i[:3] for i in _imports_of("engine")}


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stage_imports_only_what_it_may(stage):
    allowed = {"engine.errors"} | {f"engine.{name}" for name in STAGES[stage] | TOOLS | {stage}}
    closer = [f"engine.{name}" for name in STAGES if name.startswith(f"{stage}.")]
    own = [i for i in _of(stage) if not _within(i.importer, tuple(closer))]
    wrong = [str(i) for i in own if _within(i.imported, ("engine",)) and not _within(i.imported, allowed)]
    assert not wrong


def test_names_of_switches_are_checked_without_importing_who_declares_them():
    """Not inside of functions either: that is how an import cycle is hidden."""
    leaves = {f"engine.{name}" for name in ("config", "switches", "errors", "suggest")}
    found = {i.imported for i in (*_of("config"), *_of("switches")) if _within(i.imported, ("engine",))}
    assert found <= {*leaves, "engine"}


def _circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """What is left when modules that import nothing that is left are taken away again and again."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := {name for name, targets in left.items() if not targets}:
        left = {name: targets - free for name, targets in left.items() if name not in free}
    return [sorted(left)] if left else []


@pytest.mark.parametrize("package", ["engine", "suites"])
def test_modules_import_each_other_in_no_circle(package):
    assert not _circles({name: source.others for name, source in _read(package).items()})


def test_a_circle_is_found():
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["a", "b", "c"]]
    assert not _circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_every_stage_of_the_table_exists():
    assert {f"engine.{stage}" for stage in STAGES} <= _read("engine").keys()


MAY = ("engine.ops", "engine.dtypes", "engine.encodings", "engine.sizes")


def test_ops_import_element_types_encodings_and_sizes_alone():
    wrong = [
        str(i)
        for i in _of("ops")
        if _within(i.imported, ("engine",)) and not _within(i.imported, MAY)
        if i.imported != "engine"  # `from engine import dtypes` is read as engine.dtypes
    ]
    assert not wrong


def test_the_engine_never_imports_the_suites():
    assert not [str(i) for i in _imports_of("engine") if _within(i.imported, ("suites",))]


def test_the_engine_never_imports_a_package_that_quantises():
    assert not [str(i) for i in _imports_of("engine") if _within(i.imported, ("torchao", "torch.ao"))]


@pytest.mark.parametrize("package", ["engine", "suites"])
def test_nobody_imports_a_target_but_the_table_of_targets(package):
    of_a_target = (*(f"engine.targets.{name}" for name in (*TARGET_FOLDERS, "interpreter")), "engine._native")
    found = [
        i for i in _imports_of(package) if _within(i.imported, of_a_target) and not _within(i.importer, of_a_target)
    ]
    assert {i.importer for i in found} <= {"engine.targets"}


def test_only_the_cpu_target_imports_the_c_library():
    assert {i.importer for i in _imports_of("engine") if _within(i.imported, ("engine._native",))} == {
        "engine.targets.cpu.executable",
        "engine.targets.cpu.native",
    }


def test_targets_import_neither_exporter_nor_torch():
    found = [i for i in _of("targets") if _within(i.imported, ("engine.exporter", "torch"))]
    assert not [str(i) for i in found if not (i.inside and _within(i.importer, TORCH_INSIDE))]


def test_triton_is_imported_only_in_its_target_and_only_when_it_is_needed():
    for one in (i for i in _imports_of("engine") if _within(i.imported, ("triton",))):
        assert _within(one.importer, TRITON_AT_TOP), str(one)
    for one in (i for i in _imports_of("engine") if _within(i.imported, TRITON_AT_TOP)):
        assert one.inside or _within(one.importer, TRITON_AT_TOP), str(one)


def test_nothing_in_the_flow_imports_what_stands_above_it():
    above = tuple(f"engine.{name}" for name in ABOVE)
    stages = tuple(f"engine.{name}" for name in STAGES)
    assert not [str(i) for i in _imports_of("engine") if _within(i.importer, stages) and _within(i.imported, above)]


def test_torch_is_imported_only_where_torch_is_the_subject():
    of_torch = [
        i for i in _imports_of("engine") if _within(i.imported, ("torch",)) and not _within(i.importer, TORCH_AT_TOP)
    ]
    assert not [str(i) for i in of_torch if not (i.inside and _within(i.importer, TORCH_INSIDE))]


def test_modules_that_import_torch_at_the_top_are_imported_inside_of_functions_only():
    wrong = [
        str(i)
        for i in _imports_of("engine")
        if _within(i.imported, TORCH_AT_TOP) and not _within(i.importer, TORCH_AT_TOP) and not i.inside
    ]
    assert not wrong


def _private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of what is imported of torch, or read as an attribute of it, under a private name.

    Names below ``torch.ops`` are names of operators: ``torch.ops.aten._to_copy`` is as public as any.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        else:
            continue
        for name in names:
            first, *others = name.split(".")
            if first == "torch" and others[:1] != ["ops"] and any(_is_private(other) for other in others):
                yield node.lineno, name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@pytest.mark.parametrize("package", ["engine", "suites"])
def test_private_names_of_torch_are_used_in_few_modules(package):
    found = {name: source.private for name, source in _read(package).items()}
    assert any(lines for name, lines in found.items() if name in PRIVATE_OF_TORCH)
    assert {name: lines for name, lines in found.items() if lines and name not in PRIVATE_OF_TORCH} == {}


@pytest.mark.parametrize("module", PRIVATE_OF_TORCH)
def test_every_function_and_name_of_these_modules_is_used(module):
    """Each name can break with the next version of torch: what nobody needs must go."""
    tree = ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text())
    offered = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not _is_private(n.name)}
    private = [
        n for n in tree.body if isinstance(n, ast.ImportFrom) and any(map(_is_private, str(n.module).split(".")))
    ]
    offered |= {alias.name for n in private for alias in n.names}
    taken = [pair for package in ("engine", "suites") for source in _read(package).values() for pair in source.taken]
    assert offered == {name for imported, name in taken if imported == module}


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)


def test_importing_the_engine_does_not_import_torch():
    answer = _python(
        "import sys, engine.dynamo; print(sorted({'torch', 'suites', 'pandas', 'onnx'} & set(sys.modules)))"
    )
    assert answer.stdout.strip() == "[]", answer.stderr


def test_the_engine_imports_where_torch_is_not_installed():
    answer = _python("import sys; sys.modules['torch'] = None; import engine; engine.Config(); engine.switches()")
    assert answer.returncode == 0, answer.stderr


# --- the reader itself: a rule that sees nothing would pass always ------------------------------------------------


def _found(source: str) -> list[tuple[str, bool]]:
    modules = {"engine.ops", "engine.dtypes"}
    return [(i.imported, i.inside) for i in _imports(ast.parse(source), "engine.x", modules)]


def test_the_reader_sees_every_form_of_import():
    assert _found("import torch.nn as n") == [("torch.nn", False)]
    assert _found("from engine import dtypes, ops") == [("engine.dtypes", False), ("engine.ops", False)]
    assert _found("from engine.ops import TABLE") == [("engine.ops", False)]
    assert _found("def f():\n    if 1:\n        import torch") == [("torch", True)]
    assert _found("class A:\n    import torch") == [("torch", False)]
    assert _found("try:\n    import torch\nexcept ImportError:\n    import onnx") == [("torch", False), ("onnx", False)]


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "import torch._dynamo.config as c",
        "from torch._ops import OpOverload",
        "from torch import _guards",
        "from torch.utils._pytree import tree_map",
        "from torch.export.exported_program import _override",
        "def f():\n    import torch._inductor",
        "if TYPE_CHECKING:\n    from torch._ops import OpOverload",
        "torch._dynamo.reset()",
        "x = torch.utils._pytree.tree_map",
    ],
)
def test_the_reader_sees_private_names_of_torch(source):
    assert list(_private_names(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import torch.fx",
        "torch.ops.aten._to_copy.default",
        "torch.__file__",
        "import _torch",
        "from x import _torch",
        "x._torch",
    ],
)
def test_the_reader_passes_over_public_names_of_torch(source):
    assert not list(_private_names(ast.parse(source)))


def test_the_reader_passes_over_types_only():
    assert _found("if TYPE_CHECKING:\n    import torch\nelse:\n    import onnx") == [("onnx", False)]
