"""The texts that models with real weights read in benchmarks."""

from __future__ import annotations

import pytest
import torch

from suites.models import _text_ids, get, smollm2, stories15m
from suites.models._language import read_ids

TEXTS = {"stories15m": _text_ids.STORIES15M, "smollm2": _text_ids.SMOLLM2}
VOCABULARIES = {one.NAME: one.CONFIG["vocab_size"] for one in (stories15m, smollm2)}


def follows(text, row):
    """Whether the ids of a row follow each other in `text`, which begins anew at its end."""
    return any([text[(begin + n) % len(text)] for n in range(len(row))] == row for begin in range(len(text)))


def test_a_row_is_a_piece_of_the_text_and_decoding_goes_on_behind_it():
    text = tuple(range(100, 117))
    example = read_ids(text)
    generator = torch.Generator().manual_seed(0)
    prompt, following = example({"batch": 3, "sequence": 40, "steps": 5, "phase": "decode"}, generator)
    assert (prompt.shape, following.shape) == ((3, 40), (3, 5))
    for row in torch.cat([prompt, following], 1).tolist():
        assert follows(text, row)
    (whole,) = example({"batch": 2, "sequence": 6, "steps": 5, "phase": "score"}, generator)
    assert whole.dtype is torch.int64
    assert all(follows(text, row) for row in whole.tolist())


@pytest.mark.parametrize("name", TEXTS)
def test_inputs_are_text_and_differ_from_set_to_set(name):
    spec = get(name)
    if reason := spec.unavailable():
        pytest.skip(reason)
    sets = [spec.inputs(seed, batch=1, sequence=32)[0] for seed in range(4)]
    assert len({tuple(one[0].tolist()) for one in sets}) == 4
    assert all(follows(TEXTS[name], one[0].tolist()) for one in sets)
    assert 0 <= min(TEXTS[name]) <= max(TEXTS[name]) < VOCABULARIES[name]
