"""Every registered overload, over every argument of its schema, against eager torch."""

import inspect
from collections import Counter, defaultdict
from functools import lru_cache

import pytest
import torch

from engine.exporter import export
from engine.exporter.handlers import COMMON, HANDLERS, REFUSED, overload
from engine.exporter.torch_export import run_torch_export
from tests.exporter.cases import Module, Recorder
from tests.exporter.coverage import CASES
from tests.exporter.evaluate import call

NAMES = {id(c): f"{c.name}-{i}" for i, c in enumerate(CASES)}


def _tensors(case):
    return tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in case.inputs)


class Cases(torch.nn.Module):
    """The calls of cases, each case on its own inputs."""

    def __init__(self, cases):
        super().__init__()
        self.modules_of_cases = torch.nn.ModuleList(Module(overload(case.name), case.calls) for case in cases)

    def forward(self, inputs):
        return [module(*some) for module, some in zip(self.modules_of_cases, inputs, strict=True)]


def _order(case):
    """Overloads with a handler first, and the cases of an overload behind each other."""
    return overload(case.name) not in HANDLERS, case.name


ORDERED = sorted(CASES, key=_order)
_NAMES = list(dict.fromkeys(case.name for case in ORDERED))
BATCHES = {name: tuple(_NAMES[n // 12 * 12 : n // 12 * 12 + 12]) for n, name in enumerate(_NAMES)}


def _run_cases(names):
    """What the graph and what torch computes, for each case of some overloads."""
    cases = [case for case in CASES if case.name in names]
    model = Cases(cases).eval()
    expected = model([_tensors(case) for case in cases])
    inputs = ([_tensors(case) for case in cases],)
    program = torch.export.export(model, inputs, strict=False)
    counts = Counter(
        (path, node.target)
        for node in program.graph.nodes
        for path, _kind in node.meta.get("nn_module_stack", {}).values()
    )
    for number, case in enumerate(cases):
        found = counts[f"modules_of_cases.{number}", overload(case.name)]
        assert found >= len(case.calls), f"torch replaced a call of {case.name}: a case tests another"
    found = call(export(program, inputs), [_tensors(case) for case in cases])
    return {id(case): pair for case, *pair in zip(cases, found, expected, strict=True)}


@lru_cache(maxsize=2)  # the overloads of a batch follow each other
def _run_batch(names):
    """The same, with one run of torch.export for all; None if one of them fails, and then each test runs its own."""
    try:
        return _run_cases(names)
    except Exception:  # noqa: BLE001  # the failing case raises it again in an export of its own
        return None


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")  # of eager's own copy
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=NAMES[id(case)], marks=() if overload(case.name) in HANDLERS else pytest.mark.long)
        for case in ORDERED
    ],
)
def test_the_graph_computes_what_torch_computes(case):
    found, expected = (_run_batch(BATCHES[case.name]) or _run_cases([case.name]))[id(case)]
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_every_registered_overload_has_a_case():
    assert {str(key) for key in HANDLERS} <= {str(overload(c.name)) for c in CASES}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=lambda h: str(h.overload))
def test_a_handler_takes_every_argument_of_the_schema_or_says_why_not(handler):
    schema = [a.name for a in handler.overload._schema.arguments]
    _context, *parameters = inspect.signature(handler.translate).parameters.values()
    taken, optional = {one.name for one in parameters}, {one.name for one in parameters if one.default is not one.empty}
    excused = set(handler.harmless) | (set(COMMON) & set(schema))
    wanted = {handler.renamed.get(name, name) for name in schema if name not in excused}
    assert taken - optional <= wanted <= taken
    assert all(handler.harmless.values())


REFUSED_VALUES = {
    ("scaled_dot_product_attention", "dropout_p"): "every other value is refused",
    ("rrelu_with_noise_functional", "training"): "True is refused",
    ("rrelu_with_noise_functional", "generator"): "only training reads it",
    ("_softmax", "half_to_float"): "torch refuses True on the cpu",
    ("_log_softmax", "half_to_float"): "torch refuses True on the cpu",
}


def test_every_argument_of_every_overload_is_varied_by_a_case():
    """An argument with a default is given another value at least once: a handler that ignored it would be wrong."""
    varied = defaultdict(set)
    for case in (case for case in CASES if overload(case.name) in HANDLERS):
        recorder = Recorder(case.name)
        for function in case.calls:
            function(recorder, *_tensors(case))
        varied[case.name] |= recorder.varied
    lacking = {
        (name, argument.name)
        for name, names in varied.items()
        for argument in overload(name)._schema.arguments
        if argument.name not in names | set(COMMON)
    }
    assert lacking == {key for key in REFUSED_VALUES if key[1] != "half_to_float"}


def test_refused_overloads_have_no_handler():
    assert not REFUSED.keys() & {str(key) for key in HANDLERS}
    assert all(REFUSED.values())


def test_an_exported_program_with_torchs_core_ops_is_translated_too():
    """Someone may hand in a program that torch has decomposed already."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu").eval()
    x = torch.randn(2, 3, 16)
    program = torch.export.export(layer, (x,), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(call(export(program, (x,)), x), layer(x))
    assert (
        run_torch_export(program, (x,), {}).program.graph_signature.user_inputs == program.graph_signature.user_inputs
    )
