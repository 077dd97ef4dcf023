"""Stored runs as a `pandas.DataFrame`: one row a case and backend, one column a value.

Columns come from `schema`. A value that has keys of its own becomes columns of its own, named after both: the median of
`latency` is ``latency_p50``. A speed's value and a comparison's backend take the name of the whole: ``speed`` with
``speed_low`` and ``speed_high``. What has no fixed keys (options, switches, details, versions) is JSON text.
"""

from __future__ import annotations

import json
import types
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from suites.harness.record import store, superseded
from suites.harness.record.collection import collect
from suites.harness.record.launches import KernelRecord, NodeRecord, OperationRecord
from suites.harness.record.schema import AblationRecord, Record, Speed, Summary, names

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = ("value", "backend")
"""Keys whose column has the name of the value that they belong to."""
_DTYPES = {int: "Int64", float: "float64", bool: "boolean"}


class RecordWarning(UserWarning):
    """Something in a results folder could not be read; the rest could."""


@dataclass(frozen=True)
class Column:
    """A column of a frame.

    Attributes:
        name: its name.
        path: where its value is in a record or run: names of fields, outermost first; empty if it is computed.
        dtype: of pandas.
        meaning: in words.
    """

    name: str
    path: tuple[str, ...]
    dtype: str
    meaning: str


_ENDS = tuple(
    Column(name, (name,), "float64", meaning)
    for name, meaning in (("value", ""), ("low", "low end of the interval"), ("high", "high end of the interval"))
)

ABOUT_RUN = (
    Column("run", ("name",), "str", "name of the run: its file without the ending"),
    Column(
        "machine", ("environment", "machine"), "str", "machine that it ran on; times of two machines do not compare"
    ),
    Column("suite", ("environment", "suite"), "str", "name of the suite"),
    Column("started", ("started",), "datetime64[us, UTC]", "when the run began"),
    Column("commit", ("environment", "commit"), "str", "of the checkout that measured"),
    Column("dirty", ("environment", "dirty"), "boolean", "whether its files differed from the commit"),
    Column("superseded", (), "str", "reason why the row is no longer valid; missing if it is valid"),
    Column("best_peer_superseded", (), "str", "the same of the comparison with the best peer alone"),
)
"""Columns about the run of a row."""


def columns(kind: type[Record]) -> list[Column]:
    """Columns of one kind of record, in order, those about its run left out."""
    return [column for column in _columns(kind, ()) if column.path != ("kind",)]


def load_runs(
    results: str | Path, *, machine: str | None = None, suite: str | None = None, superseded: bool = True
) -> pd.DataFrame:
    """Every row of the stored runs, one a case and backend. Of several summaries of one row in a run, the last.

    Args:
        results: a results folder, or the file of one run.
        machine: only runs of this machine.
        suite: only runs of this suite.
        superseded: False leaves out rows from before a known fault was mended.

    Returns:
        A frame in the order of machines, runs and records. Its columns are listed in docs/results-format.md; after them
        comes ``shape_<size>`` (Int64) for each size that occurs. ``attrs["problems"]`` names what could not be read.

    Raises:
        UsageError: no such file or folder.

    Warns:
        RecordWarning: a file, or lines of it, could not be read and were left out; or there are runs, but none of this
            machine or suite.
    """
    made = _frame(results, Summary, machine, suite)
    return made if superseded else made[made["superseded"].isna()].reset_index(drop=True)


def load_ablations(results: str | Path, *, machine: str | None = None, suite: str | None = None) -> pd.DataFrame:
    """Every line of the stored ablations, one a case, switch and mode. Arguments and errors as of `load_runs`."""
    return _frame(results, AblationRecord, machine, suite)


def load_kernels(results: str | Path, *, machine: str | None = None, suite: str | None = None) -> pd.DataFrame:
    """Every line of the stored runs of kernels, one a kernel and size. Arguments and errors as of `load_runs`."""
    return _frame(results, KernelRecord, machine, suite)


def load_nodes(results: str | Path, *, machine: str | None = None, suite: str | None = None) -> pd.DataFrame:
    """Every line of the stored profiles, one a launch. Arguments and errors as of `load_runs`."""
    return _frame(results, NodeRecord, machine, suite)


def load_operations(results: str | Path, *, machine: str | None = None, suite: str | None = None) -> pd.DataFrame:
    """Every line of the stored sweeps, one an operation and size. Arguments and errors as of `load_runs`."""
    return _frame(results, OperationRecord, machine, suite)


def of_run(run: store.Run, kind: type[Record] = Summary) -> pd.DataFrame:
    """The rows of one run that is already read."""
    return _made([run], kind, superseded.known(run.path))


def _frame(results: str | Path, kind: type[Record], machine: str | None, suite: str | None) -> pd.DataFrame:
    collected = collect(results)
    for problem in collected.problems:
        warnings.warn(problem, RecordWarning, stacklevel=3)
    runs = [
        run
        for run in collected.runs
        if machine in (None, run.environment.machine) and suite in (None, run.environment.suite)
    ]
    if collected.runs and not runs:
        stored = sorted({f"{run.environment.suite} of {run.environment.machine}" for run in collected.runs})
        missing = f"no stored run is of suite {suite or '(any)'} and machine {machine or '(any)'}"
        warnings.warn(f"{missing}. Known: {', '.join(stored)}", RecordWarning, stacklevel=3)
    made = _made(runs, kind, collected.faults)
    made.attrs["problems"] = list(collected.problems)
    return made


def _made(runs: Iterable[store.Run], kind: type[Record], faults: superseded.Faults) -> pd.DataFrame:
    import pandas as pd

    chosen = columns(kind)
    rows, sizes = [], dict[str, None]()
    for run in runs:
        about = {column.name: _value(run, column.path) if column.path else None for column in ABOUT_RUN}
        for line in run.summaries() if kind is Summary else run.of(kind):
            row = about | {column.name: _value(line, column.path) for column in chosen}
            if isinstance(line, Summary):
                row["superseded"] = faults.reason(run.name, line)
                row["best_peer_superseded"] = faults.reason(run.name, line, peer=True)
                row |= {f"shape_{key}": size for key, size in line.shape.items()}
                sizes |= dict.fromkeys(f"shape_{key}" for key in line.shape)
            rows.append(row)
    dtypes = {column.name: column.dtype for column in (*ABOUT_RUN, *chosen)} | dict.fromkeys(sizes, "Int64")
    made = pd.DataFrame.from_records(rows, columns=list(dtypes))
    return made.astype(dtypes)


def _columns(kind: type[BaseModel], path: tuple[str, ...], before: Column | None = None) -> Iterator[Column]:
    """Columns of a class of records, or of a value in it that would be the column `before` as a whole."""
    for name in names(kind):
        field = kind.model_fields[name]
        column = Column(
            name.rstrip("_"), (*path, name), _DTYPES.get(_inner(field.annotation), "str"), field.description or ""
        )
        if before is not None:
            column = _inside(before, column)
        inner = _inner(field.annotation)
        if inner is Speed:
            yield from (_inside(column, replace(end, path=(*column.path, *end.path))) for end in _ENDS)
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _columns(inner, column.path, column)
        else:
            yield column


def _inside(whole: Column, part: Column) -> Column:
    """The column of a part of the value that would be `whole`."""
    if part.name in _WHOLE:
        return replace(part, name=whole.name, meaning=whole.meaning)
    return replace(part, name=f"{whole.name}_{part.name}", meaning=f"of `{whole.name}`: {part.meaning}")


def _inner(annotation: Any) -> Any:
    """The type that `annotation` allows beside None, or the annotation where it is no such choice."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        (inner, *more) = [one for one in typing.get_args(annotation) if one is not type(None)]
        return annotation if more else _inner(inner)
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _value(record: Any, path: tuple[str, ...]) -> Any:
    """A value of a record or run. What has no columns of its own is JSON text, or None where it is empty."""
    for name in path:
        record = None if record is None else getattr(record, name)
    if isinstance(record, Mapping | list | tuple | BaseModel):
        return json.dumps(store.plain(record)) if record else None
    return record
