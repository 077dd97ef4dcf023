"""``enginebench data``: what real weights and data there are, fetching them, and what is kept in the user's cache."""

from __future__ import annotations

from typing import Annotated

import typer

from suites import data, kept_files
from suites.cli.output import JsonFlag, print_json, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="List and fetch real weights and real data; list and remove the files in the user's cache.",
    epilog="Example: enginebench data fetch resnet50-imagenet",
)


@app.command("list", epilog="Example: enginebench data list")
def list_(as_json: JsonFlag = False) -> None:
    """List what can be fetched, and where it lies if it has been."""
    rows = [
        {
            "name": source.name,
            "summary": source.summary,
            "package": f"{source.client} {source.package} {source.version}",
            "megabytes": round(source.size / 1e6, 1),
            "licence": source.licence,
            "folder": None if data.missing(source.name) else str(data.folder(source.name)),
        }
        for source in data.SOURCES.values()
    ]
    print_rows(rows, as_json=as_json)


@app.command("cache", epilog="Example: enginebench data cache")
def cache_(as_json: JsonFlag = False) -> None:
    """List the kinds of files that are kept in the user's cache, with their sizes; data clear removes them."""
    rows = [
        {
            "name": kind,
            "summary": summary,
            "megabytes": round(kept_files.measure_size(kind) / 1e6, 1),
            "folder": str(kept_files.find_folder(kind)),
        }
        for kind, summary in kept_files.KINDS.items()
    ]
    print_rows(rows, as_json=as_json)


@app.command(epilog="Example: enginebench data clear gguf revisions")
def clear(
    names: Annotated[
        list[str],
        typer.Argument(metavar="KIND", help="Kinds of files to remove, as `enginebench data cache` lists them."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Remove all kept files of a kind. They are fetched, made or measured again when they are needed."""
    for name in names:
        kept_files.find_folder(name)  # so that nothing is removed if one of the names is unknown
    removed = {name: kept_files.remove(name) for name in dict.fromkeys(names)}
    if as_json:
        print_json(removed)
        return
    for name, size in removed.items():
        print(f"removed {name}: {size / 1e6:.1f} MB")


@app.command(epilog="Example: enginebench data fetch resnet50-imagenet imagenet20")
def fetch(
    names: Annotated[
        list[str], typer.Argument(help="What to fetch: names of `enginebench data list`, or asv-scripts.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Fetch weights or data with the registry's own client, check them, and unpack them into a per-user cache."""
    from suites.data import fetch as fetching

    sources = {source.name: source for name in names for source in data.expand(name)}
    folders = {name: str(fetching.fetch(source)) for name, source in sources.items()}
    if as_json:
        print_json(folders)
    else:
        for name, folder in folders.items():
            print(f"{name}: {folder}")
