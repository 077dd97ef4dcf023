"""Runs the passes of a target, before a program is bound. Needs no torch.

The compiled artifact, which a file holds, does not change. Its constants refer to those of the lowered artifact, so
that each constant is in memory once, in the layout of the target.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from engine import passes
from engine.config import Config
from engine.errors import ConfigError, ProgramError
from engine.graph import View, identity
from engine.program import Artifact, Constants, from_graph, sharing, to_graph
from engine.program.artifact import Linked


def lower(artifacts: Mapping[str, Artifact], config: Config, *, borrowed: bool) -> dict[str, Artifact]:
    """The artifacts, by name, after the passes of the target of `config`; they share constants, and so do the results.

    If they are `borrowed`, constants may be memory of the model or in a file that will be closed; those that are not in
    the result are copied. ConfigError if `config` names a pass of another target, or changes passes that have already
    run; ProgramError if an artifact is lowered for another target, and this one has passes of its own.
    """
    stage = passes.stages(config)[1]
    lowered = {name: _lower(artifact, config, stage) for name, artifact in artifacts.items()}
    if all(lowered[name].constants is artifact.constants for name, artifact in artifacts.items()):
        return lowered
    if len(lowered) > 1:
        lowered = sharing.shared(lowered)
    _link(next(iter(artifacts.values())), next(iter(lowered.values())).constants, borrowed=borrowed)
    return lowered


def _lower(artifact: Artifact, config: Config, stage: list[passes.Pass]) -> Artifact:
    """The lowered artifact; it shares the constants of `artifact` if that is lowered already or no pass changes it."""
    if artifact.lowered == config.target:
        if config.disable or config.pipeline is not None or config.passes:
            raise ConfigError(
                f"passes: those of {config.target} ran before the file was saved; compile the model anew to change them"
            )
        return artifact
    if artifact.lowered and stage:
        raise ProgramError(
            f"the file holds the program after the passes of target {artifact.lowered}; "
            f"compile it anew for {config.target}"
        )
    graph = to_graph(artifact)
    log = passes.run_passes(graph, stage, check=config.verify)
    if not any(changes for _name, changes in log):
        return replace(artifact, passes=(*artifact.passes, *log)) if log else artifact
    return replace(from_graph(graph, artifact.signature, (*artifact.passes, *log)), lowered=config.target)


def _link(artifact: Artifact, lowered: Constants, *, borrowed: bool) -> None:
    """Let the constants of `artifact` refer to those of `lowered`, which may be views of them with all elements."""
    found: dict[Hashable, tuple[int, tuple[View, ...]]] = {}
    for value in lowered:
        form = lowered.form(value)
        views: tuple[View, ...] = ()
        while True:
            found.setdefault(identity(form), (value, views))
            if not isinstance(form, View):
                break
            views = (*views, form)
            form = form.base
    constants = artifact.constants
    for value in constants:
        if (stored := found.get(identity(constants.form(value)))) is not None:
            constants.keep(value, Linked(lowered, *stored))
        elif borrowed:
            constants.keep(value, np.array(constants[value], order="C"))
