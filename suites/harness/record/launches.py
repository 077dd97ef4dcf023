"""Lines about single kernels: measured alone, or as launches of a program."""

from __future__ import annotations

from typing import Literal

from suites.harness.record.facts import Positive
from suites.harness.record.schema import Record

Blame = Literal["decomposition", "kernel", "call"]


class KernelRecord(Record):
    """One kernel at one size, by itself, on one thread."""

    kind: Literal["kernel"] = "kernel"
    """`kernel`"""
    op: str
    """op that the kernel computes"""
    name: str
    """of the case of the kernels' test program: sizes and variant, such as `128 x 768 outer`"""
    kernel: str
    """name of the kernel, which says its operand types, instruction set and variant"""
    isa: str
    """instruction set that the run is about; variants for any instruction set are measured beside its kernels"""
    seconds: Positive
    """median over the rounds, of the thread's own time"""
    flops: float
    """operations of the op, two a multiply-add; 0 for ops that only move data"""
    bytes: float
    """bytes that are read and written"""
    bound: Literal["compute", "memory"] | None = None
    """the roof that binds the kernel; null if no roof is known, as for data in a cache if the op has no products"""
    roof_share: float | None = None
    """least time at that roof for the work of the op, divided by the time; median over the rounds, with the roof as it
    was in each round; above 1 if the kernel executes fewer operations than the op has"""
    executed_share: float | None = None
    """the same for the operations that the kernel executes; more than 1 is a counting error"""
    torch_speed: float | None = None
    """against torch at the same size; above 1 the kernel is faster; null where torch has no such op"""
    openblas_speed: float | None = None
    """the same for OpenBLAS"""
    peak_flops: float = 0.0
    """roof of one core's multiply-adds with `isa`, in operations a second: the best of the rounds of this size; 0 where
    it was not measured"""
    read_bandwidth: float = 0.0
    """roof of one core that reads memory, in bytes a second, likewise"""
    copy_bandwidth: float = 0.0
    """roof of one core that copies memory past the caches, in bytes read and written a second, likewise"""


class OperationRecord(Record):
    """One operation at one size, by the engine and by eager PyTorch, on one thread."""

    kind: Literal["operation"] = "operation"
    """`operation`"""
    family: str
    """module of suites/operations that declares the case"""
    name: str
    """what is done, such as `softmax over channels`"""
    operands: list[str]
    """element types, shapes and layouts, such as `f32[1,21,128,128] channels_last`"""
    problem: str | None = None
    """why nothing was timed: `refused: ...` or `wrong: ...`; all that follows is then null"""
    seconds: Positive | None = None
    """of the engine: median over the rounds, of the thread's own time"""
    eager_seconds: Positive | None = None
    """of eager PyTorch, likewise"""
    speed: float | None = None
    """against eager; above 1 the engine is faster"""
    speed_low: float | None = None
    """lower end of its 95% interval, over the rounds of this process"""
    speed_high: float | None = None
    """upper end"""
    compile_speed: float | None = None
    """speed of torch.compile against eager; null where it was not asked for"""
    flops: int | None = None
    """operations of the engine's program"""
    bytes: int | None = None
    """bytes of operands and results that are read and written"""
    bound: Literal["compute", "memory"] | None = None
    """the roof that binds the case: multiply-adds, or a copy of as many bytes"""
    roof_share: float | None = None
    """least time at that roof, divided by the time"""
    blame: Blame | None = None
    """where less than half of the roof is reached: the launches move or compute more than the case needs, a kernel is
    far from its own roof, or the call takes longer than its launches"""
    launches: int | None = None
    """kernel calls"""
    kernel: str | None = None
    """kernel of the longest launch"""
    lapses: tuple[str, ...] = ()
    """launches that stay below half of the share of the roof that their kernels promise: `KERNEL: 3% of 5%`"""


class NodeRecord(Record):
    """One launch of a profiled call of the engine's program."""

    kind: Literal["node"] = "node"
    """`node`"""
    case: str
    """as in the samples"""
    backend: str
    """as in the samples"""
    index: int
    """place in the order of execution, from 0"""
    op: str
    """op that it computes"""
    kernel: str
    """name of the kernel"""
    shape: list[int]
    """of the output"""
    module: str
    """path of the module of the user's model that it is of; empty where that is not known"""
    seconds: float
    """core time, summed over the threads, of the profiled run of median length"""
    flops: int
    """operations of the op"""
    executed_flops: int
    """operations that the kernel executes"""
    bytes: int
    """bytes that it reads and writes"""
    time_share: float
    """of the busy time of all threads"""
    roof_share: float | None = None
    """share of the roof (of `bound`) that the executed work reaches; null if no roof is known"""
    bound: Literal["compute", "memory"]
    """the roof that binds it"""
    peak_flops: float
    """roof of one core for its arithmetic, in operations a second, at that moment; 0 where it was not measured"""
    bandwidth: float
    """roof of one core's memory, in bytes a second, likewise"""
