"""One case in the parent: verify everybody, then interleave them, one generation of processes at a time.

Gives the lines of the record; writes none. Knows no file format and no statistics.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from queue import Queue
from threading import Semaphore
from typing import Any

from engine.processors import count_processors
from suites import backends
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import label
from suites.harness.declare.spec import Suite
from suites.harness.judge.summary import PHASES
from suites.harness.judge.verify import Reference
from suites.harness.measure import device
from suites.harness.measure.contention import Used, kept
from suites.harness.record import machine
from suites.harness.record.facts import facts_of
from suites.harness.record.reasons import tidy
from suites.harness.record.schema import Contention, Samples, Status
from suites.harness.run import checks
from suites.harness.run.references import References
from suites.harness.run.reporter import Reporter
from suites.harness.run.session import PROGRAMS, Worker, WorkerFailed, find_lanes, scratch_folder

CHECK_EVERY = 5
"""In two rounds of so many, starting with the first, the result of each backend's last timed call is checked.

Two in a row, because a turn's last call moves on by one input set: one answer kept for all cannot be right for both."""
MIN_ROUNDS = 3
"""Rounds that a generation has at least, whatever the budget."""
TURN_S = 0.3
"""Seconds that the samples of a turn may take; one sample is always taken. Of slow calls, further rounds say more than
further samples of one round."""
NEIGHBOUR_ROUNDS = 3
"""Rounds of a generation that are repeated with no worker stopped, spread over the others."""


@dataclass
class Entry:
    """One backend in one generation: its worker while it lives, its right outputs, the samples that it will leave."""

    ref: BackendRef
    line: Samples
    worker: Worker | None = None
    references: Sequence[Reference] = ()
    seconds: list[list[float]] = field(default_factory=list)
    alone_seconds: list[list[float]] = field(default_factory=list)
    neighbour_seconds: list[list[float]] = field(default_factory=list)
    involuntary: int = 0
    sample_s: float = 0.0
    kept: list[dict[str, Any]] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """True until it fails."""
        return self.worker is not None

    def note(self, answer: Mapping[str, Any]) -> None:
        """Keep what an answer of the worker says of the columns of its samples; WorkerFailed for facts of no column."""
        for name in answer.keys() & Samples.model_fields.keys() - {"facts"}:
            setattr(self.line, name, answer[name])
        try:
            self.line.facts = facts_of(answer["facts"]) if "facts" in answer else self.line.facts
        except ValueError as error:
            raise WorkerFailed("failed", tidy(f"prepare: facts: {error}")) from None

    def fail(self, status: Status, reason: str) -> None:
        """Take it out: the others go on."""
        self.line.status, self.line.reason = status, reason
        self.close()

    def close(self) -> None:
        """End its worker."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None


class CaseWork:
    """The measurements of one case.

    Args:
        case: what is measured.
        refs: its backends, in the order in which they are prepared.
        suite: rounds, generations, budgets, time limits. With 0 rounds, backends are verified and not timed.
        folder: scratch of this case.
        cache: compiled code that generations share; empty but for what provisioning left.
        references: where right outputs come from.
        reporter: told what happens.
        done: samples of an interrupted run.
        first: number of the first generation.
        states_phases: False prepares several workers at a time also in the first generation, and states no phases.
    """

    def __init__(
        self,
        case: Case,
        refs: Sequence[BackendRef],
        suite: Suite,
        folder: Path,
        cache: Path,
        references: References,
        reporter: Reporter,
        done: Sequence[Samples] = (),
        first: int = 0,
        *,
        states_phases: bool = True,
    ) -> None:
        self.case = case
        self.refs = list(refs)
        self.suite = suite
        self._numbers = range(first, first + suite.generations)
        self._states_phases = states_phases
        self._folder = folder
        self._cache = cache
        self._reporter = reporter
        self._references = references
        self._device = device.load(case.device)
        self._samples = suite.samples_per_round
        self._lanes = find_lanes(case.threads)
        self._may_call = Semaphore(len(self._lanes))
        self._preparation_s: dict[str, float] = {}
        self.lines = self._restore(done)

    def generations(self) -> Iterator[list[Samples]]:
        """Run what is missing; after each generation its samples, one a backend that took part."""
        finished = {line.generation for line in self.lines}
        for generation in self._numbers:
            if generation in finished:
                self._reporter.skip(len(self.refs))
                continue
            failed = {line.backend for line in self.lines if line.status != "ok"}
            refs = [ref for ref in self.refs if ref.label not in failed]
            lines = self._generation(generation, refs) if refs else []
            self.lines += lines
            self._reporter.advance(len(self.refs))
            if lines:
                yield lines
        for ref in self.refs:
            shutil.rmtree(scratch_folder(self._cache, f"{PROGRAMS}{ref.label}"))

    def _restore(self, done: Sequence[Samples]) -> list[Samples]:
        """Lines of whole generations: pairs need everybody in the same rounds, so half a generation is done anew."""
        latest = {(line.generation, line.backend): line for line in done}
        restored: list[Samples] = []
        expected = {ref.label for ref in self.refs}
        for generation in self._numbers:
            lines = [line for (number, _), line in latest.items() if number == generation]
            if not expected <= {line.backend for line in lines}:
                break
            restored += lines
            expected = {line.backend for line in lines if line.status == "ok"}
        return restored

    def _generation(self, generation: int, refs: Sequence[BackendRef]) -> list[Samples]:
        entries = [Entry(ref, self._empty_samples(ref, generation)) for ref in refs]
        self._reporter.rows(self.case.id, [ref.label for ref in refs])
        with ExitStack() as stack:
            for entry in entries:
                stack.callback(entry.close)
            self._reporter.doing(f"{self.case.id}  float64 reference")
            possible = [entry for entry in entries if self._is_possible(entry)]
            self._prepare_all(possible, generation)
            if self.suite.rounds:
                self._warm(possible, generation)
                self._rounds([entry for entry in possible if entry.alive], generation)
        return [entry.line for entry in entries]

    def _empty_samples(self, ref: BackendRef, generation: int) -> Samples:
        place = label(self.case.device)
        return Samples(
            case=self.case.id, backend=ref.label, generation=generation, threads=self.case.threads, device=place
        )

    def _is_possible(self, entry: Entry) -> bool:
        """Give an entry its right outputs; False, and the entry has failed, if it cannot run the case."""
        reason = checks.unavailable(self.case, entry.ref)
        if reason is None:
            try:
                entry.references = self._references.get(checks.reference_case(self.case, entry.ref))
            except WorkerFailed as failure:
                entry.fail(failure.status, failure.reason)
                return False
            reason = backends.cannot_restore(entry.ref, entry.references[0].state)
        if reason is not None:
            entry.fail("unavailable", reason)
        return reason is None

    def _prepare_all(self, entries: Sequence[Entry], generation: int) -> None:
        """Start a worker for each of `entries` and prepare it, several at a time.

        In the first generation each has processors of its own, so its phases are worth stating: they take as long as
        one after the other (docs/measurement.md). In others as many work at once as there are processors.

        Forms of one backend come one after the other: the first one exports the model for all.
        """
        began = time.monotonic()
        states_phases = generation == self._numbers.start and self._states_phases
        lanes: Queue[list[int]] = Queue()
        for lane in self._lanes if states_phases else [[]] * count_processors():
            lanes.put(lane)
        groups: dict[tuple[str, int], list[Entry]] = {}
        for entry in entries:  # by this thread: a worker ends with the thread that has started it
            scratch = scratch_folder(self._folder, f"{generation}_{entry.ref.label}")
            entry.worker = Worker(self.case, entry.ref, scratch, self._cache, pinned=False)
            groups.setdefault((entry.ref.name, entry.ref.copy), []).append(entry)

        def prepare(group: Sequence[Entry]) -> None:
            lane = lanes.get()
            for entry in group:
                if entry.worker is not None:
                    entry.worker.pin(lane)
                    self._prepare(entry, entry.worker, generation, entries)
            lanes.put(lane)

        pool = ThreadPoolExecutor(lanes.qsize())
        try:
            list(pool.map(prepare, sorted(groups.values(), key=self._expect_seconds, reverse=True)))
        except BaseException:
            for entry in entries:
                if entry.worker is not None:
                    entry.worker.kill()  # so that the threads that wait for an answer get none, and end
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        self._preparation_s = {entry.ref.label: entry.line.elapsed_s for entry in entries}
        passed, total = time.monotonic() - began, sum(self._preparation_s.values())
        for entry in entries:  # its share of the time that passed: several were prepared at once
            entry.line.elapsed_s *= passed / total
            if not states_phases:
                entry.note(dict.fromkeys(PHASES))

    def _expect_seconds(self, group: Sequence[Entry]) -> float:
        """How long a group is expected to take. The longest one begins first, so that it does not end alone.

        In the first generation, a backend with something to provision is expected to take the longest, because it runs
        a compiler of C++ or of a GPU.
        """
        declared = backends.BACKENDS.get(group[0].ref.name)
        unknown = math.inf if declared is not None and declared.provisions else 0.0
        return sum(self._preparation_s.get(entry.ref.label, unknown) for entry in group)

    def _prepare(self, entry: Entry, worker: Worker, generation: int, entries: Sequence[Entry]) -> None:
        """Load, prepare, verify, and in the first generation soak; a failure is written on the entry's samples.

        If calls of the case need all processors, the others of `entries` are stopped while results are verified: a
        thread without a processor makes the other threads of its call spin.
        """
        began, limits = time.monotonic(), self.suite.timeouts
        others = [other for other in entries if other is not entry] if len(self._lanes) == 1 else []
        try:
            self._doing(generation, "load", entry)
            entry.note(worker.ask("load", limits.load))
            self._doing(generation, "prepare", entry)
            entry.note(worker.ask("prepare", limits.prepare, state=entry.references[0].state))
            self._doing(generation, "verify", entry)
            with self._may_call, ExitStack() as stack:
                stack.callback(self._resume, others)
                self._stop(others)
                self._judge(entry, worker.scratch, worker.ask("verify", limits.verify))
                if entry.alive and generation == self._numbers.start:
                    answer = worker.ask("soak", limits.warm)
                    self._check(entry, answer["suspects"], "a call before the warm-up")
        except WorkerFailed as failure:
            entry.fail(failure.status, failure.reason)
        self._reporter.row(entry.ref.label, "right" if entry.line.status == "ok" else entry.line.status)
        entry.line.elapsed_s = time.monotonic() - began

    def _warm(self, entries: Sequence[Entry], generation: int) -> None:
        """Put each on its processors and warm it up, one after the other."""
        for entry in entries:
            began, worker = time.monotonic(), entry.worker
            if worker is None:
                continue
            self._doing(generation, "warm up", entry)
            try:
                worker.pin()
                answer = worker.ask("warm", self.suite.timeouts.warm)
                entry.note(answer)
                entry.sample_s = answer["per_call_s"] * answer["inner"]
            except WorkerFailed as failure:
                entry.fail(failure.status, failure.reason)
            if not entry.alive:
                self._reporter.row(entry.ref.label, entry.line.status)
            entry.line.elapsed_s += time.monotonic() - began

    def _rounds(self, entries: list[Entry], generation: int) -> None:
        """Interleaved timing. Lines get seconds, contention and, where a timed result was wrong, that status.

        Rounds that others disturbed are done again, up to a third more of them within the budget. Who has no turn is
        stopped: threads of a pool that spin for a while after a call would take a processor from the next one.
        """
        order = _balanced_orders(len(entries), f"{self.case.id} {generation}")
        order_with_neighbours = _balanced_orders(len(entries), f"{self.case.id} {generation} company")
        watch = self._device.watch(lambda: [entry.worker.pid for entry in entries if entry.worker is not None])
        began, load, total, disturbed = time.monotonic(), machine.load(), Used(), list[bool]()
        most = self.suite.rounds + self.suite.rounds // 3
        self._stop(entries)
        self._samples = _count_samples(self.suite.samples_per_round, [entry.sample_s for entry in entries])
        while disturbed.count(False) < self.suite.rounds and len(disturbed) < most:
            number = len(disturbed)
            if number >= MIN_ROUNDS and time.monotonic() - began > self.suite.generation_budget_s:
                break
            self._doing(generation, f"round {number + 1} of {self.suite.rounds}")
            self._round([entries[index] for index in next(order)], number)
            self._show_round(entries, number)
            used = watch.read()
            total, disturbed = total + used, [*disturbed, used.disturbed]
            if _ends_a_part(len(disturbed), self.suite.rounds, NEIGHBOUR_ROUNDS):
                self._round_with_neighbours([entries[index] for index in next(order_with_neighbours)], generation)
                total += watch.read()
        rounds = kept(disturbed, self.suite.rounds)
        if not any(entry.alone_seconds for entry in entries):
            self._round_with_neighbours(entries, generation)
        passed = time.monotonic() - began
        contention = Contention(
            load=load,
            foreign_s=total.foreign,
            steal_s=total.stolen,
            repeated=len(disturbed) - len(rounds),
            disturbed=sum(disturbed[number] for number in rounds),
        )
        for entry in entries:
            self._check(entry, entry.kept, "a timed call")
            if entry.line.status == "ok":
                seconds = [entry.seconds[number] for number in rounds]
                entry.note({"seconds": seconds, "alone": entry.alone_seconds, "beside": entry.neighbour_seconds})
            entry.line.contention = contention.model_copy(update={"involuntary": entry.involuntary})
            entry.line.elapsed_s += passed / len(entries)

    def _round(self, entries: Sequence[Entry], number: int) -> None:
        """One turn for each, in this order, all others stopped."""
        keep = number % CHECK_EVERY < 2
        for entry in entries:
            self._resume([entry])
            turn = self._turn(entry, keep=keep)
            self._stop([entry])
            if turn is not None:
                entry.seconds.append(turn["seconds"])
                entry.involuntary += turn["involuntary"]
                entry.kept += [turn["output"]] if turn["output"] else []

    def _round_with_neighbours(self, entries: Sequence[Entry], generation: int) -> None:
        """A turn for each with nobody stopped: what the others cost it, by the turn that it just had alone.

        Turns that lie far apart would compare what the machine did meanwhile.
        """
        if sum(entry.alive for entry in entries) < 2:
            return
        self._resume(entries)
        for entry in entries:
            self._doing(generation, "beside neighbours", entry)
            turn = self._turn(entry, keep=False)
            if turn is not None:
                entry.alone_seconds.append(entry.seconds[-1])
                entry.neighbour_seconds.append(turn["seconds"])
        self._stop(entries)

    def _turn(self, entry: Entry, *, keep: bool) -> dict[str, Any] | None:
        """The answer to one turn; None where the worker is gone, or now fails."""
        if entry.worker is None:
            return None
        try:
            return entry.worker.ask("sample", self.suite.timeouts.sample, count=self._samples, keep=keep)
        except WorkerFailed as failure:
            entry.fail(failure.status, failure.reason)
            return None

    def _doing(self, generation: int, what: str, entry: Entry | None = None) -> None:
        if entry is not None:
            self._reporter.row(entry.ref.label, what)
            what = f"{entry.ref.label}: {what}"
        number = generation - self._numbers.start + 1
        self._reporter.doing(f"{self.case.id}  {what} (generation {number} of {self.suite.generations})")

    def _show_round(self, entries: Sequence[Entry], number: int) -> None:
        for entry in entries:
            if entry.seconds:
                state = f"round {number + 1} of {self.suite.rounds}" if entry.alive else entry.line.status
                latency = statistics.median(chain.from_iterable(entry.seconds))
                self._reporter.row(entry.ref.label, state, latency)

    def _stop(self, entries: Sequence[Entry]) -> None:
        """Let none of these use the device."""
        for entry in entries:
            if entry.worker is not None:
                self._device.stop(entry.worker.pid)

    def _resume(self, entries: Sequence[Entry]) -> None:
        """Let them use it again."""
        for entry in entries:
            if entry.worker is not None:
                self._device.resume(entry.worker.pid)

    def _judge(self, entry: Entry, scratch: Path, answer: Mapping[str, Any]) -> None:
        """Check one result for every input set, and that inputs were left alone."""
        judgement = checks.judge(scratch, answer, entry.references)
        entry.line.note = next((reference.note for reference in entry.references if reference.note), None)
        entry.line.error, entry.line.accuracy = judgement.error, judgement.accuracy
        if judgement.reason is not None:
            entry.fail("wrong", tidy(judgement.reason))

    def _check(self, entry: Entry, results: Sequence[Mapping[str, Any]], what: str) -> None:
        """Check results of calls after the first: an answer kept from another input set shows here."""
        if entry.line.status != "ok" or entry.worker is None:
            return
        reason = checks.first_fault(entry.worker.scratch, results, entry.references)
        if reason is not None:
            entry.fail("wrong", f"{what}: {reason}")


def _count_samples(most: int, sample_s: Sequence[float]) -> int:
    """How many samples a turn has, `most` of them at most: as many as fit into `TURN_S` for the slowest backend."""
    slowest = max(sample_s, default=0.0)
    return most if slowest == 0 else max(1, min(most, int(TURN_S / slowest)))


def _ends_a_part(done: int, rounds: int, parts: int) -> bool:
    """Whether the last of `done` rounds ends one of `parts` nearly equal parts of all `rounds`."""
    return done <= rounds and done * parts // rounds > (done - 1) * parts // rounds


def _balanced_orders(count: int, seed: str) -> Iterator[list[int]]:
    """Endless orders of 0 .. count-1: random, but in every `count` of them each comes once at each place."""
    generator = random.Random(seed)
    while True:
        first = generator.sample(range(count), count)
        for shift in generator.sample(range(count), count) or [0]:
            yield first[shift:] + first[:shift]
