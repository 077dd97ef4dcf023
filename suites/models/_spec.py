"""What a model declares, and how it is built from that. Imports torch only inside `build` and `inputs`."""

from __future__ import annotations

import importlib.util
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError
from engine.suggest import unknown
from suites import collector
from suites.models._sets import CALIBRATION_SETS

if TYPE_CHECKING:
    import torch
    from torch import nn

    from suites.models._sets import InputSets

Arguments = Mapping[str, Any]
FORMS = {"module": "PyTorch modules", "onnx": "ONNX files"}
"""Kinds of models: what `ModelSpec.make` returns, as `ModelSpec.form` and `Backend.runs` call it."""
WEIGHT_SEED = 1234
"""Weights that are drawn are drawn from this seed: every process measures the same model."""


class ModelError(EngineError):
    """A model cannot be built as asked: a wrong size or option, or a package that is missing."""


class UnknownModel(ModelError):
    """No model of this name, or no such file."""


class _Default:
    """A default that is no value."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


OMITTED = _Default("the model's own")
"""Default of an option that `make` gets only if it is given."""
REQUIRED = _Default("no default")
"""Default of an option that must be given."""
SCALARS: tuple[type, ...] = (int, float, bool, str)
"""Types of the values of options."""
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Option:
    """A choice that changes the model and not only the shape of its inputs.

    Attributes:
        default: the value where none is given.
        values: all allowed values; empty: any positive integer, or any string that `pattern` matches.
        pattern: a regular expression that further strings may match in full.
        doc: one line.
        types: types of `SCALARS` of which every value is allowed.
    """

    default: Any
    values: tuple[Any, ...] = ()
    pattern: str = ""
    doc: str = ""
    types: tuple[type, ...] = ()

    def allows(self, value: Any) -> bool:
        """Whether `value` may be given."""
        if self.types:
            return type(value) in self.types or (type(value) is int and float in self.types)
        if any(value is v or (type(value) is type(v) and value == v) for v in self.values):
            return True
        if self.pattern:
            return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None
        return not self.values and _is_size(value, 1, None)

    def read(self, text: str) -> Any:
        """The value that `text` spells; `text` itself where only a text may be given."""
        value = read_value(text)
        is_text = isinstance(value, bool) or self.allows(text)  # of a wrong value, a message shows what was typed
        return text if is_text and not self.allows(value) else value

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if self.types:
            return " or ".join(_KINDS[one] for one in self.types)
        if not self.values and not self.pattern:
            return "a positive integer"
        known = [repr(v) for v in self.values] + ([f"text like {self.pattern}"] if self.pattern else [])
        return "one of " + ", ".join(known)


@dataclass(frozen=True)
class ModelSpec:
    """A named model.

    Attributes:
        name: how suites and commands call it.
        summary: one line for lists.
        make: complete arguments -> the model. Runs with torch's CPU generator seeded.
        example: complete arguments, a seeded generator -> the tuple of input tensors. Not called if there are `sets`.
        sets: complete arguments -> the inputs of a user's model.
        shape_keys: sizes of the inputs and their defaults, for example batch and sequence; None: it must be given.
        options: what else can be chosen, each with its allowed values and default.
        others: what options of any further name may be; None: there are no others.
        form: a key of `FORMS`: the kind of object that `make` returns. A backend declares the forms that it runs.
        keeps_types: True for files whose weights cannot be converted to another element type.
        limits: for some of `shape_keys` the least and the largest size (None: no limit). Others start at 1.
        refuses: complete arguments -> why these do not go together, or None.
        needs: packages (import names) without which it cannot be built.
        missing: further reasons why it cannot be built, or None.
        numpy: a module that `make` made -> its forward over NumPy arrays, written by hand, with the module's weights:
            arrays of the inputs' shapes and dtypes -> an array or a tuple of them. None where nobody has written one.
    """

    name: str
    summary: str
    make: Callable[[Arguments], Any]
    example: Callable[[Arguments, torch.Generator], tuple[torch.Tensor, ...]] = lambda _arguments, _generator: ()
    sets: Callable[[Arguments], InputSets] | None = None
    shape_keys: Mapping[str, int | None] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    others: Option | None = None
    form: str = "module"
    keeps_types: bool = False
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    refuses: Callable[[Arguments], str | None] = lambda _arguments: None
    needs: tuple[str, ...] = ("torch",)
    missing: Callable[[], str | None] = lambda: None
    numpy: Callable[[nn.Module], Callable[..., Any]] | None = None

    def option(self, name: str) -> Option | None:
        """What the option `name` may be; None if there is no such option."""
        return self.options.get(name, self.others)

    def read(self, name: str, text: str) -> Any:
        """The value that `text` spells for the size or option `name`, which need not exist."""
        option = None if name in self.shape_keys else self.option(name)
        return read_value(text) if option is None else option.read(text)

    def complete(self, arguments: Arguments) -> Arguments:
        """`arguments` with the defaults filled in: the sizes first, then the options.

        Raises:
            ModelError: an unknown name, a value that is not allowed, or a value without a default is missing.
        """
        for name in arguments:
            if name not in self.shape_keys and self.option(name) is None:
                raise ModelError(f"model {self.name}: {unknown('argument', name, (*self.shape_keys, *self.options))}")
        required = [name for name, default in self.shape_keys.items() if default is None]
        required += [name for name, one in self.options.items() if one.default is REQUIRED]
        if missing := [name for name in required if name not in arguments]:
            given = " ".join(f"--set {name}=..." for name in missing)
            raise ModelError(f"model {self.name}: no default for {', '.join(missing)}; give {given}")
        full: dict[str, Any] = {}
        for name, default in self.shape_keys.items():
            value = arguments.get(name, default)
            least, most = self.limits.get(name, (1, None))
            if not _is_size(value, least, most):
                upper = "" if most is None else f" and at most {most}"
                raise ModelError(f"model {self.name}: {name}={value!r} is no integer of at least {least}{upper}")
            full[name] = value
        further = {name: self.others for name in arguments if name not in full and name not in self.options}
        for name, option in {**self.options, **further}.items():
            value = arguments.get(name, OMITTED if option is None else option.default)
            if option is None or value is OMITTED:
                continue
            if not option.allows(value):
                raise ModelError(f"model {self.name}: {name}={value!r} is not {option.expected}")
            full[name] = value
        reason = self.refuses(full)
        if reason is not None:
            raise ModelError(f"model {self.name}: {reason}")
        return MappingProxyType(full)

    def generates(self, arguments: Arguments) -> bool:
        """True if the model with these arguments generates text (see nets/generation.py)."""
        return self.complete(arguments).get("phase", "score") != "score"

    def unavailable(self) -> str | None:
        """Why it cannot be built on this machine; None where it can."""
        for package in self.needs:
            if importlib.util.find_spec(package) is None:
                return f"package {package} is not installed: install enginebench[suites]"
        return self.missing()

    def build(self, /, **arguments: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
        """The model, with the same weights in every process, and its inputs of seed 0. A module is in inference mode.

        Torch's global generator is left as it was.

        Raises:
            ModelError: an argument is wrong, or the model is unavailable.
        """
        full = self._checked(arguments)
        with seeded(WEIGHT_SEED), collector.paused():  # transformers' import: 2.7 s instead of 3.3 with torch's
            model = self.make(full)
        if self.form == "module":
            model = model.eval().requires_grad_(requires_grad=False)
        return model, self.inputs(**full)

    def inputs(self, seed: int = 0, /, **arguments: Any) -> tuple[torch.Tensor, ...]:
        """Input tensors on the CPU; the same for the same seed and arguments.

        Raises:
            ModelError: as `build`.
        """
        full = self._checked(arguments)
        if self.sets is not None:
            return self.sets(full).make(seed)
        import torch

        return self.example(full, torch.Generator().manual_seed(seed))

    def calibration(self, /, **arguments: Any) -> list[tuple[torch.Tensor, ...]]:
        """Inputs of seeds that no call is verified or timed with."""
        return [self.inputs(seed, **arguments) for seed in CALIBRATION_SETS]

    def describe_kept(self, /, **arguments: Any) -> str | None:
        """Which inputs are the same for every seed; None if none is meant to be."""
        return None if self.sets is None else self.sets(self.complete(arguments)).describe_kept()

    @contextmanager
    def explaining(self, seed: int, /, **arguments: Any) -> Iterator[None]:
        """Around work with the inputs of a seed: its exceptions say how these were made, unless they are the first."""
        try:
            yield
        except Exception as error:
            if seed and self.sets is not None:
                how = self.sets(self.complete(arguments)).describe(seed)
                error.add_note(f"the call was with input set {seed + 1}: {how}")
            raise

    def _checked(self, arguments: Arguments) -> Arguments:
        full = self.complete(arguments)
        reason = self.unavailable()
        if reason is not None:
            raise ModelError(f"model {self.name} is unavailable: {reason}")
        return full


def read_value(text: str) -> int | float | bool | str:
    """The finite number that `text` spells, or the truth value of ``true`` or ``false``; otherwise the text itself."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        with suppress(ValueError):
            if math.isfinite(number := float(text)):
                return number
    return text


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of torch's CPU, NumPy and Python for the block, and put their states back afterwards."""
    import numpy as np
    import torch

    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002  # what factories use
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # as above
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002  # as above
        random.setstate(states[2])


def _is_size(value: Any, least: int, most: int | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most)
