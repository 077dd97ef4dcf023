"""An ablation for people and for spreadsheets: a terminal table, the same as Markdown, CSV. Reads records only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suites.harness.judge.ablation import ADD_ONE_IN, ALL, DELTAS, LEAVE_ONE_OUT, PAIR
from suites.harness.present import table
from suites.harness.record.schema import AblationRecord, Environment

LEGEND = (
    "ratio: time without the switch over time with it and its 95% interval, above 1 the switch pays; left out: of "
    "everything else on, alone: of nothing else on; for a switch `name=value` it is the time with that value over the "
    "time as usual, above 1 the usual one pays; verdicts hold for the whole table (p raised by Holm's rule, below 5%); "
    "sees: the smallest true difference found nine times in ten; counts: without the switch, and how they differ from "
    "everything on"
)
PAIR_LEGEND = (
    "interaction: what both save together over what each saves by itself, with its 95% interval; above 1 the two are "
    "redundant (either does the other's work), below 1 they help each other; of `name=value` the usual value is meant; "
    "their p values are a family of their own"
)
_COUNTS = {"nodes": "nodes", "launches": "launches", "arena": "arena_bytes", "flops": "flops", "bytes": "bytes"}


def cases(lines: Iterable[AblationRecord]) -> dict[str, list[AblationRecord]]:
    """Lines by case."""
    found: dict[str, list[AblationRecord]] = {}
    for line in lines:
        found.setdefault(line.case, []).append(line)
    return found


def switches(lines: Sequence[AblationRecord]) -> list[dict[str, str]]:
    """Rows of one case: a switch in both modes, those that move time most first; unreached ones are left out."""
    of: dict[tuple[str, str], dict[str, AblationRecord]] = {}
    for line in lines:
        if line.mode != PAIR:
            of.setdefault((line.switch_kind, line.switch), {})[line.mode] = line
    shown = {key: modes for key, modes in of.items() if any(_is_shown(line) for line in modes.values())}
    order = sorted(shown, key=lambda key: (key[1] != ALL, -_weight(shown[key].get(LEAVE_ONE_OUT))))
    alone = any(ADD_ONE_IN in modes for modes in shown.values())
    return [_row(*key, shown[key], alone=alone) for key in order]


def pairs(lines: Sequence[AblationRecord]) -> list[dict[str, str]]:
    """Rows of one case: two switches."""
    found = [line for line in lines if line.mode == PAIR and _is_shown(line)]
    return [{"pair": line.switch.replace("+", " + "), "interaction": _judged(line)} for line in found]


def unreached(lines: Sequence[AblationRecord]) -> list[str]:
    """Names of switches without which, and with nothing but which, the program stays the same."""
    reached = {line.switch for line in lines if line.reached or line.status != "ok"}
    return list(dict.fromkeys(line.switch for line in lines if line.mode != PAIR and line.switch not in reached))


def floors(lines: Sequence[AblationRecord]) -> str:
    """The A/A floor of the case."""
    found = next((line.floor for line in lines if line.floor is not None), None)
    return "-" if found is None else f"{found:.1%}"


def closing(lines: Sequence[AblationRecord]) -> list[str]:
    """What stands below the table of a case."""
    quiet = unreached(lines)
    found = [f"A/A floor {floors(lines)}"]
    found += [f"not reached (the same program, not timed): {', '.join(quiet)}"] if quiet else []
    found += [f"{line.switch}: {line.status}: {line.reason}" for line in lines if line.status != "ok"]
    return found


def markdown(lines: Sequence[AblationRecord], environment: Environment) -> str:
    """All cases, opened by machine and commit, closed by how to read it."""
    found = [table.heading(environment)]
    for case, own in cases(lines).items():
        found.append(f"**`{case}`**, `{whole(own)}` taken apart:")
        found += [_markdown(rows) for rows in (switches(own), pairs(own)) if rows]
        found.append(".\n".join(closing(own)) + ".")
    found.append(legend(lines) + ".")
    return "\n\n".join(found) + "\n"


def legend(lines: Sequence[AblationRecord]) -> str:
    """How to read the tables."""
    modes = {line.mode for line in lines}
    return "; ".join(([LEGEND] if modes - {PAIR} else []) + ([PAIR_LEGEND] if PAIR in modes else []))


def whole(lines: Sequence[AblationRecord]) -> str:
    """Label of what is taken apart."""
    return next((line.with_ for line in lines if line.mode in (LEAVE_ONE_OUT, PAIR)), lines[0].with_)


def as_csv(lines: Sequence[AblationRecord]) -> str:
    """One line a switch, mode and case, with plain numbers."""
    fixed = ("case", "switch", "switch_kind", "mode", "reached", "status", "reason", "with", "without")
    counts = [f"{name}_{side}" for name in DELTAS for side in ("with", "without")]
    names = (*fixed, "ratio", "low", "high", "p", "verdict", "detectable", "floor", *counts)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        values = line.model_dump(by_alias=True)
        row = {name: values[name] for name in (*fixed, "p", "verdict", "detectable", "floor")}
        if line.ratio is not None:
            row |= {"ratio": line.ratio.value, "low": line.ratio.low, "high": line.ratio.high}
        for name, (on, off) in line.deltas.items():
            row |= {f"{name}_with": on, f"{name}_without": off}
        writer.writerow(row)
    return stream.getvalue()


def _is_shown(line: AblationRecord) -> bool:
    return bool(line.reached) or line.status != "ok"


def _weight(line: AblationRecord | None) -> float:
    return 0.0 if line is None or line.ratio is None else line.ratio.value


def _row(kind: str, switch: str, modes: Mapping[str, AblationRecord], *, alone: bool) -> dict[str, str]:
    out = modes.get(LEAVE_ONE_OUT)
    counts = out or modes[ADD_ONE_IN]
    row = {"switch": switch, "kind": kind}
    row |= {name: _delta(counts.deltas.get(column), name) for name, column in _COUNTS.items()}
    row["left out"] = _judged(out)
    if alone:
        row["alone"] = _judged(modes.get(ADD_ONE_IN))
    return row


def _judged(line: AblationRecord | None) -> str:
    if line is None:
        return ""
    if line.status != "ok":
        return str(line.status)
    return table.judged(line) if line.reached else "not reached"


def _delta(pair: Sequence[Any] | None, name: str) -> str:
    """``128 (+12)``: without the switch, and how much more that is than with it."""
    if pair is None:
        return ""
    on, off = pair
    if name in ("arena", "bytes"):
        return f"{table.size(off)} ({'+' if off > on else '-'}{table.size(abs(off - on))})"
    return f"{table.count(off)} ({'+' if off > on else '-'}{table.count(abs(off - on))})"


def _markdown(rows: Sequence[Mapping[str, str]]) -> str:
    header = list(rows[0])
    return table.pipes([header, ["---"] * len(header), *([row[name] for name in header] for row in rows)])
