"""The commands. Each is short: arguments in, one call of the harness, an answer printed as a table or as JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from engine import logs
from suites.cli import (
    ablation,
    accuracy,
    bisect,
    catalogue,
    compare,
    data,
    diff,
    history,
    kernels,
    minify,
    profile,
    replay,
    run,
    show,
    site,
    trace,
    tune,
)
from suites.cli.output import JsonFlag, ResultsOption, path_option, print_json, print_rows, print_table, whole_number
from suites.cli.resuming import Resumable
from suites.harness.declare.device import CUDA
from suites.harness.errors import UsageError
from suites.harness.measure import device, handover, roofs
from suites.harness.present import units
from suites.harness.record import machine, store
from suites.harness.record.roofs import Roof

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

app.add_typer(data.app, name="data")
app.command("run", cls=Resumable, epilog="Example: enginebench run mine.py:factory --set sequence=16,128 --threads 1")(
    run.command
)
app.command("ablate", cls=Resumable, epilog="Example: enginebench ablate bert --switches pass,planner --pairs 3")(
    ablation.command
)
app.command("show", epilog="Example: enginebench show last --details --case bert")(show.command)
app.command("profile", epilog="Example: enginebench profile bert --set sequence=128 --backends onnxruntime,openvino")(
    profile.command
)

app.command("trace", epilog="Example: enginebench trace bert --set sequence=16 --keep 'bert.encoder.layer.0.*'")(
    trace.command
)

app.command("diff", epilog="Example: enginebench diff bert --set sequence=16 --candidate 'engine\\[precision=bf16]'")(
    diff.command
)

app.command("bisect", epilog="Example: enginebench bisect bert --candidate 'engine\\[precision=int8_dynamic]'")(
    bisect.command
)

app.command(
    "minify", epilog="Example: enginebench minify mine.py:factory --candidate openvino --capsule wrong.capsule"
)(minify.command)

app.command("replay", epilog="Example: enginebench replay wrong.capsule")(replay.command)

app.command("kernels", epilog="Example: enginebench kernels --isa avx2 --filter linear")(kernels.command)

app.command("accuracy", epilog="Example: enginebench accuracy minilm --backends engine,onnxruntime,openvino")(
    accuracy.command
)

app.command("tune", epilog="Example: enginebench tune qwen3 --precision bf16 --set sequence=512")(tune.command)

app.command("compare", epilog="Example: enginebench compare 20261121T101112Z_0123456789ab_default last --gate")(
    compare.command
)

app.command("history", cls=Resumable, epilog="Example: enginebench history --since HEAD~20 --every 2")(history.command)

app.command("site", epilog="Example: enginebench site --out public")(site.command)


def _print_version(is_asked: bool) -> None:
    if not is_asked:
        return
    revision = machine.revision()
    commit = f" (commit {revision['commit']}{'-dirty' if revision['dirty'] else ''})" if revision["commit"] else ""
    print(f"enginebench {machine.versions().get('enginebench', 'of an unknown version')}{commit}")
    raise typer.Exit


@app.callback(epilog="Example: enginebench run default")
def main_(
    version: Annotated[  # noqa: ARG001  # its callback has printed it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
    log_file: Annotated[
        Path | None,
        path_option(
            "--log-file", help="Write what the stages of the engine do to this file; ENGINE_LOG chooses stages."
        ),
    ] = None,
) -> None:
    """Measure an inference engine beside other runtimes: outputs are checked first, and comparisons have intervals."""
    if log_file is None:
        return
    try:
        log_file.open("a").close()
    except OSError as error:
        raise UsageError(f"--log-file {log_file}: {error.strerror}") from None
    os.environ.setdefault(logs.VARIABLE, "all")
    os.environ[logs.FILE_VARIABLE] = str(log_file.resolve())  # so that processes that a command starts write to it, too
    logs.listen()


@app.command("list", epilog="Example: enginebench list models")
def list_(
    kind: Annotated[catalogue.Kind, typer.Argument(help="What to list.")],
    limit: Annotated[int | None, whole_number("--limit", 1, help="Print at most N lines; of runs the newest.")] = None,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List models, suites, backends, switches, ops (ATen calls that are compiled) or stored runs, newest first."""
    folder = store.results_folder(results)
    rows = catalogue.rows(kind, folder, limit)
    if rows or as_json:
        print_rows(rows, as_json=as_json)
    else:
        print(f"no {kind} under {folder}")


@app.command("machine", epilog="Example: enginebench machine --json")
def machine_(as_json: JsonFlag = False) -> None:
    """Describe this machine and this checkout as records do, and measure the highest rates that the machine reaches."""
    facts, found, between = machine.environment(), roofs.measure(), handover.measure()
    gpu = device.load(CUDA)
    missing = gpu.unavailable()
    about, limits = ({}, None) if missing else (gpu.facts(), gpu.roofs())
    if as_json:
        cuda = {"unavailable": missing} if missing else {**about, "roofs": limits.to_dict() if limits else None}
        handed = None if between is None else asdict(between)
        print_json({**facts, "roofs": found.to_dict(), "handover_s": handed, "cuda": cuda})
        return
    shown = {key: facts[key] for key in facts if key not in ("roofs", "surroundings")} | facts["surroundings"]
    shown["handover"] = "not measured: one processor"
    if between is not None:
        times = f"{between.nearest * 1e9:.0f} to {between.farthest * 1e9:.0f} ns"
        shown["handover"] = f"{times} from one processor to another"
    shown["cuda"] = missing or about
    print_table([{"fact": key, "value": value} for key, value in shown.items()])
    print_table([_roof_row(one) for one in found.rows])
    if limits is not None:
        print_table([_roof_row(one) | {"roof": f"{CUDA} {one.name}"} for one in limits.rows])


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
