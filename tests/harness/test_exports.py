"""What one process of a case exports, the next one reads: with the same answers, and without the model."""

from __future__ import annotations

import pytest
import torch

from suites import backends
from suites.harness.case import BackendRef


def backend(name, exports):
    ref = BackendRef(name)
    reason = backends.unavailable(ref)
    if reason is not None:
        pytest.skip(reason)
    made = backends.load(ref)(1, {})
    made.exports = exports
    made.load()
    return made


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_an_exported_model_is_read_by_the_next_process(name, tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    first = backend(name, tmp_path).prepare(model, (x,))
    again = backend(name, tmp_path).prepare(None, (x,))
    assert first.export_s is not None
    assert again.export_s is None, "nothing was exported, so no time is stated"
    with torch.no_grad():
        expected = model(x)
    for prepared in (first, again):
        torch.testing.assert_close(prepared.call(x)[0], expected)
    assert torch.equal(first.call(x)[0], again.call(x)[0])
