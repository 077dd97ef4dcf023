"""NumPy as one writes it by hand: the forward that a model's file declares (`ModelSpec.numpy`), and no compiler.

The environment of the process sets the threads of NumPy's BLAS; everything else runs on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, NotApplicable, Prepared

if TYPE_CHECKING:
    from torch import Tensor, nn


class Numpy(Backend):
    """The forward by hand; not applicable to a model for which nobody has written one."""

    takes_numpy = True

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:  # noqa: ARG002  # part of the interface
        if self.numpy_forward is None:
            raise NotApplicable("the model's file declares no forward in NumPy")
        forward = self.numpy_forward(model)
        return Prepared(forward if self.io == "numpy" else _through_arrays(forward))


def _through_arrays(forward: Any) -> Any:
    """`forward`, which takes and gives arrays, for a user who has tensors and wants tensors: no copies."""
    import numpy as np
    import torch

    def call(*tensors: Tensor) -> Any:
        found = forward(*(one.numpy() for one in tensors))
        return torch.from_numpy(found) if isinstance(found, np.ndarray) else [torch.from_numpy(one) for one in found]

    return call
