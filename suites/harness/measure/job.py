"""The work of one backend on one case inside of one process: load, prepare, verify, warm up, sample. Owns the clock.

Knows nothing of pipes, rounds or other backends: `worker.py` puts it behind a pipe.
"""

from __future__ import annotations

import gc
import math
import numbers
import resource
import statistics
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suites import backends, collector, models
from suites.backends import stepwise
from suites.backends.base import NotApplicable, Prepared, flatten, flatten_arrays, through_torch, to_numpy
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import label
from suites.harness.declare.precision import convert_inputs, convert_model
from suites.harness.errors import Refused, Unavailable
from suites.harness.measure import device
from suites.harness.record import outputs, schema  # noqa: F401  # some backends need it: all have it from the start
from suites.models import INPUT_SETS

if TYPE_CHECKING:
    from torch import Tensor

MIN_SAMPLE_S = 1e-3
"""A sample lasts this long at least, or 100 times the resolution of the clock: calls are repeated inside of it."""
WARM_BLOCK = 5
"""Samples of one warm-up block; the job is steady when two blocks in a row agree."""
WARM_BLOCK_S = 0.1
"""A block ends after this long, also with fewer samples: the share by which calls vary falls with their length."""
WARM_AGREE = 0.05
"""Two blocks agree when their medians differ by no more than this share."""
WARM_LIMIT_S = 3.0
"""Warm-up ends after this long, steady or not (the record says which)."""

SOAK_CALLS = 128
"""Calls of a soak, whose results are all compared, so that a backend that is wrong now and then is found."""
SOAK_LIMIT_S = 0.5
"""They end after this long."""
MOST_SUSPECTS = 3
"""Results of the soak that differ from what was verified and are written for the parent to judge."""

Inputs = list[tuple[Any, ...]]
"""Sets of arguments: tensors, or arrays where the case's `io` says so."""


class Job:
    """One backend on one case.

    Args:
        case: what to run.
        ref: who runs it.
        scratch: an existing folder; outputs for checking are written there.
        exports, programs: see `Backend`.

    Raises:
        Unavailable: the backend does not do the precision or the device of the case.
    """

    def __init__(
        self, case: Case, ref: BackendRef, scratch: Path, exports: Path | None = None, programs: Path | None = None
    ) -> None:
        options = backends.applicable(ref, dict(case.switches))
        self._case = case
        self._scratch = scratch
        made = backends.load(ref)
        reason = backends.unable(ref, case, made)
        if reason is not None:
            raise Unavailable(reason)
        self._backend = made(case.threads, options)
        self._backend.exports, self._backend.programs = exports, programs
        self._backend.io, self._backend.precision, self._backend.device = case.io, case.precision, case.device
        spec = models.get(case.model)
        self._backend.numpy_forward = spec.numpy
        self._backend.calibration = lambda: spec.calibration(**case.build_arguments)
        self._scheme = made.schemes.get(case.precision)
        self._device = device.load(case.device)
        self._model: Any = None
        self._prepared: Prepared | None = None
        self._inputs: Inputs = []
        self._inner = 1
        self._turns = 0
        self._last: Any = None
        self._right: list[list[tuple[Any, ...]]] = []

    def load(self) -> dict[str, Any]:
        """Load the runtime; from here on memory counts. Returns import_s."""
        start = time.perf_counter()
        self._backend.load()
        seconds = time.perf_counter() - start
        import torch  # noqa: F401  # inputs are torch tensors: whoever has not imported it yet does so untimed

        self._device.reset_peak()
        return {"import_s": seconds}

    def provision(self) -> dict[str, Any]:
        """Let the backend do what a machine pays once; see `Backend.provision`."""
        self._backend.provision()
        return {}

    def facts(self, options: Mapping[str, str]) -> dict[str, Any]:
        """What the backend tells of the model with these options. Calls nothing and times nothing.

        Returns:
            facts; not_applicable: why no part of the model can use the options, None where some can.
        """
        if self._model is None:
            self._model = self._build()
        try:
            facts = dict(stepwise.program_facts(self._backend, self._model, self._example(), options))
        except NotApplicable as error:
            return {"facts": {}, "not_applicable": str(error)}
        return {"facts": facts, "not_applicable": None}

    def prepare(self, state: Sequence[str] = ()) -> dict[str, Any]:
        """Build the model, export and compile it, call once. Returns these times and facts.

        Each call starts from the first values of the buffers that are called as `state` says.

        Raises:
            Refused: the backend prepared it for another precision or device than the case's.
        """
        self._backend.state = tuple(state)
        model: Any = self._build() if self._needs_model() else None
        prepare = stepwise.prepare if stepwise.generates(model) else type(self._backend).prepare
        self._prepared = _attested(prepare(self._backend, model, self._example()), self._case)
        if self._scheme is not None:
            facts = {**self._prepared.facts, "scheme": self._scheme.text}
            self._prepared = replace(self._prepared, facts=facts)
        if self._case.io == "numpy" and (stepwise.generates(model) or not self._backend.takes_numpy):
            ready = None if self._prepared.ready is None else through_torch(self._prepared.ready)
            self._prepared = replace(self._prepared, call=through_torch(self._prepared.call), ready=ready)
        del model
        self._inputs = self._fresh_inputs()
        seconds = self._time(0, 1)
        phases = {"export_s": self._prepared.export_s, "compile_s": self._prepared.compile_s, "first_call_s": seconds}
        return {**phases, "facts": dict(self._prepared.facts)}

    def verify(self) -> dict[str, Any]:
        """Call once for each input set, keep all results, write them.

        Returns:
            files: of the results, one for each input set; inputs_changed: input sets that a call has written to;
            rule: name of the rule that judges them; None: that of the case's precision.
        """
        import torch

        results, spec = [], models.get(self._case.model)
        for seed, inputs in enumerate(self._inputs):
            with spec.explaining(seed, **self._case.build_arguments):
                self.ready(*inputs)
                results.append(self._flatten(self.call(*inputs)))
        files = [self._write(f"verify_{seed}", tensors) for seed, tensors in enumerate(results)]
        self._right = [self._fingerprints(tensors) for tensors in results]
        used_sets = (self._device.fetch(self._flatten(inputs)) for inputs in self._inputs)
        pairs = zip(used_sets, self._fresh_tensors(), strict=True)
        changed = [
            seed
            for seed, (used, fresh) in enumerate(pairs)
            if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(used, fresh, strict=True))
        ]
        return {"files": files, "inputs_changed": changed, "rule": self._rule}

    def warm(self) -> dict[str, Any]:
        """Call until two blocks of samples agree. Sets the repetitions of a sample.

        Returns:
            calls, steady, per_call_s, inner, peak_rss_bytes; facts as of `prepare`, if a backend now knows more.
        """
        gc.collect()
        start = time.perf_counter()
        calls, steady, medians = 0, False, [self._time(0, 1)]
        self._inner = _repetitions(medians[0])
        while not steady and time.perf_counter() - start < WARM_LIMIT_S:
            block: list[float] = []
            began = time.perf_counter()
            while not block or (len(block) < WARM_BLOCK and time.perf_counter() - began < WARM_BLOCK_S):
                block.append(self._time(calls, self._inner))
                calls += self._inner
            medians.append(statistics.median(block))
            self._inner = _repetitions(medians[-1])
            steady = abs(medians[-1] / medians[-2] - 1) <= WARM_AGREE
        answer: dict[str, Any] = {"calls": calls, "steady": steady, "per_call_s": medians[-1], "inner": self._inner}
        answer["peak_rss_bytes"] = self._device.peak_bytes()
        if self._prepared is not None and self._prepared.late_facts is not None:
            answer["facts"] = {**self._prepared.facts, **self._prepared.late_facts()}
        return answer

    def soak(self) -> dict[str, Any]:
        """Compare the result of every call for a while with the verified one.

        The first call is the one of `_overwrite_and_call`.

        Returns:
            suspects: results that differ, as `output` of `sample`.
        """
        suspects = self._overwrite_and_call()
        start, number = time.perf_counter(), 0
        while number < SOAK_CALLS and time.perf_counter() - start < SOAK_LIMIT_S:
            seed = number % INPUT_SETS
            self.ready(*self._inputs[seed])
            result = self.call(*self._inputs[seed])
            if len(suspects) < MOST_SUSPECTS and self._differs(seed, result):
                suspects.append(self._keep(seed, f"soak_{number}", result))
            number += 1
        return {"suspects": suspects}

    def _overwrite_and_call(self) -> list[dict[str, Any]]:
        """Call with the values of the second input set in the memory of the first, whose values are restored.

        It finds an answer that a backend keeps for the address of its inputs: input sets never change otherwise. Sets
        of different shapes, and tensors whose elements share memory, are left alone.

        Returns:
            The result as in `suspects` of `soak`, if it differs; otherwise nothing.
        """
        import torch

        memory, values = (self._flatten(inputs) for inputs in self._inputs[:2])
        types, others = ([(tensor.dtype, tensor.shape) for tensor in tensors] for tensors in (memory, values))
        if types != others or any(0 in tensor.stride() for tensor in memory):
            return []
        before = [tensor.clone() for tensor in memory]
        try:
            _copy_each(memory, values)
            if not all(map(torch.equal, memory, values)):  # some of them share memory
                return []
            self._device.synchronise()
            self.ready(*self._inputs[0])
            result = self.call(*self._inputs[0])
            return [self._keep(1, "soak_in_place", result)] if self._differs(1, result) else []
        finally:
            _copy_each(memory, before)

    def sample(self, count: int, *, keep: bool = False) -> dict[str, Any]:
        """One turn: an untimed sample (others have used the caches since), then `count` timed ones.

        Returns:
            seconds: per call, one value a sample; involuntary: context switches forced on the process meanwhile;
            output: seed (the input set), file and rule (as of `verify`) of the result of the last timed call, with
            `keep`, or where it is not the very one that was verified; else None.
        """
        self._turns += 1
        # As `timeit` does: a collection in one sample would not be the cost of one call. Nothing else runs meanwhile.
        with collector.paused():
            offset = self._turns  # so that the kept result belongs to another input set every turn
            self._time(offset, self._inner)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
            seconds = [self._time(offset + index, self._inner) for index in range(count)]
            forced = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before
        turn: dict[str, Any] = {"seconds": seconds, "involuntary": forced, "output": None}
        seed = (offset + count - 1 + self._inner - 1) % INPUT_SETS
        if keep or self._differs(seed, self._last):
            turn["output"] = self._keep(seed, f"turn_{self._turns}", self._last)
        return turn

    def _differs(self, seed: int, result: Any) -> bool:
        """Whether a result is not bit for bit the one that was verified; nothing differs before `verify`."""
        return bool(self._right) and self._fingerprints(self._flatten(result)) != self._right[seed]

    @property
    def call(self) -> Callable[..., Any]:
        """The prepared callable; RuntimeError before `prepare`."""
        if self._prepared is None:
            raise RuntimeError("call prepare() first")
        return self._prepared.call

    def ready(self, *inputs: Any) -> None:
        """What comes before each call with `inputs` and is not timed; mostly nothing."""
        if self._prepared is not None and self._prepared.ready is not None:
            self._prepared.ready(*inputs)

    @property
    def inputs(self) -> Inputs:
        """The input sets that calls take in turn."""
        return self._inputs

    def _time(self, first: int, calls: int) -> float:
        """Seconds a call over `calls` calls in a row, starting with input set `first`, until the device is done."""
        order = [self._inputs[(first + index) % INPUT_SETS] for index in range(calls)]
        if self._device.has_clock or (self._prepared is not None and self._prepared.ready is not None):
            return sum(self._time_one(inputs) for inputs in order) / calls
        return self._time_in_a_row(order) / calls

    def _time_one(self, inputs: tuple[Any, ...]) -> float:
        """Seconds of one call that must be made ready, or that the device times."""
        call = self.call
        self.ready(*inputs)
        if self._device.has_clock:
            seconds, self._last = self._device.time_call(lambda: call(*inputs))
            return seconds
        return self._time_in_a_row([inputs])

    def _time_in_a_row(self, order: Inputs) -> float:
        """Seconds of a call for each of `order` by the clock of the host."""
        call, result = self.call, None
        self._device.synchronise()
        start = time.perf_counter()
        for inputs in order:
            result = call(*inputs)
        self._device.synchronise()
        seconds = time.perf_counter() - start
        self._last = result
        return seconds

    def _fresh_inputs(self) -> Inputs:
        """Inputs as calls take them."""
        sets = self._fresh_tensors()
        if self._case.io == "numpy":
            return [tuple(tensor.numpy() for tensor in tensors) for tensors in sets]
        return [self._device.place(tensors) for tensors in sets]

    def _needs_model(self) -> bool:
        """False if the backend goes on from what an earlier process kept."""
        spec, arguments = models.get(self._case.model), self._case.build_arguments
        return spec.generates(arguments) or self._backend.needs_model()

    def _build(self) -> Any:
        """The model with the weights of the case's precision, on its device."""
        model, _ = models.get(self._case.model).build(**self._case.build_arguments)
        return self._device.place_model(convert_model(model, self._case.precision))

    def _example(self) -> tuple[Tensor, ...]:
        """The first input set, as tensors on the device."""
        return self._device.place(self._fresh_tensors()[0])

    def _flatten(self, values: Any) -> list[Tensor]:
        """What a call takes or gives, as tensors; TypeError for what is not of the case's kind or on its device."""
        tensors = flatten_arrays(values) if self._case.io == "numpy" else flatten(values)
        away = next((tensor for tensor in tensors if not self._device.has(tensor)), None)
        if away is not None:
            raise TypeError(f"a tensor of the call is on {away.device}; expected {label(self._case.device)}")
        return tensors

    def _fresh_tensors(self) -> list[tuple[Tensor, ...]]:
        """The input sets in the case's precision, on the CPU."""
        spec = models.get(self._case.model)
        sets = [spec.inputs(seed, **self._case.build_arguments) for seed in range(INPUT_SETS)]
        return [convert_inputs(tensors, self._case.precision) for tensors in sets]

    def _keep(self, seed: int, name: str, result: Any) -> dict[str, Any]:
        """Write the result of a call with input set `seed` for the parent to judge; says where it is."""
        file = self._write(name, self._flatten(result))
        return {"seed": seed, "file": file, "rule": self._rule}

    @property
    def _rule(self) -> str | None:
        return None if self._scheme is None else self._scheme.rule

    def _write(self, name: str, tensors: list[Tensor]) -> str:
        path = self._scratch / f"{name}.npz"
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
        outputs.save(path, [to_numpy(tensor) for tensor in self._device.fetch(tensors)], kinds)
        return path.name

    def _fingerprints(self, tensors: Sequence[Tensor]) -> list[tuple[Any, ...]]:
        """Type, shape and checksum of each: equal where the bits are."""
        arrays = [np.ascontiguousarray(to_numpy(tensor)) for tensor in self._device.fetch(tensors)]
        return [(array.dtype.str, array.shape, zlib.crc32(array.data)) for array in arrays]


def _attested(prepared: Prepared, case: Case) -> Prepared:
    """`prepared`.

    Raises:
        Refused: it is no `Prepared`, a time in it is no time, or it is for another precision or device than the case's.
    """
    if not isinstance(prepared, Prepared):
        kind = f"{Prepared.__module__}.{Prepared.__name__}"
        raise Refused(f"prepare of the backend returned a {type(prepared).__name__}; expected a {kind}")
    for name in ("export_s", "compile_s"):
        seconds = getattr(prepared, name)
        if seconds is not None and not (isinstance(seconds, numbers.Real) and 0 <= float(seconds) < math.inf):
            raise Refused(f"{name} of the backend is {seconds!r}; expected seconds, or None without such a step")
    made, asked = label(prepared.device), label(case.device)
    if (prepared.precision, made) == (case.precision, asked):
        return prepared
    wanted = case.precision if made == asked else f"{case.precision} on {asked}"
    raise Refused(f"prepared for {prepared.precision} on {made}; the case asks for {wanted}")


def _copy_each(memory: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write `values` to `memory`, tensor by tensor."""
    for tensor, new in zip(memory, values, strict=True):
        tensor.copy_(new)


def _repetitions(seconds: float) -> int:
    """Calls that make a sample long enough."""
    wanted = max(MIN_SAMPLE_S, 100 * time.get_clock_info("perf_counter").resolution)
    return max(1, math.ceil(wanted / max(seconds, 1e-9)))
