"""The pipeline: Graph -> Graph, in order, by name. One small pass a file; each is a switch.

A pass is a function that changes the graph and returns how many changes it made. After each, the graph verifies and
computes the same function. A name may stand several times in a pipeline. The order is free to choose: what must run
before what, and why, is in the file of each pass (`Pass.after`, `Pass.before`). An order that breaks one of these
constraints costs speed and never a right result, so `Config(pipeline=...)` may break them, and an experiment can show
what a constraint is worth; `violations` lists them.

The passes of `PIPELINE` serve every target. Those of one target are in a package of that target, which calls
`add_stage`; they run behind the common ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from engine.config import Config
from engine.errors import ConfigError
from engine.graph import Graph, verify
from engine.passes.base import Constraint, Pass, violations

__all__ = [
    "PASSES",
    "PIPELINE",
    "Constraint",
    "Pass",
    "add_stage",
    "pipeline",
    "run",
    "run_passes",
    "stages",
    "violations",
]

PIPELINE: tuple[str, ...] = (
    "fold_constants",
    "common_subexpressions",
    "fuse_rope",
    "drop_identities",
    "simplify_views",
    "absorb_transpose",
    "absorb_scalar",
    "absorb_pad",
    "fold_batch_norm",
    "fold_norm_forward",
    "fuse_softmax",
    "fuse_layer_norm",
    "fuse_rms_norm",
    "fuse_gelu",
    "fuse_attention",
    "absorb_groups",
    "absorb_mask",
    "use_linear",
    "move_reshape",
    "move_permute",
    "simplify_views",
    "dead_code",
    "absorb_transpose",
    "pick_rows",
    "common_subexpressions",
    "fuse_gated_linear",
    "merge_linear",
    "fuse_epilogue",
    "fuse_embedding_norm",
    "fuse_add_norm",
    "dead_code",
)
"""The common passes, each the name of a file of this package."""

PASSES: dict[str, Pass] = {}
"""Every pass, of all targets, by name."""

_STAGES: dict[str, tuple[str, ...]] = {}
"""Target -> the names of its own passes, in order."""


def _import_passes(package: str, names: Sequence[str]) -> None:
    for name in dict.fromkeys(names):
        if name not in PASSES:
            PASSES[name] = importlib.import_module(f"{package}.{name}").PASS


def add_stage(target: str, package: str, names: Sequence[str]) -> None:
    """Declare the passes that run behind the common ones where `target` is bound to.

    Args:
        target: the target's name.
        package: full name of the package that holds a file for each pass.
        names: passes in order; they may contain common ones.
    """
    _import_passes(package, names)
    _STAGES[target] = tuple(names)


def pipeline(target: str) -> tuple[str, ...]:
    """Names of the passes that run for `target` by default: the common ones, then its own."""
    return (*PIPELINE, *_STAGES.get(target, ()))


def stages(config: Config) -> tuple[list[Pass], list[Pass]]:
    """The passes that `config` asks for, in order: the common ones, and those of the target behind them.

    Of `Config.pipeline` everything from the first pass of a target on is the second list.

    Raises:
        ConfigError: the pipeline has a pass of another target than that of `config`.
    """
    if config.pipeline is None:
        chosen = [[PASSES[name] for name in names] for names in (PIPELINE, _STAGES.get(config.target, ()))]
    else:
        given = [PASSES[name] for name in config.pipeline]
        for one in given:
            if one.target not in (None, config.target):
                raise ConfigError(f"pipeline: {one.name} is a pass of target {one.target}, not of {config.target}")
        cut = next((number for number, one in enumerate(given) if one.target is not None), len(given))
        chosen = [given[:cut], given[cut:]]
    common, own = ([one for one in stage if one.name not in config.disable] for stage in chosen)
    return common, own


def run(graph: Graph, config: Config, *, check: bool = False) -> tuple[tuple[str, int], ...]:
    """Run both stages that `config` describes on `graph`. Returns (pass, changes) in order.

    Args:
        graph: changed in place.
        config: `pipeline` and `disable` are read.
        check: verify the graph after every pass (tests do).
    """
    common, own = stages(config)
    return run_passes(graph, [*common, *own], check=check)


def run_passes(graph: Graph, passes: Sequence[Pass], *, check: bool = False) -> tuple[tuple[str, int], ...]:
    """Run `passes` on `graph`, which changes in place. Returns (pass, changes) in order.

    Raises:
        VerificationError: with `check`, naming the node that a pass left wrong.
    """
    log = []
    for one in passes:
        log.append((one.name, one.run(graph)))
        if check:
            verify.graph(graph)
    return tuple(log)


_import_passes(__name__, PIPELINE)
