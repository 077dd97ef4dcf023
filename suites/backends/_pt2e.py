"""Quantises a module by PyTorch 2 Export quantisation (PT2E), as its tutorial for inductor on x86 does."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from suites.harness.errors import Unavailable
from suites.harness.record import machine
from suites.quiet import silence_torchao

if TYPE_CHECKING:
    from torch import Tensor, nn


def quantise(model: nn.Module, calibration: Sequence[tuple[Tensor, ...]]) -> nn.Module:
    """A module with int8 weights, a scale for each output channel, and activations of one scale a tensor, from what
    they are for the inputs of `calibration`. In 7 bits where `machine.sums_saturate`, as torch recommends.

    Raises:
        Unavailable: not an x86 processor.
    """
    import torch

    if platform.machine() not in ("x86_64", "AMD64"):
        raise Unavailable("the recipe of PT2E for inductor is for x86")
    silence_torchao()
    # Said by inductor when it compiles the products. Filters belong to the process, which exists for this backend.
    warnings.filterwarnings("ignore", "To copy construct from a tensor", UserWarning)
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(reduce_range=machine.sums_saturate()))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(model, calibration[0]).module(), quantizer)
        for inputs in calibration:
            prepared(*inputs)
        quantised: nn.Module = convert_pt2e(prepared)
    return quantised
