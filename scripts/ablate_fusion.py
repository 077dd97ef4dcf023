"""Every pass off in turn, on a transformer block and on BERT: what does each one earn? Prints one table a model.

    python scripts/ablate_fusion.py [MODEL ...]

Attention is spelled by hand, so that there is something to recognise. Ratio: time without the pass over time with all
of them; above 1 the pass pays. A pass without which the program stays the same reads `not reached` and is not timed.
"""

from __future__ import annotations

import torch
from rich.console import Console
from rich.table import Table

import engine
from suites import models
from suites.cli.scripts import chosen_models
from suites.harness import plan, progress, run, store, table
from suites.harness.spec import Suite

CASES = {"transformer": {"attention": "manual"}, "bert": {"attention": "eager"}}
LABEL = "engine[disable={}]".format


def compiled(model: str) -> dict[str, store.Line]:
    """Pass name -> report of the program without it; "" -> with everything on."""
    module, inputs = models.get(model).build(**CASES.get(model, {}))
    exported = torch.export.export(module, inputs)
    off = ["", *(switch.name for switch in engine.switches() if switch.kind == "pass")]
    configs = {name: engine.Config(disable=(name,) if name else ()) for name in off}
    return {name: engine.compile(exported, inputs, config=configs[name]).report().to_dict() for name in off}


def timed(model: str, passes: list[str]) -> dict[str, store.Line]:
    """Backend label -> summary of a run that interleaves the whole engine and the engine without each pass."""
    sweep = {"name": model, "options": CASES.get(model, {})}
    fields = {"name": "ablate_fusion", "baseline": "engine", "backends": ["engine", *map(LABEL, passes)]}
    with progress.reporter() as reporter:
        chosen = plan.make(Suite.model_validate({**fields, "models": [sweep]}))
        return {one["backend"]: one for one in run.run(chosen, store.results_folder(None), reporter).summaries}


def show(model: str) -> Table:
    """The table of one model."""
    reports = {LABEL(name) if name else "engine": report for name, report in compiled(model).items()}
    reached = [name for name, one in reports.items() if one["run_digest"] != reports["engine"]["run_digest"]]
    rows = timed(model, [name[len(LABEL("")) - 1 : -1] for name in reached])
    found = Table("program", "nodes", "launches", "arena", "latency", "ratio [95%] verdict", title=model)
    for name, report in reports.items():
        time, ratio = table.cell_time(rows[name]) if name in rows else ("", "not reached")
        counts = (str(report["nodes"]), str(report["launches"]), table.size(report["arena_bytes"]))
        found.add_row(name.replace("[", "\\["), *counts, time, ratio.replace("[", "\\["))
    found.caption = f"A/A floor {table.floor(rows)}; ratio above 1: the pass pays; latency: median, lower is better"
    return found


for chosen_model in chosen_models(__doc__, CASES):
    Console(width=130).print(show(chosen_model))
