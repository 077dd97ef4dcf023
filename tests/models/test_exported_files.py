"""Damaged files of exported programs: they are refused in words, or have the weights that were saved."""

from __future__ import annotations

import torch

from suites import models
from suites.models import ModelError
from suites.models.user import exported


def test_a_program_file_with_a_changed_byte_is_refused_or_computes_the_same(tmp_path):
    """torch.export.load reads weights without comparing checksums."""
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), torch.randn(2, 8)
    whole = tmp_path / "whole.pt2"
    torch.export.save(torch.export.export(model, (x,)), whole)
    raw = whole.read_bytes()
    weights = [raw.index(one.detach().numpy().tobytes()) for one in model.parameters()]
    path, told = tmp_path / "changed.pt2", []
    for position in (*weights, *range(5, len(raw), len(raw) // 60)):
        path.write_bytes(raw[:position] + bytes([raw[position] ^ 0x41]) + raw[position + 1 :])
        try:
            module = exported.spec("changed.pt2", path, "").make({})
        except ModelError as error:
            told.append(str(error))
        else:
            assert torch.equal(module(x), model(x))
    for number in (0, 1):
        assert f"weight_{number} is not as it was written" in told[number]
    assert len(told) > 50


class Masked(torch.nn.Module):
    """An embedding times a mask: both inputs share the batch and the length."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 3)

    def forward(self, ids, mask):
        return self.table(ids) * mask[..., None]


def test_symbolic_axes_are_options_with_the_sizes_of_the_example(tmp_path):
    model = Masked().eval()
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=64)
    given = torch.randint(0, 50, (4, 6)), torch.rand(4, 6)
    sizes = {0: batch, 1: length}
    path = tmp_path / "dynamic.pt2"
    torch.export.save(torch.export.export(model, given, dynamic_shapes={"ids": sizes, "mask": sizes}), path)
    found = models.get(str(path))
    assert {name: option.default for name, option in found.options.items()} == {"ids_0": 4, "ids_1": 6}
    module, inputs = found.build()
    assert all(torch.equal(one, other) for one, other in zip(inputs, given, strict=True))
    module, (ids, mask) = found.build(ids_0=2, ids_1=9)
    assert torch.equal(ids, torch.cat([given[0], given[0]], 1)[:2, :9])  # repeated along the longer axis
    torch.testing.assert_close(module(ids, mask), model(ids, mask))
