"""Checks recipes of a command line against the models before anything is measured. Knows no command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import Timeouts
from suites.harness.errors import UsageError
from suites.harness.run.counts import count_programs
from suites.harness.run.reporter import Reporter

_OF_RECIPE = "recipe: "
"""What every message of the engine about a recipe begins with."""


def check_recipes(recipes: Sequence[Path], cases: Sequence[Case], timeouts: Timeouts, reporter: Reporter) -> None:
    """Compile each model with each recipe in a process of its own; one case for each model and its options.

    A recipe that fits some of the models is right: in the cases of the others its row says why it does not apply.

    Args:
        recipes: files of ``--recipe``.
        cases: what is to be measured.
        timeouts: seconds that compiling may take.
        reporter: told what happens.

    Raises:
        UsageError: a recipe fits no model, for example because none has a layer that it names.
    """
    models = {(case.model, repr(case.options)): case for case in reversed(cases)}
    for path in recipes:
        ref = BackendRef("engine", {"recipe": str(path)})
        refusals: list[str] = []
        for case in reversed(models.values()):
            reason = count_programs([(case, [ref])], timeouts, reporter)[case.id, ref.label].reason or ""
            if not reason.startswith(_OF_RECIPE):
                break
            refusals.append(f"{case.model}: {reason.removeprefix(_OF_RECIPE)}")
        if len(refusals) == len(models):
            raise UsageError(f"--recipe {path}: {refusals[0]}")
