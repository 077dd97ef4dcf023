"""What a record of a run holds: one class a kind of line, one entry a column. `launches` and `commits` have further
kinds, and `kinds` lists all.

Everything else derives from these classes: what is written and read back (`store`), the tables of
docs/results-format.md (`document`), the columns of a `pandas.DataFrame` (`frame`), which columns gate a comparison and
which an ablation counts (`facts`, the part that backends tell). A column that is added, renamed or removed raises
`SCHEMA` and needs a step in `migrations`.

Times are seconds, sizes are bytes, and None is unknown; a number that is unknown is never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from suites.harness.record.facts import FIELDS, AllFacts, Facts, Positive, Whole
from suites.harness.record.roofs import Roofs

SCHEMA = 8
"""Version of the lines that are written. Readers upgrade earlier ones and refuse later ones."""

Status = Literal["ok", "wrong", "failed", "timeout", "unavailable", "not applicable"]
HARMLESS: tuple[Status, ...] = ("ok", "unavailable", "not applicable")
"""Statuses that say nothing against a backend: a run whose rows have no other one succeeds."""
Verdict = Literal["faster", "slower", "same", "unclear"]
Role = Literal["engine", "version", "peer"]


class Part(BaseModel):
    """A value of a record that has keys of its own."""

    model_config = FIELDS


@dataclass(frozen=True)
class Speed:
    """How many times as fast as another a backend is, with its 95% interval: time of the other over its own.

    Attributes:
        value: the speed.
        low, high: its 95% interval.
    """

    value: Positive
    low: Positive
    high: Positive


class Latency(Part):
    """Seconds a call, over all samples of all generations."""

    p50: Positive
    """median"""
    p90: Positive
    """90th percentile"""
    p99: Positive
    """99th percentile"""
    min: Positive
    """the shortest"""
    n: int
    """number of samples"""


class Error(Part):
    """The worst difference from the reference, over outputs and input sets."""

    relative: float
    """2-norm of the difference divided by the 2-norm of the reference"""
    max_abs: float
    """largest absolute difference of an element"""
    tolerance: float
    """largest `relative` that was allowed for some output"""


class Accuracy(Part):
    """Difference of a quantised program from the unquantised float64 model."""

    relative: float
    """2-norm of the difference divided by the 2-norm of the reference"""
    max_abs: float
    """largest absolute difference of an element"""
    agreement: float | None = None
    """share of positions where the index of the largest element along the last axis agrees; null if no floating-point
    output has two elements there"""


class Score(Part):
    """A number of `accuracy` records, estimated from a sample."""

    value: float
    """of the whole sample"""
    error: float | None = None
    """standard error, by the bootstrap; null if it is not known"""
    low: float | None = None
    """lower end of the 95% interval; null if there is none"""
    high: float | None = None
    """upper end of it"""


class PerToken(Part):
    """Seconds per token, counting the tokens of all texts of the batch; null for the phase that is not timed."""

    prefill: Positive | None = None
    """of the prompt"""
    decode: Positive | None = None
    """of the text that follows"""


class Compared(Part):
    """One row over another one of its case, by paired rounds."""

    backend: str
    """label of the other one"""
    speed: Speed | None = None
    """of this row against the other one; null where no rounds pair"""
    verdict: Verdict | None = None
    """as `verdict` of a summary"""
    detectable: float | None = None
    """as `detectable` of a summary"""


class Contention(Part):
    """What others did to the processors while the rounds of a generation ran."""

    load: float | None = None
    """one-minute load average when the rounds began"""
    foreign_s: float | None = None
    """processor time of other processes"""
    steal_s: float | None = None
    """time that the hypervisor gave away"""
    repeated: int | None = None
    """rounds that were disturbed, done again and left out"""
    disturbed: int | None = None
    """rounds that were disturbed and kept"""
    involuntary: int | None = None
    """context switches forced on the worker inside of samples"""


class BackendRecord(Part):
    """A backend of a run."""

    name: str
    """without options"""
    role: Role
    """`engine`: the engine of this checkout in any form; `version`: another version of it; `peer`: anything else"""
    options: dict[str, str] = {}
    """its own switches"""
    packages: dict[str, str] = {}
    """package -> version, of those that it runs on"""


class EngineRecord(Part):
    """Another version of the engine."""

    version: str | None = None
    """of its package; null where it is not installed as one"""
    commit: str | None = None
    """of its checkout; null outside of one"""
    dirty: bool | None = None
    """whether files differ from the commit"""
    digest: str
    """beginning of a SHA-256 over its Python files and its extension"""
    python: str
    """its interpreter"""
    packages: dict[str, str]
    """package -> version in its environment"""


class Plan(Part):
    """What was asked for. Runs with one `plan_digest` ask for the same."""

    name: str
    """of the suite"""
    description: str = ""
    """of the suite"""
    baseline: str
    """label of the backend that speeds are against"""
    rounds: int
    """rounds per generation"""
    samples_per_round: int
    """timed samples of a turn; of slow calls fewer, one at least"""
    generations: int
    """number of process generations"""
    generation_budget_s: float
    """rounds of a generation stop after so long"""
    same_within: float
    """0.02: `same` means within 2%"""
    timeouts: dict[str, float]
    """seconds that a phase may take"""
    cases: dict[str, list[str]]
    """case -> labels of its backends"""
    parts: dict[str, list[list[str]]] = {}
    """case -> labels that take turns with each other, where not all do"""
    files: dict[str, str] = {}
    """name of a user's file -> beginning of its SHA-256"""
    engines: dict[str, EngineRecord] = {}
    """other versions of the engine, by the backend's name"""
    options: list[str] | None = None
    """options that chose the kernels of a run of kernels, such as `--filter` and its value; null in other records"""


class Record(Part):
    """A line."""


class Provenance(Record):
    """A machine and a checkout."""

    machine: str
    """folder of the machine's runs: CPU, cores and a hash of the facts"""
    cpu: str
    """name of the processor"""
    architecture: str
    """such as `x86_64`"""
    cores: int | None
    """processors of the machine"""
    caches: dict[str, str]
    """level and kind -> size of one instance"""
    isa: list[str]
    """instruction sets that matter here"""
    memory_bytes: Whole
    """of the machine"""
    kernel: str
    """kernel release of the operating system"""
    python: str
    """Python version"""
    versions: dict[str, str]
    """package -> version"""
    commit: str | None
    """of the checkout; null outside of one"""
    dirty: bool | None
    """whether files differ from the commit"""
    difference: str | None
    """hash of what is not committed; null where nothing differs"""
    governor: str | None = None
    """frequency policy"""
    available_bytes: int | None = None
    """memory that was free when the run began"""
    load: float | None = None
    """one-minute load average when the run began"""
    steal_s: float | None = None
    """time given away by the hypervisor since boot, when the run began"""
    surroundings: dict[str, Any] | None = None
    """`frequency`, `virtual` (hypervisor, container, share of processors), `memory_policy`, `usable_cpus`, `compiler`,
    `blas` (under NumPy and torch), `variables` (settings of libraries; of a value that may name a folder only that it
    is set)"""


class Environment(Provenance):
    """The first line of a run: where it ran, with what, and what was asked for."""

    kind: Literal["environment"] = "environment"
    """`environment`"""
    threads: list[int]
    """thread counts that occur"""
    devices: dict[str, dict[str, Any]] = {}
    """device -> its facts. For the cpu: `cpu`, `cores`, `memory_bytes`. For cuda: `name`, `capability`, `memory_bytes`,
    `multiprocessors`, `l2_bytes`, `driver`, `cuda`. For other devices than the cpu also `roofs` if measured (format
    below; they have one thread). If the device was missing when the run began: only `unavailable`, with the reason"""
    roofs: Roofs | None = None
    """what the machine can do at most, see below; null where it was not measured"""
    suite: str
    """name of the suite"""
    plan: Plan
    """what was asked for, see below"""
    plan_digest: str
    """hash of the plan"""
    backends: dict[str, BackendRecord] = {}
    """label -> what the backend is, see below"""

    def role(self, label: str) -> Role:
        """The role of the backend of that label; a second copy has that of the first."""
        known = self.backends.get(label) or self.backends.get(label.partition("#")[0])
        return known.role if known is not None else "peer"


class Samples(Record):
    """What one backend did in one case in one generation of processes."""

    kind: Literal["samples"] = "samples"
    """`samples`"""
    case: str
    """`model/shape/t<threads>/<precision>[/option=value...][/switch=value...][/io=numpy][/device=name]`; in the shape
    `b` is batch and `s` is sequence"""
    backend: str
    """label: a name, `name[switch=value,...]`, `name#2` for the second copy of the baseline; another version of the
    engine is `engine@COMMIT`, `engine@COMMIT-dirty` where files differ from it, or `engine@VERSION+DIGEST` outside of a
    checkout"""
    generation: int
    """0, 1, ...: a fresh set of processes each"""
    status: Status = "ok"
    """as in the summary, of this generation"""
    reason: str | None = None
    """why the status is not ok"""
    threads: int
    """of the case"""
    device: str = "cpu"
    """of the case"""
    seconds: list[list[Positive]] = []
    """per round, the timed samples: seconds a call; empty unless the status is ok"""
    alone: list[list[Positive]] = []
    """for each turn in `beside`, the samples of the turn before it, with all other workers stopped"""
    beside: list[list[Positive]] = []
    """samples of some turns, spread over the rounds, with all other workers running"""
    inner: int | None = None
    """calls in one sample"""
    steady: bool | None = None
    """true where warm-up ended because timings agreed, and not because its time was up"""
    contention: Contention | None = None
    """what others did meanwhile"""
    error: Error | None = None
    """largest error of all outputs and input sets"""
    accuracy: Accuracy | None = None
    """of quantised cases, worst over the results that were verified"""
    note: str | None = None
    """why the reference is not float64, who else computed it, which other outputs are right, or which inputs are the
    same in every call"""
    import_s: float | None = None
    """importing the runtime"""
    export_s: float | None = None
    """capturing the model"""
    compile_s: float | None = None
    """compiling it"""
    first_call_s: float | None = None
    """the first call"""
    peak_rss_bytes: int | None = None
    """peak memory from after the imports to the end of warm-up, above what was resident after the imports; on another
    device than the cpu, of the device"""
    facts: AllFacts = AllFacts()
    """what the backend tells of its program"""
    elapsed_s: float = 0.0
    """seconds that this worker took, for estimates of later runs"""


class Summary(Facts, Record):
    """What is said of one backend in one case, from all generations."""

    kind: Literal["summary"] = "summary"
    """`summary`"""
    case: str
    """as in the samples"""
    model: str
    """part of the case: its name, or the file and factory of a user's model"""
    shape: dict[str, int]
    """part of the case: sizes of the inputs"""
    options: dict[str, str | int | float | bool] = {}
    """part of the case: variants of the model"""
    threads: int
    """part of the case: worker threads"""
    precision: str
    """part of the case: precision of weights and arithmetic"""
    device: str = "cpu"
    """part of the case: device that it runs on"""
    switches: dict[str, str] = {}
    """switches of the case and of the backend"""
    io: str = "torch"
    """part of the case: what calls take and give, `torch` tensors or `numpy` arrays"""
    backend: str
    """as in the samples"""
    role: Role
    """`engine`: the engine of this checkout in any form; `version`: another version of it; `peer`: anything else"""
    baseline: str
    """label that speeds are against"""
    status: Status
    """`ok`; `wrong` (no time is given); `failed`; `timeout`; `unavailable` (cannot run here); `not applicable` (the
    case makes no sense for this backend)"""
    reason: str | None = None
    """why the status is not ok"""
    latency: Latency | None = None
    """seconds a call"""
    throughput: float | None = None
    """items of the batch a second, at the median"""
    speed: Speed | None = None
    """against the baseline: its time divided by the time of the row, with the 95% interval; above 1 is faster; null for
    the baseline"""
    verdict: Verdict | None = None
    """`faster`, `slower`, `same` (within the suite's `same_within`), `unclear`"""
    detectable: float | None = None
    """minimum detectable effect: the smallest true difference from the baseline, relative, that this comparison finds
    with probability 0.9"""
    best_peer: Compared | None = None
    """for rows of the engine: this row over the peer with the shortest median latency in the case"""
    versions: list[Compared] | None = None
    """for rows of the engine: this row over each other version of the engine but the baseline"""
    runner_up: Compared | None = None
    """for the row with the shortest median latency in the case: this row over the fastest row of another backend, or
    over the next one if all rows are forms of one backend"""
    floor: Annotated[float, Field(gt=-1, lt=1e12)] | None = None
    """A/A floor of the case: relative difference that two copies of the baseline may show"""
    aa_observations: int = 0
    """number of stored A/A pairs of this machine that the interval uses; 0: only the assumed prior (measurement.md)"""
    error: Error | None = None
    """largest error of all generations"""
    accuracy: Accuracy | None = None
    """of quantised cases, worst over the generations"""
    note: str | None = None
    """why the reference is not float64, so that errors are from eager, who else computed it, which other outputs are
    right, or which inputs are the same in every call"""
    import_s: float | None = None
    """importing the runtime, in the first generation"""
    export_s: float | None = None
    """capturing the model, in the first generation; null where there is no such step"""
    compile_s: float | None = None
    """compiling it, in the first generation; null where there is no such step"""
    first_call_s: float | None = None
    """the first call, in the first generation"""
    s_per_token: PerToken | None = None
    """for cases that generate text: median latency divided by the tokens of a call"""
    ttft_s: float | None = None
    """time to first token: median of a call of phase prefill, which takes the prompt in and picks a token"""
    peak_rss_bytes: int | None = None
    """largest peak memory of all generations, as in the samples"""
    run_peak_rss_bytes: int | None = None
    """largest peak memory over the generations after the first. These processes load what the first one exported or
    compiled, so memory for exporting is not included. The torch model, which every process builds first, is included"""
    neighbours: float | None = None
    """relative slowdown of a call while the workers of the other backends run instead of being stopped: median of pairs
    of consecutive turns"""
    neighbours_flagged: bool | None = None
    """true if `neighbours` is above 3% and the 95% interval (Student's t) of the mean log-speed is above 0"""
    disturbed: float | None = None
    """share of the rounds that others disturbed and that are kept all the same"""
    roof_share: float | None = None
    """lower bound of the time for the work of the case, divided by the median latency. The work is `flops` and `bytes`
    of the engine's program: of the row without options if there is one, otherwise of the engine's first row. The bound
    is these `flops` divided by the peak of the precision's arithmetic (float32 if only weights are quantised), or these
    `bytes` divided by the memory bandwidth if that is longer and the bytes of one step exceed the last cache, both at
    the case's threads. Null if `flops` or the roof is unknown, not believed or missing (fp16 has none). Above 1: the
    kernels execute less than the case specifies, or the count is wrong"""
    executed_share: float | None = None
    """the same with `executed_flops`; more than 1 is a counting error, but for float32 products on tensor cores"""


class AblationRecord(Record):
    """What one switch does to one case."""

    model_config = ConfigDict(populate_by_name=True)

    kind: Literal["ablation"] = "ablation"
    """`ablation`"""
    case: str
    """as in the samples"""
    switch: str
    """its name; `(everything)` for all that can be on alone; of a pair both names, joined by `+`"""
    switch_kind: str
    """kind of switch, such as `pass`"""
    mode: Literal["leave_one_out", "add_one_in", "pair"]
    """`leave_one_out`: removed from the complete program; `add_one_in`: added to the program without any switch;
    `pair`: two removed together"""
    reached: bool
    """false where the program stays the same without the switch; then nothing is timed"""
    status: Status = "ok"
    """`not applicable` if no part of the program can use the switch or the engine refuses it (`reason`), `failed` if a
    program could not be compiled; otherwise the status of its rows"""
    reason: str | None = None
    """why the status is not ok"""
    with_: str = Field(validation_alias="with", serialization_alias="with")
    """label of the program with the switch, or with the value that it names"""
    without: str
    """label of the program without it"""
    speed: Speed | None = None
    """of the program with the switch against the one without it. For a pair, the interaction: (time with only the first
    x time with only the second) / (time with neither x time with both); above 1 the two help each other"""
    p: float | None = None
    """p-value of the hypothesis that there is no difference, Holm-corrected over all timed switches of the run; pairs
    are corrected separately"""
    verdict: Verdict | None = None
    """on `speed`, as in the summary; of a pair `slower` says that the two are redundant"""
    detectable: float | None = None
    """as in the summary"""
    floor: float | None = None
    """as in the summary"""
    deltas: dict[str, tuple[Any, Any]] = {}
    """column -> [with the switch, without it], of the counted columns that differ"""

    @property
    def names_value(self) -> bool:
        """True if the switch is a value that replaces the usual one, so that the usual program is `without`."""
        return self.mode == "leave_one_out" and "=" in self.switch


class AccuracyRecord(Record):
    """How far the outputs of one backend in one precision are from those of the float32 model, and from labels."""

    kind: Literal["accuracy"] = "accuracy"
    """`accuracy`"""
    model: str
    """as in the summary"""
    options: dict[str, str | int | float | bool] = {}
    """as in the summary, without `phase` and `steps`"""
    precision: str
    """as in the summary"""
    backend: str
    """as in the samples; `eager` in fp32 is what all others are compared with, and has a line in every run"""
    status: Status
    """`ok`, `failed`, `unavailable` or `not applicable`"""
    reason: str | None = None
    """why the status is not ok"""
    task: str
    """how outputs were scored: `language`, `classes`, `similarity` or `outputs`"""
    data: str
    """which data the model read"""
    items: str
    """number and kind of the items that intervals resample"""
    weight_bytes: int | None = None
    """constants; null if the backend does not say"""
    scores: dict[str, Score] = {}
    """column -> its estimate; empty unless the status is ok"""
    commit: str | None = None
    """of the checkout that scored, which may be a later one than that of the run; null outside of a checkout"""
    dirty: bool | None = None
    """whether files differed from the commit"""


def names(kind: type[BaseModel]) -> list[str]:
    """Fields of a class in the order in which lines and tables have them: its own before those of its bases."""
    own = [name for name in kind.model_fields if name in kind.__annotations__]
    return sorted(own + [name for name in kind.model_fields if name not in own], key=lambda name: name != "kind")
