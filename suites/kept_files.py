"""What the suites keep in a user's cache: kinds of files, their sizes, and removing them. Imports nothing heavy."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from engine.suggest import unknown
from suites import paths
from suites.harness.errors import UsageError, describe_os_error

KINDS: Mapping[str, str] = {
    "data": "weights and data that enginebench data fetch has fetched",
    "gguf": "models that were written for llama.cpp",
    "provisioned": "files that backends make once a machine",
    "revisions": "builds of commits of the engine",
    "triton": "configurations that enginebench tune has measured",
}
"""Name of a folder in the cache -> what it has. All of it can be fetched, made or measured again."""


def find_folder(kind: str) -> Path:
    """The folder of a kind of files, which need not exist; UsageError for an unknown kind, with the nearest one."""
    if kind not in KINDS:
        raise UsageError(f"data: {unknown('kind of kept files', kind, KINDS)}")
    return paths.user_cache() / kind


def measure_size(kind: str) -> int:
    """Bytes of the files of a kind."""
    return sum(path.lstat().st_size for path in find_folder(kind).rglob("*") if not path.is_dir())


def remove(kind: str) -> int:
    """Remove the files of a kind, and return how many bytes they had; UsageError if they cannot be removed."""
    folder, size = find_folder(kind), measure_size(kind)
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be removed: {describe_os_error(error)}") from None
    return size
