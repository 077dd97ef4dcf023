"""Which data a model reads, and how its outputs are scored against those of the float32 model and against labels.

A task is data that a process can be sent: how outputs are scored, and which inputs there are. It builds no model
except to sample texts from one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from suites.accuracy.estimates import Estimate, estimate, mean

if TYPE_CHECKING:
    from torch import Tensor

SIZES = ("batch", "sequence", "size")
"""Arguments of a model that are sizes of its inputs; the others are options."""
PHASES = ("phase", "steps")
"""Options of language models that say how text is generated. Accuracy is that of one call over a whole text."""
Scores = Mapping[str, np.ndarray]
"""Name of a score -> an array whose first axis has an element for each item of a chunk."""


@dataclass(frozen=True)
class Part:
    """Inputs of one shape: the sizes and options of the model, and the inputs of each call."""

    arguments: Mapping[str, Any]
    chunks: Sequence[tuple[Tensor, ...]]


@dataclass(frozen=True)
class Column:
    """A column of the table of accuracy.

    Attributes:
        name: its name, and the key of the estimate.
        form: ``%`` for shares that are printed as percentages, ``e`` for small numbers, ``c`` for numbers near 1, ``f``
            for others.
        better: ``higher`` or ``lower``; "" if it is no matter of quality.
        meaning: one sentence for the legend.
    """

    name: str
    form: str
    better: str
    meaning: str


COMMON = (
    Column("cosine", "c", "higher", "cosine of the angle between the outputs and those of float32; the mean of calls"),
    Column("max error", "e", "lower", "largest difference of an element from float32, over the largest element"),
)


@dataclass(frozen=True)
class Task(ABC):
    """The data of a model, and how its outputs are scored.

    Attributes:
        name: of the kind of task, in records.
        columns: of the tables.
        headline: the columns that tables show if they have room for two.
        data: name of the data, for tables.
        items: what an interval resamples, in words.
    """

    name: ClassVar[str]
    columns: ClassVar[Sequence[Column]]
    headline: ClassVar[tuple[str, str]]

    data: str
    items: str

    @abstractmethod
    def score(self, number: int, inputs: Sequence[Tensor], output: Tensor, exact: Tensor) -> Scores:
        """The scores of an output of a chunk; `number` is that of the chunk over all parts."""

    def score_outputs(
        self, number: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor], exact: Sequence[Tensor]
    ) -> Scores:
        """As `score`, of all outputs of a call. The data of most tasks is about the first one, so they score that."""
        return self.score(number, inputs, outputs[0], exact[0])

    @abstractmethod
    def summarise(self, scores: Scores, exact: Scores) -> dict[str, Estimate]:
        """The estimates of `columns`. `scores` are those of all chunks, `exact` the same of the float32 model."""


def score_common(output: Tensor, exact: Tensor) -> dict[str, np.ndarray]:
    """Scores that every task has: of one call each."""
    a, b = output.double().flatten(), exact.double().flatten()
    norms = a.norm() * b.norm()
    cosine = float(a @ b / norms) if norms > 0 else float(norms == 0)
    largest = float(b.abs().max()) or 1.0
    return {"cosine": np.array([cosine]), "max error": np.array([float((a - b).abs().max()) / largest])}


def summarise_common(scores: Scores) -> dict[str, Estimate]:
    """The estimates of `COMMON`. The largest error has no interval, because it is a maximum."""
    return {"cosine": mean(scores["cosine"]), "max error": Estimate(float(scores["max error"].max()))}


def score_agreement(output: Tensor, exact: Tensor) -> np.ndarray:
    """Of each row, whether the index of the largest element along the last axis is that of `exact`: 1 or 0."""
    same = output.argmax(-1) == exact.argmax(-1)
    return np.asarray(same.double().numpy().reshape(-1))


@dataclass(frozen=True)
class LanguageTask(Task):
    """Next tokens of texts: perplexity, divergence from the float32 model, agreement of the most probable token."""

    name: ClassVar[str] = "language"
    headline: ClassVar[tuple[str, str]] = ("KL", "change")

    columns: ClassVar[Sequence[Column]] = (
        Column("perplexity", "f", "lower", "exponential of the mean loss of the next token"),
        Column("change", "%", "lower", "perplexity over that of float32, less 1; intervals are of paired chunks"),
        Column("KL", "e", "lower", "divergence of the distributions of the next token from float32, in nats"),
        Column("agreement", "%", "higher", "share of positions with the same most probable token as float32"),
        *COMMON,
    )

    def score(self, number: int, inputs: Sequence[Tensor], output: Tensor, exact: Tensor) -> Scores:
        """Means over the positions of a text: ids [1, S], logits [1, S, vocabulary]."""
        del number
        ids = inputs[0]
        logs, exact_logs = (one.double().log_softmax(-1)[0] for one in (output, exact))
        loss = -logs[:-1].gather(1, ids[0, 1:, None]).mean()
        divergence = (exact_logs.exp() * (exact_logs - logs)).sum(-1).mean()
        scores = {
            "loss": float(loss),
            "KL": max(float(divergence), 0.0),
            "agreement": score_agreement(output, exact).mean(),
        }
        return {name: np.array([value]) for name, value in scores.items()} | score_common(output, exact)

    def summarise(self, scores: Scores, exact: Scores) -> dict[str, Estimate]:
        """Over texts."""
        loss, before = scores["loss"], exact["loss"]
        count = len(loss)
        return {
            "perplexity": estimate(count, lambda chosen: np.exp(loss[chosen].mean(-1))),
            "change": estimate(count, lambda chosen: np.expm1((loss - before)[chosen].mean(-1))),
            "KL": mean(scores["KL"]),
            "agreement": mean(scores["agreement"]),
            **summarise_common(scores),
        }


@dataclass(frozen=True)
class ClassTask(Task):
    """Labelled pictures.

    Attributes:
        labels: class of each picture, in the order of the chunks.
    """

    name: ClassVar[str] = "classes"
    headline: ClassVar[tuple[str, str]] = ("accuracy", "change")

    labels: tuple[int, ...]
    columns: ClassVar[Sequence[Column]] = (
        Column("accuracy", "%", "higher", "share of pictures that are classified correctly"),
        Column("change", "%", "higher", "accuracy less that of float32; intervals are of paired pictures"),
        Column("agreement", "%", "higher", "share of pictures with the same predicted class as float32"),
        *COMMON,
    )

    def score(self, number: int, inputs: Sequence[Tensor], output: Tensor, exact: Tensor) -> Scores:
        """Of each picture: scores [B, classes]."""
        size = len(inputs[0])
        expected = np.array(self.labels[number * size : (number + 1) * size])
        right = (output.argmax(-1).numpy() == expected).astype(float)
        return {"right": right, "agreement": score_agreement(output, exact), **score_common(output, exact)}

    def summarise(self, scores: Scores, exact: Scores) -> dict[str, Estimate]:
        """Over pictures."""
        return {
            "accuracy": mean(scores["right"]),
            "change": mean(scores["right"] - exact["right"]),
            "agreement": mean(scores["agreement"]),
            **summarise_common(scores),
        }


@dataclass(frozen=True)
class SimilarityTask(Task):
    """Similarity of texts in pairs: correlation with the judgement of people.

    Attributes:
        texts: number of texts of which every two are compared; they come first.
        similarity: of these, by rows.
        pairs: indices of two further texts each.
        judged: similarity of these.
    """

    name: ClassVar[str] = "similarity"
    headline: ClassVar[tuple[str, str]] = ("Spearman", "change")

    texts: int
    similarity: tuple[tuple[float, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    judged: tuple[float, ...]
    columns: ClassVar[Sequence[Column]] = (
        Column("Pearson", "f", "higher", "correlation with people on every two of the texts of Lee"),
        Column("Spearman", "f", "higher", "rank correlation with people on the pairs of words of WordSim-353"),
        Column("change", "f", "higher", "Spearman less that of float32; paired intervals over pairs of words"),
        *COMMON,
    )

    def score(self, number: int, inputs: Sequence[Tensor], output: Tensor, exact: Tensor) -> Scores:
        """Embeddings of length 1, [B, width]."""
        del number, inputs
        return {"embedding": output.double().numpy(), **score_common(output, exact)}

    def summarise(self, scores: Scores, exact: Scores) -> dict[str, Estimate]:
        """Over texts, and over pairs of words."""
        from scipy.stats import rankdata

        vectors = scores["embedding"]
        judged = np.array(self.judged)
        mine, before = (_compare_pairs(one["embedding"][self.texts :], self.pairs) for one in (scores, exact))

        def rank(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
            return _correlate(rankdata(values[chosen], axis=-1), rankdata(judged[chosen], axis=-1))

        return {
            "Pearson": estimate(self.texts, lambda chosen: self._pearson(vectors[: self.texts], chosen)),
            "Spearman": estimate(len(judged), lambda chosen: rank(mine, chosen)),
            "change": estimate(len(judged), lambda chosen: rank(mine, chosen) - rank(before, chosen)),
            **summarise_common(scores),
        }

    def _pearson(self, vectors: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Over all pairs of different texts in each sample; a text that was drawn twice makes no pair with itself."""
        found, expected = vectors @ vectors.T, np.array(self.similarity)
        first, second = np.triu_indices(chosen.shape[-1], 1)
        results = []
        for sample in chosen.reshape(-1, chosen.shape[-1]):
            a, b = sample[first], sample[second]
            kept = a != b
            results.append(_correlate(found[a, b][kept], expected[a, b][kept]))
        return np.array(results).reshape(chosen.shape[:-1])


def _compare_pairs(vectors: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    index = np.array(pairs)
    return np.asarray((vectors[index[:, 0]] * vectors[index[:, 1]]).sum(-1))


def _correlate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's correlation along the last axis; NaN if all values are equal, as in a sample of one text alone."""
    a, b = (one - one.mean(-1, keepdims=True) for one in (a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1)))


@dataclass(frozen=True)
class OutputTask(Task):
    """Outputs of a model without labelled data, compared with those of float32. Of several, the worst counts."""

    name: ClassVar[str] = "outputs"
    headline: ClassVar[tuple[str, str]] = ("error", "agreement")

    columns: ClassVar[Sequence[Column]] = (
        Column("error", "e", "lower", "2-norm of the difference from float32, over the 2-norm of float32"),
        Column("agreement", "%", "higher", "share of rows whose largest element has the index that it has in float32"),
        *COMMON,
    )

    def score(self, number: int, inputs: Sequence[Tensor], output: Tensor, exact: Tensor) -> Scores:
        """Of one call."""
        del number, inputs
        a, b = output.double(), exact.double()
        error = float((a - b).norm() / b.norm()) if b.norm() > 0 else float(a.norm() > 0)
        same = score_agreement(output, exact).mean() if output.ndim > 0 else 1.0
        return {"error": np.array([error]), "agreement": np.array([same]), **score_common(output, exact)}

    def score_outputs(
        self, number: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor], exact: Sequence[Tensor]
    ) -> Scores:
        """Of one call: of each score, that of the output for which it is worst."""
        found = [self.score(number, inputs, *pair) for pair in zip(outputs, exact, strict=True)]
        best = {column.name: column.better for column in self.columns}
        return {
            name: (np.max if best[name] == "lower" else np.min)([one[name] for one in found], axis=0)
            for name in found[0]
        }

    def summarise(self, scores: Scores, exact: Scores) -> dict[str, Estimate]:
        """Over calls."""
        del exact
        return {"error": mean(scores["error"]), "agreement": mean(scores["agreement"]), **summarise_common(scores)}


TASKS: dict[str, type[Task]] = {task.name: task for task in (LanguageTask, ClassTask, SimilarityTask, OutputTask)}
"""Name of a kind of task -> its class."""
