"""The backends, declared: name, where it lives, what it needs. Listing them imports none of them.

A backend is one class in one file (see docs/add-a-backend.md). An installed package declares one by an entry point of
the group ``enginebench.backends``. A suite may also name its own as ``path.py:Class``, and the engine of another
checkout or environment as ``engine@PATH`` (see `versions`).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.suggest import unknown
from suites import models, user_file
from suites.backends import versions
from suites.backends.base import Backend, Scheme
from suites.harness.declare import device
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.models import FORMS

if TYPE_CHECKING:
    from suites.backends.base import BackendSwitch
    from suites.harness.record.schema import BackendRecord, Role


_SUITES = "pip install 'enginebench[suites]'"
_PEERS = "pip install 'enginebench[peers]'"


@dataclass(frozen=True)
class Declared:
    """One line of the registry.

    Attributes:
        name, target, summary: as the command line spells it; ``module:Class``; how it is used, in one line.
        imports: modules whose import is timed as `import_s`: what a user of the runtime imports.
        needs: further modules that must be importable.
        install: the command that brings them.
        provisions: True where `Backend.provision` has something to do.
        ours: True for the engine of this checkout, False for others.
        precisions, devices: those that it does.
    """

    name: str
    target: str
    summary: str
    imports: tuple[str, ...]
    needs: tuple[str, ...] = ("torch",)
    install: str = _SUITES
    provisions: bool = False
    ours: bool = False
    precisions: tuple[str, ...] = ("fp32",)
    devices: tuple[str, ...] = (device.CPU,)

    @property
    def switches(self) -> tuple[str, ...]:
        """Options that it understands; ``variant.`` stands for ``variant.<op>``."""
        return load(BackendRef(self.name)).option_names()


_THREADS = "the threads are a part of the case; use --threads N, or threads = N in a suite or in a marker of pytest"
"""Why neither a label nor a switch of a suite sets the threads, and what does: a row of other threads than its case
would be compared with backends that have those of the case.
"""

_ROUNDED = ("fp32", "bf16", "fp16")
_QUANTISED = ("int8_weight", "int8_weight_tensor", "int8_dynamic", "int4_weight")
_DEVICES = (device.CPU, device.CUDA)
_ORT: dict[str, Any] = {"imports": ("onnxruntime",), "needs": ("torch", "onnx", "onnxscript")}
_OURS: dict[str, Any] = {"install": "make venv", "ours": True, "precisions": _ROUNDED + _QUANTISED}

BACKENDS: dict[str, Declared] = {
    declared.name: declared
    for declared in (
        Declared(
            "numpy",
            "suites.backends.numpy:Numpy",
            "NumPy as one writes it by hand, for models whose file has such a forward",
            ("numpy", "scipy.special"),
        ),
        Declared(
            "eager",
            "suites.backends.eager:Eager",
            "PyTorch eager under inference_mode",
            ("torch",),
            precisions=_ROUNDED,
            devices=_DEVICES,
        ),
        Declared(
            "torch_compile",
            "suites.backends.torch_compile:TorchCompile",
            "torch.compile (inductor) with freezing, static shapes; int8_dynamic by PT2E",
            ("torch",),
            precisions=(*_ROUNDED, "int8_dynamic"),
            devices=_DEVICES,
            provisions=True,
        ),
        Declared(
            "onnxruntime",
            "suites.backends.onnxruntime:OnnxRuntime",
            "ONNX Runtime on the dynamo export, all graph optimisations; int8_dynamic by quantize_static",
            precisions=("fp32", "int8_weight", "int8_dynamic"),
            **_ORT,
        ),
        Declared(
            "onnxruntime_dynamic",
            "suites.backends.onnxruntime:OnnxRuntimeDynamic",
            "ONNX Runtime with quantize_dynamic: weights and activations of 8 bits",
            precisions=("int8_weight", "int8_dynamic"),
            **_ORT,
        ),
        Declared(
            "openvino",
            "suites.backends.openvino:OpenVino",
            "OpenVINO with the latency hint, the precision of the case kept; int8_dynamic by NNCF",
            ("openvino",),
            install="pip install 'enginebench[openvino]'",
            precisions=(*_ROUNDED, "int8_dynamic"),
        ),
        Declared(
            "torchao",
            "suites.backends.torchao:TorchAo",
            "torchao's int8 weights of linear layers under torch.compile",
            ("torch", "torchao"),
            install="pip install 'enginebench[torchao]'",
            precisions=("int8_weight", "int8_dynamic"),
            provisions=True,
        ),
        Declared(
            "llama_cpp",
            "suites.backends.llama_cpp:LlamaCpp",
            "llama.cpp on a GGUF file of the same weights, for language models",
            ("llama_cpp",),
            ("torch", "gguf"),
            "CMAKE_ARGS=-DGGML_NATIVE=ON pip install 'enginebench[llama_cpp]' (builds it; needs cmake and a compiler)",
            precisions=("fp32", "bf16", "int8_weight", "int8_dynamic"),
        ),
        Declared(
            "engine",
            "suites.backends.engine:Engine",
            "this engine, one configuration everywhere; on the cpu its C kernels, on cuda its Triton kernels",
            ("engine",),
            devices=_DEVICES,
            **_OURS,
        ),
        Declared(
            "engine_dynamo",
            "suites.backends.engine_dynamo:EngineDynamo",
            "this engine inside of torch.compile, static shapes",
            ("torch",),
            ("engine",),
            **_OURS,
        ),
        Declared(
            "engine_interpreter",
            "suites.backends.engine:EngineInterpreter",
            "this engine, the NumPy definitions of its ops",
            ("engine",),
            **_OURS,
        ),
    )
}


GROUP = "enginebench.backends"
for _point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
    _one = _point.load()
    if not isinstance(_one, Declared) or _one.name in BACKENDS:
        raise UsageError(f"{_point.value}: expected a Declared with a name that no other backend has")
    BACKENDS[_one.name] = _one


def check(ref: BackendRef) -> None:
    """UsageError where `ref` names no backend, or an option that the backend does not have or that the case says.

    The name of another version of the engine has to be resolved. Options of a ``path.py:Class`` are its own.
    """
    own = user_file.split("backend", ref.name)
    if own is not None:
        if (known := user_file.ask(own[0])) is not None:
            _check_class(*own, known)
        return
    _known(ref.label if ref.copy > 1 else ref.name)  # a run adds the second copy of the baseline itself
    if "threads" in ref.options and role(ref) != "peer":
        raise UsageError(f"backend {ref.name}: {_THREADS}")
    check_options(ref)


def check_options(ref: BackendRef) -> None:
    """UsageError where the declared backend `ref` does not have an option; switches of an ablation may be `threads`."""
    names = _known(ref.name).switches
    for key in ref.options:
        if not _understands(names, key):
            raise UsageError(f"backend {ref.name}: {unknown('switch', key, names)}")
    if ref.options and versions.is_version(ref.name):
        versions.check_options(ref.name, ref.options)
    elif ref.options and unavailable(ref) is None:
        load(ref).check_options(ref.options)


def unavailable(ref: BackendRef) -> str | None:
    """Why the backend cannot run here, with the way to install it; None where it can."""
    declared = BACKENDS.get(ref.name)
    if declared is None:  # a class of a file, or another version, whose environment was tried when it was resolved
        return None
    missing = [name for name in (*declared.imports, *declared.needs) if not _installed(name)]
    if missing:
        return f"{', '.join(missing)} not installed: {declared.install}"
    return load(ref).find_lacking(ref.options) if ref.options else None


def recipe(ref: BackendRef) -> Sequence[tuple[str, str]]:
    """As `Backend.recipe`; nothing for a peer."""
    return () if role(ref) == "peer" else load(ref).recipe(ref.options)


def cannot_run(ref: BackendRef, form: str) -> str | None:
    """Why the backend cannot run models of this form, a key of `models.FORMS`; None where it can."""
    # Every backend runs what the base class does; a user's file is not imported for these.
    if form in Backend.runs or form in (runs := load(ref).runs):
        return None
    return f"{ref.name} runs {' and '.join(FORMS[one] for one in runs)}; it cannot read {FORMS[form]}"


def cannot_restore(ref: BackendRef, state: Sequence[str]) -> str | None:
    """Why the backend cannot start each call from the first values of the buffers `state`; None where it can."""
    if not state or load(ref).restores_state:
        return None
    return f"the model writes to {', '.join(state)}: {ref.name} cannot start each call from their first values"


def unable(ref: BackendRef, case: Case, own: type[Backend] | None = None) -> str | None:
    """Why `ref` does not do the precision or the device of `case`, or not here; None where it does.

    Of a ``path.py:Class`` nothing is known without `own`, its class; the answer is then None.
    """
    able = _declared(ref.name) or own
    if case.impossible is not None or able is None:
        return case.impossible
    places = [device.label(name) for name in able.devices]
    if case.precision in able.precisions and device.label(case.device) in places:
        scheme = (own or load(ref)).schemes.get(case.precision)
        return None if scheme is None else _cannot_quantise(ref, case, scheme)
    name = device.label(ref.name)
    wanted = f"{case.precision} on {device.label(case.device)}"
    return f"{name} does {', '.join(able.precisions)} on {', '.join(places)}; the case asks for {wanted}"


def _cannot_quantise(ref: BackendRef, case: Case, scheme: Scheme) -> str | None:
    """Why the case cannot be quantised by `scheme` here; None where it can."""
    if missing := [name for name in scheme.needs if not _installed(name)]:
        return f"{', '.join(missing)} not installed, which {case.precision} of {ref.name} needs: {_PEERS}"
    if scheme.is_calibrated and models.get(case.model).generates(case.build_arguments):
        return f"{ref.name} measures activations of whole texts; single steps are not calibrated"
    return None


def ours(ref: BackendRef) -> bool:
    """True for the engine of this checkout in any form."""
    return ref.name in BACKENDS and BACKENDS[ref.name].ours


def record(ref: BackendRef, versions_here: Mapping[str, str], precisions: Collection[str]) -> BackendRecord:
    """What the record of a run says of the backend.

    Args:
        ref: the backend.
        versions_here: the packages of this environment.
        precisions: of the cases of the run.
    """
    from suites.harness.record.schema import BackendRecord

    if versions.is_version(ref.name):
        own = dict(versions.get(ref.name).facts["packages"])
    else:
        declared = BACKENDS.get(ref.name)
        imported = (*declared.imports, *declared.needs) if declared is not None else ()
        schemes = load(ref).schemes if declared is not None else {}
        imported = (*imported, *(one for name in precisions if name in schemes for one in schemes[name].needs))
        needed = ["enginebench" if name == versions.ENGINE else name for name in imported]
        own = {name: versions_here[name] for name in needed if name in versions_here}
    return BackendRecord(name=Path(ref.name).name, role=role(ref), options=ref.named_options, packages=own)


def role(ref: BackendRef) -> Role:
    """What a record calls it: the engine of this checkout in any form, another version of it, or a peer."""
    if ours(ref):
        return "engine"
    return "version" if versions.is_version(ref.name) else "peer"


def load(ref: BackendRef) -> type[Backend]:
    """The class behind `ref`. Imports the file of the backend, not yet its runtime; UsageError as of `check`."""
    own = user_file.split("backend", ref.name)
    if own is None:
        module_name, _, class_name = _known(ref.name).target.partition(":")
        module = importlib.import_module(module_name)
    else:
        path, class_name = own
        module = user_file.load(path)
        _check_class(path, class_name, user_file.describe(module))
    found: type[Backend] = getattr(module, class_name)
    return found


def imports(ref: BackendRef) -> tuple[str, ...]:
    """Modules whose import is timed; none are known of a ``path.py:Class``."""
    declared = _declared(ref.name)
    return declared.imports if declared is not None else ()


def switches(ref: BackendRef) -> Sequence[BackendSwitch]:
    """The switches of `ref` with its options; another version of the engine has its own."""
    return versions.switches(ref.name) if versions.is_version(ref.name) else load(ref).switches_with(ref.options)


def applicable(ref: BackendRef, switches: dict[str, str]) -> dict[str, str]:
    """The options of one run: the switches of the case that the backend has, and its own over them."""
    declared = _declared(ref.name)
    known = declared.switches if declared is not None else ()
    return {key: value for key, value in switches.items() if _understands(known, key)} | dict(ref.options)


def check_switches(switches: dict[str, str]) -> None:
    """EngineError where no backend has one of `switches`, or it does not take the value."""
    known = {name: declared.switches for name, declared in BACKENDS.items()}
    for key, value in switches.items():
        owner = next((name for name, own in known.items() if _understands(own, key)), None)
        if owner is None:
            raise UsageError(unknown("switch", key, sorted(set().union(*known.values()))))
        check(BackendRef(owner, {key: value}))


def _check_class(path: Path, class_name: str, known: Mapping[str, user_file.Definition]) -> None:
    """UsageError if `class_name` is no backend, in a file that defines `known`. Python says what else a class lacks."""
    base = f"{Backend.__module__}.{Backend.__name__}"
    classes = [name for name, one in known.items() if base in one.bases[1:]]
    if class_name not in classes:
        raise UsageError(f"{path.name}: {unknown(f'class derived from {base}', class_name, classes)}")


def _understands(known: Sequence[str], key: str) -> bool:
    return any(key == name or (name.endswith(".") and key.startswith(name) and key != name) for name in known)


def _declared(name: str) -> Declared | None:
    """The line of the registry; of another version of the engine, that of the engine."""
    return BACKENDS.get(versions.ENGINE if versions.is_version(name) else name)


def _known(name: str) -> Declared:
    declared = _declared(name)
    if declared is None:
        raise UsageError(unknown("backend", name, BACKENDS))
    return declared


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
