"""Texts in pairs, with the similarity that people gave them. Knows no model."""

from __future__ import annotations

import numpy as np

from suites import data

_FOLDER = ("gensim", "test", "test_data")


def lee() -> tuple[list[str], np.ndarray]:
    """(50 short news texts, similarity of each two [50, 50], 0 to 1): Lee, Pincombe and Welsh, 2005."""
    text = data.path("similarity", *_FOLDER, "lee.cor").read_text(encoding="latin-1")
    lines = data.path("similarity", *_FOLDER, "similarities0-1.txt").read_text().splitlines()
    upper = np.triu(np.array([line.split() for line in lines], float))  # the file has zeros below the diagonal
    documents = [line.strip() for line in text.splitlines() if line.strip()]
    return documents, np.maximum(upper, upper.T)


def wordsim353() -> tuple[list[tuple[str, str]], np.ndarray]:
    """(353 pairs of words, their similarity [353], 0 to 10): Finkelstein et al., 2001."""
    lines = data.path("similarity", *_FOLDER, "wordsim353.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(first, second) for first, second, _ in rows], np.array([float(score) for _, _, score in rows])
