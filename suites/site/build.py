"""Writes the site: pages, the raw numbers behind them, styles and scripts. Needs no network, now or later.

Charts are drawn by plotly.js, which comes from the package plotly; pages are laid out by jinja2. The extra `site`
brings both.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suites.harness.errors import UsageError, describe_os_error
from suites.harness.files import resolve_links
from suites.harness.record.collection import Collection
from suites.harness.record.machine import versions
from suites.harness.record.store import plain
from suites.history.asv_results import write_results
from suites.site import asv_pages
from suites.site.page import Page, Rows, Site
from suites.site.pages import ablations, history, kernels, machines, models, operations, overview, precision

PAGES: Sequence[Callable[[Site], Iterable[Page]]] = (
    overview.describe,
    models.describe,
    ablations.describe,
    precision.describe,
    kernels.describe,
    operations.describe,
    history.describe,
    machines.describe,
)
"""What makes the pages."""
HERE = Path(__file__).parent
MARK = ".enginebench-site"
"""A file in every folder that was written here, with the names of all files that were: only such a folder, or an empty
one, is overwritten, and files that it does not name are kept."""


@dataclass(frozen=True)
class AsvPart:
    """What the site has of asv's pages.

    Attributes:
        page: the first of them, relative to the site; None without them.
        problem: why they are missing or incomplete, or None.
    """

    page: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Built:
    """The site that was written.

    Attributes:
        folder: where.
        pages: number of pages, without those of asv.
        problems: what of the records could not be read.
        asv: the pages of asv.
    """

    folder: Path
    pages: int
    problems: Sequence[str]
    asv: AsvPart = AsvPart()


def build_site(collection: Collection, folder: Path, asv_results: Path | None = None) -> Built:
    """Write the site of all stored runs into `folder`, in place of an earlier site there.

    Args:
        collection: the runs.
        folder: where to write.
        asv_results: results of asv. Their pages, and those of the stored histories, become the folder ``asv`` of the
            site; None leaves it out. Whatever they lack is said in the returned value, and the rest is written.

    Raises:
        UsageError: the folder has other files or cannot be written.
    """
    from plotly.offline import get_plotlyjs

    environment, scripts = _load_templates(), get_plotlyjs()
    if folder.is_symlink() or (folder.exists() and not ((folder / MARK).exists() or _is_empty(folder))):
        raise UsageError(f"{folder}: neither a site nor an empty folder; name another one with --out")
    site = Site(collection)
    pages = [page for describe in PAGES for page in describe(site)]
    made_at = datetime.now(UTC)
    shared = {
        "links": list(_list_links(pages)),
        "made_at": f"{made_at:%Y-%m-%d %H:%M} UTC",
        "version": versions().get("enginebench", "of an unknown version"),
        "problems": len(collection.problems),
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # written beside its place and then renamed, so that a failure leaves the earlier site whole
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
            made = Path(scratch) / "site"
            shutil.copytree(HERE / "assets", made / "assets")
            (made / "assets" / "plotly.min.js").write_text(scripts, encoding="utf-8")
            asv = AsvPart() if asv_results is None else _write_asv_pages(site, asv_results, made / "asv")
            shared["asv_page"] = asv.page
            for page in pages:
                _write_page(made, page, environment, shared)
            names = sorted({MARK, *_list_files(made)} - _keep_others(folder, made))
            (made / MARK).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
            if folder.exists():
                folder.rename(made.with_name("old"))
            made.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {describe_os_error(error)}") from None
    return Built(folder, len(pages), collection.problems, asv)


def _write_asv_pages(site: Site, results: Path, folder: Path) -> AsvPart:
    """The pages of asv in `folder`, of its own results and of the stored histories; or why there are none."""
    try:
        with tempfile.TemporaryDirectory(prefix="enginebench-asv-") as name:
            gathered = Path(name) / "results"
            if results.is_dir():
                shutil.copytree(results, gathered)
            for run, tracks in reversed(site.histories):  # of a commit that several have measured, the newest counts
                write_results(tracks, run.environment, gathered)
            # the repository of the results, or the one that the user is in
            places = (*resolve_links(results).parents, Path.cwd(), *Path.cwd().parents)
            repository = next((path for path in places if (path / ".git").exists()), None)
            problems = asv_pages.write_pages(gathered, repository, folder, home="../index.html")
    except asv_pages.AsvPagesError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return AsvPart(problem=str(error))
    return AsvPart("asv/index.html", "; ".join(problems) or None)


def _load_templates() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = write_script_json
    return environment


def write_script_json(value: Any) -> str:
    """JSON that can stand inside of a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(plain(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _write_part(name: str, values: Any) -> str:
    """A script that hands data to the page: unlike a JSON file, a page that was opened from disk may load it.

    The data are a text for ``JSON.parse``, because a key such as ``__proto__`` means something else in a script.
    """
    text = json.dumps(plain(values), separators=(",", ":"), allow_nan=False)
    return f"bench.receive({json.dumps(name)}, JSON.parse({json.dumps(text)}));\n"


def _list_links(pages: Sequence[Page]) -> Iterator[dict[str, Any]]:
    """The entries of the navigation: pages, and one entry for all models."""
    found = [{"file": f"{page.name}.html", "title": page.title} for page in pages if page.name not in _TITLES]
    for name, title in _TITLES.items():
        if name == "models" and found:
            yield {"file": "", "title": title, "name": name, "models": found}
        elif name != "models":
            yield {"file": f"{name}.html", "title": title, "name": name, "models": []}


_TITLES = {
    overview.NAME: "Overview",
    "models": "Models",
    ablations.NAME: "Ablations",
    precision.NAME: "Precision",
    kernels.NAME: "Kernels",
    operations.NAME: "Operations",
    history.NAME: "History",
    machines.NAME: "Machines and method",
}
"""Page, or those of all models, -> its name in the navigation, in the order there."""


def _write_page(folder: Path, page: Page, environment: Any, shared: dict[str, Any]) -> None:
    files = {name: f"data/{page.name}-{name}" for name in page.tables}
    for name, rows in page.tables.items():
        _write_table(folder / files[name], rows)
    for name, values in page.parts.items():
        (folder / "data" / f"{page.name}-{name}.js").write_text(_write_part(name, values), encoding="utf-8")
    text = environment.get_template(page.template).render(page=page, files=files, **shared, **page.texts)
    (folder / f"{page.name}.html").write_text(text, encoding="utf-8")


def _write_table(path: Path, rows: Rows) -> None:
    """The same rows as CSV and as JSON."""
    path.parent.mkdir(exist_ok=True)
    values = [plain(dict(row)) for row in rows]
    path.with_suffix(".json").write_text(json.dumps(values, indent=1, allow_nan=False), encoding="utf-8")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = list(values[0]) if values else []
        writer.writerow(names)
        writer.writerows([_write_cell(row[name]) for name in names] for row in values)


def _write_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def _keep_others(folder: Path, made: Path) -> set[str]:
    """Copy files that somebody has put beside an earlier site, such as those of a host, over those of the new one.

    Returns:
        their names.
    """
    mark = folder / MARK
    ours = set(mark.read_text(encoding="utf-8").splitlines()) if mark.exists() else set()
    others = _list_files(folder) - ours if ours else set()
    for name in others:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, made / name, follow_symlinks=False)
    return others
