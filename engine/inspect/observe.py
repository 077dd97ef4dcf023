"""The case of trials, and the tasks of `bisect`, which run in the process of a trial: what a program makes.

Imported where trials run, since it needs torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine import compiler, exporter, targets
from engine.config import Config
from engine.errors import ConfigError
from engine.exporter.torch_internals import tree_leaves
from engine.exporter.weights import to_bytes
from engine.graph import share_constants
from engine.inspect.compare import widen
from engine.inspect.diff import INTERPRETER, diff
from engine.inspect.exported import Exported
from engine.inspect.forking import Case
from engine.inspect.sides import ProgramRunner, name_inputs
from engine.memory import as_array
from engine.passes import recipe
from engine.runtime.program import Program
from engine.targets.lowering import lower

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXPECTED = "expected.npz"


def save_case(folder: Path, exported: Any, inputs: Any) -> None:
    """Write a case for `Trials` to `folder`: an `ExportedProgram`, and its inputs as ``(positional, keywords)``.

    Raises:
        ConfigError: the folder holds another case, whose outcomes would be taken for those of this one.
    """
    digest = _find_digest(exported, inputs)
    mark = folder / "case"
    if mark.exists():
        if mark.read_text() != digest:
            raise ConfigError(
                f"{folder}: it has trials of another model, other inputs or another version; use a new one"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(exported, folder / "program.pt2")
    torch.save(inputs, folder / "inputs.pt")
    mark.write_text(digest)


def _find_digest(exported: Any, inputs: Any) -> str:
    """Of the code, the weights and the inputs, and of the files of the engine."""
    package = Path(__file__).parents[1]
    files = sorted((str(one), one.stat().st_mtime_ns) for one in package.rglob("*") if one.suffix in (".py", ".so"))
    found = hashlib.sha256(f"{files} {torch.__version__} {exported.graph_module.code}".encode())
    held = [*exported.state_dict.items(), *exported.constants.items(), *enumerate(tree_leaves(inputs))]
    for name, value in held:
        found.update(str(name).encode())
        found.update(to_bytes(value).tobytes() if isinstance(value, torch.Tensor) else repr(value).encode())
    return found.hexdigest()


def locate(case: Case, config: Mapping[str, Any], reference: str, *, definitions: bool) -> dict[str, Any]:
    """``first``: name and sentence of the first node that `diff` accuses; or None. `definitions` as of `observe`.

    Without a name it is the whole program, whose ordinary run has other bits than the run that shows its values.
    """
    program = _program(case, Config.from_dict(config), definitions=definitions)
    found = diff(case.program, inputs_of(case), reference, program)
    if found.first_wrong is not None:
        return {"first": {"name": found.first_wrong.name, "text": str(found.first_wrong)}}
    return {"first": None if found.is_repeatable else {"name": None, "text": "an ordinary run, but no node alone"}}


def expect(case: Case, reference: str, watch: str | None) -> dict[str, Any]:
    """Write what the outputs, and the exported value `watch`, should be."""
    exported = exporter.export_with_torch(case.program, inputs_of(case))
    if reference == INTERPRETER:
        program = _program(case, Config(pipeline=()), definitions=True)
        results = _leaves(program, case)
        shown = ProgramRunner("", program).values({watch or ""}, name_inputs(program, inputs_of(case)))
        kept = {str(number): array for number, array in enumerate(results)} | dict(shown)
    else:
        calls = Exported(exported, wide=reference == "eager64")
        names = [name for name in calls.results if name is not None]
        values = calls.values({*names, *([watch] if watch else [])}, calls.name_inputs(inputs_of(case)))
        kept = {str(number): values[name] for number, name in enumerate(names)}
        kept |= {watch: values[watch]} if watch in values else {}
    arrays = {name: widen(array) for name, array in kept.items()}
    np.savez(case.folder / _EXPECTED, **arrays)  # type: ignore[arg-type]  # whose named parameters no value is called like
    return {}


def observe(
    case: Case, config: Mapping[str, Any], watch: str | None, number: int, *, definitions: bool
) -> dict[str, Any]:
    """Run the program once, or with `definitions` the NumPy definitions of its graph after all passes.

    Returns ``errors``: of each output and of `watch`, the largest difference from what is expected, over the largest
    magnitude, None where it is not to be had; ``is_bad``: True if a NaN or an infinity is where none is expected;
    ``rewrites`` that passes made. `number` tells repeated runs apart.
    """
    del number
    program = _program(case, Config.from_dict(config), definitions=definitions)
    found: list[NDArray[Any] | None] = [*_leaves(program, case)]
    path, errors, is_bad = case.folder / _EXPECTED, list[float | None](), False
    if path.exists():
        with np.load(path) as expected:
            wanted: list[NDArray[Any] | None] = [expected[str(n)] for n in range(len(found))]
            if watch is not None:
                shown = ProgramRunner("", program).values({watch}, name_inputs(program, inputs_of(case)))
                found.append(shown.get(watch))
                wanted.append(expected.get(watch))
        for ours, theirs in zip(found, wanted, strict=True):
            if ours is None or theirs is None or ours.shape != theirs.shape or not ours.size:
                errors.append(None)
                continue
            is_bad |= bool(np.any(~np.isfinite(widen(ours)) & np.isfinite(theirs)))
            errors.append(_largest_error(widen(ours), theirs))
    return {"errors": errors, "is_bad": is_bad, "rewrites": list(map(list, program.rewrites))}


def save(case: Case, config: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Write the program to a file of the folder, in place of the one before; return ``path``."""
    del number
    path = case.folder / "model.engine"
    _program(case, Config.from_dict(config), definitions=False).save(path)
    return {"path": str(path)}


def list_rewrites(case: Case, config: Mapping[str, Any]) -> dict[str, Any]:
    """``rewrites`` that passes make; nothing runs."""
    return {"rewrites": list(map(list, _lower(case, Config.from_dict(config)).rewrites.made))}


def list_ops(case: Case, config: Mapping[str, Any]) -> dict[str, Any]:
    """``ops`` of the program, each once."""
    return {"ops": list(dict.fromkeys(node.op.name for node in _lower(case, Config.from_dict(config)).nodes))}


def list_layers(case: Case) -> dict[str, Any]:
    """``layers`` whose precision a recipe may choose."""
    return {"layers": list(recipe.list_layers(exporter.export(case.program, inputs_of(case))))}


def inputs_of(case: Case) -> Any:
    """Those of a case as `engine.compile` takes them."""
    args, kwargs = case.inputs
    return (args, kwargs) if kwargs else args


def _lower(case: Case, config: Config) -> Any:
    exported = exporter.export_with_torch(case.program, inputs_of(case))
    graph = compiler.make_graph(exported, config)
    share_constants([graph])
    return lower({"": graph}, config, widen=targets.get(config.target).instruments.lacks("bfloat16", config))[""]


def _program(case: Case, config: Config, *, definitions: bool) -> Program:
    if definitions:
        return Program(_lower(case, config), Config(target=INTERPRETER))
    compiled = compiler.compile(case.program, inputs_of(case), config)
    assert isinstance(compiled, Program)  # noqa: S101  (a trial has no fallback)
    return compiled


def _leaves(program: Program, case: Case) -> list[NDArray[Any]]:
    """The results of an ordinary run that are tensors."""
    args, kwargs = case.inputs
    state = program.new_state()
    results = program(*args, **kwargs, **({"state": state} if len(state) else {}))
    return [as_array(one) for one in tree_leaves(results) if hasattr(one, "dtype")]


def _largest_error(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference over the largest finite magnitude; infinite where only one has a NaN or this infinity."""
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        difference = np.where(same, 0.0, np.abs(ours - theirs))
    scale = float(np.max(np.abs(theirs[np.isfinite(theirs)]), initial=0.0)) or 1.0
    found = float(np.max(np.where(np.isfinite(difference), difference, np.inf)))
    return min(found / scale, 1e30)  # JSON has no infinity
