"""Third-party scripts and styles that asv's pages load: which file of which source stands for which address."""

from __future__ import annotations

from pathlib import Path

from suites import data

GROUP = "asv-scripts"
"""The name under which they are fetched."""
_FILES = {
    "jquery-3.3.1.min.js": ("asv-jquery", "dist/jquery.min.js"),
    # The package has no minified files.
    "jquery.flot.min.js": ("asv-flot", "jquery.flot.js"),
    "jquery.flot.time.min.js": ("asv-flot", "jquery.flot.time.js"),
    "jquery.flot.selection.min.js": ("asv-flot", "jquery.flot.selection.js"),
    "jquery.flot.categories.min.js": ("asv-flot", "jquery.flot.categories.js"),
    "jquery.flot.orderBars.js": ("asv-flot-orderbars", "js/jquery.flot.orderBars.js"),
    "stupidtable.min.js": ("asv-stupidtable", "stupidtable.min.js"),
    "md5.min.js": ("asv-md5", "js/md5.min.js"),
    "bootstrap.min.js": ("asv-bootstrap", "dist/js/bootstrap.min.js"),
    "bootstrap.min.css": ("asv-bootstrap", "dist/css/bootstrap.min.css"),
}


def find_scripts() -> dict[str, Path]:
    """Last part of an address in asv's page -> the file. DataError if they were not fetched."""
    return {name: data.path(source, "package", file) for name, (source, file) in _FILES.items()}


def find_licences() -> dict[str, Path]:
    """Source -> the file with its licence; the script of flot-orderbars begins with it instead."""
    return {name: path for name in data.GROUPS[GROUP] for path in data.path(name, "package").glob("LICENSE*")}
