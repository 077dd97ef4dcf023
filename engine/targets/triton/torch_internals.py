"""Every private name of torch that the Triton target uses, and why. Torch may change them in any version."""

from __future__ import annotations

CYCLES_PER_SECOND = 2e9
"""A clock that no GPU exceeds by much. At a lower one the device is held back for longer."""


def hold_device(seconds: float) -> None:
    """Keep the current CUDA device busy for about so long; what is enqueued behind it waits.

    Torch has no public call for it; its own tests use this one.
    """
    import torch

    torch.cuda._sleep(int(seconds * CYCLES_PER_SECOND))
