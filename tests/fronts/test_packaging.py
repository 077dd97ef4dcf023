"""pyproject.toml and constraints.txt agree with each other and with what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from suites.cli import EXTRAS


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins(root):
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): Version(number) for name, number in (line.split("==") for line in lines)}


def requirements(project):
    extras = project["project"]["optional-dependencies"].values()
    listed = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(r for e in extras for r in e),
    ]
    return [Requirement(text) for text in listed]


def test_every_requirement_has_one_exact_version_within_its_range(project, pins):
    for requirement in requirements(project):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name} is missing from constraints.txt"
        assert requirement.specifier.contains(pins[name]), f"{requirement} excludes the pinned {pins[name]}"


def test_what_is_installed_is_what_is_pinned(pins):
    """Tests and measurements of two machines agree only then."""
    wrong = {}
    for name, pinned in pins.items():
        try:
            installed = Version(version(name))
        except PackageNotFoundError:
            continue  # of an extra that is not installed here
        if Version(installed.public) != pinned:
            wrong[name] = (str(installed), str(pinned))
    assert not wrong


def test_the_engine_itself_needs_four_packages(project):
    names = {Requirement(text).name for text in project["project"]["dependencies"]}
    assert names == {"cffi", "ml_dtypes", "numpy", "safetensors"}


def test_the_build_needs_no_marker(project):
    """The asv that we pin takes a marker's number for the version of the package."""
    assert all(Requirement(text).marker is None for text in project["build-system"]["requires"])


def test_every_lint_exception_has_its_reason(root, project):
    text = (root / "pyproject.toml").read_text()
    codes = [*project["tool"]["ruff"]["lint"]["ignore"]]
    codes += [code for group in project["tool"]["ruff"]["lint"]["per-file-ignores"].values() for code in group]
    for code in codes:
        assert re.search(rf'"{code}"[,\]].*# \S+', text), f"{code} is ignored without a reason"


def test_no_file_names_a_package_registry(root):
    for name in ("pyproject.toml", "constraints.txt", "Makefile", "asv.conf.json", ".ci/run"):
        assert not re.search(r"https?://|index-url|find-links", (root / name).read_text()), name


def test_the_command_line_knows_the_extra_of_every_module(project):
    """Where a package is missing, it names the extra that installs it."""
    modules = {"pillow": "PIL"}
    for extra, known in EXTRAS.items():
        listed = project["project"]["optional-dependencies"][extra]
        names = [canonicalize_name(Requirement(text).name) for text in listed]
        assert sorted(known) == sorted(modules.get(name, name.replace("-", "_")) for name in names)


@pytest.mark.long
def test_the_source_distribution_has_every_file_that_it_needs(root, tmp_path):
    """`make sdist` installs one and runs a program; this only compares names, because a build takes a minute."""
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("enginebench-*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    excluded = ("results/", ".ci/")
    assert {name for name in tracked if not name.startswith(excluded)} <= packed
    assert not [name for name in packed if name.startswith(excluded)]
