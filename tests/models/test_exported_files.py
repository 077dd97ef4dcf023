"""Damaged files of exported programs: they are refused in words, or have the weights that were saved."""

from __future__ import annotations

import torch

from suites.models import ModelError
from suites.models.user import exported
from tests import messages


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
        assert told[number].startswith("model 'changed.pt2': changed.pt2 is damaged: its member '")
        assert told[number].endswith(f"weight_{number}' is not as it was written")
    assert len(told) > 50


def test_a_program_file_whose_list_of_members_cannot_be_read_is_damaged(tmp_path):
    """zipfile has errors of its own for names in no encoding and for versions that it does not know."""
    path = tmp_path / "mine.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)), path)
    raw = path.read_bytes()
    entry = raw.rindex(b"PK\x01\x02")
    for changes in ({46: 0xB9, 9: raw[entry + 9] | 8}, {6: 137}):
        changed = bytearray(raw)
        for place, byte in changes.items():
            changed[entry + place] = byte
        path.write_bytes(changed)
        with messages.raises(ModelError):
            exported.spec("mine.pt2", path, "").make({})
