"""All options of the engine. Each ablation changes one field. Knows the names of switches, not what they do.

A field of `Config` is declared once: its default, and a `Setting` in its metadata. The setting checks values, parses
them from text, lists them, and lists the values that an ablation tries. The list of switches and the options of the
backends in the suites come from `settings()`.
"""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from engine.errors import ConfigError
from engine.suggest import unknown
from engine.switches import Switch, kernel_variants, load, names, registered, variants_kind

MOST_THREADS = 1024
PRECISIONS = (
    "fp32", "bf16", "fp16", "int8_weight", "int8_weight_tensor", "int8_dynamic", "int8_static", "int4_weight",
)  # fmt: skip
"""Names of precisions; `engine.passes.precision` says what each means."""


class Alternative(NamedTuple):
    """A value that an ablation tries instead of the default: ``option=value``, as text.

    Attributes:
        kind: the kind of switch, such as ``pass``.
        name: its name in tables.
        option: name of the option, a field or ``variant.<op>``.
        value: the value.
        usual: False if an ablation tries it only when it is named explicitly.
    """

    kind: str
    name: str
    option: str
    value: str
    usual: bool = True


@dataclass(frozen=True)
class Setting(ABC):
    """The declaration of a field of `Config`. Each subclass is a kind of value.

    Attributes:
        summary: one line, for lists.
        option: False if no backend option sets the field, because the harness sets it in another way.
        targets: the targets that the field concerns; (): all of them.
    """

    summary: str
    option: bool = True
    targets: tuple[str, ...] = ()

    @abstractmethod
    def check(self, name: str, value: Any, _own: Mapping[str, str], _target: str) -> Any:
        """The value as `Config` stores it. ConfigError if field `name` cannot have it.

        `_own` maps the path and the name of each of the user's own passes to the name of the pass. Programs are for
        the target `_target`.
        """

    def parse(self, text: str) -> Any:
        """The value of `text`. Does not check it; `check` does."""
        return text

    def options(self, name: str) -> tuple[str, ...]:
        """Names of the options that set field `name`; a name that ends in a dot is a prefix of option names."""
        return (name,) if self.option else ()

    def listed(self, name: str, default: Any) -> list[Switch]:
        """The rows of field `name` in the list of switches."""
        return [Switch(name, name, _spelled(default), self.summary)]

    def alternatives(self, _name: str) -> list[Alternative]:
        """The values that an ablation tries in place of the default."""
        return []


@dataclass(frozen=True)
class Choice(Setting):
    """One of several names.

    Attributes:
        values: the names, if they are few and fixed.
        kind: otherwise the kind of the registered names.
        each: True if lists show every name as a separate switch.
        tries: True if an ablation tries every name.
        usual: False if it tries them only when the kind of switch, or one of them, is named explicitly.
        optional: True if None is allowed.
        absent: the text for None in lists.
    """

    values: tuple[str, ...] = ()
    kind: str = ""
    each: bool = False
    tries: bool = False
    usual: bool = True
    optional: bool = False
    absent: str = ""

    def known(self) -> tuple[str, ...]:
        """The names."""
        return names(self.kind) if self.kind else self.values

    def check(self, name: str, value: Any, _own: Mapping[str, str], _target: str) -> Any:  # as the base class says
        if not (self.optional and value is None):
            _one_of(name, value, self.known())
        return value

    def listed(self, name: str, default: Any) -> list[Switch]:  # as the base class says
        if self.each:
            return list(registered(self.kind))
        summary = f"{self.summary}: {', '.join(self.known())}"
        return [Switch(name, name, self.absent if default is None else _spelled(default), summary)]

    def alternatives(self, name: str) -> list[Alternative]:  # as the base class says
        if not self.tries:
            return []
        found = registered(self.kind) if self.kind else [Switch(name, value, "", "") for value in self.values]
        return [
            Alternative(name, f"{name}={one.name}", name, one.name, one.usual and self.usual)
            for one in found
            if one.available
        ]


@dataclass(frozen=True)
class Count(Setting):
    """A whole number from 1 on.

    Attributes:
        most: the largest allowed number; 0: no limit.
        words: texts that are allowed in place of a number.
        tries: values that an ablation tries.
    """

    most: int = 0
    words: tuple[str, ...] = ()
    tries: tuple[str, ...] = ()

    def check(self, name: str, value: Any, _own: Mapping[str, str], _target: str) -> Any:  # as the base class says
        if value in self.words or (type(value) is int and value >= 1 and not 0 < self.most < value):
            return value
        upper = f"to {self.most}" if self.most else "on"
        words = "".join(f' or "{word}"' for word in self.words)
        raise ConfigError(f"{name}: expected a whole number from 1 {upper}{words}, got {value!r}")

    def parse(self, text: str) -> Any:  # as the base class says
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else text

    def alternatives(self, name: str) -> list[Alternative]:  # as the base class says
        return [Alternative(name, f"{name}={value}", name, value) for value in self.tries]


@dataclass(frozen=True)
class Flag(Setting):
    """True or False; ``on`` and ``off`` as text."""

    def check(self, name: str, value: Any, _own: Mapping[str, str], _target: str) -> Any:  # as the base class says
        if not isinstance(value, bool):
            raise ConfigError(f"{name}: expected True or False (on or off as text), got {value!r}")
        return value

    def parse(self, text: str) -> Any:  # as the base class says
        return {"on": True, "off": False}.get(text, text)


@dataclass(frozen=True)
class Passes(Setting):
    """A tuple of passes by name; ``a+b`` as text.

    Attributes:
        each: True if lists show every pass as a separate switch, which this option turns off.
        paths: True if each pass must be given as ``path.py:function``.
        optional: True if None is allowed.
    """

    each: bool = False
    paths: bool = False
    optional: bool = False

    def check(self, name: str, value: Any, own: Mapping[str, str], _target: str) -> Any:  # as the base class says
        if self.optional and value is None:
            return None
        if not isinstance(value, tuple | list):
            raise ConfigError(f"{name}: expected a tuple of {'paths' if self.paths else 'pass names'}, got {value!r}")
        known = () if self.paths else (*names("pass"), *own.values())
        for one in value:
            name = one.partition("#")[0] if self.each and isinstance(one, str) else one  # or one of its rewrites
            if one not in own and not self.paths:
                _one_of("pass", name, known)
        return tuple(value)

    def parse(self, text: str) -> Any:  # as the base class says
        return tuple(filter(None, text.split("+")))

    def listed(self, name: str, default: Any) -> list[Switch]:  # as the base class says
        return list(registered("pass")) if self.each else super().listed(name, default)

    def alternatives(self, name: str) -> list[Alternative]:  # as the base class says
        return [Alternative("pass", one, name, one) for one in names("pass")] if self.each else []


@dataclass(frozen=True)
class Variants(Setting):
    """A mapping from ops to kernel variants; ``variant.<op>=name`` as text."""

    def check(self, name: str, value: Any, _own: Mapping[str, str], target: str) -> Any:  # as the base class says
        if not isinstance(value, Mapping):
            raise ConfigError(f'{name}: expected a dict such as {{"linear": "packed"}}, got {value!r}')
        known = kernel_variants(variants_kind(target))
        if not known:  # the packages of the target are missing, as compiling says
            return _FrozenDict(value)
        for op, variant in value.items():
            _one_of(f"{name}: op", op, tuple(known))
            _one_of(f"{name} of {op}", variant, known[op])
        return _FrozenDict(value)

    def options(self, name: str) -> tuple[str, ...]:  # as the base class says
        return (f"{name}.",)

    def listed(self, _name: str, _default: Any) -> list[Switch]:  # as the base class says
        return list(registered("kernel"))

    def alternatives(self, name: str) -> list[Alternative]:  # as the base class says
        found = []
        for one in registered("kernel"):
            op, _, variant = one.name.partition("=")
            found.append(Alternative(one.kind, one.name, f"{name}.{op}", variant, one.usual))
        return found


@dataclass(frozen=True)
class Recipe(Setting):
    """Pairs of a pattern of layer names and a precision; the path of a TOML file as text."""

    def check(self, name: str, value: Any, _own: Mapping[str, str], _target: str) -> Any:  # as the base class says
        if value is None:
            return None
        if value == "":
            raise ConfigError(f"{name}: expected a path of a TOML file, got an empty text")
        if isinstance(value, str | Path):
            name, value = f"{name}: {value}", _read_recipe(Path(value))
        pairs = tuple(value.items()) if isinstance(value, Mapping) else value
        is_list = isinstance(pairs, tuple | list) and all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs)
        if is_list and not pairs:
            raise ConfigError(f"{name}: it is empty; expected at least one pattern, or None for no recipe")
        if not is_list:
            raise ConfigError(
                f'{name}: expected a path of a TOML file or a dict such as {{"lm_head": "int8_weight"}}, got {value!r}'
            )
        for pattern, precision in pairs:
            if not isinstance(pattern, str) or not pattern:
                raise ConfigError(f"{name}: expected patterns of layer names as text, got {pattern!r}")
            if isinstance(precision, Mapping):
                whole = ".".join([pattern, *_first_path(precision)])
                raise ConfigError(
                    f'{name}: {pattern!r} is a table; quote the pattern if its name has dots, as in "{whole}" = "bf16"'
                )
            if precision not in PRECISIONS:
                raise ConfigError(f"{name}: {pattern!r}: {unknown('precision', precision, PRECISIONS)}")
        chosen = dict[str, str]()
        for pattern, precision in pairs:
            if chosen.setdefault(pattern, precision) != precision:
                raise ConfigError(
                    f"{name}: {pattern!r} is listed twice, with {chosen[pattern]} and with {precision}; expected one "
                    "precision for each pattern"
                )
        return tuple((pattern, precision) for pattern, precision in pairs)


def _first_path(table: Mapping[Any, Any]) -> list[str]:
    """The keys from a table of TOML to its first entry, which a dotted key without quotes has made."""
    for key, value in table.items():
        return [str(key), *(_first_path(value) if isinstance(value, Mapping) else [])]
    return []


def _describe_toml_error(error: ValueError | RecursionError) -> str:
    """Why Python cannot read a text as TOML, without its advice to change a limit of the interpreter."""
    if isinstance(error, RecursionError):
        return "its lists or tables are nested too deeply"
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
        return str(error)
    return "a number has too many digits"


def _read_recipe(path: Path) -> Mapping[str, Any]:
    """The table ``[layers]`` of a recipe. ConfigError that names the file if there is no such file or table."""
    if path.is_char_device():  # some have no end, and would fill the memory
        raise ConfigError(f"recipe: {path}: a device, not a file")
    if path.is_fifo():  # it would be waited for without end, because each process reads the recipe
        raise ConfigError(f"recipe: {path}: a pipe, which can be read only once; write the recipe to a file")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not a TOML file: {_describe_toml_error(error)}"
        raise ConfigError(f"recipe: {path}: {reason}") from None
    layers = content.get("layers")
    if layers == {} and len(content) == 1:
        raise ConfigError(f"recipe: {path}: its table [layers] is empty; expected at least one pattern")
    if not isinstance(layers, dict) or len(content) > 1:
        raise ConfigError(
            f'recipe: {path}: expected one table [layers] with lines such as "encoder.layer.*" = "bf16", '
            f"got {', '.join(content) or 'an empty file'}"
        )
    return layers


def _set(default: Any, setting: Setting) -> Any:
    """A field of `Config`."""
    return field(default=default, metadata={"setting": setting})


@dataclass(frozen=True)
class Config:
    """How to compile and run. Immutable; names are checked when it is made.

    Attributes:
        target: the target that runs the program: ``cpu`` (C kernels), ``interpreter`` (the NumPy definitions) or
            ``triton`` (a CUDA device; docs/gpu.md).
        threads: threads of one call, the caller included. ``"auto"`` is the number of processors that the process may
            use, by its affinity mask and the CPU quota of its control groups, each time that a plan is bound.
        precision: how weights are stored, and in which arithmetic products read them. None: as in the model.
            ``fp32``: float32; refused for models of another type or with quantised weights. ``bf16``: weights and
            products in bfloat16, sums in float32. ``fp16``: float16 weights. ``int8_weight``: 8 bits with a float32
            scale for each output channel. ``int8_weight_tensor``: 8 bits with one float32 scale for the tensor.
            ``int4_weight``: 4 bits with a float32 scale for every 32 consecutive elements. ``int8_dynamic``: as
            ``int8_weight``, and linear layers multiply integers: they quantise what they read, each row with a scale
            of its own. ``int8_static`` is not supported yet. Weights that the model itself has quantised stay as they
            are.
        recipe: precision of single layers: a path of a TOML file with a table ``[layers]``, a dict or pairs, each from
            a pattern to a name of `precision`. Patterns have the wildcards of Python's `fnmatch` (``*`` also matches
            dots). A pattern matches the path of the module that reads a weight, such as ``encoder.layer.0.attention``,
            or the name of the weight. The first match decides; other weights have `precision`. A pattern that matches
            no layer is an error, except if torch runs some calls (`fallback`, torch.compile). It is
            also an error if earlier patterns match all layers of a pattern and give one of them another precision.
        activations: type of the values between nodes, for models of bfloat16 or float16. ``float32``: products, norms
            and sums read and write float32, which is more accurate than the model. Inputs and outputs keep the model's
            type; states become float32. Comparisons may differ from the model's, because values are not rounded first,
            and values beyond the range of float16 stay finite. ``model``: as in the model. None: what the target has
            fast kernels for, which is ``float32`` on the cpu, where slow kernels run other types, and ``model`` on
            a GPU.
        states: type in which float32 states are stored, such as the keys and values of a decoder. None: as in the
            model, or float32 if `activations` has widened it. ``bfloat16``: half the memory, and half the bytes that
            attention reads for each token; numbers are rounded when they are written to a state. It has no effect on a
            model without float32 states; the row ``states=bfloat16`` of the report counts the states that it narrows.
        fallback: None: a call that cannot be compiled, or that the target has no kernel for, is an error; ``"torch"``:
            torch runs such calls, in segments.
        passes: passes of your own to run besides the others, each as ``path.py:function`` (docs/add-a-pass.md). The
            file is executed when the Config is made.
        disable: passes to leave out of the pipeline; or single rewrites of them, such as ``fuse_epilogue#add_6``, which
            `Program.rewrites` lists: the pass then does not replace that value.
        variant: op name -> variant of a kernel, such as ``{"linear": "openblas"}``. It runs every step of the op that
            it supports; other kernels run the rest. Each target has its own names: docs/kernels.md, docs/gpu.md.
        pipeline: pass names in the order to run them. None is the default pipeline, with `passes` at positions that
            satisfy their constraints. An order that breaks a constraint is accepted: results stay correct, but the
            program may be slower. The first pass that belongs to a target begins that target's stage.
        planner: memory planning strategy.
        dispatch: ``whole``: one C call for each run; ``per_node``: one C call for each step, arena without reuse.
        outputs: ``recycled``: buffers of large results are recycled once the caller has released them, and up to 256
            MiB of free buffers are kept; ``fresh``: each result gets new memory, and the array can be resized.
        isa: an instruction set; kernels that require more than it are not used. None allows all that this machine has.
        tf32: round the factors of float32 products to the 11 significant bits of TF32. One product on tensor cores then
            replaces two or three.
        plans: how many bound plans are kept if sizes differ from call to call. The plans of the latest sizes are kept.
        verify: check the graph after every pass, and every memory plan and order of steps. A violated rule raises an
            `InternalError`. Programs do not change; compiling takes longer, and memory in proportion to the arena. The
            graph after a pass of yours is always checked, and a `ConfigError` names the pass.
    """

    target: str = _set("cpu", Choice("what runs the program", kind="target", option=False))
    threads: int | str = _set(
        1, Count("worker threads of one call", targets=("cpu",), most=MOST_THREADS, words=("auto",), tries=("1",))
    )
    precision: str | None = _set(
        None,
        Choice(
            "how weights are stored, and the arithmetic of products; by default as in the model",
            values=PRECISIONS,
            tries=True,
            usual=False,
            optional=True,
            absent="the model's",
        ),
    )
    recipe: str | Path | Mapping[str, str] | tuple[tuple[str, str], ...] | None = field(
        default=None, metadata={"setting": Recipe("precision of single layers, as a path of a TOML file")}
    )
    activations: str | None = _set(
        None,
        Choice(
            "type of the values between nodes, for models of bfloat16 or float16; by default what suits the target",
            values=("float32", "model"),
            optional=True,
            absent="the target's",
        ),
    )
    states: str | None = _set(
        None,
        Choice(
            "type in which float32 states are stored, such as the keys and values of a decoder",
            values=("bfloat16",),
            optional=True,
            absent="the model's",
            option=False,
        ),
    )
    fallback: str | None = _set(
        None,
        Choice(
            "what runs calls that cannot be compiled; by default they are an error",
            values=("torch",),
            optional=True,
            absent="none",
        ),
    )
    passes: tuple[str, ...] = _set((), Passes("passes of your own, as path.py:function", paths=True))
    disable: tuple[str, ...] = _set((), Passes("passes to leave out", each=True))
    variant: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"setting": Variants("kernel variants that must be used", targets=("cpu", "triton"))},
    )
    pipeline: tuple[str, ...] | None = _set(None, Passes("passes in order", optional=True))
    planner: str = _set("default", Choice("memory planning strategy", kind="planner", each=True, tries=True))
    dispatch: str = _set(
        "whole",
        Choice("one C call for each run or each step", values=("whole", "per_node"), tries=True, targets=("cpu",)),
    )
    outputs: str = _set(
        "recycled",
        Choice("memory of large results: recycled or new", values=("recycled", "fresh"), tries=True, targets=("cpu",)),
    )
    isa: str | None = _set(
        None, Choice("the instruction set", kind="isa", tries=True, targets=("cpu",), optional=True, absent="best")
    )
    tf32: bool = _set(
        default=False, setting=Flag("round the operands of float32 products to TF32", targets=("triton",))
    )
    plans: int = _set(16, Count("bound plans kept for a program whose sizes differ", option=False))
    verify: bool = _set(default=False, setting=Flag("check graphs, memory plans and orders while compiling"))

    def __post_init__(self) -> None:
        own = self._load_passes()
        for name, setting in settings().items():
            object.__setattr__(self, name, setting.check(name, getattr(self, name), own, self.target))

    def _load_passes(self) -> dict[str, str]:
        """Path and name of each of the user's own passes -> its name. ConfigError if one cannot be loaded."""
        given = [one for value in (self.passes, self.pipeline) if isinstance(value, tuple | list) for one in value]
        known, own = names("pass"), dict[str, str]()
        for path in dict.fromkeys(given):
            if not isinstance(path, str):
                raise ConfigError(f"passes: expected names and paths as text, got {path!r}")
            if path in self.passes or (path not in known and is_path(path)):
                name = load("pass", path).name
                if name in known or name in own.values():
                    raise ConfigError(f"passes: {path}: another pass is already called {name!r}; use another name")
                own[path] = name
        return own

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"variant": dict(self.variant)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Of what `to_dict` gives, also after a way through JSON."""
        recipe = plain["recipe"] and tuple(map(tuple, plain["recipe"]))
        return cls(**{**plain, "recipe": recipe})


def require_config(config: object) -> Config:
    """The `config` argument of a function of the package: `config` itself, or ``Config()`` for None.

    Raises:
        ConfigError: it is neither None nor a Config.
    """
    if config is None:
        return Config()
    if isinstance(config, Config):
        return config
    given = config if isinstance(config, Mapping) else {}
    is_plain = given and all(isinstance(key, str) and key.isidentifier() for key in given)
    fields_ = ", ".join(f"{key}={value!r}" for key, value in given.items()) if is_plain else "threads=2"
    raise ConfigError(
        f"config: expected an engine.Config, got {type(config).__name__} {config!r}; write engine.Config({fields_})"
    )


def is_path(name: str) -> bool:
    """True if `name` names a function in a Python file."""
    return ".py:" in name


def settings() -> dict[str, Setting]:
    """The declaration of each field of `Config`, by name."""
    return {one.name: one.metadata["setting"] for one in fields(Config)}


def all_switches() -> tuple[Switch, ...]:
    """Every switch, in the order of the fields of `Config`: each name that a field can take, or the field itself."""
    declared = settings()
    return tuple(row for one in fields(Config) for row in declared[one.name].listed(one.name, one.default))


class _FrozenDict(dict[str, str]):
    """A hashable dict, so that Config is hashable."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict sets it to None; this one never changes
        return hash(tuple(sorted(self.items())))


def _spelled(value: Any) -> str:
    """A default as text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None or value == () else str(value)


def _one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(unknown(what, value, known))
