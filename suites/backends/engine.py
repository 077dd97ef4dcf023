"""This engine as a competitor: the same class for the native executor and for the NumPy interpreter."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Generator, Prepared, Turn

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation

FACTS = (
    "nodes",
    "launches",
    "arena_bytes",
    "arena_lower_bound_bytes",
    "weight_bytes",
    "packed_bytes",
    "flops",
    "executed_flops",
    "bytes",
    "fallback_nodes",
    "kernels",
    "run_digest",
)
"""What a record takes from a report; an engine of another version may lack some."""
_WORK = ("flops", "executed_flops", "bytes")


class Engine(Backend):
    """Options: ``disable=a+b``, ``pipeline=a+b``, ``planner``, ``variant.<op>=name``, ``dispatch``, ``outputs``,
    ``isa``.

    ``only=a+b`` is the usual pipeline with no other passes than these, ``only=none`` the one without any. ``threads=1``
    leaves alone the other processors that the case has.
    """

    executor = "native"
    takes_numpy = True  # a program answers in the kind that it is asked in
    lists = ("disable", "only")
    _exported: Any = None

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """ConfigError for a pass, planner, kernel or instruction set that does not exist."""
        import engine

        engine.Config(**cls(1, options).config())

    @classmethod
    def turns(cls) -> Sequence[Turn]:
        """Each pass off; another planner, kernel variant or instruction set than usual; one thread; nodes one by one;
        results in fresh memory.

        Reference kernels and the interpreter, whose speed nobody asks for, only by name.
        """
        from engine import targets
        from engine.config import DISPATCHES, ISAS, OUTPUTS
        from engine.switches import kernel_variants, names

        found = [Turn("pass", name, {"disable": name}, {"only": name}) for name in names("pass")]
        found += [Turn("planner", f"planner={name}", {"planner": name}) for name in names("planner")]
        for op, variants in kernel_variants().items():
            found += [
                Turn("kernel", f"{op}={name}", {f"variant.{op}": name}, usual=name != "reference") for name in variants
            ]
        found.append(Turn("threads", "threads=1", {"threads": "1"}))
        found += [
            Turn("isa", f"isa={name}", {"isa": name}) for name in ISAS if name in targets.get("cpu").available("isa")
        ]
        found += [Turn("dispatch", f"dispatch={name}", {"dispatch": name}) for name in DISPATCHES]
        found += [Turn("outputs", f"outputs={name}", {"outputs": name}) for name in OUTPUTS]
        return found

    @classmethod
    def bare(cls) -> Mapping[str, str]:
        """No passes."""
        return {"only": "none"}

    def load(self) -> None:
        """Nothing beyond the import, which does not need torch."""

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile, or load what an earlier process compiled; the engine tells export and compilation apart itself."""
        import torch

        import engine

        torch.set_num_threads(self.threads)
        kept = None if self.programs is None else self.programs / "model.engine"
        if kept is not None and kept.is_file():
            running = {key: value for key, value in self.config().items() if key not in ("disable", "pipeline")}
            program = engine.load(kept, config=engine.Config(**running))
            return Prepared(program, facts=_facts(program.report().to_dict()))
        program = engine.compile(model, inputs, config=engine.Config(**self.config()))
        report = program.report().to_dict()
        facts = _facts(report)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.engine"
            program.save(path)
            facts["artifact_bytes"] = path.stat().st_size
            if kept is not None:
                shutil.copy(path, kept.with_suffix(".partial"))
                kept.with_suffix(".partial").rename(kept)  # appears only when it is complete
        return Prepared(program, report.get("export_seconds"), report.get("compile_seconds"), facts)

    def told(self, model: nn.Module, inputs: tuple[Tensor, ...], options: Mapping[str, str]) -> Mapping[str, Any]:
        """As a report tells them. The model is exported once."""
        import torch

        import engine
        from suites.backends import stepwise

        if stepwise.generates(model):
            return super().told(model, inputs, options)
        if self._exported is None:
            self._exported = torch.export.export(model, inputs)
        config = engine.Config(**type(self)(self.threads, options).config())
        return _facts(engine.compile(self._exported, inputs, config=config).report().to_dict())

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:
        """Compile both entry points; facts are those of the one that is timed.

        Not its work: the report counts a step, and the model says what a call of any backend has to do.
        """
        import time

        import torch

        import engine

        torch.set_num_threads(self.threads)
        start = time.perf_counter()
        decoder = engine.compile_decoder(
            model.cached().eval(), model.max_length, model.batch, engine.Config(**self.config())
        )
        passed = time.perf_counter() - start
        exported = sum(report.export_seconds or 0.0 for report in decoder.report().values())
        decoder.prefill(inputs[0])  # so that the report is of this length
        report = decoder.report()[model.phase].to_dict()
        facts = {name: report[name] for name in FACTS if name not in _WORK and report.get(name) is not None}
        return Generator(decoder.prefill, decoder.decode, exported, passed - exported, facts)

    def config(self) -> dict[str, Any]:
        """Keyword arguments of `engine.Config` that the options spell."""
        chosen: dict[str, Any] = {"executor": self.executor, "threads": self.threads}
        variants: dict[str, str] = {}
        for key, value in self.options.items():
            if key.startswith("variant."):
                variants[key.removeprefix("variant.")] = value
            elif key in ("disable", "pipeline"):
                chosen[key] = tuple(filter(None, value.split("+")))
            elif key == "threads":
                chosen[key] = int(value) if value.isdigit() else value
            elif key == "only":
                chosen["pipeline"] = _only(value)
            else:
                chosen[key] = value
        return {**chosen, "variant": variants} if variants else chosen


def _facts(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in FACTS if report.get(name) is not None}


def _only(value: str) -> tuple[str, ...]:
    """The usual pipeline without other passes than those that `value` names; ConfigError for an unknown one."""
    from engine.errors import ConfigError
    from engine.passes import PASSES, PIPELINE
    from engine.suggest import unknown

    wanted = [] if value == "none" else value.split("+")
    for name in wanted:
        if name not in PASSES:
            raise ConfigError(unknown("pass", name, PASSES))
    return tuple(name for name in PIPELINE if name in wanted)


class EngineInterpreter(Engine):
    """The reference semantics; slow, and shown so that nobody mistakes it for the product."""

    executor = "interpreter"

    @classmethod
    def turns(cls) -> Sequence[Turn]:
        """Passes and planners: it has no kernels."""
        return [turn for turn in super().turns() if turn.kind in ("pass", "planner")]
