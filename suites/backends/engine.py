"""This engine as a backend: the same class for each of its targets."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from engine.suggest import unknown
from suites.backends.base import Backend, BackendSwitch, Generator, Prepared
from suites.harness.declare.device import CPU, CUDA
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import Unavailable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation


def _settings() -> Mapping[str, Any]:
    """What the engine declares of each field of its Config."""
    from engine import config

    return config.settings()


def _concerns(setting: Any, target: str) -> bool:
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
        known = (cls.target, *cls.targets.values())
        heeded = [(n, one) for n, one in _settings().items() if any(_concerns(one, target) for target in known)]
        return ("only", *(option for name, one in heeded for option in one.options(name)))

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """ConfigError for a pass, planner, kernel or instruction set that no target of its devices has."""
        import engine
        from engine import targets

        errors = []
        for device in (CPU, *cls.targets):
            one = cls(1, options)
            one.device = device
            try:
                engine.Config(**one.config())
            except engine.ConfigError as error:
                errors.append(error)
            else:
                if device == CPU or targets.get(one._target).kernels():  # without kernels, any variant is accepted
                    return
        raise errors[0]

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """Each pass off; another planner, kernel variant or instruction set than usual; one thread; nodes one by one;
        results in fresh memory.

        Reference kernels and precisions take part only if they are named: nobody asks for the speed of the former, and
        the latter change results.
        """
        from engine.passes import PASSES

        foreign = {name for name, one in PASSES.items() if one.target not in (None, cls.target)}
        return [
            BackendSwitch(kind, name, {option: value}, {"only": value} if kind == "pass" else None, usual)
            for field, one in _settings().items()
            if one.option and _concerns(one, cls.target)
            for kind, name, option, value, usual in one.alternatives(field)
            if kind != "pass" or name not in foreign
        ]

    @classmethod
    def switches_with(cls, options: Mapping[str, str]) -> Sequence[BackendSwitch]:
        """The passes that ``passes`` of `options` brings, then what every engine has."""
        if "passes" not in options:
            return cls.switches()
        import engine
        from engine import passes

        brings = {"passes": options["passes"]}
        own = passes.own_passes(engine.Config(**cls(1, brings).config()))
        found = [BackendSwitch("pass", one.name, {"disable": one.name}, {**brings, "only": one.name}) for one in own]
        return [*found, *cls.switches()]

    @classmethod
    def recipe(cls, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        if not {"recipe", "precision"} & options.keys():
            return ()
        import engine

        given = {key: _settings()[key].parse(options[key]) for key in ("recipe", "precision") if key in options}
        config = engine.Config(**given)
        pairs: Any = config.recipe or ()
        return (*pairs, *([("*", config.precision)] if config.precision else []))

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
        return {"only": "none"}

    @property
    def _target(self) -> str:
        """The target for the device of the case."""
        return self.target if self.device == CPU else self.targets[self.device]

    def _check_target(self) -> None:
        """Check that the target of the case can run here, and that it heeds every option that names the row.

        Raises:
            Unavailable: this process cannot use the target.
            ConfigError: an option is for another target.
        """
        from engine import ConfigError, targets

        reason = None if self.device == CPU else targets.get(self._target).unavailable()
        if reason is not None:
            raise Unavailable(f"the target {self._target} cannot run here: {reason}")
        for option in self.options:
            setting = _settings().get(option.partition(".")[0])
            if setting is not None and not _concerns(setting, self._target):
                others = ", ".join(setting.targets)
                raise ConfigError(
                    f"{option}: it concerns the target {others}, but {self._target} runs the cases on {self.device}"
                )

    @property
    def keeps(self) -> str:
        """The compiled program, which processes with the same options share, whatever their threads."""
        options = json.dumps(self.options, sort_keys=True)
        return f"{hashlib.sha256(options.encode()).hexdigest()[:16]}.engine"

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile, or load what an earlier process compiled; the engine tells export and compilation apart itself."""
        import torch

        import engine
        from engine import passes

        torch.set_num_threads(self.threads)
        kept = self.kept(self.keeps)
        program: Any
        if kept is not None and kept.exists():
            self._check_target()
            said = ("precision", "recipe")  # by the file
            chosen = {key: value for key, value in self.config().items() if key not in said}
            program = engine.load(kept, config=passes.without_common(engine.Config(**chosen)))
            facts = facts_of(program.report().to_dict()) | {"artifact_bytes": kept.stat().st_size}
            call, ready = _with_state(program)
            return Prepared(call, None, None, facts, ready, precision=self.precision, device=self.device)
        program = self.compiled(model, inputs)
        report = program.report().to_dict()
        facts = facts_of(report)
        if "fallback" not in self.options or type(program).__name__ == "Program":  # a file cannot hold what torch runs
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.engine" if kept is None else kept.with_suffix(".partial")
                program.save(path)
                facts["artifact_bytes"] = path.stat().st_size
                if kept is not None:
                    path.rename(kept)  # appears only when it is complete
        seconds = report.get("export_seconds"), report.get("compile_seconds")
        call, ready = _with_state(program)
        return Prepared(call, *seconds, facts, ready, precision=self.precision, device=self.device)

    def compiled(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """The `CompiledModel` of a module; of the program itself where the module is that of an exported program.

        Raises:
            Unavailable: the target cannot run here, or lacks an op of the model in a precision other than float32.
            ConfigError: an option is for another target.
        """
        import engine

        self._check_target()
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
        """The model is exported once, as `engine.compile` does it."""
        import engine
        from engine.exporter import export_with_torch
        from suites.backends import stepwise

        if stepwise.generates(model):
            return None
        other = type(self)(self.threads, options)
        other.precision, other.device = self.precision, self.device
        if self._exported is None:
            known = getattr(model, "exported_program", None)
            self._exported = export_with_torch(model, inputs).program if known is None else known
        config = engine.Config(**other.config())
        return facts_of(engine.compile(self._exported, inputs, config=config).report().to_dict())

    def inapplicable_errors(self) -> tuple[type[Exception], ...]:
        import engine

        return (engine.ConfigError,)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        """Compile both entry points; facts are those of the one that is timed.

        Of its work only what its kernels execute: the model says what a call of any backend has to do. A report counts
        one step, and every step is as long, because it goes over the whole cache.
        """
        import time

        import torch

        self._check_target()
        torch.set_num_threads(self.threads)
        start = time.perf_counter()
        decoder = self.decoder(model)
        passed = time.perf_counter() - start
        exported = sum(report.export_seconds or 0.0 for report in decoder.report().values())
        decoder.prefill(inputs[0])  # so that the report is of this length
        report = decoder.report()[model.phase].to_dict()
        facts = {name: value for name, value in facts_of(report).items() if name not in ("flops", "bytes")}
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
        chosen: dict[str, Any] = {"threads": self.threads, "target": self._target}
        if PRECISIONS[self.precision].kind == "quantised":
            chosen["precision"] = self.precision
        declared = _settings()
        for key, value in self.options.items():
            name, dot, op = key.partition(".")
            if key == "only":
                chosen["pipeline"] = self._only([] if value == "none" else value.split("+"))
            elif dot:
                chosen[name] = {**chosen.get(name, {}), op: value}
            else:  # another version of the engine may lack a field, as its Config then says
                chosen[key] = declared[key].parse(value) if key in declared else value
        return chosen

    def _only(self, wanted: list[str]) -> tuple[str, ...]:
        """The usual pipeline, with the passes that the option `passes` brings, without others than `wanted`.

        Raises:
            ConfigError: for an unknown one.
        """
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
                raise engine.ConfigError(unknown("pass", name, known))
        return tuple(names.get(name, name) for name in known if name in wanted)


def _with_state(program: Any) -> tuple[Callable[..., Any], Callable[..., None] | None]:
    """How a program is called, and what comes before each call: the state that it goes on from is as at first."""
    state = program.new_state()
    if len(state) == 0:
        return program, None

    def call(*arguments: Any) -> Any:
        return program(*arguments, state=state)

    return call, lambda *_arguments: state.reset()


def facts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a record takes from a report; an engine of another version may lack some of it."""
    from suites.harness.record.facts import AllFacts

    return {name: report[name] for name in AllFacts.model_fields if report.get(name) is not None}


class EngineInterpreter(Engine):
    """The reference semantics; slow, and shown so that nobody mistakes it for the product."""

    target = "interpreter"
    targets: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """Passes and planners: it has no kernels."""
        return [switch for switch in super().switches() if switch.kind in ("pass", "planner")]
