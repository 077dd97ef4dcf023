"""The competitors, declared: name, where it lives, what it needs. Listing them imports none of them.

A backend is one class in one file (see docs/add-a-backend.md). A suite may also name its own as ``path.py:Class``, and
the engine of another checkout or environment as ``engine@PATH`` (see `versions`).
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.suggest import unknown
from suites.backends import _own_class, versions
from suites.backends.base import Backend
from suites.harness.declare import device
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.models import FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from suites.backends.base import BackendSwitch
    from suites.harness.record.schema import BackendRecord, Role


@dataclass(frozen=True)
class Declared:
    """One line of the registry.

    Attributes:
        name: as suites and the command line spell it.
        target: ``module:Class``.
        summary: how it is used, in one line.
        imports: modules whose import is timed as `import_s`: what a user of the runtime imports.
        needs: further modules that must be importable.
        install: the command that brings them.
        provisions: True where `Backend.provision` has something to do.
        ours: True for the engine of this checkout, False for competitors.
        precisions: precisions that it does.
        devices: devices that it runs on.
        refuses: precision -> why it does not do it, where that needs saying.
        options: options that it understands; None: its class says so, when asked.
    """

    name: str
    target: str
    summary: str
    imports: tuple[str, ...]
    needs: tuple[str, ...]
    install: str
    options: tuple[str, ...] | None = ()
    provisions: bool = False
    ours: bool = False
    precisions: tuple[str, ...] = ("fp32",)
    devices: tuple[str, ...] = ("cpu",)
    refuses: Mapping[str, str] = field(default_factory=dict)

    @property
    def switches(self) -> tuple[str, ...]:
        """Options that it understands; ``variant.`` stands for ``variant.<op>``."""
        return load(BackendRef(self.name)).option_names() if self.options is None else self.options


SET_THREADS = "--threads {0}, or threads = {0} in the file of a suite"
"""How a user of the command line sets the threads of a case."""

_ROUNDED = ("fp32", "bf16", "fp16")
_QUANTISED = ("int8_weight", "int8_weight_tensor", "int8_dynamic", "int4_weight")
_DEVICES = (device.CPU, device.CUDA)
_SUITES = "pip install 'enginebench[suites]'"
_INDUCTOR = (
    "mode",
    "freezing",
    "epilogue_fusion",
    "pattern_matcher",
    "fusion",
    "horizontal_fusion",
    "layout_optimization",
    "inplace_buffers",
    "comprehensive_padding",
    "weight_prepack",
    "tiling_heuristics",
    "loop_tail_vec",
    "simdlen",
    "concat_linear",
)
_ORT = ("level", "without", "tool")

BACKENDS: dict[str, Declared] = {
    declared.name: declared
    for declared in (
        Declared(
            "numpy",
            "suites.backends.numpy:Numpy",
            "NumPy as one writes it by hand, for models whose file has such a forward",
            ("numpy", "scipy.special"),
            ("torch",),
            _SUITES,
        ),
        Declared(
            "eager",
            "suites.backends.eager:Eager",
            "PyTorch eager under inference_mode",
            ("torch",),
            (),
            _SUITES,
            precisions=_ROUNDED,
            devices=_DEVICES,
        ),
        Declared(
            "torch_compile",
            "suites.backends.torch_compile:TorchCompile",
            "torch.compile (inductor) with freezing, static shapes",
            ("torch",),
            (),
            _SUITES,
            _INDUCTOR,
            provisions=True,
            precisions=_ROUNDED,
            devices=_DEVICES,
        ),
        Declared(
            "onnxruntime",
            "suites.backends.onnxruntime:OnnxRuntime",
            "ONNX Runtime on the dynamo export, all graph optimisations",
            ("onnxruntime",),
            ("torch", "onnx", "onnxscript"),
            _SUITES,
            _ORT,
            precisions=("fp32", "int8_weight"),
            refuses={
                "bf16": "its CPU provider has no kernels for bfloat16",
                "fp16": "its CPU provider widens float16 weights to float32 and casts around its float32 kernels",
                "int8_dynamic": "onnxruntime_dynamic does that",
            },
        ),
        Declared(
            "onnxruntime_dynamic",
            "suites.backends.onnxruntime:OnnxRuntimeDynamic",
            "ONNX Runtime with quantize_dynamic: weights and activations of 8 bits",
            ("onnxruntime",),
            ("torch", "onnx", "onnxscript"),
            _SUITES,
            _ORT,
            precisions=("int8_weight", "int8_dynamic"),
        ),
        Declared(
            "openvino",
            "suites.backends.openvino:OpenVino",
            "OpenVINO with the latency hint, the precision of the case kept",
            ("openvino",),
            ("torch",),
            "pip install 'enginebench[openvino]'",
            ("hint", "streams", "pinning", "hyper_threading", "denormals", "accuracy", "snippets"),
            precisions=_ROUNDED,
            refuses=dict.fromkeys(_QUANTISED, "its weights are quantised by NNCF, which is no dependency here"),
        ),
        Declared(
            "torchao",
            "suites.backends.torchao:TorchAo",
            "torchao's int8 weights of linear layers under torch.compile",
            ("torch", "torchao"),
            (),
            "pip install 'enginebench[torchao]'",
            _INDUCTOR,
            provisions=True,
            precisions=("int8_weight", "int8_dynamic"),
        ),
        Declared(
            "llama_cpp",
            "suites.backends.llama_cpp:LlamaCpp",
            "llama.cpp on a GGUF file of the same weights, for language models",
            ("llama_cpp",),
            ("torch", "gguf"),
            "CMAKE_ARGS=-DGGML_NATIVE=ON pip install 'enginebench[llama_cpp]' (builds it; needs cmake and a compiler)",
            precisions=("fp32", "bf16", "int8_weight"),
        ),
        Declared(
            "engine",
            "suites.backends.engine:Engine",
            "this engine, one configuration everywhere; on the cpu its C kernels, on cuda its Triton kernels",
            ("engine",),
            ("torch",),
            "make venv",
            None,
            ours=True,
            precisions=_ROUNDED + _QUANTISED,
            devices=_DEVICES,
        ),
        Declared(
            "engine_dynamo",
            "suites.backends.engine_dynamo:EngineDynamo",
            "this engine inside of torch.compile, static shapes",
            ("torch",),
            ("engine",),
            "make venv",
            None,
            ours=True,
            precisions=_ROUNDED + _QUANTISED,
        ),
        Declared(
            "engine_interpreter",
            "suites.backends.engine:EngineInterpreter",
            "this engine, the NumPy definitions of its ops",
            ("engine",),
            ("torch",),
            "make venv",
            None,
            ours=True,
            precisions=_ROUNDED + _QUANTISED,
        ),
    )
}


def check(ref: BackendRef, set_threads: str = SET_THREADS) -> None:
    """UsageError where `ref` names no backend, or an option that the backend does not have or that the case says.

    A ``path.py:Class`` is judged by its source; its options are its own.

    Args:
        ref: the name of another version of the engine has to be resolved.
        set_threads: see `explain_threads`.
    """
    if ref.copy > 1:
        raise UsageError(f"backend {ref.label!r}: a run adds the second copy of the baseline itself; leave out the #")
    own = _own_class.split(ref.name)
    if own is not None:
        _own_class.check(ref.name, *own)
        return
    _known(ref.name)
    if "threads" in ref.options and role(ref) != "peer":
        raise UsageError(f"backend {ref.name}: {explain_threads(ref.options['threads'], set_threads)}")
    check_options(ref)


def explain_threads(value: str, set_threads: str = SET_THREADS) -> str:
    """Why neither a label, a switch of a suite nor ``--config`` sets the threads, and what does.

    A row of other threads than its case would be compared with backends that have those of the case.

    Args:
        value: what was given; the advice repeats it if it is a number of threads.
        set_threads: what the user can write instead, with ``{0}`` for the number.
    """
    number = value if re.fullmatch("[1-9][0-9]*", value) else "N"
    return f"the threads are a part of the case; use {set_threads.format(number)}"


def check_options(ref: BackendRef) -> None:
    """UsageError where the declared backend `ref` does not have an option; switches of an ablation may be `threads`."""
    declared = _known(ref.name)
    if versions.is_version(ref.name):
        versions.get(ref.name)
    for key in ref.options:
        if not _understands(declared.switches, key):
            # A label cannot set the threads, so they are no advice.
            known = [switch for switch in declared.switches if switch != "threads"]
            raise UsageError(f"backend {ref.name}: {unknown('switch', key, known)}")
    if ref.options and versions.is_version(ref.name):
        versions.check_options(ref.name, ref.options)
    elif ref.options and unavailable(ref) is None:
        load(ref).check_options(ref.options)


def unavailable(ref: BackendRef) -> str | None:
    """Why the backend cannot run here, with the way to install it; None where it can."""
    if _own_class.split(ref.name) is not None or versions.is_version(
        ref.name
    ):  # resolving a version has tried its environment
        return None
    declared = BACKENDS[ref.name]
    missing = [name for name in (*declared.imports, *declared.needs) if not _installed(name)]
    if missing:
        return f"{', '.join(missing)} not installed: {declared.install}"
    return load(ref).find_lacking(ref.options) if ref.options else None


def recipe(ref: BackendRef) -> Sequence[tuple[str, str]]:
    """Pairs of a pattern of layer names and a precision, where an engine stores layers in other precisions than those
    of the case; otherwise nothing.
    """
    return () if role(ref) == "peer" else load(ref).recipe(ref.options)


def cannot_run(ref: BackendRef, form: str) -> str | None:
    """Why the backend cannot run models of this form, a key of `models.FORMS`; None where it can."""
    if _own_class.split(ref.name) is not None and form in Backend.runs:  # without importing the user's file here
        return None
    runs = load(ref).runs
    if form in runs:
        return None
    able = [name for name in BACKENDS if form in load(BackendRef(name)).runs]
    others = f" as {', '.join(able)} can" if able else ""
    return f"{ref.name} runs {' and '.join(FORMS[one] for one in runs)}; it cannot read {FORMS[form]}{others}"


def cannot_restore(ref: BackendRef, state: Sequence[str]) -> str | None:
    """Why the backend cannot start each call from the first values of the buffers that a model writes to; None where
    it can, or where there are none.
    """
    if not state or load(ref).restores_state:
        return None
    return f"the model writes to {', '.join(state)}: {ref.name} cannot start each call from their first values"


def unable(ref: BackendRef, case: Case, own: type[Backend] | None = None) -> str | None:
    """Why `ref` does not do the precision or the device of `case`; None where it does.

    Args:
        ref: the backend.
        case: what it is asked for.
        own: its class; without, nothing is known of a ``path.py:Class``, and the answer is None.
    """
    if case.impossible is not None:
        return case.impossible
    declared = _declared(ref.name)
    able = declared or own
    if able is None:
        return None
    places = [device.label(name) for name in able.devices]
    if case.precision in able.precisions and device.label(case.device) in places:
        return None
    name = device.label(ref.name)
    wanted = f"{case.precision} on {device.label(case.device)}"
    why = declared.refuses.get(case.precision) if declared else None
    reason = f"{name} does {', '.join(able.precisions)} on {', '.join(places)}; the case asks for {wanted}"
    return f"{reason}: {why}" if why else reason


def ours(ref: BackendRef) -> bool:
    """True for the engine of this checkout in any form."""
    return ref.name in BACKENDS and BACKENDS[ref.name].ours


def record(ref: BackendRef, versions_here: Mapping[str, str]) -> BackendRecord:
    """What the record of a run says of the backend; `versions_here` are the packages of this environment."""
    from suites.harness.record.schema import BackendRecord

    packages: Mapping[str, str] = versions_here
    if versions.is_version(ref.name):
        needed: tuple[str, ...] = tuple(versions.get(ref.name).facts["packages"])
        packages = versions.get(ref.name).facts["packages"]
    else:
        declared = _declared(ref.name)
        imported = (*declared.imports, *declared.needs) if declared is not None else ()
        needed = tuple("enginebench" if name == versions.ENGINE else name for name in imported)
    own = {name: packages[name] for name in needed if name in packages}
    return BackendRecord(name=Path(ref.name).name, role=role(ref), options=ref.named_options, packages=own)


def role(ref: BackendRef) -> Role:
    """What a record calls it: the engine of this checkout in any form, another version of it, or a peer."""
    if ours(ref):
        return "engine"
    return "version" if versions.is_version(ref.name) else "peer"


def load(ref: BackendRef) -> type[Backend]:
    """The class behind `ref`. Imports the file of the backend, not yet its runtime."""
    own = _own_class.split(ref.name)
    if own is None:
        module_name, _, class_name = _known(ref.name).target.partition(":")
        found: type[Backend] = getattr(importlib.import_module(module_name), class_name)
        return found
    return _own_class.load(ref.name, *own)


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
    for key, value in switches.items():
        owner = next((d.name for d in BACKENDS.values() if _understands(d.switches, key)), None)
        if owner is None:
            raise UsageError(unknown("switch", key, switch_names()))
        if key == "threads":
            raise UsageError(explain_threads(value))
        check(BackendRef(owner, {key: value}))


def switch_names() -> list[str]:
    """Every switch that some backend has."""
    return sorted({key for declared in BACKENDS.values() for key in declared.switches})


def _understands(known: tuple[str, ...] | list[str], key: str) -> bool:
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
