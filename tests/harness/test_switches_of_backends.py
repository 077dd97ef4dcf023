"""The switches that backends declare: each does something or is told apart by its program, and none is misspelled."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from engine.errors import EngineError
from suites import backends, models
from suites.backends import _onnxruntime_graph as graph
from suites.backends import stepwise
from suites.harness.declare.case import BackendRef
from tests import messages

DECLARED = [name for name in backends.BACKENDS if backends.load(BackendRef(name)).switches()]


@pytest.mark.parametrize("name", DECLARED)
def test_every_turn_is_an_option_that_its_backend_takes(name):
    declared = backends.load(BackendRef(name))
    for switch in declared.switches():
        backends.check_options(BackendRef(name, switch.without))
        if switch.alone is not None:
            backends.check_options(BackendRef(name, switch.alone))
    if declared.bare() is not None:
        backends.check_options(BackendRef(name, declared.bare()))
    names = [switch.name for switch in declared.switches()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "label",
    [
        "onnxruntime[without=MatMulAdFusion]",
        "onnxruntime[level=most]",
        "torch_compile[freezing=no]",
        "openvino[hint=fast]",
        "engine[only=fuse_geluu]",
    ],
)
def test_a_value_that_does_not_exist_is_named_with_those_that_do(label):
    with messages.raises(EngineError):
        backends.check(BackendRef.parse(label))


def test_the_switch_of_an_ablation_may_be_the_number_of_threads_but_only_a_number():
    backends.check_options(BackendRef("engine", {"threads": "1"}))
    with pytest.raises(EngineError, match="threads: expected a whole number from 1 to "):
        backends.check_options(BackendRef("engine", {"threads": "many"}))


def told(name, options, model="transformer", threads=1, exports=None):
    made = backends.load(BackendRef(name))(threads, {})
    made.exports = exports
    made.load()
    module, inputs = models.get(model).build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what runtimes say of themselves
        return [dict(stepwise.program_facts(made, module, inputs, one)) for one in options]


def test_onnxruntime_tells_which_transformers_fired(tmp_path):
    options = [{}, {}, {"without": "MatMulAddFusion"}, {"without": "AttentionFusion"}, {"level": "disabled"}]
    whole, again, without, quiet, plain = told("onnxruntime", options, exports=tmp_path)
    assert whole["run_digest"] == again["run_digest"] == quiet["run_digest"]
    assert without["run_digest"] != whole["run_digest"]
    assert plain["run_digest"] != whole["run_digest"]
    assert whole["details"]["made"]
    assert not plain["details"]["made"]


def test_every_transformer_that_is_named_is_known_to_this_onnxruntime():
    """Names of up to 15 characters may lie in the code as numbers, where a search does not find them."""
    import onnxruntime.capi.onnxruntime_pybind11_state as native

    library = Path(native.__file__).read_bytes()
    missing = [name for name in graph.TRANSFORMERS if len(name) > 15 and name.encode() not in library]
    assert missing == []


def test_openvino_tells_its_settings_apart(tmp_path):
    pytest.importorskip("openvino")
    whole, again, pinned, plain = told("openvino", [{}, {}, {"pinning": "on"}, {"snippets": "off"}], exports=tmp_path)
    assert whole["run_digest"] == again["run_digest"]
    assert len({one["run_digest"] for one in (whole, pinned, plain)}) == 3
    assert plain["nodes"] > whole["nodes"]
    assert sum(whole["details"]["layers"].values()) == whole["nodes"]


@pytest.mark.long
def test_inductor_freezes_weights_unless_told_not_to_and_settings_change_its_code():
    settings = [{}, {}, {"freezing": "off"}, {"fusion": "off"}, {"simdlen": "1"}, {"layout_optimization": "off"}]
    with torch.inference_mode():
        whole, again, thawed, split, scalar, quiet = (one["run_digest"] for one in told("torch_compile", settings))
    assert whole == again == quiet
    assert len({whole, thawed, split, scalar}) == 4


def test_the_engine_exports_once_and_tells_programs_apart():
    options = [
        {},
        {},
        {"disable": "fuse_epilogue"},
        {"only": "none"},
        {"variant.linear": "openblas"},
        {"isa": "generic"},
    ]
    whole, again, without, bare, *others = told("engine", options)
    assert whole == again
    digests = [one["run_digest"] for one in (whole, without, bare, *others)]
    assert len(set(digests)) == len(digests)
    assert bare["nodes"] > without["nodes"] > whole["nodes"]
