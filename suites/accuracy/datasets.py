"""The task of each model: one table. Reads the data; imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from suites import data, models
from suites.accuracy.tasks import PHASES, SIZES, ClassTask, LanguageTask, OutputTask, Part, SimilarityTask, Task
from suites.data import images, pairs, texts
from suites.harness.errors import UsageError

LENGTH = 256
"""Tokens of a text."""
OUTPUT_CALLS = 8
"""Calls of a model without data of its own, by default."""
_SAMPLE_SEED = 7


@dataclass(frozen=True)
class Dataset:
    """A task with its inputs; the chunks of all parts are numbered in order."""

    task: Task
    parts: Sequence[Part]


@dataclass(frozen=True)
class _Reader:
    """How the data of a model is read: its sources, the number of calls by default, and the function."""

    needs: tuple[str, ...]
    chunks: int
    read: Callable[[str, Mapping[str, Any], int], Dataset]


def missing(model: str) -> str | None:
    """Why the data of a model cannot be read; None if it can, or if the model has none."""
    lacks = [name for name in _READERS[model].needs if data.missing(name)] if model in _READERS else []
    return f"run enginebench data fetch {' '.join(lacks)}" if lacks else None


def check_arguments(model: str, arguments: Mapping[str, Any]) -> None:
    """UsageError for a size or option that the data or the scores choose, such as the length of a text."""
    fixed = (*PHASES, *SIZES, "logits") if model in _READERS else PHASES
    for name in arguments:
        if name in fixed:
            raise UsageError(f"--set {name}: the accuracy of {model} is that of its data, called once; leave it out")


def read(model: str, arguments: Mapping[str, Any], chunks: int | None) -> Dataset:
    """The task of a model and its inputs: `chunks` calls, or as many as usual.

    A model with data of its own has the sizes of that data, and logits of all positions.

    Raises:
        DataError: the data was not fetched.
    """
    reader = _READERS.get(model)
    if reader is None:
        return _read_outputs(model, arguments, chunks or OUTPUT_CALLS)
    arguments = {key: value for key, value in arguments.items() if key != "logits"}
    return reader.read(model, arguments, chunks or reader.chunks)


def _read_outputs(model: str, arguments: Mapping[str, Any], chunks: int) -> Dataset:
    spec = models.get(model)
    source = "random inputs of the model"
    if spec.sets is not None:
        source, chunks = "the input sets of the file", spec.sets(spec.complete(arguments)).count(chunks)
    inputs = [spec.inputs(seed, **arguments) for seed in range(chunks)]
    task = OutputTask(source, f"{chunks} calls")
    return Dataset(task, [Part(dict(spec.complete(arguments)), inputs)])


def _split(ids: torch.Tensor, chunks: int) -> list[tuple[torch.Tensor, ...]]:
    return [(ids[n * LENGTH : (n + 1) * LENGTH][None],) for n in range(min(chunks, len(ids) // LENGTH))]


def _read_wikitext(model: str, arguments: Mapping[str, Any], chunks: int) -> Dataset:
    from suites.models.nets.gguf_llama import tokenize
    from suites.models.smollm2 import FILE

    text = texts.wikitext2()[: 16 * LENGTH * chunks]  # an English token has about five characters
    ids = tokenize(data.path(model, *FILE), text)
    inputs = _split(ids, chunks)
    task = LanguageTask("the test part of WikiText-2", f"{len(inputs)} texts of {LENGTH} tokens")
    return Dataset(task, [Part({**arguments, "batch": 1, "sequence": LENGTH}, inputs)])


def _read_stories(model: str, arguments: Mapping[str, Any], chunks: int) -> Dataset:
    """Texts that the float32 model itself draws, because none come with it: token by token, at temperature 1."""
    network = models.get(model).build(**{**arguments, "batch": 1, "sequence": LENGTH})[0].network
    begin = torch.ones(chunks, 1, dtype=torch.int64)  # the token that begins a text
    generator = torch.Generator().manual_seed(_SAMPLE_SEED)
    ids, cache = begin, None
    with torch.inference_mode():
        while ids.shape[1] < LENGTH:
            out = network(input_ids=ids if cache is None else ids[:, -1:], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            drawn = torch.multinomial(out.logits[:, -1].softmax(-1), 1, generator=generator)
            ids = torch.cat([ids, drawn], 1)
    task = LanguageTask("texts drawn from the float32 model", f"{chunks} texts of {LENGTH} tokens")
    return Dataset(task, [Part({**arguments, "batch": 1, "sequence": LENGTH}, [(row[None],) for row in ids])])


def _read_similarity(_model: str, arguments: Mapping[str, Any], _chunks: int) -> Dataset:
    from suites.models.minilm import tokenize

    documents, similarity = pairs.lee()
    words, judged = pairs.wordsim353()
    unique = list(dict.fromkeys(word for pair in words for word in pair))
    place = {word: number for number, word in enumerate(unique)}
    batch, short = 19, 8  # 437 words are 23 batches
    padded = unique + [""] * (-len(unique) % batch)
    ids, mask = tokenize(documents, LENGTH)
    word_ids, word_mask = tokenize(padded, short)
    rest = {key: value for key, value in arguments.items() if key not in ("batch", "sequence")}
    parts = [
        Part({**rest, "batch": 1, "sequence": LENGTH}, [(ids[n : n + 1], mask[n : n + 1]) for n in range(len(ids))]),
        Part(
            {**rest, "batch": batch, "sequence": short},
            [(word_ids[n : n + batch], word_mask[n : n + batch]) for n in range(0, len(padded), batch)],
        ),
    ]
    task = SimilarityTask(
        "Lee (50 texts) and WordSim-353",
        "50 texts, 353 pairs of words",
        len(documents),
        tuple(map(tuple, similarity.tolist())),
        tuple((place[a], place[b]) for a, b in words),
        tuple(judged.tolist()),
    )
    return Dataset(task, parts)


def _read_cifar(_model: str, _arguments: Mapping[str, Any], chunks: int) -> Dataset:
    batch = 50
    pictures, classes = images.cifar10(min(batch * chunks, 10_000))
    tensors = torch.from_numpy(pictures.transpose(0, 3, 1, 2).astype("float32"))
    task = ClassTask("test pictures of CIFAR-10", f"{len(classes):,} pictures", tuple(classes.tolist()))
    return Dataset(task, [Part({"batch": batch}, [(one,) for one in tensors.split(batch)])])


def _read_imagenet(model: str, arguments: Mapping[str, Any], _chunks: int) -> Dataset:
    from suites.models.nets.labelled import labelled

    pictures, classes = labelled(model)
    rest = {key: value for key, value in arguments.items() if key not in ("batch", "size")}
    size = {"size": pictures.shape[-1]} if "size" in models.get(model).shape_keys else {}
    task = ClassTask("pictures of ImageNet", f"{len(classes)} pictures", tuple(classes.tolist()))
    return Dataset(task, [Part({**rest, "batch": 1, **size}, [(one,) for one in pictures.split(1)])])


_READERS: dict[str, _Reader] = {
    "smollm2": _Reader(("smollm2", "wikitext2"), 16, _read_wikitext),
    "stories15m": _Reader(("stories15m",), 16, _read_stories),
    "minilm": _Reader(("similarity",), 1, _read_similarity),
    "cifar10-cnn": _Reader(("cifar10-cnn", "cifar10"), 200, _read_cifar),
    "resnet50-imagenet": _Reader(("resnet50-imagenet", "imagenet20"), 1, _read_imagenet),
    "efficientnet-lite0": _Reader(("efficientnet-lite0", "imagenet20"), 1, _read_imagenet),
}
"""Model -> its data; other models are called with random inputs."""
