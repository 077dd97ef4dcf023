"""This engine as a competitor: the same class for the native executor and for the NumPy interpreter."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Generator, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn

    from suites.models.nets.generation import Generation

FACTS = (
    "nodes",
    "launches",
    "arena_bytes",
    "arena_lower_bound_bytes",
    "weight_bytes",
    "flops",
    "executed_flops",
    "bytes",
    "fallback_nodes",
    "run_digest",
)
_WORK = ("flops", "executed_flops", "bytes")


class Engine(Backend):
    """Options: ``disable=a+b``, ``pipeline=a+b``, ``planner``, ``variant.<op>=name``, ``dispatch``, ``isa``."""

    executor = "native"
    takes_numpy = True  # a program answers in the kind that it is asked in

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """ConfigError for a pass, planner, kernel or instruction set that does not exist."""
        import engine

        engine.Config(**cls(1, options).config())

    def load(self) -> None:
        """Nothing beyond the import, which does not need torch."""

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Compile; the engine tells export and compilation apart itself."""
        import torch

        import engine

        torch.set_num_threads(self.threads)
        program = engine.compile(model, inputs, config=engine.Config(**self.config()))
        report = program.report().to_dict()
        facts = {name: report[name] for name in FACTS if report.get(name) is not None}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.engine"
            program.save(path)
            facts["artifact_bytes"] = path.stat().st_size
        return Prepared(program, report.get("export_seconds"), report.get("compile_seconds"), facts)

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
            else:
                chosen[key] = value
        return {**chosen, "variant": variants} if variants else chosen


class EngineInterpreter(Engine):
    """The reference semantics; slow, and shown so that nobody mistakes it for the product."""

    executor = "interpreter"
