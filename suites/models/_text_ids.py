"""Token ids of texts that models with real weights read in benchmarks.

Random ids are no text: such models answer them with outputs that small rounding changes a lot, so that right answers in
lower precision could not be told from wrong ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

_IDS: Mapping[str, Sequence[int]] = json.loads(Path(__file__).with_name("text_ids.json").read_text(encoding="utf-8"))
STORIES15M = _IDS["stories15m"]
"""Four texts of 256 tokens that `stories15m` itself has drawn at temperature 1; no tokenizer comes with it."""
SMOLLM2 = _IDS["smollm2"]
"""English text, by the tokenizer of `smollm2`: the beginning of an early version of docs/measurement.md."""
