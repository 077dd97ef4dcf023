"""Cases for users of NumPy: everybody takes arrays and must give arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from suites import backends
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import UsageError
from suites.harness.measure.job import Job
from tests import messages

CASE = Case("mlp", {"batch": 2}, options={"widths": "8-8"}, io="numpy")
SUITE = """
name = "x"
backends = ["eager"]
[[models]]
name = "mlp"
io = ["torch", "numpy"]
"""


def job(case, name, folder):
    ref = BackendRef(name)
    if (reason := backends.unavailable(ref)) is not None:
        pytest.skip(reason)
    made = Job(case, ref, folder)
    made.load()
    made.prepare()
    return made


@pytest.mark.parametrize(
    "name", ["numpy", "eager", pytest.param("onnxruntime", marks=pytest.mark.long), "openvino", "engine"]
)
def test_a_backend_takes_arrays_and_gives_the_arrays_that_eager_gives(name, tmp_path):
    made = job(CASE, name, tmp_path)
    assert all(type(one) is np.ndarray for one in made.inputs[0])
    found = made.call(*made.inputs[0])
    (array,) = found if isinstance(found, list | tuple) else [found]
    assert type(array) is np.ndarray
    tensors = job(Case("mlp", {"batch": 2}, options={"widths": "8-8"}), "eager", tmp_path)
    np.testing.assert_allclose(array, tensors.call(*tensors.inputs[0]).numpy(), rtol=1e-5, atol=1e-6)
    assert made.verify()["inputs_changed"] == []


def test_a_tensor_where_an_array_is_due_fails(tmp_path, monkeypatch):
    made = job(CASE, "eager", tmp_path)
    monkeypatch.setattr(Job, "call", property(lambda _self: lambda *_: torch.zeros(2)))
    with messages.raises(TypeError):
        made.verify()


def test_the_id_of_a_case_names_numpy_alone():
    ids = [case.id for case, _refs in spec.parse(SUITE, "x.toml").cases()]
    assert ids[1] == ids[0] + "/io=numpy"
    assert "io" not in ids[0]


def test_an_unknown_io_is_refused():
    with messages.raises(UsageError):
        spec.parse(SUITE.replace('"numpy"', '"nunpy"'), "x.toml")
