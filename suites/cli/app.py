"""The commands. Each is short: arguments in, one call of the harness, an answer printed as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from suites.cli import ablation, catalogue, data, profile, show, targets
from suites.cli.output import JsonFlag, ResultsOption, console, plain_table, print_json, text
from suites.harness.declare.case import split_labels
from suites.harness.judge import compare
from suites.harness.judge.history import History
from suites.harness.measure import roofs
from suites.harness.present import progress, units
from suites.harness.record import machine, store
from suites.harness.record.roofs import Roof
from suites.harness.run import plan, runner

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Weigh an inference engine and its competitors: correct before timed, isolated, interleaved, with intervals.",
)

app.add_typer(data.app, name="data")
app.command("ablate", epilog="Example: enginebench ablate bert --switches pass,planner --pairs 3")(ablation.command)
app.command("show", epilog="Example: enginebench show last --details --case bert")(show.command)
app.command("profile", epilog="Example: enginebench profile bert --set sequence=128 --backends onnxruntime,openvino")(
    profile.command
)


@app.command(epilog="Example: enginebench run transformer --only 'threads == 1' --backends eager,engine")
def run(
    targets_: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help=f"Suites by name or path. {targets.MODEL}, is a suite of one case.",
            show_default=False,
        ),
    ],
    only: Annotated[str | None, typer.Option(help="Expression over model, threads, batch, backend, ...")] = None,
    backends: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated backends instead of the suite's; engine@PATH is the engine of another checkout."
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="What ratios are against instead of the suite's.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of a call, for a model.")] = None,
    chosen: targets.SetOption = None,
    precision: targets.PrecisionOption = None,
    config: targets.ConfigOption = None,
    generations: Annotated[
        int | None,
        typer.Option(
            min=2, help="Fresh sets of processes instead of the suite's; with 10, most differences of 3% are detected."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the newest unfinished run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cases and an estimate; run nothing.")] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run suites: verify, time interleaved, print the table, store the records.

    A name that is both a suite's and a model's is the suite.
    """
    labels = split_labels(backends) if backends is not None else None
    asked = {} if generations is None else {"generations": generations}
    fields = targets.config_options(config)
    plans = []
    for name in targets_:
        is_model = targets.is_model(name) and not targets.is_suite(name)
        read = targets.suite_of_model if is_model else targets.suite_of_file
        suite = read(name, chosen or [], threads, precision)
        plans.append(plan.make(suite.model_copy(update=asked), only, labels, baseline, fields))
    folder = store.results_folder(results)
    if dry_run:
        _dry_run(plans, folder, as_json=as_json)
        return
    with progress.reporter() as reporter:
        outcomes = [runner.run(one, folder, reporter, resume=resume, measure_roofs=roofs.measure) for one in plans]
    if as_json:
        print_json([one.to_dict() for one in outcomes])
    for outcome in outcomes if not as_json else ():
        show.print_run(outcome.summaries, outcome.environment, store.read_start(outcome.path.stem))
        print(f"stored: {outcome.path}")
    if not all(outcome.succeeded for outcome in outcomes):
        raise typer.Exit(1)


@app.command("compare", epilog="Example: enginebench compare 20261121T101112Z_0123456789ab_default last --gate")
def compare_(
    before: Annotated[str, typer.Argument(metavar="RUN", help="The earlier run, by name or path.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The later run, by name or path, or `last`.")] = "last",
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 where what is counted became worse, or is missing.")
    ] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What changed from one stored run to another: counts exactly, times against each run's own baseline."""
    folder = store.results_folder(results)
    runs = [store.find_run(folder, name) for name in (before, after)]
    for one in runs:
        show.warn_of_faults(one)
    found = compare.compare(runs[0], runs[1], History(folder))
    if as_json:
        print_json(found.to_dict())
    else:
        _show_comparison(found)
    if gate and found.regressed:
        raise typer.Exit(1)


def _show_comparison(found: compare.Comparison) -> None:
    printer = console()
    if found.surroundings:
        printer.print("Not the same surroundings, so times say nothing of the code:", markup=False)
        for line in compare.surroundings(found.surroundings):
            printer.print(f"  {line}", markup=False, highlight=False)
    printer.print(plain_table(list(compare.lines(found))))
    for name, keys in (
        ("only before", found.gone),
        ("only after", found.new),
        ("planned and missing after", found.missing),
    ):
        for case, backend in keys:
            printer.print(f"{name}: {case}  {backend}", markup=False, highlight=False)
    printer.print(
        "counted: of the engine's programs, exact; time: after over before, each over its run's baseline, with its 95% "
        "interval, claimed of the engine where p raised by Holm's rule over all rows is below 5% and no control, a "
        "backend that did not change, moved as far. The runs were not interleaved: only what is counted gates.",
        markup=False,
    )


@app.command("list", epilog="Example: enginebench list models")
def list_(
    kind: Annotated[str, typer.Argument(metavar="models|suites|backends|switches|ops|runs", help="What to list.")],
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List models, suites, backends, switches, ops (ATen calls that are compiled) or stored runs."""
    rows = catalogue.rows(kind, store.results_folder(results))
    if as_json:
        print_json(rows)
        return
    console().print(plain_table(rows) if rows else f"no {kind}")


@app.command("machine", epilog="Example: enginebench machine --json")
def machine_(as_json: JsonFlag = False) -> None:
    """What this machine and this checkout are, as every record states it, and what it can do at most (1.5 s)."""
    facts, found = machine.environment(), roofs.measure()
    if as_json:
        print_json({**facts, "roofs": found.to_dict()})
        return
    printer = console()
    shown = {key: facts[key] for key in facts if key not in ("roofs", "surroundings")} | facts["surroundings"]
    printer.print(plain_table([{"fact": key, "value": text(value)} for key, value in shown.items()]))
    printer.print(plain_table([_roof_row(one) for one in found.rows]))


def _roof_row(one: Roof) -> dict[str, Any]:
    """A roof for people: 1e9 a second, cycles, and whether to believe it."""
    return {
        "roof": one.name,
        "threads": one.threads,
        "each reads": units.size(one.thread_bytes),
        "rate": None if one.rate is None else f"{one.rate / 1e9:.1f} G{one.unit}",
        "a cycle": None if one.per_cycle is None else f"{one.per_cycle:.1f}",
        "instructions": None if one.instructions is None else f"{one.instructions:.2f}",
        "clock": None if one.clock_hz is None else f"{one.clock_hz / 1e9:.2f} GHz",
        "isa": one.isa,
        "believed": {None: None, True: "yes", False: "no: disturbed?"}[one.believed],
    }


def _dry_run(plans: Sequence[plan.RunPlan], folder: Path, *, as_json: bool) -> None:
    answer: list[dict[str, Any]] = []
    for one in plans:
        estimate, recorded = one.seconds(folder)
        cases = {case.id: [ref.label for ref in refs] for case, refs in one.cases}
        answer.append(
            {
                "suite": one.suite.name,
                "cases": cases,
                "workers": one.units(),
                "estimate_s": round(estimate),
                "recorded": recorded,
            }
        )
    if as_json:
        print_json(answer)
        return
    for entry in answer:
        for case, labels in entry["cases"].items():
            print(f"{case}  {', '.join(labels)}")
        each = entry["estimate_s"] / entry["workers"]
        basis = "from records of this machine" if entry["recorded"] else f"assuming {each:.3g} s each"
        minutes = entry["estimate_s"] / 60
        print(f"{entry['suite']}: {len(entry['cases'])} cases, {entry['workers']} worker processes, ", end="")
        print(f"about {minutes:.1f} minutes ({basis})")
