"""``enginebench profile``: where the time of a call goes, and how near the roof others come with the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from engine.runtime.report import bar
from suites.cli.output import JsonFlag, ResultsOption, console, plain_table, print_json, setting, stdout_as_stderr
from suites.harness.declare import spec
from suites.harness.declare.case import split_labels
from suites.harness.errors import UsageError
from suites.harness.measure import roofs
from suites.harness.present import progress, table
from suites.harness.record import store
from suites.harness.record.schema import Summary
from suites.harness.run import plan, runner

ENGINE = "engine"


def command(
    model: Annotated[str, typer.Argument(help="A model name or path.py:factory.")],
    threads: Annotated[int, typer.Option(min=1, help="Threads of a call.")] = 1,
    chosen: Annotated[list[str] | None, typer.Option("--set", help="key=value: a size or option of the model.")] = None,
    backends: Annotated[
        str | None, typer.Option(help="Comma-separated others to measure beside the engine, each as a whole.")
    ] = None,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compile a model with the engine and print where the time of a call goes, node by node.

    With --backends, the engine and these take turns as in a run, which is stored: latency and share of the roof.
    """
    import engine
    from suites import models

    found = models.get(model)
    arguments = dict(setting(text) for text in chosen or [])
    asked = _plan(model, arguments, threads, backends) if backends is not None else None
    with stdout_as_stderr():
        try:
            module, inputs = found.build(**arguments)
            program = engine.compile(module, inputs, config=engine.Config(threads=threads))
            answer = program.profile(*inputs)
        except SystemExit as error:
            raise UsageError(f"model {model} ended the process: exit({error.code})") from None
    if not as_json:
        print(answer)
    del module, inputs, program  # what is measured next shall have the memory to itself
    outcome = None
    if asked is not None:
        with progress.reporter() as reporter:
            outcome = runner.run(asked, store.results_folder(results), reporter, measure_roofs=roofs.measure)
    if as_json:
        beside = outcome.to_dict() if outcome is not None else None
        print_json({"model": model, "threads": threads, "arguments": arguments, **answer.to_dict(), "beside": beside})
    elif outcome is not None:
        _show(outcome)
    if outcome is not None and not outcome.succeeded:
        raise typer.Exit(1)


def _plan(model: str, arguments: dict[str, Any], threads: int, backends: str) -> plan.RunPlan:
    labels = split_labels(backends)
    if not labels:
        raise UsageError("--backends names none; leave it out to profile the engine alone")
    suite = spec.of_model(model, arguments, backends=[ENGINE, *labels], baseline=ENGINE, threads=threads)
    return plan.make(suite.model_copy(update={"name": f"profile_{suite.name}"}), None, suite.backends)


def _show(outcome: runner.Outcome) -> None:
    printer = console()
    printer.print(plain_table(rows(outcome.summaries)))
    printer.print(
        "in turns, a process each; over engine: time over the engine's with its 95% interval, above 1 is slower; "
        "at the roof: the least time that this machine needs for what the case means over the latency, the same work "
        "for everybody, so more than the engine's launches need where it executes less; - where no roof is known",
        markup=False,
        highlight=False,
    )
    print(f"stored: {outcome.path}")


def rows(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """One row a backend: latency, ratio to the engine, share of the roof and its bar, or why there are none."""
    found = []
    for line in summaries:
        time, judged = table.cell_time(line)
        share = line.roof_share
        found.append(
            {
                "as a whole": line.backend,
                "latency": time,
                "over engine": judged,
                "at the roof": None if share is None else f"{share:.1%}",
                "": bar(share or 0.0),
            }
        )
    return found
