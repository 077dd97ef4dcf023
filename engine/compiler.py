"""compile and load: call the stages in order. Knows the interface of every stage, not its internals."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import passes, program, sizes, targets
from engine.config import Config, require_config
from engine.errors import (
    ConfigError,
    EngineError,
    GuardWarning,
    MissingPackageError,
    ProgramError,
    UnsupportedByTarget,
    UnsupportedOp,
)
from engine.graph import Graph, share_constants
from engine.ops import TensorType
from engine.passes import recipe
from engine.runtime.boundary import Boundary
from engine.runtime.decoder import ENTRIES, FACTS, Decoder
from engine.runtime.limits import describe_restrictions
from engine.runtime.model import CompiledModel
from engine.runtime.program import Program
from engine.runtime.warn import warn, warn_of_decoded, warn_of_left
from engine.suggest import unknown

if TYPE_CHECKING:
    from engine.exporter import TorchExport


def compile(  # noqa: A001  # the name users expect beside torch.compile
    model: Any,
    example_inputs: tuple[Any, ...],
    config: Config | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    calibration: Iterable[Any] | None = None,
) -> CompiledModel:
    """Compile a PyTorch model for these input shapes, or for a range of them.

    The program keeps the weights as they are now, in the layouts of its kernels: later changes of the model have no
    effect on it. Compile the model again after a change. `report`, `profile`, `trace` and `save` of the program compare
    the model's weights with those of now and issue a `StaleWeightsWarning` if they have changed (changes through
    `Tensor.data` are not noticed). A call does not compare them, because that would make calls of small models slower.

    Args:
        model: an `nn.Module` in eval mode, a `torch.export.ExportedProgram` or a `torch.fx.GraphModule`.
        example_inputs: positional inputs as a tuple, or ``(positional, keywords)`` as a tuple of a tuple and a dict.
            Inputs and results may be tensors in nested lists, tuples, dicts, named tuples, and dataclasses that
            `torch.export.register_dataclass` knows. A program from a file returns such a dataclass as a dict.
        config: the switches; None is ``Config()``, or ``Config(target="triton")`` for a model or inputs on a GPU.
        dynamic_shapes: which sizes differ from call to call, as for `torch.export.export`, such as
            ``{"ids": {1: torch.export.Dim("sequence", max=512)}}``; None: every call has the example's sizes.
            torch treats a size of 0 or 1 in the example as fixed, and a size that the model's code fixes, even if it is
            listed here: that is an error for a Dim, and a `GuardWarning` for `Dim.AUTO`. The ranges of `Dim.AUTO` and
            `Dim.DYNAMIC` begin at 2 or more; a `GuardWarning` says so if their ``min`` is smaller. torch captures the
            branches for sizes from 2 on. If a range has 0 or 1, the model runs once more at this size, on the beginning
            of the example, and the program does not take the size if the model's results are others. A `GuardWarning`
            says which sizes of a range the program does not take. An `ExportedProgram` has no model to run: for sizes
            of 0 and 1 it keeps the branches that it was exported with.
        calibration: not supported yet; must be None.

    Returns:
        A `Program`. With ``Config(fallback="torch")`` and a model with calls that the engine cannot compile, or that
        the target has no kernels for, another `CompiledModel`: torch runs these calls.

    Raises:
        UnsupportedOp: the model has calls that the engine cannot compile; lists all of them with their source lines. Or
            the model works for only one value of a size in `dynamic_shapes`.
        ProgramError: the target has no kernel for an operation, or the program takes more memory than there is.
        ConfigError: an argument has an unsupported value.
        MissingPackageError: torch is not installed.
        EngineError: torch.export could not capture the model; gives the reason. For a language model of transformers
            that returns a cache: set ``model.config.use_cache = False`` first.
        InternalError: a defect of the engine; the fallback to torch does not hide it.
    """
    if calibration is not None:
        raise ConfigError("calibration: measured scales of activations are not supported yet; expected None")
    config = _choose_config(config, model, example_inputs)
    _require_torch("compile")
    from engine import exporter

    exported = exporter.export_with_torch(model, example_inputs, dynamic_shapes)
    if config.fallback is None:
        return _compile_exported(exported, config)
    from engine.torch_backend.fallback import FallbackProgram

    with contextlib.suppress(UnsupportedOp, UnsupportedByTarget):
        return _compile_exported(exported, config)
    compiled = FallbackProgram(exported, config)
    _warn_of_restrictions(exported.name, compiled.restrictions)
    _warn_of_unchecked(exported.name, compiled.unchecked)
    return compiled


def list_layers(model: Any, example_inputs: tuple[Any, ...]) -> tuple[str, ...]:
    """The layers whose precision `Config.recipe` can choose, in the order in which they run.

    Args:
        model: as for `compile`.
        example_inputs: as for `compile`.

    Raises:
        UnsupportedOp, ConfigError, MissingPackageError, EngineError: as `compile`.
    """
    _require_torch("list_layers")
    from engine import exporter

    return recipe.list_layers(exporter.export(model, example_inputs))


def _choose_config(config: Any, model: Any, example_inputs: Any) -> Config:
    """The `config` argument of `compile` and `compile_decoder`; for None, what suits the place of the model."""
    if config is not None:
        return targets.resolve(require_config(config))
    has_parameters = not isinstance(model, type) and callable(getattr(model, "parameters", None))
    parameters = model.parameters() if has_parameters else ()
    return targets.resolve(Config(target=targets.choose((*_tensors(example_inputs), *parameters))))


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors, or what else, in nested tuples, lists and dicts."""
    if isinstance(value, Mapping | tuple | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(one)
    else:
        yield value


def _require_torch(function: str) -> None:
    """MissingPackageError if torch, which only `function` and the like need, is not installed."""
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise MissingPackageError(
            f"engine.{function} needs torch, which is not installed: pip install 'enginebench[suites]'; "
            "engine.load and engine.load_decoder run saved programs without torch"
        ) from None


def _compile_exported(exported: TorchExport, config: Config) -> Program:
    """The program of what torch has exported. Raises as `compile`."""
    started = time.perf_counter()
    graph = make_graph(exported, config)
    share_constants([graph])
    return Program(graph, config, export_seconds=exported.seconds, started=started, find_changed=exported.find_changed)


def make_graph(exported: TorchExport, config: Config) -> Graph:
    """Translate what torch has exported, and run the common passes. Raises as `compile`."""
    # Imported here, because the exporter needs torch, and a process that only loads programs need not have it.
    from engine import exporter

    graph = exporter.translate(exported)
    warn_of_decoded(graph.name, passes.precision.find_decoded(graph))
    passes.run_common(graph, config)
    warn_of_left(graph.name, passes.precision.find_left(graph))
    if settled := graph.scope.settled:
        raise UnsupportedOp(
            [f"size {name}: the model, or how it is compiled, works only for {only}" for name, only in settled.items()]
        )
    _warn_of_restrictions(graph.name, [*describe_restrictions(graph.scope), *exported.restrictions])
    _warn_of_unchecked(graph.name, graph.scope.unchecked)
    return graph


def _warn_of_restrictions(name: str, restrictions: Sequence[str]) -> None:
    """A `GuardWarning` for the sizes to which the program is restricted, if there are any."""
    if restrictions:
        warn(
            f"{name} does not take all sizes that dynamic_shapes allow, only {'; '.join(restrictions)}. A "
            "call with other sizes raises ShapeError; for these, compile another program, whose example has them "
            "(0 and 1 as fixed sizes).",
            GuardWarning,
        )


def _warn_of_unchecked(name: str, conditions: Sequence[str]) -> None:
    """A `GuardWarning` for conditions on the inputs that calls cannot check, if there are any."""
    if conditions:
        warn(
            f"{name} is right only for inputs with {'; '.join(conditions)}. A call cannot check this. Fix "
            "the sizes that the model's code compares, or leave them out of dynamic_shapes.",
            GuardWarning,
        )


def load(path: str | Path, verify: str = "full", *, mmap: bool = False, config: Config | None = None) -> Program:
    """Load a program that `Program.save` wrote. Needs no torch and executes nothing from the file.

    By default the weights are read into memory one by one and the file is closed; later changes of the file do not
    affect the program. A weight is in memory once, in the form that its kernels read. It is also kept plain if a kernel
    computes another form of it (Winograd's convolution, whose weights then take 1 + 16/9 or 1 + 36/9 times their
    size) or packs only a part of it.

    With ``mmap=True`` the file stays mapped into memory as long as the program exists, and a weight that kernels
    read plain is never copied. Loading is faster and several processes share those weights, but the program then
    depends on the file: truncating it, or an error when reading the disk, ends the process with SIGBUS, and
    overwriting it in place changes the weights after `verify` has checked them. To replace a mapped file, write another
    file beside it and rename that one, as `save` does.

    Args:
        path: the file.
        verify: ``"full"`` checks the header's hash and every weight's checksum; ``"header"`` only the header's hash.
        mmap: keep the file mapped.
        config: the switches; None is ``Config()``. The common passes ran when the program was compiled; the passes of
            the target run now. `disable`, `pipeline` and `passes` may only name passes of the target; `activations` may
            only be what the program was compiled with.

    Raises:
        ProgramError: the file is missing, damaged, foreign, of another format version, needs more memory than the
            system grants, or changes while it is read. The message begins with the file's name.
        ConfigError: `path` names no file, `mmap` is no bool, unknown `verify`, or a switch that matters only when
            compiling.
    """
    if isinstance(verify, Config | Mapping):
        raise ConfigError("load: give a Config by keyword: load(path, config=Config(...))")
    config = check_load(verify, mmap, config)
    started = time.perf_counter()
    with program.opened(path, verify, mapped=mmap) as graph:
        _check_activations(graph, config)
        return Program(graph, config, started=started)


def check_load(verify: str, mmap: object, config: Config | None) -> Config:
    """The Config to load with, ``Config()`` for None.

    Raises:
        ConfigError: `config` is no Config or has a switch that matters only when compiling, `verify` is unknown, or
            `mmap` is no bool.
    """
    config = require_config(config)
    if config.fallback:
        raise ConfigError(
            "fallback: the calls that torch runs are chosen when compiling, and a file holds no code for torch; "
            "load the model by torch.export.load and compile it with this Config"
        )
    for name, value in (("precision", config.precision), ("recipe", config.recipe), ("states", config.states)):
        if value is not None:
            what = "the type of states is chosen" if name == "states" else "weights are encoded"
            raise ConfigError(f"{name}: {value}: {what} when compiling; compile the model anew")
    if common := passes.common_switches(config):
        field, name = common[0]
        raise ConfigError(f"{field}: {name} is a common pass, which ran when the program was compiled; compile it anew")
    if verify not in ("header", "full"):
        raise ConfigError(unknown("verify", verify, ("header", "full")))
    if not isinstance(mmap, bool):
        raise ConfigError(f"mmap: expected True or False, got {mmap!r}")
    return config


def _check_activations(graph: Graph, config: Config) -> None:
    """ConfigError if `config` has another type of activations than the loaded `graph` was compiled with."""
    compiled = graph.switches.get("activations")
    if config.activations not in (None, compiled):
        known = f"the program was compiled with {compiled}" if compiled else "the file does not name it"
        raise ConfigError(
            f"activations: {config.activations}: the type of values is chosen when compiling, and {known}; "
            "compile the model anew"
        )


# --- decoders --------------------------------------------------------------------------------------------------------


def compile_decoder(module: Any, max_length: int = 1024, batch: int = 1, config: Config | None = None) -> Decoder:
    """Compile a language model that keeps a cache in buffers.

    Args:
        module: ``forward(ids, position, lengths)``: ids int64 [batch, length] are the next tokens of each text.
            `position` int64 [batch] is the number of tokens that are already in the cache, `lengths` int64 [batch] the
            number after the call. The module writes to its buffers and returns the logits after the last token of each
            text, [batch, vocab]. It is exported twice: with position 0 and any length from 2 to `max_length`, and with
            length 1.
        max_length: number of tokens of each text that the buffers of the module can hold; two or more.
        batch: number of texts in a call.
        config: the switches; None is ``Config()``, or ``Config(target="triton")`` for a module on a GPU.

    Raises:
        ConfigError: `module` is no nn.Module, has other parameters, writes to no buffer, the two exports do not write
            to the same buffers, or its buffers or positions end before `max_length`. The last is checked by running
            one token at the last position.
        UnsupportedOp, MissingPackageError, EngineError: as `compile`.
    """
    config = _choose_config(config, module, ())
    _require_torch("compile_decoder")
    # Imported here, because a process that only loads decoders need not have torch.
    from engine import exporter
    from engine.exporter import decoding

    if config.fallback is not None:
        raise ConfigError("fallback: not supported for a decoder, because torch cannot share its cache")
    for name, value in (("max_length", max_length), ("batch", batch)):
        if type(value) is not int or value < 1 + (name == "max_length"):
            raise ConfigError(f"{name}: expected a whole number from {1 + (name == 'max_length')} on, got {value!r}")
    decoding.check_parameters(module)
    try:
        examples = decoding.examples(module, batch, max_length)
        exported = {name: exporter.export_with_torch(module, *one) for name, one in examples.items()}
        graphs = {name: make_graph(one, config) for name, one in exported.items()}
    except EngineError as error:
        # Torch reports a wrong size by one of these two errors. Any other error has another reason.
        if type(error) is not EngineError or type(error.__cause__) not in (RuntimeError, IndexError):
            raise
        room = f"the module must take batch={batch} texts of up to max_length={max_length} tokens"
        raise EngineError(f"{error}. Its buffers may have other sizes: {room}") from error
    share_constants(list(graphs.values()))
    _check_decoder(graphs, batch)
    facts, seconds = {"max_length": max_length, "batch": batch}, {n: one.seconds for n, one in exported.items()}
    decoder = Decoder(graphs, facts, config, export_seconds=seconds)
    decoder.check_room()
    return decoder


def _check_decoder(graphs: Mapping[str, Graph], batch: int) -> None:
    """ConfigError unless both graphs write to the same buffers and return one row of logits for each text."""
    kept = [{s[0]: v.type for s, v in zip(g.states, g.state_inputs, strict=True)} for g in graphs.values()]
    if not kept[0] or kept[0] != kept[1]:
        raise ConfigError(
            f"module: its cache must be in buffers, the same in both exports; prefill writes to {list(kept[0])}, "
            f"decode to {list(kept[1])}"
        )
    for name, graph in graphs.items():
        results = [value.type for value in graph.call_outputs]
        if len(results) != 1 or len(results[0].shape) != 2 or not sizes.same(results[0].shape[0], batch):
            raise ConfigError(f"module: {name} must return logits [{batch}, vocab], got {', '.join(map(str, results))}")


def load_decoder(
    path: str | Path, verify: str = "full", *, mmap: bool = False, config: Config | None = None
) -> Decoder:
    """Load what `Decoder.save` wrote. Needs no torch and executes nothing from the file.

    Args:
        path: the file.
        verify: as for `load`.
        mmap: as for `load`, which describes the risks.
        config: as for `load`.

    Raises:
        ProgramError: as `load`, or the file holds no decoder.
        ConfigError: as `load`.
    """
    config = check_load(verify, mmap, config)
    with program.opened_entries(path, verify, mapped=mmap) as (graphs, facts):
        if set(graphs) != set(ENTRIES):
            raise ProgramError(f"expected the entries {', '.join(ENTRIES)}, got {', '.join(graphs)}")
        for graph in graphs.values():
            _check_activations(graph, config)
        if {name: type(facts.get(name)) for name in FACTS} != dict.fromkeys(FACTS, int):
            raise ProgramError(f"expected whole numbers {', '.join(FACTS)}, got {facts}")
        try:
            _check_decoder(graphs, facts["batch"])
        except ConfigError as error:
            raise ProgramError(f"no decoder: {error}") from None
        _check_decoder_arguments(graphs, facts)
        return Decoder(graphs, facts, config)


def _check_decoder_arguments(graphs: Mapping[str, Graph], facts: Mapping[str, int]) -> None:
    """ProgramError unless both entry points take ids, position and lengths, and return one array of logits."""
    batch, longest = facts["batch"], facts["max_length"]
    for name, graph in graphs.items():
        boundary = Boundary(graph)
        length = 1 if name == "decode" else graph.inputs[0].shape[-1]
        requested = [TensorType("int64", shape) for shape in ((batch, length), (batch,), (batch,))]
        one = all(map(sizes.same, boundary.input_types, requested)) and len(boundary.input_types) == len(requested)
        if not one or not boundary.is_flat or not boundary.is_single:
            raise ProgramError(f"{name} does not take ids [{batch}, length], position [{batch}] and lengths [{batch}]")
    limits = [symbol.high for symbol in graphs["prefill"].scope.symbols.values()] or [2]
    if limits != [longest] or graphs["decode"].scope.symbols:
        raise ProgramError(f"max_length is {longest}, and prefill takes texts of {limits}")
