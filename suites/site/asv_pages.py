"""The pages of `asv publish` as a part of the site: every file that they load is a local one.

asv's page loads its scripts from other hosts, and its data by requests that browsers refuse for a page opened from
disk. Here the scripts are those of `enginebench data fetch asv-scripts`, and `asv_answers.js` answers the requests.
Knows nothing of the other pages.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites import data
from suites.data import asv_scripts
from suites.harness.files import resolve_links

HERE = Path(__file__).parent
TIME_LIMIT_S = 300
_LOADED = re.compile(r'<(?P<tag>script|link|img)\b[^>]*?\s(?:src|href)="(?:https?:)?//[^"]*?(?P<name>[^"/]*)"[^>]*>')
"""A tag that loads something from another host."""
_SKIPPED = re.compile(r"(?:Error loading results file|Skipping results).*")
"""What asv prints of result files that it cannot use; it goes on and exits with 0."""
_MENU = '<ul class="nav navbar-nav navbar-left">'
_ERROR_PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Missing script</title></head>
<body><p>A script of these pages is missing. Build the site again with <code>enginebench site</code>.</p></body>
</html>
"""
_SETTINGS = ("project", "project_url", "show_commit_url", "regressions_first_commits", "regressions_thresholds")
"""What is taken from the repository's own asv.conf.json."""


class AsvPagesError(Exception):
    """The pages cannot be made; the message is the reason.

    Attributes:
        command: what a user can run to change that, or empty.
    """

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


@dataclass(frozen=True)
class AsvResults:
    """Results of asv that its pages can show.

    Attributes:
        folder: with asv's layout.
        repository: a git repository that has their commits.
        files: the result files of commits that asv can place on its axis of time.
        left_out: number of result files that name another commit, or none.
    """

    folder: Path
    repository: Path
    files: list[Path] = field(default_factory=list)
    left_out: int = 0


def find_results(folder: Path, repositories: Iterable[Path], named: Path | None = None) -> AsvResults:
    """The results in `folder`, with the first of `repositories` that has any of their commits.

    asv shows commits of the first-parent history of HEAD, and commits that have a tag.

    Args:
        folder: with asv's layout.
        repositories: folders that may be git repositories, the most likely one first.
        named: what messages call the folder; itself by default.

    Raises:
        AsvPagesError: there are no results, asv is not installed, or no repository has a commit of the results.
    """
    named = named or folder
    commits = {path: _read_commit(path) for path in sorted(folder.glob("*/*.json")) if path.name != "machine.json"}
    if not commits or not (folder / "benchmarks.json").is_file():
        raise AsvPagesError(f"no history and no results of asv in {named}", "enginebench history --since HEAD~20")
    if importlib.util.find_spec("asv") is None:
        raise AsvPagesError("asv is not installed", "pip install asv")
    checkouts = [path for path in repositories if (path / ".git").exists()]
    for repository in checkouts:
        known = _list_commits(repository)
        files = [path for path, commit in commits.items() if commit in known]
        if files:
            return AsvResults(folder, repository, files, len(commits) - len(files))
    if not checkouts:
        raise AsvPagesError(
            "no git repository here", f"cd CHECKOUT && enginebench site --results {resolve_links(named.parent)}"
        )
    is_shallow = any(_run_git(path, "rev-parse", "--is-shallow-repository") == ["true"] for path in checkouts)
    raise AsvPagesError(
        f"the git repository has none of the commits that {named} has results for",
        "git fetch --unshallow" if is_shallow else "git pull",
    )


def _read_commit(path: Path) -> str | None:
    """The commit of a result file; None if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["commit_hash"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _list_commits(repository: Path) -> set[str]:
    """Commits that asv shows."""
    history = _run_git(repository, "rev-list", "--first-parent", "HEAD")
    tags = _run_git(repository, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags")
    return {*history, *tags}


def _run_git(repository: Path, *arguments: str) -> list[str]:
    """The words that git prints; none if it fails."""
    git = shutil.which("git")
    if git is None:
        raise AsvPagesError("git is not installed", "apt-get install git")
    ended = subprocess.run([git, *arguments], cwd=repository, capture_output=True, text=True, check=False)
    return ended.stdout.split() if ended.returncode == 0 else []


def write_pages(results: AsvResults, out: Path, home: str | None = None) -> list[str]:
    """Write the pages of asv into `out`, which is replaced. Returns what asv said of files that it could not use.

    Args:
        results: what they show.
        out: folder to write.
        home: address of the page that a link to the results leads back to.

    Raises:
        AsvPagesError: the scripts were not fetched, asv failed or shows nothing, or its page loads something unknown.
        OSError: a file cannot be written.
    """
    missing = data.missing(asv_scripts.GROUP)
    if missing is not None:
        raise AsvPagesError("the scripts of asv's pages are not here", missing.removeprefix("run "))
    skipped = _publish(results, out)
    if not json.loads((out / "index.json").read_text(encoding="utf-8"))["graph_param_list"]:
        raise AsvPagesError("; ".join(["asv has nothing to show of the results", *skipped]))
    make_local(out, asv_scripts.find_scripts(), home)
    for source, path in asv_scripts.find_licences().items():
        shutil.copyfile(path, out / "vendor" / f"LICENSE-{source.removeprefix('asv-')}.txt")
    return skipped


def _publish(results: AsvResults, out: Path) -> list[str]:
    """Run `asv publish` over a copy of the results, because asv fails on a result whose commit it does not know."""
    with tempfile.TemporaryDirectory() as scratch:
        copied = Path(scratch) / "results"
        for path in (
            results.folder / "benchmarks.json",
            *results.folder.glob("*/machine.json"),
            *results.files,
        ):
            target = copied / path.relative_to(results.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        settings = {
            "project": results.repository.resolve().name,
            # asv opens this and the commit when a point is clicked: without an address of commits, the first page
            "show_commit_url": "#/?commit=",
            **_read_settings(results.repository / "asv.conf.json"),
            "version": 1,
            "dvcs": "git",
            "repo": str(results.repository.resolve()),
            "branches": ["HEAD"],
            "results_dir": str(copied),
            "html_dir": str(out.resolve()),
        }
        config = Path(scratch) / "asv.conf.json"
        config.write_text(json.dumps(settings), encoding="utf-8")
        command = [sys.executable, "-m", "asv", "publish", "--config", str(config), "--no-pull"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AsvPagesError(f"asv publish took longer than {TIME_LIMIT_S} s") from None
    printed = (ended.stdout + ended.stderr).replace(f"{copied}/", "")
    if ended.returncode != 0:
        lines = printed.strip().splitlines()
        raise AsvPagesError(f"asv publish failed: {lines[-1].strip() if lines else f'exit status {ended.returncode}'}")
    return list(dict.fromkeys(_SKIPPED.findall(printed)))


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    util = importlib.import_module("asv.util")
    try:
        found = util.load_json(str(path), js_comments=True)
    except (util.UserError, ValueError) as error:
        raise AsvPagesError(f"{path} cannot be read: {error}") from None
    return {name: found[name] for name in _SETTINGS if name in found}


def make_local(folder: Path, scripts: Mapping[str, Path], home: str | None = None) -> None:
    """Change the pages that asv wrote into `folder`: they load nothing from another host, and no data by requests.

    Args:
        folder: what `asv publish` wrote.
        scripts: last part of an address that asv's page loads -> the file that replaces it.
        home: address of a page that a link leads back to.

    Raises:
        AsvPagesError: the page loads something that `scripts` does not have, or is not as asv 0.6 writes it.
    """
    vendor = folder / "vendor"
    vendor.mkdir(exist_ok=True)

    def replace(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in scripts:
            raise AsvPagesError(f"this version of asv loads {name!r}, which {asv_scripts.GROUP} does not have")
        shutil.copyfile(scripts[name], vendor / name)
        if found["tag"] == "script":
            return f'<script src="vendor/{name}" onerror="js_load_failure()">'
        return f'<link rel="stylesheet" href="vendor/{name}">'

    index = folder / "index.html"
    text = _LOADED.sub(replace, index.read_text(encoding="utf-8"))
    if "</head>" not in text or (home is not None and _MENU not in text):
        raise AsvPagesError("this version of asv writes another index.html than asv 0.6")
    added = '<script src="asv_answers.js"></script>\n<link rel="stylesheet" href="asv_narrow.css">\n'
    text = text.replace("</head>", f"{added}</head>", 1)
    if home is not None:
        text = text.replace(_MENU, f'{_MENU}\n<li><a href="{home}">enginebench results</a></li>', 1)
    index.write_text(text, encoding="utf-8")
    for name in ("asv_answers.js", "asv_narrow.css"):
        shutil.copyfile(HERE / name, folder / name)
    (folder / "error.html").write_text(_ERROR_PAGE, encoding="utf-8")
    for path in folder.rglob("*.json"):
        answer = f"window.asvAnswer = {path.read_text(encoding='utf-8')};\n"
        path.with_name(f"{path.name}.js").write_text(answer, encoding="utf-8")
