"""This engine as a competitor: the same class for each of its targets."""

from __future__ import annotations

import hashlib
import importlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites.backends import _older_engine
from suites.backends.base import Backend, BackendSwitch, Generator, Prepared
from suites.harness.declare.device import CPU, CUDA
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import Unavailable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation

_WORK = ("flops", "bytes")
"""What a call of any backend has to do: of a model that generates text, the model says it."""


def _settings() -> Mapping[str, Any] | None:
    """What the engine declares of each field of its Config; None for an engine of before such declarations."""
    config = importlib.import_module("engine.config")
    return config.settings() if hasattr(config, "settings") else None


def _alternatives(setting: Any, field: str) -> Any:
    """What an ablation puts in place of the default of `field`; a few versions of the engine call it ``turned``."""
    return setting.alternatives(field) if hasattr(setting, "alternatives") else setting.turned(field)


def _concerns(setting: Any, target: str) -> bool:
    """True where the setting means something to the target; a few versions of the engine say ``native``: the cpu."""
    if hasattr(setting, "native"):
        return target == "cpu" or not setting.native
    return not setting.targets or target in setting.targets


class Engine(Backend):
    """Options: the fields of `engine.Config` that are options, as text: ``disable=a+b``, ``pipeline=a+b``,
    ``passes=my.py:run``, ``planner``, ``variant.<op>=name``, ``dispatch``, ``outputs``, ``isa``, ``verify=on``,
    ``fallback=torch``, ``tf32=on`` (on cuda), ``recipe=path.toml``, ``precision`` instead of that of the case. Target
    and threads are those of the case.

    ``only=a+b`` is the usual pipeline with no other passes than these, ``only=none`` the one without any. An
    ablation may set ``threads=1``, which leaves alone the other processors of the case; no label of a user may.
    """

    target = "cpu"
    """For cases on the cpu."""
    targets: ClassVar[Mapping[str, str]] = {CUDA: "triton"}
    """Another device -> the target for cases on it."""
    takes_numpy = True  # a program answers in the kind that it is asked in
    restores_state = True
    lists = ("disable", "only")
    _exported: Any = None

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The options of the engine's Config that the target of one of its devices heeds, and ``only``."""
        declared = _settings()
        if declared is None:
            names = _older_engine.OPTIONS
        else:
            known = (cls.target, *cls.targets.values())
            heeded = [(n, one) for n, one in declared.items() if any(_concerns(one, target) for target in known)]
            names = tuple(option for name, one in heeded for option in one.options(name))
        return ("only", *names)

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """ConfigError for a pass, planner, kernel or instruction set that no target of its devices has."""
        import engine

        try:
            engine.Config(**cls(1, options).config())
        except engine.ConfigError:
            if not any(cls._are_options_on(device, options) for device in cls.targets):
                raise

    @classmethod
    def _are_options_on(cls, device: str, options: Mapping[str, str]) -> bool:
        """True if the target for another device than the cpu has what `options` name; False if nobody can tell."""
        import engine
        from engine import targets

        one = cls(1, options)
        one.device = device
        try:
            engine.Config(**one.config())
        except engine.ConfigError:
            return False
        return bool(targets.get(cls.targets[device]).kernels())

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """Each pass off; another planner, kernel variant or instruction set than usual; one thread; nodes one by one;
        results in fresh memory.

        Reference kernels and precisions take part only if they are named: nobody asks for the speed of the former, and
        the latter change results.
        """
        declared = _settings()
        if declared is None:
            return _older_engine.switches()
        from engine.passes import PASSES

        foreign = {name for name, one in PASSES.items() if one.target not in (None, cls.target)}
        return [
            BackendSwitch(kind, name, {option: value}, {"only": value} if kind == "pass" else None, usual)
            for field, one in declared.items()
            if one.option and _concerns(one, cls.target)
            for kind, name, option, value, usual in _alternatives(one, field)
            if kind != "pass" or name not in foreign
        ]

    @classmethod
    def switches_with(cls, options: Mapping[str, str]) -> Sequence[BackendSwitch]:
        """The passes that ``passes`` of `options` brings, then what every engine has."""
        if "passes" not in options:
            return cls.switches()
        import engine
        from engine import passes

        own = passes.own_passes(engine.Config(**cls(1, {"passes": options["passes"]}).config()))
        brings = {"passes": options["passes"]}
        found = [BackendSwitch("pass", one.name, {"disable": one.name}, {**brings, "only": one.name}) for one in own]
        return [*found, *cls.switches()]

    @classmethod
    def recipe(cls, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        """The recipe, then the precision of all other weights."""
        declared = _settings()
        if declared is None or not {"recipe", "precision"} & options.keys():
            return ()
        import engine

        given = {key: declared[key].parse(options[key]) for key in ("recipe", "precision") if key in options}
        config = engine.Config(**given)
        pairs = config.recipe
        assert pairs is None or isinstance(pairs, tuple)  # noqa: S101  # as `Config` stores it
        return (*(pairs or ()), *([("*", config.precision)] if config.precision else []))

    @classmethod
    def find_lacking(cls, options: Mapping[str, str]) -> str | None:
        """The instruction set, if this machine does not have it."""
        from engine import targets
        from engine.switches import names

        wanted, found = options.get("isa"), targets.get(cls.target).available("isa")
        if wanted in found or wanted not in names("isa"):  # a name that nobody has is an error of `check_options`
            return None
        return f"isa {wanted} needs another processor: this one has {', '.join(found)}"

    @classmethod
    def bare(cls) -> Mapping[str, str]:
        """No passes."""
        return {"only": "none"}

    @property
    def _target(self) -> str:
        """The target for the device of the case."""
        return self.target if self.device == CPU else self.targets[self.device]

    def _require_target(self) -> None:
        """Unavailable where this process cannot use the target."""
        if self.device == CPU:
            return
        from engine import targets

        reason = targets.get(self._target).unavailable()
        if reason is not None:
            raise Unavailable(f"the target {self._target} cannot run here: {reason}")

    def _require_heeded_options(self) -> None:
        """ConfigError for an option that is for another target: a row must not be named by what it ignores."""
        for option in self.options:
            field = (_settings() or {}).get(option.partition(".")[0])
            if field is not None and not _concerns(field, self._target):
                import engine

                others = ", ".join(getattr(field, "targets", ("cpu",)))
                raise engine.ConfigError(
                    f"{option}: it concerns the target {others}, but {self._target} runs the cases on {self.device}"
                )

    @property
    def _kept_program(self) -> Path | None:
        """Where processes with the same options share the compiled program, whatever their threads; None: nowhere."""
        options = json.dumps(self.options, sort_keys=True)
        return self.kept(f"{hashlib.sha256(options.encode()).hexdigest()[:16]}.engine")

    def needs_model(self) -> bool:
        """False once the program is compiled."""
        return self._kept_program is None or not self._kept_program.is_file()

    def load(self) -> None:
        """Nothing beyond the import, which does not need torch."""

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile, or load what an earlier process compiled; the engine tells export and compilation apart itself."""
        import torch

        import engine

        self._require_target()
        torch.set_num_threads(self.threads)
        kept = self._kept_program
        if kept is not None and kept.is_file():
            program = engine.load(kept, config=self._config_for_loading())
            call, ready = _with_state(program)
            facts = facts_of(program.report().to_dict()) | {"artifact_bytes": kept.stat().st_size}
            return Prepared(call, facts=facts, ready=ready, precision=self.precision, device=self.device)
        compiled = self.compiled(model, inputs)
        report = compiled.report().to_dict()
        facts = facts_of(report)
        if "fallback" not in self.options or type(compiled).__name__ == "Program":  # a file cannot hold what torch runs
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.engine" if kept is None else kept.with_suffix(".partial")
                compiled.save(path)
                facts["artifact_bytes"] = path.stat().st_size
                if kept is not None:
                    path.rename(kept)  # appears only when it is complete
        call, ready = _with_state(compiled)
        seconds = report.get("export_seconds"), report.get("compile_seconds")
        return Prepared(call, *seconds, facts, ready, precision=self.precision, device=self.device)

    def compiled(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """The `CompiledModel` of a module; of the program itself where the module is that of an exported program.

        Raises:
            Unavailable: the engine lacks an op of the model in a precision other than float32.
            ConfigError: an option is for another target.
        """
        import engine

        self._require_heeded_options()
        is_converted = PRECISIONS[self.precision].dtype is not None  # an exported program would be the one from before
        source = model if is_converted else getattr(model, "exported_program", model)
        try:
            return engine.compile(source, inputs, config=engine.Config(**self.config()))
        except engine.UnsupportedOp as error:
            if self.precision == "fp32":
                raise
            raise Unavailable(str(error)) from error

    def program_facts(
        self, model: nn.Module, inputs: tuple[Tensor, ...], options: Mapping[str, str]
    ) -> Mapping[str, Any] | None:
        """As a report tells them. The model is exported once, as `engine.compile` does it, if this engine can."""
        import engine
        from suites.backends import stepwise

        if stepwise.generates(model):
            return None
        other = type(self)(self.threads, options)
        other.precision, other.device = self.precision, self.device
        export = getattr(importlib.import_module("engine.exporter"), "export_with_torch", None)
        if export is None:  # an engine of before this function
            return facts_of(other.compiled(model, inputs).report().to_dict())
        if self._exported is None:
            known = getattr(model, "exported_program", None)
            self._exported = export(model, inputs).program if known is None else known
        config = engine.Config(**other.config())
        return facts_of(engine.compile(self._exported, inputs, config=config).report().to_dict())

    def inapplicable_errors(self) -> tuple[type[Exception], ...]:
        """An option that is for another target, or names a variant or instruction set that no step can use here."""
        import engine

        return (engine.ConfigError,)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        """Compile both entry points; facts are those of the one that is timed.

        Of its work only what its kernels execute: the model says what a call of any backend has to do. A report counts
        one step, and every step is as long, because it goes over the whole cache.
        """
        import time

        import torch

        self._require_target()
        self._require_heeded_options()
        torch.set_num_threads(self.threads)
        start = time.perf_counter()
        decoder = self.decoder(model)
        passed = time.perf_counter() - start
        exported = sum(report.export_seconds or 0.0 for report in decoder.report().values())
        decoder.prefill(inputs[0])  # so that the report is of this length
        report = decoder.report()[model.phase].to_dict()
        facts = {name: value for name, value in facts_of(report).items() if name not in _WORK}
        if model.phase == "decode" and "executed_flops" in facts:
            facts["executed_flops"] *= model.steps
        seconds = exported, passed - exported
        where: dict[str, Any] = {"precision": self.precision, "device": self.device}
        return Generator(decoder.prefill, decoder.decode, *seconds, facts, **where)

    def decoder(self, model: Generation) -> Any:
        """The `Decoder` of a model that generates text."""
        import engine

        config = engine.Config(**self.config())
        return engine.compile_decoder(model.cached().eval(), model.max_length, model.batch, config)

    def config(self) -> dict[str, Any]:
        """Keyword arguments of `engine.Config` that the options and the precision spell.

        A rounded model says its precision itself, by the element types of its weights and inputs.
        """
        chosen: dict[str, Any] = {"threads": self.threads}
        if PRECISIONS[self.precision].kind == "quantised":
            chosen["precision"] = self.precision
        declared = _settings()
        chosen |= {"target": self._target} if declared is not None else _older_engine.target(self._target)
        for key, value in self.options.items():
            name, dot, op = key.partition(".")
            if key == "only":
                chosen["pipeline"] = self._only([] if value == "none" else value.split("+"))
            elif dot:
                chosen[name] = {**chosen.get(name, {}), op: value}
            elif declared is None:
                chosen[key] = _older_engine.parse(key, value)
            elif key in declared:
                chosen[key] = declared[key].parse(value)
            else:
                raise _unknown("option", key, declared)
        return chosen

    def _config_for_loading(self) -> Any:
        """The `engine.Config` for a file of a program that was compiled with `config`."""
        import engine

        said = ("precision", "recipe")  # by the file
        chosen = {key: value for key, value in self.config().items() if key not in said}
        if _settings() is None:  # all passes ran when the program was compiled
            return engine.Config(**{key: chosen[key] for key in chosen if key not in _older_engine.COMPILING})
        from engine import passes

        return passes.without_common(engine.Config(**chosen))

    def _only(self, wanted: list[str]) -> tuple[str, ...]:
        """The usual pipeline, with the passes that the option `passes` brings, without others than `wanted`.

        Raises:
            ConfigError: for an unknown one.
        """
        if _settings() is None:
            return _older_engine.only(wanted)
        import engine
        from engine import passes

        own = self.options.get("passes")
        given = () if own is None else tuple(own.split("+"))
        config = engine.Config(passes=given, target=self._target)
        common, late = passes.stages(config)
        names = dict(zip((one.name for one in passes.own_passes(config)), given, strict=True))
        known = [one.name for one in (*common, *late)]
        for name in wanted:
            if name not in known:
                raise _unknown("pass", name, known)
        return tuple(names.get(name, name) for name in known if name in wanted)


def _with_state(program: Any) -> tuple[Callable[..., Any], Callable[..., None] | None]:
    """How a program is called, and what comes before each call: the state that it goes on from is as at first."""
    state: Any = program.new_state() if hasattr(program, "new_state") else ()  # an old engine knows no state
    if len(state) == 0:
        return program, None

    def call(*arguments: Any) -> Any:
        return program(*arguments, state=state)

    def ready(*_arguments: Any) -> None:
        state.reset()

    return call, ready


def facts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a record takes from a report; an engine of another version may lack some of it."""
    from suites.harness.record.facts import AllFacts

    return {name: report[name] for name in AllFacts.model_fields if report.get(name) is not None}


def _unknown(what: str, name: str, known: Iterable[str]) -> Exception:
    from engine.errors import ConfigError
    from engine.suggest import unknown

    return ConfigError(unknown(what, name, known))


class EngineInterpreter(Engine):
    """The reference semantics; slow, and shown so that nobody mistakes it for the product."""

    target = "interpreter"
    targets: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """Passes and planners: it has no kernels."""
        return [switch for switch in super().switches() if switch.kind in ("pass", "planner")]
