"""The errors and warnings of this package, one class for each kind. Knows nothing of what raises them."""


class EngineError(Exception):
    """Base of all errors raised on purpose by this package."""


class UnsupportedOp(EngineError):
    """The model uses something that the engine cannot compile.

    Attributes:
        offenders: one line each, ``aten.op.overload: reason (file:line)``.
        hint: what to do about them, if anything.
    """

    def __init__(self, offenders: list[str], hint: str = "") -> None:
        self.offenders = list(offenders)
        self.hint = hint
        count = "1 unsupported part" if len(self.offenders) == 1 else f"{len(self.offenders)} unsupported parts"
        lines = "".join(f"\n  - {line}" for line in self.offenders)
        super().__init__(f"{count} of the model:{lines}" + (f"\n{hint}" if hint else ""))


class ShapeError(EngineError):
    """Inputs of a call differ from what the program was compiled for (number, name, shape, dtype, device)."""


class ProgramError(EngineError):
    """A program file is missing, damaged, foreign or of another version; or this machine cannot run the program."""


class UnsupportedByTarget(ProgramError):
    """The target of a program has no kernel for some of its nodes. The message lists all of them.

    ``Config(fallback="torch")`` lets torch run the calls of the model that they come from, if they come from any.
    """


class ConfigError(EngineError):
    """A Config or an argument asks for something that does not exist."""


class MissingPackageError(EngineError):
    """A function needs a package that is not installed; the message says how to install it."""


class ExecutionError(EngineError):
    """A program failed while running: for example an index outside of its table."""


class InternalError(EngineError):
    """The engine broke a rule of its own: a defect, neither a mistake of the user nor something unsupported.

    Attributes:
        reason: what was found, in one sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.reason}\nThis is a defect of the engine, not of the model or the call. "
            "Please report it together with the traceback."
        )


class UndecidedSizeError(InternalError):
    """Sizes that differ from call to call were compared where no guard may be recorded."""


class VerificationError(InternalError):
    """A graph, a memory plan or the order of a bound plan breaks a rule of the engine."""


class ComparisonError(EngineError):
    """Two results cannot be compared: they differ in structure or shape, or have no elements."""


class EngineWarning(UserWarning):
    """Base of all warnings that this package issues."""


class SlowKernelWarning(EngineWarning):
    """Slow kernels, which promise no share of the roof, do a notable part of a program's work. Issued once per process.

    A part is notable if it is more than 1% of the FLOPs or of the bytes. There is no warning if `Config.variant` asks
    for reference kernels.
    """


class SlowPrecisionWarning(EngineWarning):
    """A program has products in a type that this machine has no instructions for. Issued once per process."""


class GuardWarning(EngineWarning):
    """A program does not take all sizes that `dynamic_shapes` allow; names the guards and the sizes that remain."""


class DecodedWeightsWarning(EngineWarning):
    """Some quantised weights of the model are stored decoded, as floats. The message names them."""


class PlainWeightsWarning(EngineWarning):
    """Some weights stay in float, although `Config.precision` or a recipe says otherwise. The message names them."""


class StaleWeightsWarning(EngineWarning):
    """The weights of a model have changed since it was compiled; the program keeps the earlier ones.

    It is not issued for changes that torch does not count: through ``.data``, or a NumPy array that shares memory.
    """
