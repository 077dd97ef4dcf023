"""An inference engine one can take apart: every optimisation is a named switch.

    import engine
    program = engine.compile(model, (x,))
    y = program(x)

`engine.load` runs a saved program where torch is not installed. Everything public is named in `__all__`.
"""

from engine.compiler import compile, compile_decoder, list_layers, load, load_decoder  # noqa: A004  # the name users expect beside torch.compile
from engine.config import Config
from engine.config import all_switches as switches
from engine.errors import (
    ComparisonError,
    ConfigError,
    DecodedWeightsWarning,
    EngineError,
    EngineWarning,
    ExecutionError,
    GuardWarning,
    InternalError,
    MissingPackageError,
    PlainWeightsWarning,
    ProgramError,
    ShapeError,
    SlowKernelWarning,
    SlowPrecisionWarning,
    StaleWeightsWarning,
    UnsupportedOp,
)
from engine.inspect.bisect import Bisection, bisect
from engine.inspect.capsule import Replay, replay
from engine.inspect.compare import Comparison, Difference, compare
from engine.inspect.deterministic import deterministic
from engine.inspect.diff import Diff, diff
from engine.inspect.exported import trace
from engine.inspect.judge import ValueDiff
from engine.inspect.minify import Minified, minify
from engine.logs import listen as _listen
from engine.runtime.decoder import Decoder
from engine.runtime.model import CompiledModel
from engine.runtime.program import Program
from engine.runtime.state import State
from engine.switches import Switch

__all__ = [
    "Bisection",
    "Comparison",
    "ComparisonError",
    "CompiledModel",
    "Config",
    "ConfigError",
    "DecodedWeightsWarning",
    "Decoder",
    "Diff",
    "Difference",
    "EngineError",
    "EngineWarning",
    "ExecutionError",
    "GuardWarning",
    "InternalError",
    "Minified",
    "MissingPackageError",
    "PlainWeightsWarning",
    "Program",
    "ProgramError",
    "Replay",
    "ShapeError",
    "SlowKernelWarning",
    "SlowPrecisionWarning",
    "StaleWeightsWarning",
    "State",
    "Switch",
    "UnsupportedOp",
    "ValueDiff",
    "bisect",
    "compare",
    "compile",
    "compile_decoder",
    "deterministic",
    "diff",
    "list_layers",
    "load",
    "load_decoder",
    "minify",
    "replay",
    "switches",
    "trace",
]

_listen()
