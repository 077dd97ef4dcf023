"""``path.py:factory``: a function of a user's file that returns a model and its inputs.

A run knows the signature of the function (`suites.user_file.ask`), so it checks options before it measures anything.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path

from engine.errors import EngineError
from engine.suggest import unknown
from suites import user_file
from suites.models._spec import OMITTED, REQUIRED, SCALARS, Arguments, ModelError, ModelSpec, Option, UnknownModel
from suites.models.user import inputs

_ANY = Option(OMITTED, types=SCALARS)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def spec(name: str, file: Path, entry: str) -> ModelSpec:
    """The model of ``path.py:factory``. Its options are the parameters of the factory.

    Its input sets are as `InputSets` says.

    Raises:
        UnknownModel: no function is named, or the file has no such function.
        ModelError: the file cannot be imported.
    """
    if not entry.isidentifier():
        raise UnknownModel(f"model {name!r}: expected path.py:factory, with the name of a function after the colon")
    signature = _find_signature(name, file, entry)
    parameters = [] if signature is None else [*signature.parameters.values()]

    def make(arguments: Arguments) -> inputs.Made:
        try:
            made = getattr(user_file.load(file), entry)(**arguments)
        except user_file.ImportFailed as error:
            raise ModelError(f"model {name!r}: {error}") from error
        except EngineError:
            raise
        except (Exception, SystemExit) as error:  # a file may call sys.exit
            raise ModelError(f"model {name!r}: {entry}() raised {user_file.describe_error(error, file)}") from error
        return inputs.arrange(f"model {name!r}: {entry}()", made)

    return inputs.declare(
        make,
        name=name,
        summary=f"{entry}() of {file.name}",
        options={one.name: _option(one) for one in parameters if one.kind in _NAMED},
        others=_ANY if signature is None or any(one.kind is Parameter.VAR_KEYWORD for one in parameters) else None,
    )


def _find_signature(name: str, file: Path, entry: str) -> Signature | None:
    """The parameters of the factory; None in a worker, and if Python does not know them."""
    try:
        known = user_file.ask(file)
    except user_file.ImportFailed as error:
        raise ModelError(f"model {name!r}: {error}") from None
    if known is None:
        return None
    functions = [key for key, one in known.items() if one.is_own and one.kind == user_file.FUNCTION]
    found = known.get(entry)
    if found is None or found.kind != user_file.FUNCTION:
        raise UnknownModel(f"model {name!r}: {file.name}: {unknown('function', entry, functions)}")
    return found.signature


def _option(parameter: Parameter) -> Option:
    types = {one.__name__: (one,) for one in SCALARS}.get(parameter.annotation, SCALARS)
    return Option(REQUIRED if parameter.default is Parameter.empty else OMITTED, types=types)
