"""`engine.deterministic`: what it sets, that it restores all of it, and that torch repeats itself."""

from __future__ import annotations

import os
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch

import engine


def settings():
    return (
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.get_rng_state().tolist(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


def draw():
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002


def test_a_block_draws_the_same_numbers_again_and_those_outside_go_on():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first = torch.rand(())
    drawn = []
    for seed in (3, 3, 4):
        with engine.deterministic(seed) as said:
            assert said["seed of random, numpy, torch"] == seed
            drawn.append(draw())
    assert drawn[0] == drawn[1] != drawn[2]
    assert [first, torch.rand(())] == expected.tolist()


def test_flags_that_torch_has_frozen_are_set_too(monkeypatch):
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)  # as disable_global_flags does
    with engine.deterministic():
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cudnn.deterministic


@pytest.fixture
def unusual():
    """Settings that are not the usual ones. Tests of torch in this process may have frozen cuDNN's flags."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    with torch.backends.cudnn.flags(enabled=torch.backends.cudnn.enabled, benchmark=True):
        yield
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("unusual")
@pytest.mark.parametrize("fails", [False, True])
def test_all_settings_are_restored(fails):
    before = settings()
    with pytest.raises(ZeroDivisionError) if fails else nullcontext(), engine.deterministic(7):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"]
        if fails:
            raise ZeroDivisionError
    assert settings() == before
