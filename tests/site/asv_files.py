"""A git repository of a few commits, and results of asv for them in the format of asv 0.6.6."""

from __future__ import annotations

import json
import os
import statistics
import subprocess

MACHINE = {"machine": "toy", "os": "Linux", "arch": "x86_64", "cpu": "a cpu", "num_cpu": "2", "ram": "8000000000"}
NAME = "history.Latency.track_latency"
CASES = ["mlp", "bert/b1 #2"]
"""The second one has what an address of a file must escape."""
BENCHMARK = {
    "name": NAME,
    "code": "",
    "param_names": ["case"],
    "params": [[repr(case) for case in CASES]],
    "timeout": 60.0,
    "type": "track",
    "unit": "seconds",
    "version": "1",
}
COLUMNS = [
    *("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25"),
    *("stats_q_75", "stats_number", "stats_repeat", "samples", "profile"),
]
SECONDS = [0.001, 0.001, 0.001, 0.002, 0.002, 0.002]
"""One a commit: the fourth is the step."""


def run_git(repository, *arguments, date=None):
    stamp = {} if date is None else {"GIT_AUTHOR_DATE": f"{date} +0000", "GIT_COMMITTER_DATE": f"{date} +0000"}
    names = {f"GIT_{who}_{what}": "toy" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, **stamp}
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=repository, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(path):
    """A repository with a commit for each of SECONDS; their hashes, oldest first."""
    path.mkdir(parents=True)
    run_git(path, "init", "--quiet")
    made = []
    for number in range(len(SECONDS)):
        date = 1_700_000_000 + 86_400 * number
        run_git(path, "commit", "--quiet", "--allow-empty", "--message", f"commit {number}", date=date)
        made.append(run_git(path, "rev-parse", "HEAD"))
    return made


def write_result(results, commit, date, samples):
    """The result file of one commit; `samples` has a list of seconds for each of CASES."""
    quartiles = [statistics.quantiles(one, n=4, method="inclusive") for one in samples]
    columns = {
        "result": [middle for _, middle, _ in quartiles],
        "params": BENCHMARK["params"],
        "version": BENCHMARK["version"],
        "started_at": date,
        "duration": 1.0,
        "stats_ci_99_a": [min(one) for one in samples],
        "stats_ci_99_b": [max(one) for one in samples],
        "stats_q_25": [low for low, _, _ in quartiles],
        "stats_q_75": [high for _, _, high in quartiles],
        "stats_number": [1] * len(samples),
        "stats_repeat": [len(one) for one in samples],
        "samples": samples,
    }
    stored = {
        "commit_hash": commit,
        "env_name": "toy-env",
        "date": date,
        "params": {**MACHINE, "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": {NAME: [columns.get(name) for name in COLUMNS[: len(columns)]]},
        "durations": {},
        "version": 2,
    }
    folder = results / MACHINE["machine"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{commit[:8]}-toy-env.json").write_text(json.dumps(stored))


def write_results(results, commits):
    """asv's folder of results: benchmarks, machine and a file for each commit."""
    for number, (commit, seconds) in enumerate(zip(commits, SECONDS, strict=True)):
        spread = [seconds * (1 + 0.001 * (i - 6)) for i in range(13)]
        write_result(
            results, commit, 1000 * (1_700_000_000 + 86_400 * number), [spread, [0.01 + 0.00001 * i for i in range(13)]]
        )
    (results / "benchmarks.json").write_text(json.dumps({NAME: BENCHMARK, "version": 2}))
    (results / MACHINE["machine"] / "machine.json").write_text(json.dumps({**MACHINE, "version": 1}))
