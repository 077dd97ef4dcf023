"""Options and switches of engines from before `engine.config.settings`, which this harness runs as ``engine@PATH``."""

from __future__ import annotations

import importlib
import re
from typing import Any

from suites.backends.base import BackendSwitch

OPTIONS = ("disable", "pipeline", "planner", "variant.", "dispatch", "outputs", "isa", "threads")
COMPILING = ("disable", "pipeline")


def target(name: str) -> dict[str, str]:
    """The field of the Config that says what runs programs."""
    return {"executor": {"cpu": "native"}.get(name, name)}


def parse(name: str, text: str) -> Any:
    """The value of the field `name` that `text` spells."""
    if name in COMPILING:
        return tuple(filter(None, text.split("+")))
    return int(text) if name == "threads" and re.fullmatch("[0-9]{1,18}", text) else text


def switches() -> list[BackendSwitch]:
    """The switches of an engine that does not declare them with the fields of `Config`."""
    config, switches = (importlib.import_module(f"engine.{name}") for name in ("config", "switches"))
    try:
        native = importlib.import_module("engine.targets.cpu.native")
    except ModuleNotFoundError:
        native = importlib.import_module("engine.executors.native")
    found = [BackendSwitch("pass", name, {"disable": name}, {"only": name}) for name in switches.names("pass")]
    found += [BackendSwitch("planner", f"planner={name}", {"planner": name}) for name in switches.names("planner")]
    for op, variants in switches.kernel_variants().items():
        found += [
            BackendSwitch("kernel", f"{op}={name}", {f"variant.{op}": name}, usual=name != "reference")
            for name in variants
        ]
    found.append(BackendSwitch("threads", "threads=1", {"threads": "1"}))
    found += [BackendSwitch("isa", f"isa={name}", {"isa": name}) for name in config.ISAS if name in native.isas()]
    found += [BackendSwitch("dispatch", f"dispatch={name}", {"dispatch": name}) for name in config.DISPATCHES]
    return [*found, *(BackendSwitch("outputs", f"outputs={name}", {"outputs": name}) for name in config.OUTPUTS)]


def only(wanted: list[str]) -> tuple[str, ...]:
    """The default pipeline without other passes than `wanted`; ConfigError for an unknown one."""
    passes = importlib.import_module("engine.passes")
    errors, suggest = (importlib.import_module(f"engine.{name}") for name in ("errors", "suggest"))
    for name in wanted:
        if name not in passes.PASSES:
            raise errors.ConfigError(suggest.unknown("pass", name, passes.PASSES))
    return tuple(name for name in passes.PIPELINE if name in wanted)
