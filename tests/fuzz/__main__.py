"""Fuzzing of program files.

    python -m tests.fuzz run [--minutes M | --programs N] [--native PATH] [--jobs N] [--into docs/reliability.md]
    python -m tests.fuzz one SEED|FILE
    python -m tests.fuzz show SEED|FILE

`run` checks many programs in processes of their own and ends with status 1 where something was found; `one` checks one
in this process, to be debugged; `show` prints one. See docs/reliability.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.fuzz import campaign, summary
from tests.fuzz.worker import use_native


def _run(options: argparse.Namespace) -> int:
    shown = 0.0

    def progress(results: campaign.Results) -> None:
        nonlocal shown
        if time.monotonic() - shown >= (1 if sys.stderr.isatty() else 60):
            shown = time.monotonic()
            end = "\r" if sys.stderr.isatty() else "\n"
            print(summary.line(results), end=end, file=sys.stderr, flush=True)

    seeds = (
        itertools.count(options.first)
        if options.programs is None
        else range(options.first, options.first + options.programs)
    )
    results = campaign.run(
        seeds,
        folder=options.folder,
        native=options.native,
        limit=options.limit,
        seconds=None if options.minutes is None else 60 * options.minutes,
        jobs=options.jobs,
        progress=progress,
    )
    text = summary.table(results)
    print(text)
    print(summary.findings(results, options.folder))
    if options.into:
        from suites.harness.present import markdown
        from suites.harness.record import machine
        from suites.harness.record.schema import Provenance

        sanitized = "ASan and UBSan" if campaign.is_sanitized(options.native) else "no sanitizers"
        heading = f"{markdown.heading(Provenance(**machine.environment()))} Built with {sanitized}."
        markdown.write_between(options.into, "fuzz", f"{heading}\n\n{text}")
    return 1 if results.findings else 0


def _one(options: argparse.Namespace) -> int:
    if options.native:
        use_native(str(options.native))
    from tests.fuzz import oracle, samples

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.what)
        if path.exists():
            outcome = oracle.check_file(path)
        else:
            sample = samples.sample(int(options.what))
            print(samples.describe(sample), flush=True)
            outcome = oracle.check_sample(sample, Path(folder) / "program.engine")
    print(outcome.stage, outcome.error)
    print(outcome.finding)
    return 1 if outcome.finding else 0


def _show(options: argparse.Namespace) -> int:
    from engine.graph import elements
    from engine.program import container
    from tests.fuzz import samples
    from tests.fuzz.programs import Draft

    path = Path(options.what)
    if path.exists():
        with container.opened(path, mapped=False) as (header, tensors):
            constants = {name: elements(tensor) for name, tensor in tensors.items()}
        draft = Draft(json.loads(header), constants, [])
        print(samples.describe(samples.Sample(0, "file", "", str(path), "", draft, {})))
    else:
        print(samples.describe(samples.sample(int(options.what))))
    return 0


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="check many programs")
    run.add_argument("--minutes", type=float, help="how long")
    run.add_argument("--programs", type=int, help="how many")
    run.add_argument("--first", type=int, default=0, help="the first seed (0)")
    run.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    run.add_argument("--limit", type=float, default=30.0, help="seconds that one program may take (30)")
    run.add_argument("--native", type=Path, help="a build of the extension module, such as one with sanitizers")
    run.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where findings are saved (build/fuzz)")
    run.add_argument("--into", type=Path, help="write the table between the markers `fuzz` of this file")
    run.set_defaults(call=_run)
    for name, call, text in (("one", _one, "check one program in this process"), ("show", _show, "print one program")):
        command = commands.add_parser(name, help=text)
        command.add_argument("what", help="a seed, or a program file")
        command.add_argument("--native", type=Path, help="as for run")
        command.set_defaults(call=call)
    options = parser.parse_args()
    status: int = options.call(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
