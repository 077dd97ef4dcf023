"""All other measurements of a case: a line a quantity, a column a backend. Reads records only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from suites.harness.judge.standing import Standing
from suites.harness.judge.summary import find_work
from suites.harness.present import notes, units
from suites.harness.present.overview import fold_label
from suites.harness.present.overview_terminal import write_paragraph
from suites.harness.present.ranked import shorten_labels
from suites.harness.present.terminal import choose_box, measure_width, print_table
from suites.harness.record.schema import Environment, Summary


def _write_error(row: Summary) -> str:
    return units.UNKNOWN if row.error is None else units.error(row.error.relative)


def _write_tolerance(row: Summary) -> str:
    return units.UNKNOWN if row.error is None else units.error(row.error.tolerance)


def _write_accuracy(row: Summary) -> str:
    return units.UNKNOWN if row.accuracy is None else units.error(row.accuracy.relative)


def _write_agreement(row: Summary) -> str:
    return units.percent(row.accuracy.agreement if row.accuracy is not None else None)


def _write_p90(row: Summary) -> str:
    return units.seconds(row.latency.p90 if row.latency is not None else None)


def _write_rate(phase: str) -> Callable[[Summary], str]:
    def write(row: Summary) -> str:
        seconds = getattr(row.s_per_token, phase) if row.s_per_token is not None else None
        return units.digits(1 / seconds) if seconds else units.UNKNOWN

    return write


def _write_count(name: str) -> Callable[[Summary], str]:
    def write(row: Summary) -> str:
        value = getattr(row, name)
        return units.UNKNOWN if value is None else units.count(value)

    return write


def _write_size(name: str) -> Callable[[Summary], str]:
    return lambda row: units.size(getattr(row, name))


def _write_seconds(name: str) -> Callable[[Summary], str]:
    return lambda row: units.seconds(getattr(row, name))


def _write_percent(name: str) -> Callable[[Summary], str]:
    return lambda row: units.percent(getattr(row, name))


def _write_unless_0(write: Callable[[Summary], str]) -> Callable[[Summary], str]:
    return lambda row: units.UNKNOWN if write(row) in ("0", "0%") else write(row)


QUANTITIES: Mapping[str, Callable[[Summary], str]] = {
    "90th percentile": _write_p90,
    "detects": _write_percent("detectable"),
    "tokens/s of prompt": _write_rate("prefill"),
    "tokens/s": _write_rate("decode"),
    "error": _write_error,
    "allowed error": _write_tolerance,
    "accuracy: error": _write_accuracy,
    "accuracy: agreement": _write_agreement,
    "beside neighbours": notes.write_neighbours,
    "rounds disturbed": _write_unless_0(_write_percent("disturbed")),
    "of roof, executed": _write_percent("executed_share"),
    "launches": _write_count("launches"),
    "reference kernels": _write_unless_0(_write_count("reference_launches")),
    "fallbacks": _write_unless_0(_write_count("fallback_nodes")),
    "graph breaks": _write_count("graph_breaks"),
    "arena": _write_size("arena_bytes"),
    "least arena": _write_size("arena_lower_bound_bytes"),
    "weights": _write_size("weight_bytes"),
    "import": _write_seconds("import_s"),
    "export": _write_seconds("export_s"),
    "compile": _write_seconds("compile_s"),
    "first call": _write_seconds("first_call_s"),
    "peak memory": _write_size("run_peak_rss_bytes"),
}
"""Heading of a line -> how the value of a row is written. docs/reading-results.md explains each."""


def print_details(console: Console, one: Standing, environment: Environment) -> None:
    """Print a line for every quantity that some row has, and how the times were taken."""
    rows = [*one.timed, *(row for row in one.rows.values() if row.latency is None)]
    rows = [row for row in rows if any(write(row) != units.UNKNOWN for write in QUANTITIES.values())]
    labels = shorten_labels(list(one.rows))
    for part in _split(console, rows, labels):
        print_table(console, _make_table(console, part, labels), indent=2)
    for text in (_describe_preparation(one), _describe_work(one), _describe_method(one, environment)):
        write_paragraph(console, text, indent=2, style="dim")


def _split(console: Console, rows: Sequence[Summary], labels: Mapping[str, str]) -> Iterator[Sequence[Summary]]:
    """As many columns at a time as fit."""
    while rows:
        fitting = len(rows)
        while fitting > 1 and measure_width(console, _make_table(console, rows[:fitting], labels)) + 2 > console.width:
            fitting -= 1
        yield rows[:fitting]
        rows = rows[fitting:]


def _make_table(console: Console, rows: Sequence[Summary], labels: Mapping[str, str]) -> Table:
    table = Table(box=choose_box(console), show_edge=False, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(Text("\n".join(fold_label(labels[row.backend]))), justify="right", no_wrap=True)
    for name, write in QUANTITIES.items():
        cells = [write(row) for row in rows]
        if any(cell != units.UNKNOWN for cell in cells):
            table.add_row(name, *map(Text, cells))
    return table


def _describe_preparation(one: Standing) -> str:
    """Why times of preparing are missing, where they are."""
    is_missing = one.timed and all(row.export_s is None and row.compile_s is None for row in one.timed)
    reason = "import, export and compile are measured in the first case of a model, whose exports the others use"
    return reason if is_missing else ""


def _describe_work(one: Standing) -> str:
    row = find_work(one.rows.values())
    if row is None or row.flops is None or row.bytes is None:
        return ""
    return f"work of a call: {units.count(row.flops)} operations on {units.size(row.bytes)}"


def _describe_method(one: Standing, environment: Environment) -> str:
    """Case, floor, generations and samples."""
    samples = sorted({row.latency.n for row in one.rows.values() if row.latency})
    floor = "not measured" if one.floor is None else units.times(1 + one.floor)
    taken = f", {' to '.join(map(str, {samples[0], samples[-1]}))} samples a backend" if samples else ""
    return f"case {one.case}: {environment.plan.generations} generations of processes{taken}; A/A floor {floor}"
