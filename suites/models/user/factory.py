"""``path.py:factory``: a function of a user's file that returns a model and its inputs.

The signature of the function is read from the source, so that options are checked before the file is executed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import errors
from engine.suggest import unknown
from suites import sources
from suites.harness.errors import describe_os_error
from suites.harness.record.reasons import clean
from suites.models._sets import InputSets
from suites.models._spec import (
    OMITTED,
    REQUIRED,
    SCALARS,
    WEIGHT_SEED,
    Arguments,
    ModelError,
    ModelSpec,
    Option,
    UnknownModel,
    seeded,
)
from suites.models.user import inputs

if TYPE_CHECKING:
    import torch

# A defect of the engine is not the factory's. Engines of other versions, under which this runs too, may lack the class.
_DEFECT: type[Exception] = getattr(errors, "InternalError", ModelError)
_ANY = Option(OMITTED, types=SCALARS)


def spec(name: str, file: Path, entry: str) -> ModelSpec:
    """The model of ``path.py:factory``. Its options are the parameters of the factory.

    Its input sets are as `InputSets` says.

    Raises:
        UnknownModel: no factory is named.
        ModelError: the file is not valid Python, or imports a module that is not installed.
    """
    if not entry.isidentifier():
        raise UnknownModel(f"model {name!r}: expected path.py:factory, with the name of a function after the colon")
    declared = _parameters(name, file, entry)
    known: dict[Any, InputSets] = {}

    def run(arguments: Arguments) -> Any:
        with _seeded():
            model, own = _call(name, file, entry, arguments)
        known[tuple(arguments.items())] = InputSets(own)
        return model

    def get_sets(arguments: Arguments) -> InputSets:
        key = tuple(arguments.items())
        if key not in known:
            with seeded(WEIGHT_SEED):
                run(arguments)
        return known[key]

    return ModelSpec(
        name=name,
        summary=f"{entry}() of {file.name}",
        make=run,
        sets=get_sets,
        options={} if declared is None else declared[0],
        others=_ANY if declared is None or declared[1] else None,
    )


def _parameters(name: str, file: Path, entry: str) -> tuple[Mapping[str, Option], bool] | None:
    """The options of the factory, and whether it takes others too; None if the source does not tell."""
    try:
        tree = sources.parse(file)
    except OSError as error:
        raise UnknownModel(f"model {name!r}: {file.name} cannot be read: {describe_os_error(error)}") from None
    except (SyntaxError, ValueError) as error:
        raise ModelError(f"model {name!r}: {file.name} is not valid Python: {type(error).__name__}: {error}") from None
    if not sources.may_define(tree, entry):
        raise UnknownModel(f"model {name!r}: {file.name}: {unknown('function', entry, _functions(tree))}")
    if _is_bound_to_data(tree, entry):
        raise UnknownModel(
            f"model {name!r}: {file.name}: {entry} is no function; known: {', '.join(_functions(tree)) or 'none'}"
        )
    if _is_class_of_no_tuple(tree, entry):
        known = ", ".join(_functions(tree)) or "none"
        raise UnknownModel(
            f"model {name!r}: {file.name}: {entry} is a class; expected a function that returns {inputs.EXPECTED}; "
            f"functions of the file: {known}"
        )
    if sources.is_async(tree, entry):
        raise UnknownModel(
            f"model {name!r}: {file.name}: {entry} is an async function; expected a function that returns "
            f"{inputs.EXPECTED}"
        )
    missing = sources.find_missing_module(tree, file.parent)
    if missing is not None:
        raise ModelError(f"model {name!r}: {file.name} imports {missing}, which is not installed")
    named = [one for one in tree.body if getattr(one, "name", None) == entry]
    if not named or not isinstance(named[-1], ast.FunctionDef) or named[-1].decorator_list:
        return None
    taken = named[-1].args
    positional = [*taken.posonlyargs, *taken.args]
    absent: list[ast.expr | None] = [None] * (len(positional) - len(taken.defaults))
    pairs = [*zip(positional, [*absent, *taken.defaults], strict=True)][len(taken.posonlyargs) :]
    pairs += zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    return {one.arg: _option(one, default) for one, default in pairs}, taken.kwarg is not None


def _is_class_of_no_tuple(tree: ast.Module, entry: str) -> bool:
    """True if `entry` is surely a class whose objects are no tuples: a call of it returns no model and inputs."""
    if [*sources.list_names(tree)].count(entry) != 1:
        return False
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    found = classes.get(entry)
    if found is None or found.decorator_list or found.keywords:
        return False
    if any(getattr(one, "name", None) == "__new__" for one in found.body):
        return False
    bases = sources.get_base_names(found)
    others = [base for base in bases if base not in ("Module", "object")]
    return all(base is not None and base != entry and _is_class_of_no_tuple(tree, base) for base in others)


def _is_bound_to_data(tree: ast.Module, entry: str) -> bool:
    """True if the only statement that binds `entry` gives it a number, a text or a display of values."""
    names = [node for node in ast.walk(tree) if getattr(node, "id", getattr(node, "name", None)) == entry]
    bound = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0] in names]
    data = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set)
    return len(names) == 1 and len(bound) == 1 and isinstance(bound[0], data)


def _functions(tree: ast.Module) -> list[str]:
    return [
        one.name for one in tree.body if isinstance(one, ast.FunctionDef) and not sources.is_deleted(tree, one.name)
    ]


def _option(parameter: ast.arg, default: ast.expr | None) -> Option:
    """The option of a parameter: of the annotated type, else of that of the default, else of any."""
    own = OMITTED if default is not None else REQUIRED
    named = {one.__name__: one for one in SCALARS}
    annotated = getattr(parameter.annotation, "id", getattr(parameter.annotation, "value", None))
    if isinstance(annotated, str) and annotated in named:
        return Option(own, types=(named[annotated],))
    value = default.operand if isinstance(default, ast.UnaryOp) else default  # a negative number
    kind = type(getattr(value, "value", None)) if isinstance(value, ast.Constant) else None
    return Option(own, types=(kind,) if parameter.annotation is None and kind in SCALARS else SCALARS)


def _call(name: str, file: Path, entry: str, options: Arguments) -> tuple[Any, list[tuple[torch.Tensor, ...]]]:
    """The model, ready to be called with tensors, and sets of these tensors."""
    doing = f"importing {file.name}"
    try:
        function = _function(name, file, entry)
        _check_options(name, file, function, options)
        doing = f"{entry}()"
        made = function(**options)
    except (ModelError, _DEFECT):
        raise
    except (Exception, SystemExit) as error:  # a file may call sys.exit
        raise ModelError(f"model {name!r}: {doing} raised {_describe(error, file)}") from error
    return inputs.arranged(f"model {name!r}: {entry}()", made)


def _describe(error: BaseException, file: Path) -> str:
    """The class and the text of an error, in one line, and the innermost line of the file that it passed through."""
    text = " ".join(clean(f"{type(error).__name__}: {error}").split())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if Path(one.filename).resolve() == file.resolve()]
    return f"{text} ({file.name}, line {lines[-1]})" if lines else text


def _check_options(name: str, file: Path, function: Callable[..., Any], options: Arguments) -> None:
    """ModelError for an option that the function lacks: its source alone may not have told."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a function of C: calling it will tell
        return
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for key in options:
        if key not in parameters:
            raise ModelError(f"model {name!r}: {file.name}: {unknown('option', key, parameters)}")


def _function(name: str, file: Path, entry: str) -> Callable[..., Any]:
    module_name = f"_user_model_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(module_name, file)
    if found is None or found.loader is None:
        raise ModelError(f"model {name!r}: {file} cannot be imported")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module  # dataclasses and torch.export look a class's module up by its name
    sources.let_import_neighbours(file)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    function = getattr(module, entry, None)
    if not callable(function):
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name]
        raise ModelError(f"model {name!r}: {file.name}: {unknown('function', entry, own)}")
    made: Callable[..., Any] = function
    return made


@contextmanager
def _seeded() -> Iterator[None]:
    """Seeds Python's and NumPy's generators for the block and restores them afterwards."""
    import numpy as np

    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002  # the generator that factories use
    random.seed(WEIGHT_SEED)
    np.random.seed(WEIGHT_SEED)  # noqa: NPY002  # as above
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002  # as above
