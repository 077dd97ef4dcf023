"""Runs from before a known fault: ``superseded.toml`` of a results folder names them, with the reason.

Records are never changed, so what was found out about them later is said in a file of its own. Each entry names what
was wrong, which rows it concerns, the commit that mended it, and the runs.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from suites.harness.errors import UsageError
from suites.harness.files import parse_toml, resolve_links
from suites.harness.record.schema import Summary

FILE = "superseded.toml"


class Fault(BaseModel):
    """One ``[[fault]]``.

    Attributes:
        reason: what was wrong, one sentence.
        fixed: the commit that mended it.
        backends: names of the backends whose rows it concerns.
        models: names of the models that it concerns; empty: all.
        runs: names of the runs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    fixed: str
    backends: list[str]
    models: list[str] = []
    runs: list[str]

    def concerns(self, run: str, line: Summary, *, peer: bool = False) -> bool:
        """True if `line` of the run of that name was measured with the fault.

        With `peer`: if the fault may have changed which peer was the best one, to which `line` is compared.
        """
        if run not in self.runs or (self.models and line.model not in self.models):
            return False
        return line.best_peer is not None if peer else line.backend.split("[")[0].split("#")[0] in self.backends


class Faults(BaseModel):
    """All faults of a results folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fault: list[Fault] = []

    def reason(self, run: str, line: Summary, *, peer: bool = False) -> str | None:
        """Why `line`, or with `peer` its comparison with the best peer, is superseded; None if it is not."""
        return "; ".join(one.reason for one in self.fault if one.concerns(run, line, peer=peer)) or None

    def of_run(self, run: str) -> list[Fault]:
        """Faults that concern some row of the run of that name."""
        return [one for one in self.fault if run in one.runs]


def known(path: Path) -> Faults:
    """The faults that the results folder says of its runs; none where it has no such file.

    Args:
        path: the folder, or the file of a run in it.

    Raises:
        UsageError: the file is damaged.
    """
    folder = path if path.is_dir() else resolve_links(path).parent.parent.parent
    file = folder / FILE
    if not file.is_file():
        return Faults()
    try:
        return Faults.model_validate(parse_toml(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise UsageError(f"{file}: {' '.join(str(error).split())}") from None
