"""compile and load: the stages, in order. Knows every stage's front and none of their insides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import passes, program, program_file
from engine.boundary import Rebuild
from engine.config import Config
from engine.errors import ConfigError, UnsupportedOp
from engine.ir import Graph
from engine.runtime import Program
from engine.suggest import unknown

if TYPE_CHECKING:
    from engine.exporter import Captured


def compile(  # noqa: A001  # the name users expect beside torch.compile
    model: Any,
    example_inputs: tuple[Any, ...],
    config: Config | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | None = None,
    calibration: Iterable[Any] | None = None,
) -> Program:
    """Compile a PyTorch model for these input shapes, or for a range of them. Weights are taken as they are now.

    Args:
        model: an `nn.Module` in eval mode, a `torch.export.ExportedProgram` or a `torch.fx.GraphModule`.
        example_inputs: positional inputs as a tuple, or ``(positional, keywords)`` as a tuple of a tuple and a dict.
        config: the switches; None is ``Config()``.
        dynamic_shapes: which sizes differ from call to call, as for `torch.export.export`, such as
            ``{"ids": {1: torch.export.Dim("sequence", max=512)}}``; None: every call brings the example's sizes.
            torch takes a size of 0 or 1 in the example for fixed, whatever is said here.
        calibration: not offered yet; anything but None is refused.

    With ``Config(fallback="torch")``, a model with calls that the engine cannot compile becomes a `FallbackProgram`,
    which is called and asked as a Program is.

    Raises:
        UnsupportedOp: the model uses what the engine cannot compile; lists every such place with its source line. Or a
            size of `dynamic_shapes` cannot differ.
        ConfigError: an argument asks for what does not exist.
        EngineError: torch.export could not capture the model; its reason is passed on.
        InternalError: a defect of the engine; never with a fallback to torch in its place.
    """
    if calibration is not None:
        raise ConfigError("calibration: quantisation is not offered yet; expected None")
    config = Config() if config is None else config
    if config.fallback is None:
        return program_of(artifact_of(model, example_inputs, config, dynamic_shapes), config)
    from engine.torch_backend import fallback

    return fallback.compile(model, example_inputs, config, dynamic_shapes)


class Made(NamedTuple):
    """An artifact whose constants may be memory of the model, and how it came about.

    Attributes:
        artifact: the model, compiled for no machine in particular.
        rebuild: makes the user's own output structure from leaves; None: plain containers.
        export_seconds: spent in torch.export.
        started: when the engine's own work began, by `time.perf_counter`.
    """

    artifact: program.Artifact
    rebuild: Rebuild | None
    export_seconds: float
    started: float


def program_of(made: Made, config: Config) -> Program:
    """The program of an artifact that was just made."""
    return Program(
        made.artifact,
        config,
        rebuild=made.rebuild,
        borrowed=True,
        export_seconds=made.export_seconds,
        started=made.started,
    )


def artifact_of(model: Any, example_inputs: Any, config: Config, dynamic_shapes: Any) -> Made:
    """Export, passes, artifact. Raises as `compile`."""
    # Imported here: the exporter needs torch, and a process that only loads programs does not have to have it.
    from engine import exporter

    return lowered(exporter.captured(model, example_inputs, dynamic_shapes), config)


def lowered(model: Captured, config: Config) -> Made:
    """What follows torch.export. Raises as `compile`."""
    from engine import exporter
    from engine.exporter import trees

    exported = exporter.lowered(model)
    started = time.perf_counter() - exported.lower_seconds
    signature = program.Signature(
        trees.describe(exported.input_tree),
        trees.describe(exported.output_tree),
        tuple(exported.input_slots),
        tuple(exported.output_slots),
        tuple(exported.input_names),
    )
    artifact = finished(exported.graph, signature, config)
    if settled := artifact.scope.settled:
        raise UnsupportedOp(
            [f"size {name}: the model, or how it is compiled, works for {only} only" for name, only in settled.items()]
        )
    rebuild = trees.rebuilder(exported.output_tree, signature.output_tree)
    return Made(artifact, rebuild, exported.export_seconds, started)


def finished(graph: Graph, signature: program.Signature, config: Config) -> program.Artifact:
    """The artifact of an exported graph: passes, then its values numbered."""
    return program.from_graph(graph, signature, passes.run(graph, config))


def load(path: str | Path, verify: str = "full", *, mmap: bool = False, config: Config | None = None) -> Program:
    """Load a program that `Program.save` wrote. Needs no torch and executes nothing from the file.

    By default the weights are read into memory one by one and the file is closed: what is done to it afterwards does
    not concern the program. A weight is in memory once, as its kernels read it; it is also kept plain where a kernel
    computes with another form of it (Winograd's convolution, whose weights then take 1 + 16/9 or 1 + 36/9 times their
    size) or wants only a part of it packed.

    With ``mmap=True`` the file stays mapped into memory for as long as the program is alive, and a weight that kernels
    read plain is never copied. That starts faster and lets several processes share those weights, but the program then
    depends on the file: truncating it ends the process with SIGBUS, an error when reading the disk does so too, and
    overwriting it in place changes the weights, whatever `verify` found before. To replace a mapped file, write another
    one beside it and rename that, as `save` does.

    Args:
        path: the file.
        verify: ``"full"`` checks the header's hash and every weight's checksum; ``"header"`` only the former.
        mmap: keep the file mapped.
        config: the switches that matter when running (passes are already applied); None is ``Config()``.

    Raises:
        ProgramError: the file is missing, damaged, foreign, of another format version, needs more memory than the
            system grants, or changes while it is read. Begins with the file's name.
        ConfigError: `path` names no file, `mmap` is no bool, unknown `verify`, or a switch of passes.
    """
    if isinstance(verify, Config):
        raise ConfigError("load: a Config is given by name: load(path, config=Config(...))")
    check_load(verify, mmap, config)
    started = time.perf_counter()
    with program_file.opened(path, verify, mapped=mmap) as artifact:
        return Program(artifact, config or Config(), borrowed=not mmap, started=started)


def check_load(verify: str, mmap: object, config: Config | None) -> None:
    """ConfigError for an unknown `verify`, an `mmap` that is no bool, or a switch of passes, which have run already."""
    for switch in ("disable", "pipeline"):
        if config is not None and getattr(config, switch):
            raise ConfigError(f"{switch}: passes ran when the program was compiled; compile it anew to change them")
    if config is not None and config.fallback:
        raise ConfigError("fallback: what torch runs is decided when compiling, and a file holds nothing of it")
    if verify not in ("header", "full"):
        raise ConfigError(unknown("verify", verify, ("header", "full")))
    if not isinstance(mmap, bool):
        raise ConfigError(f"mmap: expected True or False, got {mmap!r}")
