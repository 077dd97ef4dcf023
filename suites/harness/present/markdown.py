"""Markdown: tables, the line that says where a run was measured, and blocks of a page that a command rewrites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.harness.errors import UsageError, describe_unreadable
from suites.harness.files import read_text_file, write_text_file
from suites.harness.record.reasons import remove_escapes
from suites.harness.record.schema import Environment, Provenance


def pipes(lines: Sequence[Sequence[str]], align: str = "") -> str:
    """A table, its first line the headings.

    Args:
        lines: text of each cell.
        align: one character a column: ``r`` aligns it to the right; missing ones to the left.
    """
    rules = ["---:" if mark == "r" else "---" for mark in align.ljust(len(lines[0]))]
    escaped = ([remove_escapes(text).replace("|", "\\|") for text in line] for line in (lines[0], rules, *lines[1:]))
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped)


def escape(text: str) -> str:
    """Text whose signs mean nothing in Markdown."""
    return text.replace("~", "\\~").replace("*", "\\*").replace("<", "&lt;")


def write_between(path: Path, marker: str, text: str) -> None:
    """Replace what lies between ``<!-- marker -->`` and ``<!-- /marker -->`` in a file; UsageError without the pair."""
    before, _, after = _split(path, marker)
    opening, closing = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    write_text_file(path, f"{before}{opening}\n{text.strip()}\n{closing}{after}")


def read_between(path: Path, marker: str) -> str:
    """What lies between these markers in a file; UsageError without the pair."""
    return _split(path, marker)[1].strip()


def _split(path: Path, marker: str) -> tuple[str, str, str]:
    """The text before the opening marker, between the markers, and behind the closing one."""
    try:
        page = read_text_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {describe_unreadable(error)}; expected a page with the markers") from None
    before, opening, rest = page.partition(f"<!-- {marker} -->")
    between, closing, after = rest.partition(f"<!-- /{marker} -->")
    if not opening or not closing:
        raise UsageError(f"{path}: expected the markers <!-- {marker} --> and <!-- /{marker} -->")
    return before, between, after


def heading(environment: Provenance) -> str:
    """One line: machine, commit and versions; of other versions of the engine, their version and other packages."""
    commit = f"{environment.commit}{' (dirty)' if environment.dirty else ''}"
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    further = _describe_versions(environment) if isinstance(environment, Environment) else ""
    devices = environment.devices if isinstance(environment, Environment) else {}
    place = f"{environment.cpu}, {environment.cores} cores, {environment.kernel}"
    machine = ", ".join(filter(None, [place, *map(_describe_device, devices.values())]))
    return (
        f"Machine `{environment.machine}` ({machine}), "
        f"commit `{commit}`, Python {environment.python}, {versions}.{further}"
    )


def _describe_device(facts: Mapping[str, Any]) -> str:
    """Name and versions of a device beside the processors; empty if it says no name."""
    versions = [f"{name} {facts[key]}" for key, name in (("driver", "driver"), ("cuda", "CUDA")) if facts.get(key)]
    return ", ".join([str(facts["name"]), *versions]) if facts.get("name") else ""


def _describe_versions(environment: Environment) -> str:
    """A sentence for each other version of the engine; empty if there is none."""
    mine = {"Python": environment.python, **environment.versions}
    sentences = []
    for name, record in environment.plan.engines.items():
        theirs = {"Python": record.python, **record.packages}
        differing = [f"{key} {theirs.get(key, 'missing')}" for key in mine | theirs if mine.get(key) != theirs.get(key)]
        differing = [text for text in differing if not text.startswith("enginebench ")]
        packages = f", with {', '.join(differing)}" if differing else ", with the same packages"
        sentences.append(f" `{name}`: enginebench {record.version}{packages}.")
    return "".join(sentences)
