"""``enginebench site``: the results site."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from suites.cli.output import JsonFlag, ResultsOption, count, path_option, print_json
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.site.build import build_site


def command(
    out: Annotated[Path, path_option("--out", help="Folder to write; an earlier site in it is replaced.")] = Path(
        "site"
    ),
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Build the results site: static pages of all stored runs, which open from disk and from any web server."""
    folder = store.results_folder(results)
    collection = collect(folder)
    for problem in collection.problems:
        sys.stderr.write(f"left out or doubtful: {problem}\n")
    if not collection.runs:
        raise UsageError(f"{folder}: no runs; measure something first, for example with: enginebench run default")
    built = build_site(collection, out, folder / "asv")
    if built.asv.problem:
        what = "incomplete" if built.asv.page else "left out"
        sys.stderr.write(f"pages of asv {what}: {built.asv.problem}\n")
    if as_json:
        found = {"folder": str(built.folder), "pages": built.pages, "problems": list(built.problems)}
        print_json(found | {"asv": asdict(built.asv)})
    else:
        print(f"{built.folder / 'index.html'}: {count(built.pages, 'page')} of {count(len(collection.runs), 'run')}")
