"""Settings of the process under which torch gives the same results again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from engine.errors import MissingPackageError

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""Without it, sums of cuBLAS depend on which workspace is free (torch's notes on reproducibility)."""


@contextmanager
def deterministic(seed: int = 0) -> Iterator[dict[str, Any]]:
    """In this block torch, NumPy and `random` begin at `seed`, and torch computes the same for the same inputs.

    Sets, and restores at the end: the states of all three generators (on all CUDA devices that are in use, too),
    deterministic algorithms, cuDNN's choice of algorithms, and TF32, which is off. An op of torch that has no
    deterministic algorithm raises there. The engine's own programs give the same bits at all times.

    Yields:
        What was set: name of a setting -> its value in the block.

    Raises:
        MissingPackageError: torch is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingPackageError("deterministic needs torch: pip install 'enginebench[suites]'") from None
    cudnn = torch.backends.cudnn
    has_cuda = torch.cuda.is_available()
    with ExitStack() as restored:
        restored.callback(random.setstate, random.getstate())
        restored.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002  # as below
        restored.callback(torch.set_rng_state, torch.get_rng_state())
        if has_cuda and torch.cuda.is_initialized():
            restored.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        usual = torch.are_deterministic_algorithms_enabled()
        restored.callback(torch.use_deterministic_algorithms, usual, warn_only=warns)
        restored.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        restored.enter_context(  # which also works where torch's tests have frozen these flags
            cudnn.flags(
                enabled=cudnn.enabled, benchmark=False, benchmark_limit=None, deterministic=True, allow_tf32=False
            )
        )
        restored.callback(_set_variable, _WORKSPACE, os.environ.get(_WORKSPACE))
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  # the generator that models use
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("highest")
        os.environ.setdefault(_WORKSPACE, ":4096:8")
        yield {
            "seed of random, numpy, torch": seed,
            "torch.use_deterministic_algorithms": True,
            "torch.set_float32_matmul_precision": "highest",
            "torch.backends.cudnn.deterministic": True,
            "torch.backends.cudnn.benchmark": False,
            "torch.backends.cudnn.allow_tf32": False,
            _WORKSPACE: os.environ[_WORKSPACE],
        }


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
