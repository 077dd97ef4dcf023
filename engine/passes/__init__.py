"""The pipeline: Graph -> Graph, passes in order, by name. One file for each pass; each pass is a switch.

A pass is a function that changes the graph and returns the number of changes. After each pass, the graph is valid and
computes the same function, in every order of passes. A name may occur several times. The file of each pass states which
passes should run before or after it, and why (`Pass.after`, `Pass.before`). An order that breaks such a constraint
(`violations`) can only make the program slower, so `Config(pipeline=...)` may break it in an experiment.

The passes of one target are in a package of that target, which calls `add_stage`; they run after those of `PIPELINE`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from logging import DEBUG, INFO
from typing import Any, cast

from engine import logs
from engine.config import Config, is_path
from engine.errors import ConfigError, InternalError
from engine.graph import MARK, Graph, verify
from engine.passes import encode_integers, narrow_states, own, precision, recipe, widen
from engine.passes.base import Constraint, Pass, violations
from engine.switches import Switch, register, register_loader, register_source
from engine.switches import names as switch_names

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
    "encode_integers",
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
    "fuse_bias",
    "pick_rows",
    "common_subexpressions",
    "fuse_gated_linear",
    "merge_linear",
    "fuse_epilogue",
    "fuse_embedding_norm",
    "fuse_add_norm",
    "dead_code",
)
"""Names of the common passes, in order; each is the name of a file of this package."""

PASSES: dict[str, Pass] = {}
"""Every pass, of all targets, by name."""

_STAGES: dict[str, tuple[str, ...]] = {}
"""Target -> the names of its own passes, in order."""


_installed: list[Pass] = []
"""The passes of installed packages; constraints decide where each of them runs."""


def _add(one: Pass) -> None:
    PASSES[one.name] = one
    register(Switch("pass", one.name, "on", one.summary))


def _import_passes(package: str, names: Sequence[str]) -> None:
    for name in dict.fromkeys(names):
        if importlib.util.find_spec(f"{package}.{name}") is None:
            if name not in PASSES:
                raise InternalError(f"pass {name!r}: {package} has no file {name}.py, and no common pass has this name")
        elif name in PASSES:
            raise InternalError(f"pass {name!r} of {package}: there is a pass of that name already")
        else:
            _add(importlib.import_module(f"{package}.{name}").PASS)


def _add_installed() -> None:
    """Called once, before the names of passes are read for the first time."""
    for one in own.installed():
        if one.name in PASSES:
            raise ConfigError(f"pass {one.name!r} of an installed package: another pass already has this name")
        _add(one)
        _installed.append(one)


def add_stage(target: str, package: str, names: Sequence[str]) -> None:
    """Declare `names`, the passes that run after the common passes for `target`; common passes are allowed.

    `package` is the full name of the package with the files of the passes.
    """
    _import_passes(package, names)
    _STAGES[target] = tuple(names)


def pipeline(target: str) -> tuple[str, ...]:
    """Names of the passes of this repository that run for `target` by default: the common ones, then its own."""
    return (*PIPELINE, *_STAGES.get(target, ()))


def own_passes(config: Config) -> list[Pass]:
    """The passes of `Config.passes`."""
    return [own.load(path) for path in config.passes]


def stages(config: Config) -> tuple[list[Pass], list[Pass]]:
    """The passes that `config` selects, in order: the common passes, then the passes of the target.

    `Config.pipeline` is split at the first pass that belongs to a target, and passes of installed packages and of
    `Config.passes` run only where it names them. In the default pipeline, they run as late in their stage as their
    constraints allow.

    Raises ConfigError if a pass belongs to another target, or if no position satisfies its constraints.
    """
    mine = own_passes(config)
    named = {one.name: one for one in mine} | dict(zip(config.passes, mine, strict=True))
    out = {named[name].name if name in named else name for name in config.disable}
    if config.pipeline is None:
        common, late = ([PASSES[name] for name in names] for names in (PIPELINE, _STAGES.get(config.target, ())))
        switch_names("pass")  # adds the passes of installed packages
        for one in (*_installed, *mine):
            if one.target in (None, config.target) and one.name not in out:
                _place(one, common, late)
            elif one in mine:
                _check_target("passes", one, config)
    else:
        given = [named.get(name) or PASSES.get(name) or own.load(name) for name in config.pipeline]
        for one in given:
            _check_target("pipeline", one, config)
        out |= {one.name for one, name in zip(given, config.pipeline, strict=False) if name in config.disable}
        cut = next((number for number, one in enumerate(given) if one.target is not None), len(given))
        common, late = given[:cut], given[cut:]
    return [one for one in common if one.name not in out], [one for one in late if one.name not in out]


def common_switches(config: Config) -> list[tuple[str, str]]:
    """Field and name of each common pass that `config` names. They have no effect on a program that is loaded."""
    found = [(field, name) for field in ("disable", "pipeline") for name in getattr(config, field) or ()]
    passes = [PASSES.get(name.partition(MARK)[0]) for _field, name in found]
    found = [pair for pair, one in zip(found, passes, strict=True) if one is not None and one.target is None]
    if config.pipeline is not None:
        late = {one.name for one in stages(config)[1]}
        found = [(field, name) for field, name in found if field != "pipeline" or name not in late]
    return found + [("passes", path) for path in config.passes if own.load(path).target is None]


def choices_when_compiling(config: Config) -> dict[str, Any]:
    """The fields of `config` that change a program before the passes of its target run. Unset fields are left out.

    Own passes and a pipeline are left out: the log of a program lists the passes that ran.
    """
    found = {name: getattr(config, name) for name in ("precision", "recipe", "activations", "states")}
    found["disable"] = tuple(name for field, name in common_switches(config) if field == "disable")
    return {name: value for name, value in found.items() if value not in (None, ())}


def without_common(config: Config) -> Config:
    """`config` for loading a program that was compiled with it: only the target's stage has yet to run."""
    paths = {own.load(path).name: path for path in (*config.passes, *(config.pipeline or ())) if is_path(path)}
    late = tuple(paths.get(one.name, one.name) for one in stages(config)[1])
    return replace(
        config,
        passes=(),
        disable=(),
        pipeline=late,
        fallback=None,
        precision=None,
        recipe=None,
        activations=None,
        states=None,
    )


def _check_target(field: str, one: Pass, config: Config) -> None:
    if one.target not in (None, config.target):
        raise ConfigError(f"{field}: {one.name} is a pass of target {one.target}, not of {config.target}")


def _place(one: Pass, common: list[Pass], late: list[Pass]) -> None:
    """Insert `one` into its stage, as late as its constraints and those of others allow.

    Without constraints, that is before the last `dead_code`, which removes nodes that nothing reads any more.
    """
    stage = common if one.target is None else late
    last = len(stage) - (bool(stage) and stage[-1].name == "dead_code" and one.name != "dead_code")
    for position in range(last, -1, -1):
        trial = [*stage[:position], one, *stage[position:]]
        if not [
            found
            for found in violations([*trial, *late] if stage is common else [*common, *trial])
            if one.name in (found.earlier, found.later)
        ]:
            stage.insert(position, one)
            return
    reasons = ", ".join([*(f"after {name}" for name in one.after), *(f"before {name}" for name in one.before)])
    raise ConfigError(
        f"passes: no position in the {one.target or 'common'} stage satisfies what {one.name} requires: {reasons}. "
        "Change its constraints, its target, or give the whole order as Config(pipeline=...)"
    )


def run(graph: Graph, config: Config, *, check: bool = False) -> None:
    """Run both stages that `config` selects on `graph`, in place, which compiling does one by one.

    `check` verifies the graph after every pass, as `Config.verify` does.
    """
    run_common(graph, config, check=check)
    run_passes(graph, stages(config)[1], config.disable, check=check or config.verify)


def run_common(graph: Graph, config: Config, *, check: bool = False, is_whole: bool = True) -> None:
    """Run the common stage on `graph`, in place; before it widen values, after it encode weights.

    `activations` of None means float32. With `is_whole=False`, for a part of a model, a pattern of the recipe may match
    no layer. `Graph.log` gets a name and a number of changes for each step, in order:

    - ``recipe``: nodes whose weights have a precision from the recipe;
    - ``activations=float32``: nodes that were widened;
    - ``weights=decoded``: quantised weights of the model that are stored decoded;
    - each pass, by its label;
    - ``weights=quantised``: quantised weights of the model that are stored as integers;
    - ``precision=NAME``: nodes with encoded weights. NAME is ``recipe`` if there is a recipe and no
      `Config.precision`, and ``stored`` for a model whose own weights are bfloat16 or float16;
    - ``states=bfloat16``: states that are stored in that type.

    Raises ConfigError as `stages`, or if the precision does not fit the graph.
    """
    with graph.scope.deciding():
        _run_common(graph, config, is_whole=is_whole, check=check)
    graph.switches = choices_when_compiling(config)
    graph.locate_nodes()


def _run_common(graph: Graph, config: Config, *, is_whole: bool, check: bool) -> None:
    graph.precision = config.precision
    if config.recipe is not None:
        pairs = cast("tuple[tuple[str, str], ...]", config.recipe)  # as Config stores every form of it
        graph.log += (("recipe", recipe.assign(graph, pairs, must_match=is_whole)),)
    if config.activations != "model" and config.precision != "fp32":
        _log_changes(graph, "activations=float32", widen.widen(graph))
    _log_changes(graph, "weights=decoded", len(precision.find_decoded(graph)))
    for value in encode_integers.find_computed(graph):
        value.precision = "fp32"  # what is computed from it is not quantised a second time
    run_passes(graph, stages(config)[0], config.disable, check=check or config.verify)
    _log_changes(graph, "weights=quantised", len(precision.find_quantised(graph)))
    changes = precision.apply(graph)
    if config.precision is None:
        _log_changes(graph, "precision=stored" if config.recipe is None else "precision=recipe", changes)
    else:
        graph.log += ((f"precision={config.precision}", changes),)
    if config.states is not None:
        _log_changes(graph, f"states={config.states}", narrow_states.narrow(graph, config.states))
    if check or config.verify:
        verify.graph(graph)


def _log_changes(graph: Graph, label: str, changes: int) -> None:
    """Add an entry to the log, if anything changed."""
    if changes:
        graph.log += ((label, changes),)


def run_passes(graph: Graph, passes: Sequence[Pass], disable: Sequence[str] = (), *, check: bool = False) -> None:
    """Run `passes` on `graph`, in place. `Graph.log` gets (`Pass.label`, changes) of each, in order.

    Rewrites that `disable` names, such as ``fuse_epilogue#add_6``, are left out. A pass from outside leaves them out if
    it begins each at one of `Graph.candidates`.

    Raises VerificationError, with `check`, if the graph breaks a rule after a pass of this repository. A pass from
    outside that fails, or breaks a rule, raises a ConfigError with or without `check`.
    """
    with graph.scope.deciding():
        for one in passes:
            with graph.rewrites.of_pass(one.name, disable):
                changes = own.run(one, graph) if one.version else one.run(graph)
            graph.log += ((one.label, changes),)
            logs.PASSES.log(INFO if changes else DEBUG, "%s: %s: %d changes", graph.name, one.label, changes)
            if check and not one.version:
                verify.graph(graph)


_import_passes(__name__, PIPELINE)
register_source("pass", _add_installed)
register_loader("pass", own.load)
