"""What a backend must offer. Knows no runtime; torch only by type.

The worker imports what the registry declares, then calls, in this order and timing each: `load`, `prepare` (export and
compile), the first call, then steady calls. Everybody takes torch CPU tensors and gives torch CPU tensors, or in cases
for users of NumPy everybody takes and gives arrays: conversions are paid by whoever needs them.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from engine.suggest import unknown
from suites.harness.errors import Refused, UsageError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from suites.models.nets.generation import Generation


class NotApplicable(Refused):
    """The question of a case makes no sense for a backend. Another exception makes the row `failed`."""

    status = "not applicable"


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to be called.

    Attributes:
        call: tensors -> outputs in any nesting of tuples, lists, mappings and dataclasses; arrays -> arrays where the
            backend `takes_numpy` and its `io` says so.
        export_s: seconds spent on capturing the model; None where there is no such step.
        compile_s: seconds spent on compiling beyond that; None where there is no such step.
        facts: further columns of the record: nodes, launches, arena_bytes, weight_bytes, artifact_bytes, flops, bytes,
            fallback_nodes, run_digest; details, a dict of further plain JSON values. What is not known is left out.
        late_facts: called once, untimed, after the warm-up: facts that replace those above, such as what later calls
            made a lazy compiler do. None where there are none.
        ready: called with the inputs before each call, untimed: brings about what the call goes on from. None where a
            call depends on its inputs alone.
        precision, device: what `call` really computes in, and where. The row fails where they are not the case's.
    """

    call: Callable[..., Any]
    export_s: float | None = None
    compile_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    ready: Callable[..., Any] | None = None
    late_facts: Callable[[], Mapping[str, Any]] | None = None
    precision: str = "fp32"
    device: str = "cpu"


@dataclass(frozen=True)
class Generator:
    """A language model that is ready to generate, one batch of texts at a time.

    Attributes:
        prefill: ids [B, P] int64 -> logits [B, vocabulary] behind them. Begins the texts anew.
        decode: ids [B, 1] int64 -> logits [B, vocabulary] behind one more token a text.
        export_s, compile_s, facts, late_facts, precision, device: as of `Prepared`.
    """

    prefill: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor], Tensor]
    export_s: float | None = None
    compile_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    late_facts: Callable[[], Mapping[str, Any]] | None = None
    precision: str = "fp32"
    device: str = "cpu"


@dataclass(frozen=True)
class BackendSwitch:
    """A switch of a backend, and the options that change it.

    Attributes:
        kind: what it is one of, such as ``pass``.
        name: as the command line and tables spell it.
        without: options of a backend that is whole but for this; where there is no off, with an alternative instead.
        alone: options of a backend that has nothing else on; None where it cannot be on alone.
        usual: False for what takes part only when it is asked for by name.
    """

    kind: str
    name: str
    without: Mapping[str, str]
    alone: Mapping[str, str] | None = None
    usual: bool = True

    @property
    def is_value(self) -> bool:
        """True if it names a value that replaces the usual one, as ``level=basic`` does; such a switch has no off."""
        return "=" in self.name


@dataclass(frozen=True)
class Scheme:
    """How a backend quantises, where that is not as the precision defines. Tables mark its rows.

    Attributes:
        text: what is different, in one line.
        rule: how `suites.harness.judge.verify` judges results; ``own activations``, a wider bound, if activations have
            one scale for the whole tensor.
        needs: modules that must be importable for it, beyond those of the backend.
        is_calibrated: True if activations have fixed scales, measured on `Backend.calibration`. Cases that generate
            text are then refused: these inputs are not those of single steps.
    """

    text: str
    rule: str = "own weights"
    needs: tuple[str, ...] = ()
    is_calibrated: bool = False


class Backend(ABC):
    """One backend in one process.

    A worker process exists for one backend and one case, so a backend may set what belongs to its process: the threads
    of torch, the log level of its runtime. In the process that asv starts each one sets the threads when it prepares.

    Args:
        threads: worker threads to use. The environment (OMP_NUM_THREADS and its like) already says so.
        options: switches of this backend, as text.
    """

    takes_numpy = False
    """Whether `prepare` heeds `io`; otherwise the harness puts `through_torch` around the call."""
    runs: tuple[str, ...] = ("module",)
    """Forms of models that `prepare` takes: keys of `suites.models.FORMS`. It gets another form never."""
    restores_state = False
    """Whether `prepare` heeds `state`; otherwise models that write to their buffers are refused."""
    precisions: tuple[str, ...] = ("fp32",)
    """Precisions that a ``path.py:Class`` does; the registry says it of a declared backend."""
    devices: tuple[str, ...] = ("cpu",)
    """The same of devices."""
    schemes: ClassVar[Mapping[str, Scheme]] = {}
    """Quantised precision -> how this backend quantises, where that is not as the precision defines."""
    lists: tuple[str, ...] = ()
    """Options whose value is a list, ``a+b``: both of two values hold, where of other options one can."""
    values: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Option -> the values that it takes; an option that is not here takes any."""
    scripts: ClassVar[Mapping[str, str]] = {}
    """Precision -> lines of Python that set ``results`` to those of ``model`` for ``inputs`` as `prepare` does, for
    people who have the runtime alone. Models of other precisions are not minified, nor with options."""

    def __init__(self, threads: int, options: Mapping[str, str]) -> None:
        self.threads = threads
        self.options = dict(options)
        self.io = "torch"
        """``torch`` or ``numpy``: what calls take and must give. Examples given to `prepare` are always tensors."""
        self.state: tuple[str, ...] = ()
        """Buffers that the model writes to. Each call must start from their first values: see `Prepared.ready`."""
        self.precision = "fp32"
        """What the case asks for, see `suites.harness.declare.precision`. Model and inputs are converted already."""
        self.device = "cpu"
        """Where the model and the inputs given to `prepare` are, and calls take and give tensors."""
        self.exports: Path | None = None
        """An existing folder that later processes of the same backend and case see; None where there are none."""
        self.programs: Path | None = None
        """The same for processes with the same options alone, until the last of them has ended."""
        self.calibration: Callable[[], Sequence[tuple[Tensor, ...]]] = lambda: ()
        """Gives the inputs on which schemes that are calibrated measure activations: `ModelSpec.calibration`."""
        self.numpy_forward: Callable[[nn.Module], Callable[..., Any]] | None = None
        """`ModelSpec.numpy` of the case's model."""
        self.wants_facts = False
        """True if only the facts of a program are needed, those that take time to find included."""

    def show(
        self, program: ExportedProgram, names: Collection[str], inputs: Sequence[np.ndarray]
    ) -> tuple[Mapping[str, np.ndarray], str]:
        """The values that its graph has of those called `names` in torch's exported graph, in one run; and what a
        reader should know of them, such as that showing them changed its fusions, or "".

        A backend that cannot look inside leaves this method as it is.
        """
        raise NotImplementedError

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        """EngineError where a value of `options` names nothing; their keys are checked by the registry."""
        for key, text in options.items():
            for value in filter(None, text.split("+")) if key in cls.lists else [text]:
                if key in cls.values and value not in cls.values[key]:
                    raise UsageError(unknown(key, value, cls.values[key]))

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        """The switches that an ablation may change."""
        return ()

    @classmethod
    def switches_with(cls, options: Mapping[str, str]) -> Sequence[BackendSwitch]:  # noqa: ARG003  # most bring no switches
        """The same for a backend with `options`, which may bring switches of their own."""
        return cls.switches()

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Options that it understands; a name that ends in a dot is a prefix of names."""
        return tuple(cls.values)

    @classmethod
    def recipe(cls, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:  # noqa: ARG003  # most have no such option
        """Pairs of a pattern of layer names and a precision, if `options` store layers in other precisions than the
        case's. Results are then compared with those of the model with such weights.
        """
        return ()

    @classmethod
    def find_lacking(cls, options: Mapping[str, str]) -> str | None:  # noqa: ARG003  # most need nothing for an option
        """What this machine lacks for `options`, as a sentence; None if it lacks nothing."""
        return None

    @classmethod
    def bare(cls) -> Mapping[str, str] | None:
        """Options that switch off everything that can be on alone; None where there is no such thing."""
        return None

    def program_facts(
        self, model: nn.Module, inputs: tuple[Tensor, ...], options: Mapping[str, str]
    ) -> Mapping[str, Any] | None:
        """The facts of `model` with `options` instead of this backend's own, for comparing programs without timing.

        Two sets of options with one `run_digest` do the same work. None: no faster way than to prepare the model anew,
        which `stepwise.program_facts` does.
        """
        del model, inputs, options
        return None

    @property
    def keeps(self) -> str:
        """Name of what `prepare` keeps, see `kept`; later processes read it and need no model. Empty: nothing."""
        return ""

    def kept(self, name: str) -> Path | None:
        """Where an exported model may be kept, so that later processes need not export again; None: nowhere."""
        return self.exports / name if self.exports is not None else None

    def needs_model(self) -> bool:
        """False if an earlier process kept all that `prepare` needs of the model; it may then be given None.

        Asked only for models that do not generate text.
        """
        kept = self.kept(self.keeps)
        return not self.keeps or kept is None or not kept.exists()

    def load(self) -> None:  # noqa: B027  # some have nothing to do
        """Import what else the runtime needs, set its threads. Timed as `import_s`, with the declared imports."""

    def provision(self) -> None:  # noqa: B027  # most have nothing to do
        """What a machine pays once and not for every model, such as probing the C++ compiler. Untimed, once a run.

        Called only for backends that are declared with `provisions`; results go where the environment says.
        """

    @abstractmethod
    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """Make `model` (in eval mode, or of another form that the class `runs`) callable for inputs like `inputs`.

        Raises:
            NotApplicable: the question makes no sense for this backend.
        """

    def inapplicable_errors(self) -> tuple[type[Exception], ...]:
        """What the runtime raises if no part of a model can use an option, such as a kernel variant of an op.

        A switch whose program raises one of them is `not applicable` to the model, and no failure of an ablation.
        """
        return ()

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002  # most have none
        """Make `model` generate texts of its sizes; `inputs` as its forward takes them.

        Raises:
            NotApplicable: this backend has no way to.
        """
        raise NotApplicable(f"{type(self).__name__} does not generate text")


def through_torch(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which takes and gives tensors, for a user who has arrays and wants arrays: no copies, only wrappers."""
    import torch

    def wrapped(*arrays: np.ndarray) -> Any:
        found = call(*map(torch.from_numpy, arrays))
        return found.numpy() if isinstance(found, torch.Tensor) else [tensor.numpy() for tensor in flatten(found)]

    return wrapped


def flatten(outputs: Any) -> list[Tensor]:
    """Tensors of nested outputs in order. None, plain numbers, flags and texts are skipped: code of a model sets them.

    Raises:
        TypeError: an output is something else.
    """
    import torch

    return _leaves(outputs, torch.Tensor)


def flatten_arrays(outputs: Any) -> list[Tensor]:
    """The same for outputs that must be NumPy arrays; as tensors of the same memory."""
    import numpy as np
    import torch

    return [torch.from_numpy(array) for array in _leaves(outputs, np.ndarray)]


def to_numpy(tensor: Tensor) -> np.ndarray:
    """A dense copy in the memory of the host; bfloat16, which NumPy lacks, as float32 (exact)."""
    import numpy as np
    import torch

    one = tensor.detach().to("cpu", torch.float32 if tensor.dtype is torch.bfloat16 else tensor.dtype)
    return np.array(one.numpy(), copy=True)


def _leaves(outputs: Any, kind: type) -> list[Any]:
    if isinstance(outputs, kind):
        return [outputs]
    if outputs is None or isinstance(outputs, bool | int | float | str):
        return []
    if isinstance(outputs, Mapping):
        return [leaf for value in outputs.values() for leaf in _leaves(value, kind)]
    if isinstance(outputs, Sequence) and not isinstance(outputs, bytes):
        return [leaf for value in outputs for leaf in _leaves(value, kind)]
    if dataclasses.is_dataclass(outputs) and not isinstance(outputs, type):
        return [leaf for entry in dataclasses.fields(outputs) for leaf in _leaves(getattr(outputs, entry.name), kind)]
    raise TypeError(f"an output is {type(outputs).__name__}; expected {kind.__name__}")
