"""The commands. Each is short: arguments in, one call of the harness, an answer printed as a table or as JSON."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from suites.cli import ablation, catalogue, data, profile, run, show
from suites.cli.output import JsonFlag, ResultsOption, console, print_json, print_table, text
from suites.harness.judge import compare
from suites.harness.judge.history import History
from suites.harness.measure import roofs
from suites.harness.present import units
from suites.harness.record import machine, store
from suites.harness.record.roofs import Roof

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Weigh an inference engine and its competitors: correct before timed, isolated, interleaved, with intervals.",
)

app.add_typer(data.app, name="data")
app.command("run", epilog="Example: enginebench run mine.py:factory --size sequence=16,128 --threads 1")(run.command)
app.command("ablate", epilog="Example: enginebench ablate bert --switches pass,planner --pairs 3")(ablation.command)
app.command("show", epilog="Example: enginebench show last --details --case bert")(show.command)
app.command("profile", epilog="Example: enginebench profile bert --set sequence=128 --backends onnxruntime,openvino")(
    profile.command
)


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
    print_table(list(compare.lines(found)))
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
    if rows:
        print_table(rows)
    else:
        print(f"no {kind}")


@app.command("machine", epilog="Example: enginebench machine --json")
def machine_(as_json: JsonFlag = False) -> None:
    """What this machine and this checkout are, as every record states it, and what it can do at most."""
    facts, found = machine.environment(), roofs.measure()
    if as_json:
        print_json({**facts, "roofs": found.to_dict()})
        return
    shown = {key: facts[key] for key in facts if key not in ("roofs", "surroundings")} | facts["surroundings"]
    print_table([{"fact": key, "value": text(value)} for key, value in shown.items()])
    print_table([_roof_row(one) for one in found.rows])


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
