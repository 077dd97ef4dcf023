"""The weights of stories15m: where each tensor of the file goes, and that they tell a story."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import engine
from suites import data, models
from suites.models import stories15m
from suites.models.nets import stories


def save(path, tensors):
    header = np.zeros(stories.HEADER_INTEGERS, np.int32)
    path.write_bytes(header.tobytes() + np.concatenate([t.ravel() for t in tensors]).astype(np.float32).tobytes())


def test_a_file_is_read_in_its_order_and_heads_are_turned_by_halves(tmp_path):
    config = stories15m.TINY
    sizes = [(len(names), *shape) for names, shape in stories._tensors(config)]
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(shape).astype(np.float32) for shape in sizes]
    save(tmp_path / "weights", tensors)
    model, _ = models.get("stories15m-tiny").build()
    stories.load(model.network, tmp_path / "weights", config)
    state = model.network.state_dict()
    np.testing.assert_array_equal(state["model.embed_tokens.weight"], tensors[0][0])
    np.testing.assert_array_equal(state["lm_head.weight"], tensors[0][0])
    np.testing.assert_array_equal(state["model.layers.1.mlp.down_proj.weight"], tensors[8][1])
    np.testing.assert_array_equal(state["model.layers.1.self_attn.v_proj.weight"], tensors[4][1])
    # a head of 8 rows: 0 2 4 6 turn against 1 3 5 7
    order = np.concatenate([np.arange(0, 8, 2), np.arange(1, 8, 2)])
    expected = tensors[2][1].reshape(4, 8, 32)[:, order].reshape(32, 32)
    np.testing.assert_array_equal(state["model.layers.1.self_attn.q_proj.weight"], expected)


@pytest.mark.skipif(data.missing("stories15m") is not None, reason=str(data.missing("stories15m")))
def test_the_engine_begins_a_story_as_stories_begin():
    model, _ = models.get("stories15m").build(sequence=8)
    program = engine.compile(model, (torch.ones(1, 8, dtype=torch.int64),))
    ids = torch.ones(1, 8, dtype=torch.int64)  # 1 begins a text
    for position in range(4):
        ids[0, position + 1] = program(ids)[0, position].argmax()
    assert ids[0, :5].tolist() == [1, 9038, 2501, 263, 931], "Once upon a time"
