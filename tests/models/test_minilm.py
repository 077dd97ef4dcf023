"""The real weights mean something: sentences that say similar things lie close together."""

from __future__ import annotations

import pytest
import torch

from suites import models
from suites.models import minilm

PAIRS = [
    (
        "A man is playing a guitar.",
        "Someone is making music on a string instrument.",
        "The stock market fell on Monday.",
    ),
    ("How do I reset my password?", "I forgot my login credentials.", "Bake the bread for forty minutes."),
    ("The cat slept on the sofa all afternoon.", "A kitten was napping on the couch.", "Interest rates will rise."),
]


@pytest.fixture(scope="module")
def encode():
    model, _inputs = models.get("minilm").build()

    def run(sentences, length=0):
        with torch.inference_mode():
            return model(*minilm.tokenize(list(sentences), length))

    return run


@pytest.mark.parametrize("triple", PAIRS, ids=["music", "login", "cat"])
def test_related_sentences_are_nearer_than_unrelated_ones(encode, triple):
    first, related, unrelated = encode(triple)
    # seen: 0.64 to 0.70 for the related ones, -0.05 to 0.11 for the others
    assert first @ related > 0.4
    assert first @ unrelated < 0.2


def test_embeddings_have_length_one(encode):
    lengths = encode(minilm.SENTENCES).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(len(minilm.SENTENCES)), rtol=0, atol=1e-6)


def test_padding_does_not_change_an_embedding(encode):
    torch.testing.assert_close(encode(minilm.SENTENCES, 64), encode(minilm.SENTENCES), rtol=0, atol=1e-6)


def test_known_ids_of_a_known_sentence():
    ids, mask = minilm.tokenize(["The quick brown fox."], 10)
    assert ids.tolist() == [[101, 1996, 4248, 2829, 4419, 1012, 102, 0, 0, 0]]
    assert mask.tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0, 0]]


def test_length_zero_is_the_natural_length_and_others_cut_or_pad():
    spec = models.get("minilm")
    natural = spec.inputs(sequence=0)
    assert natural[1].all()
    assert spec.inputs(sequence=8)[0].shape == (1, 8)
    assert spec.inputs(sequence=64)[1].sum() == natural[0].shape[1]


def test_a_batch_holds_different_sentences():
    ids, _mask = models.get("minilm").inputs(batch=3)
    assert len({tuple(row) for row in ids.tolist()}) == 3


def test_a_weight_that_is_missing_is_an_error(tmp_path):
    from safetensors.torch import load_file, save_file

    from suites.models.bert import TINY
    from suites.models.nets.bert import SentenceEncoder

    encoder = SentenceEncoder(TINY, "sdpa")
    weights = {name: value.clone() for name, value in encoder.bert.state_dict().items()}
    weights.pop("encoder.layer.1.output.dense.bias")
    save_file(weights, tmp_path / "short.safetensors")
    assert load_file(tmp_path / "short.safetensors")
    with pytest.raises(RuntimeError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        encoder.load(tmp_path / "short.safetensors")
