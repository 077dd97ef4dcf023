"""Summaries for people: a table on a terminal, the same as Markdown, one sentence a row. Reads records only.

Latency is the median of a call; the ratio is time over the baseline's time, so below 1 is faster: said in every table.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from suites.harness.declare.case import BackendRef
from suites.harness.errors import UsageError
from suites.harness.record.schema import AblationRecord, Compared, Environment, Ratio, Role, Summary, Where

BETTER = (
    "latency: median of a call, lower is better; "
    "ratio: time over {baseline}'s with its 95% interval, below 1 is faster; "
    "sees: the smallest true difference that the comparison finds nine times in ten; "
    "max error: largest absolute difference from float64; "
    "of roof: the least time that this machine needs for the work over the latency, higher is better; "
    "engine / best peer: the engine's time over that of the fastest other backend of the row, below 1 is faster"
)
TOKENS = (
    "; tokens/s: of all texts together, higher is better; a call of phase=prefill takes a prompt in and picks the "
    "first token, one of phase=decode makes `steps` tokens after the prompt"
)
DISTURBED = "; disturbed: others used the processors meanwhile, and repeating it did not help"
NEIGHBOURS = (
    "; neighbours: how much longer a call takes with the other backends awake than with them stopped, as they are "
    "in rounds, by the median of such pairs of turns, ! where it is over 3% and their mean not longer by chance alone"
)
VERSIONS = (
    "; engine / other version: the engine's time over that of the engine of another checkout, of which the column says "
    "the commit, below 1 is faster"
)
_BEST_PEER, _OTHER_VERSION = "engine / best peer", "engine / other version"
_PLACES: dict[Role, int] = {"peer": 0, "version": 1, "engine": 2}
_STYLES = {"faster": "green", "slower": "red", "same": "", "inconclusive": "dim"}


def seconds(value: float | None) -> str:
    """A time with three digits and a unit that fits."""
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def size(value: float | None) -> str:
    """A number of bytes with a binary unit."""
    if value is None:
        return "-"
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 1 << step:
            return f"{value / (1 << step):.3g} {unit}"
    return f"{value:.0f} B"


def count(value: int) -> str:
    """A whole number: ``1,234``, from a million on ``1.23 M``, ``1.23 G``."""
    for unit, step in (("G", 1e9), ("M", 1e6)):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:,}"


def rate(value: float) -> str:
    """A number a second, with three digits at least: ``7.94``, ``1,120``."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


Judged = Summary | Compared | AblationRecord
"""What has a ratio and a verdict."""


def _verdict(line: Judged) -> str:
    """The verdict; of one that says nothing, from where on this comparison sees a difference."""
    if line.verdict == "inconclusive" and line.detectable is not None:
        return f"inconclusive, sees {line.detectable:.0%}"
    return str(line.verdict)


def interval(ratio: Ratio) -> str:
    """``0.740 [0.720, 0.760]``."""
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def judged(line: Judged) -> str:
    """Ratio, interval and verdict: ``0.740 [0.720, 0.760] faster``; empty for the baseline."""
    return "" if line.ratio is None else f"{interval(line.ratio)} {_verdict(line)}"


def sentence(line: Summary) -> str:
    """One row in one line."""
    if line.latency is None:
        return f"{line.backend}: {line.status}: {line.reason}"
    checked = f", max error {line.error.max_abs:.1e}" if line.error else ""
    return f"{line.backend}: {seconds(line.latency.p50)} {judged(line)}".rstrip() + checked


def cell_time(line: Summary) -> tuple[str, str]:
    """Latency and judgement of one row, or its status and the reason."""
    if line.latency is None:
        return line.status, _short(line.reason or "")
    return seconds(line.latency.p50), judged(line)


def cell(line: Summary) -> list[str]:
    """The lines of one cell."""
    if line.latency is None:
        return [line.status, _short(line.reason or "")]
    found = [seconds(line.latency.p50)]
    if line.ratio is not None:
        found += [interval(line.ratio), _verdict(line)]
    if line.s_per_token:
        phases = (line.s_per_token.prefill, line.s_per_token.decode)
        found += [f"{rate(1 / value)} tokens/s" for value in phases if value]
    if line.error:
        found.append(f"max error {line.error.max_abs:.1e}")
    if line.neighbours is not None:
        found.append(f"neighbours {line.neighbours:+.1%}{'!' if line.neighbours_flagged else ''}")
    if line.disturbed:
        found.append(f"{line.disturbed:.0%} of rounds disturbed")
    if line.roof_share is not None:
        found.append(f"{line.roof_share:.0%} of roof{_executed(line.roof_share, line.executed_share)}")
    if line.nodes is not None:
        arena = f", arena {size(line.arena_bytes)}" if line.arena_bytes is not None else ""
        found.append(f"{line.nodes} nodes{arena}")
    if line.fallback_nodes:
        found.append(f"{line.fallback_nodes} fallback nodes")
    return found


def columns(summaries: Sequence[Summary]) -> list[str]:
    """Backend labels in order of appearance, without the second copy of the baseline (it is the floor).

    Peers come first, then other versions of the engine, then ours.
    """
    labels = [label for label in dict.fromkeys(line.backend for line in summaries) if not _is_twin(label, summaries)]
    roles = {line.backend: line.role for line in summaries}
    return sorted(labels, key=lambda label: _PLACES[roles[label]])


def rich_table(summaries: Sequence[Summary], title: str = "") -> Table:
    """One row a case, one column a backend, and the A/A floor."""
    labels = columns(summaries)
    table = Table(title=title or None, show_lines=True, title_justify="left", caption_justify="left")
    table.caption = _legend(summaries)
    table.add_column("case", overflow="fold")
    for label in labels:
        table.add_column(label.replace("[", "\\["), overflow="fold")
    compared = _comparisons(summaries)
    for name in compared:
        table.add_column(name, overflow="fold")
    table.add_column("A/A floor", justify="right")
    for case, rows in _by_case(summaries).items():
        cells = ["\n".join(_styled(rows[label])) if label in rows else "" for label in labels]
        against = ["\n".join(_compared(rows, name)).replace("[", "\\[") for name in compared]
        table.add_row(_stacked(case), *cells, *against, floor(rows))
    return table


def markdown(summaries: Sequence[Summary], environment: Environment) -> str:
    """The table as Markdown, opened by machine, commit, versions and threads, closed by how to read it."""
    labels = columns(summaries)
    compared = _comparisons(summaries)
    header = ["case", *labels, *compared, "A/A floor"]
    rows = [header, ["---"] * len(header)]
    for case, found in _by_case(summaries).items():
        cells = ["<br>".join(cell(found[label])) if label in found else "" for label in labels]
        against = ["<br>".join(_compared(found, name)) for name in compared]
        rows.append([f"`{case}`", *cells, *against, floor(found)])
    noted = "".join(f"{text}.\n\n" for text in notes(summaries))
    return f"{heading(environment)}\n\n{pipes(rows)}\n\n{noted}{_legend(summaries)}.\n"


def notes(summaries: Sequence[Summary]) -> list[str]:
    """What is to be said of the reference of a case."""
    found = {line.case: line.note for line in summaries if line.note}
    return [f"{case}: {note}" for case, note in found.items()]


def pipes(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table of Markdown."""
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows)


def heading(environment: Where) -> str:
    """Where and with what: ``<cpu>, 2 cores, Linux ..., commit ..., torch ...``, and what other versions of the engine
    are: their package's version, and what their environment has otherwise than this one.
    """
    commit = f"{environment.commit}{' (dirty)' if environment.dirty else ''}"
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    further = _other_versions(environment) if isinstance(environment, Environment) else ""
    machine = f"{environment.cpu}, {environment.cores} cores, {environment.kernel}"
    return (
        f"Machine `{environment.machine}` ({machine}), "
        f"commit `{commit}`, Python {environment.python}, {versions}.{further}"
    )


def _other_versions(environment: Environment) -> str:
    """A sentence for each other version of the engine; empty where there is none."""
    mine = {"Python": environment.python, **environment.versions}
    sentences = []
    for name, told in environment.plan.engines.items():
        theirs = {"Python": told.python, **told.packages}
        differing = [f"{key} {theirs.get(key, 'missing')}" for key in mine | theirs if mine.get(key) != theirs.get(key)]
        differing = [text for text in differing if not text.startswith("enginebench ")]
        where = f", with {', '.join(differing)}" if differing else ", with the same packages"
        sentences.append(f" `{name}`: enginebench {told.version}{where}.")
    return "".join(sentences)


def draw(path: Path, summaries: Sequence[Summary], environment: Environment) -> None:
    """The table as an SVG picture of a terminal, without references to fonts on other machines."""
    console = Console(record=True, width=70 + 24 * len(columns(summaries)), file=io.StringIO())
    console.print(heading(environment).replace("`", ""), rich_table(summaries), sep="\n")
    drawn = console.export_svg(title=f"enginebench run {environment.suite}")
    try:
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path}: cannot be written: {e.strerror}") from None


def write_between(path: Path, marker: str, text: str) -> None:
    """Replace what lies between ``<!-- marker -->`` and ``<!-- /marker -->`` in a file; UsageError without the pair."""
    before, opening, rest = path.read_text(encoding="utf-8").partition(f"<!-- {marker} -->")
    _, closing, after = rest.partition(f"<!-- /{marker} -->")
    if not opening or not closing:
        raise UsageError(f"{path}: expected the markers <!-- {marker} --> and <!-- /{marker} -->")
    path.write_text(f"{before}{opening}\n{text.strip()}\n{closing}{after}", encoding="utf-8")


def _legend(summaries: Sequence[Summary]) -> str:
    """How to read the table."""
    generated = any(line.s_per_token for line in summaries)
    beside = any(line.neighbours is not None for line in summaries)
    legend = BETTER.format(baseline=_baseline(summaries))
    disturbed = any(line.disturbed for line in summaries)
    legend += VERSIONS if _OTHER_VERSION in _comparisons(summaries) else ""
    return legend + (NEIGHBOURS if beside else "") + (DISTURBED if disturbed else "") + (TOKENS if generated else "")


def _against(line: Summary, column: str) -> list[Compared]:
    """The comparisons of a row with other backends that stand in `column`, those that have a ratio."""
    peer = [line.best_peer] if line.best_peer is not None else []
    return [one for one in {_BEST_PEER: peer, _OTHER_VERSION: line.versions or []}[column] if one.ratio is not None]


def _comparisons(summaries: Sequence[Summary]) -> list[str]:
    """Columns of comparisons that some row has."""
    return [name for name in (_BEST_PEER, _OTHER_VERSION) if any(_against(line, name) for line in summaries)]


def _compared(rows: Mapping[str, Summary], column: str) -> list[str]:
    """For each row of the engine, the lines of `column`; its label before them where there are several rows.

    Args:
        rows: backend -> summary, of one case.
        column: one of `_comparisons`.
    """
    compared = {label: _against(line, column) for label, line in rows.items()}
    compared = {label: others for label, others in compared.items() if others}
    found = []
    for label, others in compared.items():
        found += [f"{label}:"] if len(compared) > 1 else []
        for other in others:
            found += [interval(other.ratio) if other.ratio else "", f"{_verdict(other)}: {other.backend}"]
    return found


def _by_case(summaries: Sequence[Summary]) -> dict[str, dict[str, Summary]]:
    found: dict[str, dict[str, Summary]] = {}
    for line in summaries:
        found.setdefault(line.case, {})[line.backend] = line
    return found


def _styled(line: Summary) -> list[str]:
    lines = [text.replace("[", "\\[") for text in cell(line)]
    style = "red" if line.status in ("wrong", "failed", "timeout") else _STYLES.get(line.verdict or "", "")
    return [f"[{style}]{text}[/]" if style else text for text in lines]


def floor(rows: Mapping[str, Summary]) -> str:
    """The A/A floor of the case that `rows` (by backend) belong to, in percent."""
    value = next((line.floor for line in rows.values() if line.floor is not None), None)
    return "-" if value is None else f"{value * 100:.1f}%"


def _stacked(case: str) -> str:
    model, *rest = case.split("/")
    return "\n".join([f"[bold]{model}[/]", " ".join(rest[:3]), *rest[3:]])


def _executed(share: float, executed: float | None) -> str:
    """What is to be said of a share of the roof: nothing is faster, but less may be executed than the case means."""
    if executed is None:
        return ": less is executed, or it is miscounted" if share > 1 else ""
    if executed > 1:
        return ": counting error"
    return f" ({executed:.0%} executed)" if f"{executed:.0%}" != f"{share:.0%}" else ""


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= 60 else text[:57] + "..."


def _baseline(summaries: Sequence[Summary]) -> str:
    return summaries[0].baseline if summaries else "baseline"


def _is_twin(label: str, summaries: Sequence[Summary]) -> bool:
    return bool(summaries) and label == BackendRef.parse(_baseline(summaries)).again().label
