"""What a program says of itself: report and profile, as dataclasses that print as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from engine import targets
from engine.config import Config


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned by width; numbers to the right."""
    texts = [list(header), *([format_cell(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    right = [
        bool(rows) and all(isinstance(r[i], int | float) or r[i] is None for r in rows) for i in range(len(header))
    ]

    def line(row: list[str]) -> str:
        cells = zip(row, widths, right, strict=True)
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in cells).rstrip()

    return "\n".join([line(texts[0]), line(["-" * w for w in widths]), *map(line, texts[1:])])


MODULE_WIDTH = 32
"""Characters of a module's path in a table."""


def shortened(module: str) -> str:
    """The end of a module's path, which tells more than its beginning, in at most `MODULE_WIDTH` characters."""
    return module if len(module) <= MODULE_WIDTH else f"\u2026{module[1 - MODULE_WIDTH :]}"


def format_cell(cell: Any) -> str:
    """A value in a cell of a table: numbers with four digits, or with commas; ``-`` for None."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


_MOST_OPERATIONS = 5
"""Operations that the text of a report names."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What is counted of a program, or of one part of it. Sizes in bytes, times in seconds.

    Attributes:
        nodes: nodes of the program's graph (views among them).
        launches: kernel calls a run.
        fallback_nodes: nodes that do not run natively; 0 unless fallback was asked for.
        copies: launches that only copy: operands for a kernel that takes only dense ones, and results and states that
            no kernel could write in place.
        copied_bytes: bytes that the copies read and write: twice what they write.
        in_place: launches that write over an input that dies there.
        arena_bytes: memory for intermediate values and scratch of one call.
        arena_lower_bound_bytes: no memory plan could be smaller.
        weight_bytes: constants, as a file stores them.
        packed_bytes: packed copies of weights.
        flops: arithmetic operations a run (a multiply-add counts 2).
        executed_flops: operations that the chosen kernels compute: fewer than `flops` where a convolution goes by
            Winograd.
        bytes: bytes a run reads and writes at least, each operand of each node once. Copies are not counted
            here but in `copied_bytes`, because their number depends on the kernels.
        emulated_launches: launches with products in a type that this machine has no instructions for.
        slow_launches: launches of kernels that promise no share of the roof, most of them reference kernels.
        slow_flops: the part of `flops` that they compute.
        slow_bytes: the part of `bytes` that they move.
        packing_seconds: of compiling or loading, what packing weights took.
        passes: (pass, changes) in the order they ran; a pass of the user's own is ``name@version``, by the hash of its
            file.
        kernels: (kernel, launches), most used first.
        slow_operations: (operation, launches) of `slow_launches`, most first: an op and the element types
            or encodings that it reads, such as ``sum of int64`` or ``linear of float32 and int4_group32``.
    """

    nodes: int = 0
    launches: int = 0
    fallback_nodes: int = 0
    copies: int = 0
    copied_bytes: int = 0
    in_place: int = 0
    arena_bytes: int = 0
    arena_lower_bound_bytes: int = 0
    weight_bytes: int = 0
    packed_bytes: int = 0
    flops: int = 0
    executed_flops: int = 0
    bytes: int = 0
    emulated_launches: int = 0
    slow_launches: int = 0
    slow_flops: int = 0
    slow_bytes: int = 0
    packing_seconds: float = 0.0
    passes: tuple[tuple[str, int], ...] = ()
    kernels: tuple[tuple[str, int], ...] = ()
    slow_operations: tuple[tuple[str, int], ...] = ()

    def describe_emulated_launches(self) -> str:
        """How many launches lack instructions, and what that means for their time: sentences without the last stop."""
        having = _with_verb(self.emulated_launches, self.launches, "", "has", "have")
        return (
            f"{having} products in bfloat16, for which this processor or the chosen instruction set lacks "
            "instructions: they are computed in float32. Of many rows they are no faster than in float32; of few rows "
            "they are, because the weights have half of the bytes"
        )

    @property
    def slow_share(self) -> tuple[float, str]:
        """The share of the FLOPs or of the bytes that slow kernels have, whichever is larger, and its unit."""
        wholes = [(self.slow_flops, self.flops, "FLOPs"), (self.slow_bytes, self.bytes, "bytes")]
        return max(((part / (whole or 1), unit) for part, whole, unit in wholes), key=itemgetter(0))  # first if equal

    def describe_slow_launches(self) -> str:
        """How many launches use slow kernels, and which share of the work: the beginning of a sentence."""
        part, unit = self.slow_share
        share = f" ({part:.0%} of the {unit})" if self.flops or self.bytes else ""
        using = _with_verb(self.slow_launches, self.launches, share, "uses", "use")
        return f"{using} slow kernels"


@dataclass(frozen=True, kw_only=True)
class Report(Counts):
    """A compiled program at a glance.

    Attributes:
        name: the model's name.
        sizes: those that differ from call to call: which they are here, of which range.
        guards: what is taken for granted about them; a call that breaks it is refused.
        export_seconds: torch.export's own time; None for a loaded program.
        compile_seconds: all that came after: lowering, passes, planning, packing.
        switches: the configuration in force; `activations` is None where it is what the target chooses by itself. Of a
            loaded program, what its file says of compiling is among them: `precision`, `recipe`, `activations`,
            `states`, and the common passes in `disable`.
        digest: of the graph's structure (weights' bytes are not hashed here, since that takes time).
        run_digest: of structure, kernels, threads and memory plan.
        segments: with fallback: (target, calls, what they are) in the order in which they run. What torch runs counts
            among nodes and launches, not in bytes and FLOPs.
    """

    name: str
    sizes: tuple[str, ...]
    guards: tuple[str, ...]
    export_seconds: float | None
    compile_seconds: float
    switches: dict[str, Any]
    digest: str
    run_digest: str
    segments: tuple[tuple[str, int, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values, the name first."""
        return {name: getattr(self, name) for name in ("name", "sizes", "guards")} | asdict(self)

    def __str__(self) -> str:
        skip = {"passes", "kernels", "switches", "segments", "slow_operations"}
        facts = [(k, v[:24] if isinstance(v, str) else v) for k, v in self.to_dict().items() if k not in skip]
        facts = [(k, ", ".join(v) if isinstance(v, tuple) else v) for k, v in facts if v != ()]
        facts = [(k, v) for k, v in facts if v or not k.startswith(("slow_", "emulated_"))]
        switches = ", ".join(f"{k}={v}" for k, v in self.switches.items() if v not in (None, (), {}))
        return "\n\n".join(
            [
                "\n".join(f"{k:<24} {format_cell(v)}" for k, v in facts) + f"\n{'switches':<24} {switches}",
                table(("pass", "changes"), self.passes),
                table(("kernel", "launches"), self.kernels),
                *([table(("segment", "calls", "of"), self.segments)] if self.segments else []),
                *([f"{_begin_sentence(self.describe_emulated_launches())}."] if self.emulated_launches else []),
                *([self._warning()] if self.slow_launches else []),
            ]
        )

    def _warning(self) -> str:
        """What a reader must know about slow kernels."""
        shown, others = self.slow_operations[:_MOST_OPERATIONS], self.slow_operations[_MOST_OPERATIONS:]
        texts = [f"{operation} x{launches}" if launches > 1 else operation for operation, launches in shown]
        texts += [f"{sum(launches for _, launches in others)} others"] if others else []
        return f"{_begin_sentence(self.describe_slow_launches())}: {', '.join(texts)}."


class Reports(dict[str, Report]):
    """The reports of several programs by their names."""

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{'-' * len(name)}\n{report}" for name, report in self.items())


def _with_verb(some: int, launches: int, share: str, singular: str, plural: str) -> str:
    """The beginning of a sentence about `some` of the launches of a program: ``the only launch (40%) uses``."""
    subject = "the only launch" if some == launches == 1 else f"{some} of {launches} launches"
    return f"{subject}{share} {singular if some == 1 else plural}"


def _begin_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def add_counts(parts: Sequence[Counts]) -> Counts:
    """The counts of a program that consists of `parts`.

    Numbers are summed. Parts list the same passes, and perhaps entries that only some have, such as
    ``weights=quantised``. Of kernels, or operations, with equally many launches, those of the earlier part come first.
    """
    tables = ("passes", "kernels", "slow_operations")
    totals = {f.name: sum(getattr(part, f.name) for part in parts) for f in fields(Counts) if f.name not in tables}
    kernels = sum((Counter(dict(part.kernels)) for part in parts), Counter[str]())
    operations = sum((Counter(dict(part.slow_operations)) for part in parts), Counter[str]())
    return Counts(
        **totals,
        passes=_sum_passes([part.passes for part in parts]),
        kernels=tuple(kernels.most_common()),
        slow_operations=tuple(operations.most_common()),
    )


def build_report(
    parts: Sequence[Counts],
    *,
    name: str,
    sizes: tuple[str, ...],
    guards: tuple[str, ...] = (),
    export_seconds: float | None,
    compile_seconds: float,
    config: Config,
    compiled: Mapping[str, Any] = MappingProxyType({}),
    digest: str,
    run_digest: str,
    segments: tuple[tuple[str, int, str], ...] = (),
) -> Report:
    """The report of a program that consists of `parts`; the other arguments are fields of `Report`.

    `compiled` has the switches with which a program was compiled, as `Graph.switches`.
    """
    totals = asdict(add_counts(parts))
    return Report(
        name=name,
        sizes=sizes,
        guards=guards,
        **totals,
        export_seconds=export_seconds,
        compile_seconds=compile_seconds,
        switches=_list_switches(config, compiled),
        digest=digest,
        run_digest=run_digest,
        segments=segments,
    )


def _list_switches(config: Config, compiled: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `config`, and what a program was `compiled` with, as JSON-able values.

    A type of activations that the target chooses by itself counts as not given.
    """
    disabled = tuple(name for name in compiled.get("disable", ()) if name not in config.disable)
    switches = {**config.to_dict(), **compiled, "disable": (*disabled, *config.disable)}
    if switches["activations"] == targets.get(config.target).activations:
        switches["activations"] = None
    return switches


def _sum_passes(parts: Sequence[Sequence[tuple[str, int]]]) -> tuple[tuple[str, int], ...]:
    """(pass, changes) of all parts. Entries that only some parts have stand before the pass that they precede there."""
    totals: list[tuple[str, int]] = []
    for part in parts:
        position = 0
        for name, changes in part:
            later = next((n for n in range(position, len(totals)) if totals[n][0] == name), None)
            if later is None:
                totals.insert(position, (name, changes))
            else:
                position = later
                totals[position] = (name, totals[position][1] + changes)
            position += 1
    return tuple(totals)


@dataclass(frozen=True)
class NodeProfile:
    """One launch of a profiled run, or several calls in a row that torch runs and that are timed together.

    `flops`, `executed_flops` and `bytes` mean what those of `Report` mean, but `bytes` does not count what an in-place
    write leaves unchanged. For a copy, `bytes` is its part of `Report.copied_bytes`.

    Attributes:
        seconds: that threads spent in its tiles, summed over the threads: core time, not the time from its start to its
            end, which overlaps with other launches.
        time_share: of the busy time of all threads.
        roof_share: share of the roof (of `bound`) that one core reaches while it works on the node, counted by what is
            executed; None where that is unknown.
        bound: "compute" or "memory".
        module: the path of the module of the user's model that computes it; "" where that is not known. Of a fused
            launch, `module` and `source` are those of the call that does most of the work, such as the product; of
            merged products, the module that contains all of them, and the line of the first. For several calls of
            torch, each path once, with commas; likewise `source` and `kernel`, where `` x2`` follows a call that is
            made twice.
        is_slow: True for a kernel that promises no share of the roof.
        launches: how many launches or calls it is; more than 1 only where torch runs them.
        peak_flops: the measured roof of one core for its arithmetic, in operations a second; 0 where not measured.
        compute: what it multiplies: the op's attribute of this name; "" for an op without it.
    """

    op: str
    kernel: str
    source: str
    shape: tuple[int, ...]
    seconds: float
    flops: int
    executed_flops: int
    bytes: int
    time_share: float
    roof_share: float | None
    bound: str
    module: str = ""
    is_slow: bool = False
    launches: int = 1
    peak_flops: float = 0.0
    compute: str = ""

    @property
    def has_known_work(self) -> bool:
        """False for a launch that torch runs, of which nothing is counted."""
        return bool(self.bytes or self.flops) or self.roof_share is not None


@dataclass(frozen=True)
class ThreadProfile:
    """One thread of a profiled run: seconds inside of tiles, and the rest of the run."""

    busy_seconds: float
    idle_seconds: float


_SLOW_MARK = "s"
"""Marks launches of slow kernels in a table."""
BAR = 40
"""Characters of a bar that stands for the whole."""


@dataclass(frozen=True)
class Attribution:
    """Where the time of a run goes that the machine's roofs do not ask for; shares of the time of all threads.

    Attributes:
        at_roof: what the arithmetic and the bytes of all launches need at the roofs that bind them. Of a launch whose
            data lies in a cache, which no roof is known of, its arithmetic alone; of a launch that torch runs, nothing,
            because its work is not known.
        lost: op -> the rest of its launches' time, largest first.
        idle: threads without work.
        in_caches: the time of launches of which no roof but that of arithmetic is known.
    """

    at_roof: float
    lost: tuple[tuple[str, float], ...]
    idle: float
    in_caches: float

    def __str__(self) -> str:
        rows = [("at the roof", self.at_roof), *self.lost[:8]]
        rows += [("others", sum(share for _, share in self.lost[8:]))] if self.lost[8:] else []
        rows += [("idle", self.idle)] if self.idle >= 0.0005 else []
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {share:6.1%}  {bar(share)}".rstrip() for name, share in rows]
        if self.in_caches >= 0.0005:
            lines.append(
                f"{self.in_caches:.1%} of the time are launches whose data lies in a cache (`-` above): no roof of it "
                "is claimed, and they count with their arithmetic alone"
            )
        return "\n".join([lines[0], "lost to:", *lines[1:]])


def bar(share: float, width: int = BAR) -> str:
    """A bar of blocks, to an eighth of a character: `width` of them stand for 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return "\u2588" * (eighths // 8) + ("", *"\u258f\u258e\u258d\u258c\u258b\u258a\u2589")[eighths % 8]


class ModuleTime(NamedTuple):
    """What the launches of a module and of all modules in it take.

    Attributes:
        module: its path; "" is the model itself.
        launches, seconds: of the launches.
        time_share: of the time of all launches.
    """

    module: str
    launches: int
    seconds: float
    time_share: float


@dataclass(frozen=True)
class Profile:
    """Where the time of a run goes. All times but `call_seconds` are of one run: the one with the median time.

    Attributes:
        nodes: in execution order. At one thread their times sum to `seconds`.
        threads: the first one is the caller; busy + idle of each is `seconds`.
        seconds: the native run.
        call_seconds: median time of a whole call from Python, measured in turns with the native runs.
        runs: how many runs were measured.
        peak_flops, bandwidth: the measured roofs of one core, FLOP/s of float32 and bytes/s; 0 where not measured.
        clock: what counted the ticks.
    """

    nodes: tuple[NodeProfile, ...]
    threads: tuple[ThreadProfile, ...]
    seconds: float
    call_seconds: float
    runs: int
    peak_flops: float
    bandwidth: float
    clock: str

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        attribution = self.attribution()
        return asdict(self) | {"attribution": None if attribution is None else asdict(attribution)}

    @property
    def launches(self) -> int:
        """Number of launches, which is that of the report; `nodes` may have several in one line."""
        return sum(node.launches for node in self.nodes)

    def by_module(self) -> tuple[ModuleTime, ...]:
        """The times of all modules, the longest first; what contains another one stands before it."""
        found: dict[str, ModuleTime] = {}
        for node in self.nodes:
            parts = node.module.split(".") if node.module else []
            for depth in range(len(parts) + 1):
                path = ".".join(parts[:depth])
                known = found.get(path, ModuleTime(path, 0, 0.0, 0.0))
                launches, seconds = known.launches + node.launches, known.seconds + node.seconds
                found[path] = ModuleTime(path, launches, seconds, known.time_share + node.time_share)
        return tuple(sorted(found.values(), key=lambda one: (-one.seconds, len(one.module))))

    def attribution(self) -> Attribution | None:
        """What is reached of the roofs, and which ops lose the rest.

        None where roofs were not measured, or where no launch has work that is known, because torch runs them all.
        """
        total = self.seconds * len(self.threads)
        if not self.peak_flops or not total or not any(node.has_known_work for node in self.nodes):
            return None
        least, lost = 0.0, dict[str, float]()
        for node in self.nodes:
            arithmetic = node.executed_flops / node.peak_flops if node.peak_flops else 0.0
            needed = arithmetic if node.roof_share is None else node.roof_share * node.seconds
            needed = min(needed, node.seconds)
            least += needed
            lost[node.op] = lost.get(node.op, 0.0) + node.seconds - needed
        ordered = sorted(lost.items(), key=lambda one: -one[1])
        idle = sum(thread.idle_seconds for thread in self.threads)
        shares = tuple((op, seconds / total) for op, seconds in ordered)
        cached = sum(node.seconds for node in self.nodes if node.roof_share is None and node.has_known_work)
        return Attribution(least / total, shares, idle / total, cached / total)

    def tabulate(self) -> list[tuple[Sequence[str], list[Sequence[Any]]]]:
        """Header and rows of a table of launches and of one of threads. `format_cell` writes a cell."""
        rows: list[Sequence[Any]] = [
            (
                n.op,
                f"{n.kernel} {_SLOW_MARK}" if n.is_slow else n.kernel,
                "x".join(map(str, n.shape)) or "scalar",
                n.seconds * 1e6,
                f"{n.time_share:6.1%}",
                n.flops / n.seconds / 1e9 if n.flops and n.seconds else None,
                n.bytes / n.seconds / 1e9 if n.bytes and n.seconds else None,
                "-" if n.roof_share is None else f"{n.roof_share:.0%} {n.bound}",
                shortened(n.module),
                n.source,
            )
            for n in self.nodes
        ]
        header = ("op", "kernel", "output", "us", "time", "GFLOP/s", "GB/s", "of roof", "module", "source")
        threads: list[Sequence[Any]] = [
            (number, t.busy_seconds * 1e6, t.idle_seconds * 1e6, f"{t.busy_seconds / self.seconds:6.1%}")
            for number, t in enumerate(self.threads)
        ]
        return [(header, rows), (("thread", "busy us", "idle us", "busy"), threads)]

    def describe(self) -> list[str]:
        """What the tables do not say: paragraphs with a line for each fact."""
        beside = (self.call_seconds - self.seconds) * 1e6
        launches = "1 launch" if self.launches == 1 else f"{self.launches} launches"
        facts = (
            f"{launches}, {self.seconds * 1e6:.1f} us in the native run of median length, by "
            f"{self.clock}; a call from Python {self.call_seconds * 1e6:.1f} us, so {beside:.1f} us beside it; "
            f"{self.runs} runs\n"
            f"us, GFLOP/s, GB/s and roof are of a core while it works on the launch"
        )
        if self.peak_flops:
            peaks = sorted({node.peak_flops for node in self.nodes if node.peak_flops} | {self.peak_flops})
            rates = f"{' and '.join(f'{peak / 1e9:.1f}' for peak in peaks)} GFLOP/s, {self.bandwidth / 1e9:.1f} GB/s"
            facts += f"\nroofs of one core, measured now: {rates}"
        attribution = self.attribution()
        return [facts, *([] if attribution is None else [str(attribution)]), *self._describe_slow()]

    def __str__(self) -> str:
        return "\n\n".join([*(table(header, rows) for header, rows in self.tabulate()), *self.describe()])

    def _describe_slow(self) -> list[str]:
        """A sentence about launches of slow kernels; none without such launches."""
        slow = [node for node in self.nodes if node.is_slow]
        if not slow:
            return []
        share = sum(node.time_share for node in slow)
        using = _with_verb(len(slow), self.launches, f", {share:.1%} of the time,", "uses", "use")
        return [f"{_SLOW_MARK}: {using} slow kernels."]
