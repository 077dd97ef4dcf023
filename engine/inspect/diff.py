"""Two executions of one model, value by value: the error that each value has, and the error that its node adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.compiler import compile  # noqa: A004  # the name users expect beside torch.compile
from engine.config import Config
from engine.errors import ComparisonError, ConfigError, MissingPackageError
from engine.inspect.compare import Comparison, compare
from engine.inspect.deterministic import deterministic
from engine.inspect.exported import Exported
from engine.inspect.judge import Judge, ValueDiff, measure
from engine.inspect.sides import ProgramRunner, Runner, TorchRunner, list_changes
from engine.runtime.program import Program
from engine.runtime.report import shortened, table

if TYPE_CHECKING:
    from engine.exporter import TorchExport

TORCH = ("eager64", "eager")
"""References that torch runs: its exported program in float64, or in the model's own types."""
INTERPRETER = "interpreter"


class Diff:
    """The result of `diff`.

    Attributes:
        reference, candidate: labels.
        values: in the order in which the candidate computes them.
        sets: number of sets of inputs.
        unseen: nodes of the candidate that compute something and are in no row.
        is_repeatable: False if an ordinary run of the candidate returns other bits than the run that shows its values.
        notes: what the reader should know.
    """

    def __init__(
        self,
        reference: str,
        candidate: str,
        values: Sequence[ValueDiff],
        comparison: Comparison | None,
        *,
        sets: int,
        unseen: int = 0,
        is_repeatable: bool = True,
        notes: Sequence[str] = (),
    ) -> None:
        self.reference, self.candidate = reference, candidate
        self.values = tuple(values)
        self.sets, self.unseen, self.is_repeatable = sets, unseen, is_repeatable
        self.notes = tuple(notes)
        self._comparison = comparison

    @property
    def first_wrong(self) -> ValueDiff | None:
        """The first value whose node is wrong by itself; None if there is none."""
        return next((one for one in self.values if one.is_wrong), None)

    @property
    def worst(self) -> ValueDiff:
        """`first_wrong`, or else the value with the largest error."""
        return self.first_wrong or max(self.values, key=lambda one: one.error)

    @property
    def comparison(self) -> Comparison:
        """Elements of `worst`: of the node alone if it is wrong, otherwise in the run."""
        assert self._comparison is not None  # noqa: S101  (a diff has values)
        return self._comparison

    def heatmap(self, path: str | Path) -> None:
        """Draw the errors of `comparison` to a PNG or SVG file. MissingPackageError if matplotlib is not installed."""
        self.comparison.heatmap(path)

    def plot(self, path: str | Path) -> None:
        """Draw both errors of each value, in order, to a PNG or SVG file; raises as `heatmap`."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise MissingPackageError("plot needs matplotlib: pip install 'enginebench[plots]'") from None
        figure = Figure(figsize=(9, 4.5), layout="constrained")
        axes = figure.subplots()
        axes.semilogy([one.error or np.nan for one in self.values], label="in the run", linewidth=1.2)
        own = [np.nan if not one.own else one.own for one in self.values]
        axes.semilogy(own, ".", label="of the node alone", markersize=4)
        wrong = [(n, one.own or np.nan) for n, one in enumerate(self.values) if one.is_wrong]
        if wrong:
            axes.semilogy(*zip(*wrong, strict=True), "rx", label="beyond its bound")
        axes.set_xlabel("value, in order of the run")
        axes.set_ylabel("relative error")
        axes.set_title(f"{self.candidate} against {self.reference}")
        axes.legend()
        figure.savefig(path, metadata={})

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values."""
        named = {"reference": self.reference, "candidate": self.candidate, "sets": self.sets}
        first = self.first_wrong
        return {
            **named,
            "first_wrong": None if first is None else first.name,
            "is_repeatable": self.is_repeatable,
            "unseen": self.unseen,
            "notes": list(self.notes),
            "values": [asdict(one) | {"is_wrong": one.is_wrong} for one in self.values],
        }

    def tabulate(self) -> list[dict[str, str]]:
        """A row for each value; without the columns that say nothing of any."""
        rows = [
            {
                "#": "" if one.node is None else str(one.node),
                "op": one.op,
                "value": one.name,
                "error": f"{one.error:.1e}",
                "own": "" if one.own is None else f"{one.own:.1e}",
                "own/bound": "" if one.over_bound is None else f"{one.over_bound:.2g}",
                "wrong": one.cause or "",
                "module": shortened(one.module),
            }
            for one in self.values
        ]
        used = [name for name in rows[0] if any(row[name] for row in rows)]
        return [{name: row[name] for name in used} for row in rows]

    def explain(self) -> list[str]:
        """The answer in sentences."""
        first = self.first_wrong
        last = self.values[-1]
        lines = [
            f"{self.candidate} against {self.reference}: the last value, {last.name}, has an error of {last.error:.1e}."
        ]
        if first is not None:
            lines.append(f"The first wrong node: {first}.")
            if len(first.sets) < self.sets:
                lines.append(
                    f"It is wrong for {len(first.sets)} of {self.sets} sets of inputs: {_count_from_one(first.sets)}."
                )
        elif any(one.own is not None for one in self.values):
            lines.append("No node adds more error than the rounding that its op declares.")
        if not self.is_repeatable:
            lines.append(
                "An ordinary run returns other bits than this one: look at the plan of its memory, or at threads."
            )
        if self.unseen:
            lines.append(f"{self.unseen} nodes make no value of the exported graph, and no row has them in it.")
        return [*lines, *self.notes]

    def __str__(self) -> str:
        rows = self.tabulate()
        return table(tuple(rows[0]), [tuple(row.values()) for row in rows]) + "\n\n" + "\n".join(self.explain())


def _count_from_one(numbers: Iterable[int]) -> str:
    return ", ".join(str(one + 1) for one in numbers)


# --- the two sides ----------------------------------------------------------------------------------------------------


def diff(
    model: Any,
    inputs: Any,
    reference: str | Config | Program | Runner = TORCH[0],
    candidate: Config | Program | Runner | None = None,
    *,
    labels: tuple[str, str] | None = None,
) -> Diff:
    """Run a model in two ways, and compare every value that both compute.

    Values are aligned by the node of torch's exported graph that they equal, through all fusions. Each has two
    errors: that in the run, which it inherits from earlier nodes, and the node's own, when it alone runs on the
    reference's values. The own error is judged against a bound that follows from what the op declares
    (docs/look-inside.md).

    Args:
        model: an `nn.Module` or `ExportedProgram`; or a `Program`, which then is the candidate.
        inputs: positional inputs as a tuple of tensors or arrays; or a list of such tuples, several sets. A model that
            writes to buffers is called with one set after the other.
        reference: ``"eager64"``, torch's exported program in float64; ``"eager"``, in the model's types;
            ``"interpreter"``, the NumPy definitions of the candidate's program before the passes of its target; a
            Config, a Program of the same model, or what another runtime shows.
        candidate: likewise; None is ``Config()``.
        labels: of reference and candidate, for tables.

    Raises:
        ConfigError: the reference needs the model and there is a program alone, or an argument is of another kind.
        ComparisonError: both have no value in common.
        EngineError: as `compile`.
    """
    sets = list(inputs) if isinstance(inputs, list) else [inputs]
    if not sets:
        raise ComparisonError("diff: there is no set of inputs, so nothing would be compared")
    exported: TorchExport | None = None
    if isinstance(model, Program):
        if candidate is not None:
            raise ConfigError("diff: a program is the candidate itself; leave out candidate=, or give the model")
        candidate = model
        if reference in TORCH:
            raise ConfigError(
                f"diff: reference {reference!r} needs the model, and a program has no torch code: give the nn.Module, "
                f"or reference={INTERPRETER!r}"
            )
    else:
        from engine import exporter

        exported = exporter.export_with_torch(model, sets[0])
    for side, found in (("reference", reference), ("candidate", candidate)):
        if not (found is None or isinstance(found, str | Config | Program) or _is_runner(found)):
            what = f"{type(found).__name__}, part of which torch runs" if hasattr(found, "trace") else repr(found)
            raise ConfigError(f"diff: {side}: expected a Config, a Program or what shows values, got {what}")
        if _is_runner(found) and exported is not None and exported.program.graph_signature.buffers_to_mutate:
            raise ConfigError(f"diff: {side}: the model writes to buffers, which {_label(found)} does not show")
    names = labels or (_label(reference), _label(candidate))
    with deterministic() if exported is not None else nullcontext():
        if isinstance(candidate, Program | Config | None):
            program = _program(candidate, exported, sets[0])
            return _judge(program, _reference(reference, program, exported, sets[0]), exported, sets, names)
        return _compare(candidate, reference, exported, sets, names)


def _judge(
    program: Program, reference: Runner, exported: TorchExport | None, sets: Sequence[Any], labels: tuple[str, str]
) -> Diff:
    judge = Judge(program, reference, None if exported is None else Exported(exported, wide=True))
    judge.judge(sets)
    if judge.comparison is None:
        raise _nothing_in_common(labels)
    return Diff(
        *labels,
        [judge.rows[key] for key in sorted(judge.rows, key=lambda key: key[0])],
        judge.comparison,
        sets=len(sets),
        unseen=judge.unseen,
        is_repeatable=judge.is_repeatable,
        notes=reference.notes,
    )


def _compare(
    candidate: Any, reference: Any, exported: TorchExport | None, sets: Sequence[Any], labels: tuple[str, str]
) -> Diff:
    """Errors in the run alone: another runtime does not run a node by itself."""
    if isinstance(candidate, str):
        raise ConfigError(f"diff: candidate: expected a Config, a Program or what shows values, got {candidate!r}")
    assert exported is not None  # noqa: S101  (a program is no candidate of this kind)
    side = _reference(reference, None, exported, sets[0])
    calls = Exported(exported, wide=False)
    rows: dict[str, ValueDiff] = {}
    shown: tuple[float, Comparison] | None = None
    for inputs in sets:
        given = calls.name_inputs(inputs)
        ours = candidate.values(calls.names, given)
        theirs = side.values(set(ours), given)
        for name in (one for one in calls.names if one in ours and one in theirs):
            if ours[name].shape != theirs[name].shape or not ours[name].size:
                continue
            error, (module, source) = measure(ours[name], theirs[name]), calls.locate(name)
            row = rows.get(name) or ValueDiff(name, module, source, None, "", "", error)
            rows[name] = replace(row, error=max(row.error, error))
            if shown is None or error > shown[0]:
                shown = error, compare(ours[name], theirs[name], 0.0, 0.0)
    if shown is None:
        raise _nothing_in_common(labels)
    notes = dict.fromkeys((*side.notes, *candidate.notes))
    return Diff(*labels, list(rows.values()), shown[1], sets=len(sets), notes=list(notes))


def _nothing_in_common(labels: tuple[str, str]) -> ComparisonError:
    return ComparisonError(f"diff: {labels[0]} and {labels[1]} have no value in common, so nothing was compared")


def _is_runner(side: Any) -> bool:
    return hasattr(side, "values") and hasattr(side, "label")


def _label(side: Any) -> str:
    if isinstance(side, str):
        return side
    if _is_runner(side):
        return str(side.label)
    changed = list_changes(side.config if isinstance(side, Program) else side or Config())
    return f"engine[{','.join(f'{name}={value}' for name, value in changed.items())}]" if changed else "engine"


def _program(side: Any, exported: TorchExport | None, inputs: tuple[Any, ...]) -> Program:
    if isinstance(side, Program):
        return side
    if exported is None:
        raise ConfigError("diff: a Config needs the model to compile, and there is a program alone; give a Program")
    compiled = compile(exported.program, inputs, side)
    if not isinstance(compiled, Program):
        raise ConfigError(
            "diff: torch runs a part of this model; diff compares programs that the engine runs as a whole"
        )
    return compiled


def _reference(side: Any, candidate: Program | None, exported: TorchExport | None, inputs: tuple[Any, ...]) -> Runner:
    if _is_runner(side):
        found: Runner = side
        return found
    if side in TORCH:
        if exported is None:
            raise ConfigError(f"diff: reference {side!r} needs the model")
        return TorchRunner(side, Exported(exported, wide=side == TORCH[0]))
    if isinstance(side, str) and side != INTERPRETER:
        raise ConfigError(f"diff: unknown reference {side!r}; expected {', '.join((*TORCH, INTERPRETER))}, or a Config")
    if side == INTERPRETER:
        config = Config(target=INTERPRETER)
        program = Program(candidate.graph, config) if candidate is not None else _program(config, exported, inputs)
    else:
        program = _program(side, exported, inputs)
    return ProgramRunner(_label(side), program)
