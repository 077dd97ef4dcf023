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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suites import data
from suites.data import asv_scripts
from suites.harness.record.system import output

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
    """The pages cannot be made; the message is the reason, and a command that changes that, if there is one."""


def write_pages(results: Path, repository: Path | None, out: Path, home: str) -> list[str]:
    """Write the pages of asv into `out`, which is replaced. Returns what is said of results that were left out.

    asv shows commits of the first-parent history of HEAD, and commits that have a tag.

    Args:
        results: a folder with asv's layout. Results of commits that asv cannot show are removed from it, because asv
            fails on a commit that it does not know.
        repository: the git repository of the commits.
        out: folder to write.
        home: address of the page that a link to the results leads back to.

    Raises:
        AsvPagesError: there are no results, asv or its scripts are missing, the repository has no commit of the
            results, asv failed or shows nothing, or its page loads something unknown.
        OSError: a file cannot be written.
    """
    files = [path for path in results.glob("*/*.json") if path.name != "machine.json"]
    if not files or not (results / "benchmarks.json").is_file():
        raise AsvPagesError("no history and no results of asv; run: enginebench history --since HEAD~20")
    if importlib.util.find_spec("asv") is None:
        raise AsvPagesError("asv is not installed; run: pip install asv")
    known = set() if repository is None else _list_commits(repository)
    unknown = [path for path in files if _read_commit(path) not in known]
    if repository is None or len(unknown) == len(files):
        raise AsvPagesError("no git repository here has the commits of the results; run it in a clone with all of them")
    missing = data.missing(asv_scripts.GROUP)
    if missing is not None:
        raise AsvPagesError(f"the scripts of asv's pages are not here; {missing.replace('run ', 'run: ', 1)}")
    for path in unknown:
        path.unlink()
    problems = _publish(results, repository, out)
    if unknown:
        where = "neither in the first-parent history of HEAD nor tagged"
        problems.insert(0, f"{len(unknown)} of {len(files)} results are left out: their commits are {where}")
    if not json.loads((out / "index.json").read_text(encoding="utf-8"))["graph_param_list"]:
        raise AsvPagesError("; ".join(["asv has nothing to show of the results", *problems]))
    make_local(out, asv_scripts.find_scripts(), home)
    for source, path in asv_scripts.find_licences().items():
        shutil.copyfile(path, out / "vendor" / f"LICENSE-{source.removeprefix('asv-')}.txt")
    return problems


def _read_commit(path: Path) -> str | None:
    """The commit of a result file; None if it cannot be read."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["commit_hash"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _list_commits(repository: Path) -> set[str]:
    """Commits that asv shows."""
    history = output("git", "-C", str(repository), "rev-list", "--first-parent", "HEAD")
    tags = output("git", "-C", str(repository), "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags")
    return {*(history or "").split(), *(tags or "").split()}


def _publish(results: Path, repository: Path, out: Path) -> list[str]:
    """Run `asv publish`; what it said of files that it could not use."""
    settings = {
        "project": repository.resolve().name,
        # asv opens this and the commit when a point is clicked: without an address of commits, the first page
        "show_commit_url": "#/?commit=",
        **_read_settings(repository / "asv.conf.json"),
        "version": 1,
        "dvcs": "git",
        "repo": str(repository.resolve()),
        "branches": ["HEAD"],
        "results_dir": str(results),
        "html_dir": str(out.resolve()),
    }
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as config:
        json.dump(settings, config)
        config.flush()
        command = [sys.executable, "-m", "asv", "publish", "--config", config.name, "--no-pull"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AsvPagesError(f"asv publish took longer than {TIME_LIMIT_S} s") from None
    printed = (ended.stdout + ended.stderr).replace(f"{results}/", "")
    if ended.returncode != 0:
        *_, last = [f"exit status {ended.returncode}", *printed.strip().splitlines()]
        raise AsvPagesError(f"asv publish failed: {last.strip()}")
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


def make_local(folder: Path, scripts: Mapping[str, Path], home: str) -> None:
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
    if "</head>" not in text or _MENU not in text:
        raise AsvPagesError("this version of asv writes another index.html than asv 0.6")
    added = '<script src="asv_answers.js"></script>\n<link rel="stylesheet" href="asv_narrow.css">\n'
    text = text.replace("</head>", f"{added}</head>", 1)
    text = text.replace(_MENU, f'{_MENU}\n<li><a href="{home}">enginebench results</a></li>', 1)
    index.write_text(text, encoding="utf-8")
    for name in ("asv_answers.js", "asv_narrow.css"):
        shutil.copyfile(HERE / name, folder / name)
    (folder / "error.html").write_text(_ERROR_PAGE, encoding="utf-8")
    for path in folder.rglob("*.json"):
        answer = f"window.asvAnswer = {path.read_text(encoding='utf-8')};\n"
        path.with_name(f"{path.name}.js").write_text(answer, encoding="utf-8")
