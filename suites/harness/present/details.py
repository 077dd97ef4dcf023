"""All other measurements of a case: a line a quantity, a column a backend. Reads records only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from suites.harness.judge.judged_case import JudgedCase
from suites.harness.judge.summary import find_work
from suites.harness.present import notes, units
from suites.harness.present.overview import fold_label
from suites.harness.present.ranked import shorten_labels
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Column, Table
from suites.harness.record.schema import Environment, Summary


def _write_accuracy(name: str) -> Callable[[Summary], str]:
    write = units.percent if name == "agreement" else units.error
    return lambda row: write(None if row.accuracy is None else getattr(row.accuracy, name))


def _write_error(name: str) -> Callable[[Summary], str]:
    return lambda row: units.error(None if row.error is None else getattr(row.error, name))


def _write_p90(row: Summary) -> str:
    return units.seconds(row.latency.p90 if row.latency is not None else None)


def _write_rate(phase: str) -> Callable[[Summary], str]:
    def write(row: Summary) -> str:
        seconds = getattr(row.s_per_token, phase) if row.s_per_token is not None else None
        return units.digits(1 / seconds) if seconds else units.UNKNOWN

    return write


def _write(name: str, write: Callable[[float | None], str]) -> Callable[[Summary], str]:
    return lambda row: write(getattr(row, name))


def _write_unless_0(write: Callable[[Summary], str]) -> Callable[[Summary], str]:
    return lambda row: units.UNKNOWN if write(row) in ("0", "0%") else write(row)


QUANTITIES: Mapping[str, Callable[[Summary], str]] = {
    "90th percentile": _write_p90,
    "detects": _write("detectable", units.percent),
    "tokens/s of prompt": _write_rate("prefill"),
    "tokens/s": _write_rate("decode"),
    "error": _write_error("relative"),
    "allowed error": _write_error("tolerance"),
    "accuracy: error": _write_accuracy("relative"),
    "accuracy: agreement": _write_accuracy("agreement"),
    "beside neighbours": notes.write_neighbours,
    "rounds disturbed": _write_unless_0(_write("disturbed", units.percent)),
    "of roof, executed": _write("executed_share", units.percent),
    "launches": _write("launches", units.count),
    "slow kernels": _write_unless_0(_write("slow_launches", units.count)),
    "fallbacks": _write_unless_0(_write("fallback_nodes", units.count)),
    "graph breaks": _write("graph_breaks", units.count),
    "arena": _write("arena_bytes", units.size),
    "least arena": _write("arena_lower_bound_bytes", units.size),
    "weights": _write("weight_bytes", units.size),
    "import": _write("import_s", units.seconds),
    "export": _write("export_s", units.seconds),
    "compile": _write("compile_s", units.seconds),
    "first call": _write("first_call_s", units.seconds),
    "peak memory": _write("run_peak_rss_bytes", units.size),
}
"""Heading of a line -> how the value of a row is written. docs/reading-results.md explains each."""


def describe_details(one: JudgedCase, environment: Environment) -> list[Part]:
    """A line for every quantity that some row has, and how the times were taken."""
    rows = [*one.timed, *(row for row in one.rows.values() if row.latency is None)]
    rows = [row for row in rows if any(write(row) != units.UNKNOWN for write in QUANTITIES.values())]
    labels = shorten_labels(list(one.rows))
    table = Table([Column("quantity"), *(Column(fold_label(labels[row.backend]), "right") for row in rows)])
    for name, write in QUANTITIES.items():
        cells = [write(row) for row in rows]
        if any(cell != units.UNKNOWN for cell in cells):
            table.add(name, *cells)
    texts = (_describe_preparation(one), _describe_work(one), _describe_method(one, environment))
    return [*([table] if table.rows else []), *(Paragraph(text, "dim") for text in texts if text)]


def _describe_preparation(one: JudgedCase) -> str:
    """Why times of preparing are missing, where they are."""
    is_missing = one.timed and all(row.export_s is None and row.compile_s is None for row in one.timed)
    reason = "import, export and compile are measured in the first case of a model, whose exports the others use"
    return reason if is_missing else ""


def _describe_work(one: JudgedCase) -> str:
    row = find_work(one.rows.values())
    if row is None or row.flops is None or row.bytes is None:
        return ""
    return f"work of a call: {units.count(row.flops)} operations on {units.size(row.bytes)}"


def _describe_method(one: JudgedCase, environment: Environment) -> str:
    """Case, floor, generations and samples."""
    samples = sorted({row.latency.n for row in one.rows.values() if row.latency})
    floor = "not measured" if one.floor is None else units.times(1 + one.floor)
    taken = f", {' to '.join(map(str, {samples[0], samples[-1]}))} samples a backend" if samples else ""
    return f"case {one.case}: {environment.plan.generations} generations of processes{taken}; A/A floor {floor}"
