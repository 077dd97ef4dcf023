"""Measures the engines of commits: builds them, counts their programs, and times consecutive ones in turns.

commits ──▶ builds ──▶ counts ──▶ the engines that differ, in turns ──▶ run ──▶ commit lines
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.backends import revisions, versions
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Suite
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.commits import CommitRecord, CountedCase
from suites.harness.record.invocation import Invocation
from suites.harness.record.reasons import find_cause, tidy
from suites.harness.run import runner
from suites.harness.run.counts import Counts, count_programs
from suites.harness.run.plan import RunPlan, with_twin
from suites.harness.run.reporter import Reporter
from suites.history.commits import Commit

TOGETHER = 4
"""Commits that take turns with each other. The last one of a group is the first one of the next."""


@dataclass(frozen=True)
class Request:
    """What is to be followed.

    Attributes:
        suite: rounds, generations and time limits; its name is that of the stored run.
        cases: on what.
        repository: whose commits.
        commits: oldest first.
        is_timed: False for counts alone.
    """

    suite: Suite
    cases: Sequence[Case]
    repository: Path
    commits: Sequence[Commit]
    is_timed: bool = True


@dataclass(frozen=True)
class Engine:
    """A commit whose engine runs."""

    commit: Commit
    ref: BackendRef
    digest: str


def measure(request: Request, results: Path, reporter: Reporter, invocation: Invocation) -> store.Run:
    """Build, count and time; everything is stored.

    Raises:
        UsageError: no engine could be built, or as of `runner.run`.
        runner.Interrupted: on Ctrl-C; everything timed so far is stored.
    """
    engines, failed = build_engines(request.repository, request.commits, reporter)
    if not engines:
        reason = _shorten(failed[request.commits[-1].name])
        raise UsageError(f"no engine of {len(request.commits)} commits could be built; the newest: {reason}")
    plan = make_plan(request, engines)
    if plan.cases:
        path = runner.run(plan, results, reporter, invocation=invocation).path
    else:  # a record without times
        environment = runner.describe_environment(plan)
        path = store.new_path(results, plan.suite.name, environment)
        with store.Writer(path) as writer:
            writer.append(environment)
    if (run := store.read(path)).of(CommitRecord):
        return run
    refs = [engine.ref for engine in keep_changes(engines)]
    counts = count_programs([(case, refs) for case in request.cases], request.suite.timeouts, reporter)
    with store.Writer(path, resume=True) as writer:
        writer.append(*describe_commits(request, engines, failed, counts))
    return store.read(path)


def build_engines(
    repository: Path, commits: Sequence[Commit], reporter: Reporter
) -> tuple[list[Engine], dict[str, str]]:
    """The engines that can be built, and why the others cannot: name of the commit -> reason."""
    engines: list[Engine] = []
    failed: dict[str, str] = {}
    for number, commit in enumerate(commits, 1):
        short = commit.name[:12]
        reporter.doing(f"{short}  building ({number} of {len(commits)} commits)")
        folder = Path(short)
        try:
            folder = revisions.prepare(repository, commit.name, reporter.say)
            ref = BackendRef.parse(versions.resolve(f"{versions.PREFIX}{folder}", Path.cwd()))
        except UsageError as error:
            # A record names no folder: what is wrong with the engine of the worktree is wrong with this commit.
            reason = str(error).replace(str(folder), short)
            failed[commit.name] = tidy(reason)
            reporter.say(f"{short}: {_shorten(reason)}")
            continue
        engines.append(Engine(commit, ref, str(versions.get(ref.name).facts["digest"])))
    return engines, failed


def _shorten(reason: str) -> str:
    """The line that says what is wrong, or the last one."""
    return find_cause(reason) or reason.splitlines()[-1]


def keep_changes(engines: Sequence[Engine]) -> list[Engine]:
    """The engines without those that are the same as the one before."""
    return [engine for index, engine in enumerate(engines) if not index or engine.digest != engines[index - 1].digest]


def make_plan(request: Request, engines: Sequence[Engine]) -> RunPlan:
    """Every case with the engines that differ, consecutive ones in one part; no case where nothing is to be timed."""
    refs = [engine.ref for engine in keep_changes(engines)]
    first = refs[0]
    suite = request.suite.model_copy(update={"baseline": first.label, "backends": [first.label]})
    if not request.is_timed or len(refs) < 2:
        return RunPlan(suite, [])
    labels = [ref.label for ref in refs]
    step = TOGETHER - 1
    parts = [labels[begin : begin + TOGETHER] for begin in range(0, len(labels) - 1, step)]
    parts[0].insert(1, first.again().label)
    cases = [(case, with_twin(refs, first.label)) for case in request.cases]
    return RunPlan(suite, cases, {case.id: parts for case in request.cases} if len(parts) > 1 else {})


def describe_commits(
    request: Request, engines: Sequence[Engine], failed: dict[str, str], counts: Counts
) -> list[CommitRecord]:
    """A line for each commit. An engine that equals the one before has its label and its counts."""
    by_name = {engine.commit.name: engine for engine in engines}
    lines: list[CommitRecord] = []
    before: CommitRecord | None = None
    for commit in request.commits:
        line = CommitRecord(
            commit=commit.name,
            previous=None if before is None else before.commit,
            skipped=commit.skipped,
            date=commit.date.isoformat(),
            subject=commit.subject,
            status="failed",
            reason=failed.get(commit.name),
        )
        engine = by_name.get(commit.name)
        if engine is not None:
            is_same = before is not None and before.digest == engine.digest
            label = before.backend if before is not None and is_same else engine.ref.label
            cases = {case.id: _describe_case(counts, case.id, str(label)) for case in request.cases}
            built = {"status": "built", "backend": label, "digest": engine.digest, "cases": cases}
            line = before = line.model_copy(update=built)
        lines.append(line)
    return lines


def _describe_case(counts: Counts, case: str, label: str) -> CountedCase:
    counted = counts[case, label]
    if counted.facts is None:
        return CountedCase(reason=counted.reason or counted.status)
    return CountedCase(facts=counted.facts.model_copy(update={"details": None}))
