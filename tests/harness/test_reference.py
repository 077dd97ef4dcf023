"""The float64 reference: casts written inside of a model are lifted too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from suites import models
from suites.harness.declare.case import Case
from suites.harness.judge import fused
from suites.harness.judge.reference import Upcast, compute, outputs_of
from suites.harness.judge.verify import check


class Casting(nn.Module):
    """Every way to fall back to float32 inside of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 1 / 3))
        self.plain = torch.full((4,), 1 / 7)  # no buffer: `.double()` does not see it

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = (x * self.weight).float()
        b = x.to(torch.float32) + self.plain
        c = torch.softmax(x, -1, dtype=torch.float32)
        d = torch.ones(4) / 3 + torch.zeros(4, dtype=torch.float32)
        e = torch.arange(4, dtype=torch.float32).to(x.dtype) / 3
        return a, b, c, d, e, x.type(torch.float32).mean(dtype=torch.float32), ids.float() / 3, ids + 1


@pytest.fixture
def case(tmp_path, monkeypatch):
    import sys

    path = tmp_path / "casting_model.py"
    path.write_text(
        "import sys, torch\n"
        "def make():\n"
        "    from tests.harness.test_reference import Casting\n"
        "    return Casting().eval(), (torch.rand(2, 4), torch.arange(4))\n"
    )
    monkeypatch.setitem(sys.modules, "tests.harness.test_reference", sys.modules[__name__])
    return Case(f"{path}:make", {})


class Elsewhere:
    """A device that notes what is placed on it."""

    def __init__(self):
        self.placed = []

    def place_model(self, model):
        self.placed.append(type(model).__name__)
        return model

    def place(self, tensors):
        self.placed.append(len(tensors))
        return tuple(tensor.clone() for tensor in tensors)


def test_the_model_and_its_inputs_are_placed_where_the_reference_is_computed(case):
    where = Elsewhere()
    (found,) = compute(case, 1, where)
    assert where.placed == ["Casting", 2]
    (here,) = compute(case, 1)
    assert [one.dtype for one in found.outputs] == [one.dtype for one in here.outputs]


def test_casts_new_tensors_and_plain_attributes_are_lifted():
    model, x, ids = Casting().double(), torch.rand(2, 4, dtype=torch.float64), torch.arange(4)
    torch.set_default_dtype(torch.float64)
    try:
        with Upcast(), torch.inference_mode():
            outputs = model(x, ids)
    finally:
        torch.set_default_dtype(torch.float32)
    assert [tensor.dtype for tensor in outputs] == [torch.float64] * 7 + [torch.int64]
    third = torch.full((4,), 1 / 3).double()
    torch.testing.assert_close(outputs[0], x * third, rtol=0, atol=0)
    torch.testing.assert_close(outputs[3], torch.full((4,), 1 / 3, dtype=torch.float64), rtol=1e-15, atol=0)
    torch.testing.assert_close(outputs[2], torch.softmax(x, -1), rtol=1e-15, atol=0)


def test_a_plain_double_leaves_float32_inside():
    model, x = Casting().double(), torch.rand(2, 4, dtype=torch.float64)
    assert torch.float32 in {tensor.dtype for tensor in model(x, torch.arange(4))}


def test_the_reference_states_eagers_own_error_and_dtypes(case):
    found = compute(case, seeds=2)
    assert len(found) == 2
    for one in found:
        assert one.note == "the same in every call, because only floats of 16 bits or more are varied: input 1"
        assert one.dtypes == ["float32"] * 7 + ["int64"]
        assert [array.dtype for array in one.outputs] == [np.float64] * 7 + [np.int64]
        assert all(0 <= error < 1e-6 for error in one.eager_errors)
        assert one.eager_errors[2] > 0


def test_the_default_dtype_is_put_back(case):
    compute(case, seeds=1)
    assert torch.get_default_dtype() is torch.float32


def test_in_place_operators_keep_writing_to_their_tensor():
    x = torch.zeros(3, dtype=torch.float64)
    with Upcast():
        x.add_(torch.ones(3, dtype=torch.float32)).mul_(2)
    assert x.tolist() == [2.0, 2.0, 2.0]


PADDED = """
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, only_narrow):
        super().__init__()
        self.only_narrow = only_narrow
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)

    def forward(self, x, pad):
        if self.only_narrow and x.dtype == torch.float64:
            raise TypeError("no float64")
        return self.layers(x, src_key_padding_mask=pad)

def make(pads=True, only_narrow=False):
    torch.manual_seed(0)
    pad = torch.tensor([[False, False, False, pads, pads], [False] * 5])
    return Encoder(only_narrow).eval(), (torch.randn(2, 5, 16), pad)
"""


@pytest.fixture
def padded(tmp_path):
    (tmp_path / "padded.py").write_text(PADDED)
    return f"{tmp_path / 'padded.py'}:make"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("only_narrow", [False, True])
def test_outputs_with_and_without_the_fused_encoder_layer_are_right_where_a_mask_pads(padded, only_narrow):
    """torch's fused layer gives zeros there, the module's code gives numbers."""
    case = Case(padded, {"only_narrow": only_narrow})
    (reference,) = compute(case, seeds=1)
    model, inputs = models.get(padded).build()
    (eager,) = outputs_of(model, inputs)
    with fused.switched_off():
        (own,) = outputs_of(model, inputs)
    assert torch.backends.mha.get_fastpath_enabled()
    assert float(eager[0, 3:].abs().max()) == 0 < float(own[0, 3:].abs().min())
    assert fused.NOTE in str(reference.note)
    assert (reference.eager_errors is None) == only_narrow
    for output in (eager, own):
        assert check([output.numpy()], ["float32"], reference).reason is None
    neither = own.clone()
    neither[0, 3] = 0
    assert "relative error" in str(check([neither.numpy()], ["float32"], reference).reason)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_fused_encoder_layer_without_padding_has_one_right_answer(padded):
    (reference,) = compute(Case(padded, {"pads": False}), seeds=1)
    assert reference.unfused is None
    assert fused.NOTE not in str(reference.note)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_quantised_encoder_is_compared_with_the_code_of_its_modules(padded):
    (reference,) = compute(Case(padded, {}, precision="int8_weight"), seeds=1)
    (output,), (plain,) = reference.outputs, reference.unquantised
    assert np.abs(plain[0, 3:]).min() > 0
    np.testing.assert_allclose(output, plain, atol=0.1)
