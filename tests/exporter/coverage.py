"""Which ATen calls are compiled, with which element types, into which ops: found by compiling and running them.

`row` measures one overload; the committed table and the page made of it are written by
``python -m tests.exporter.coverage``, and a test measures every row again.
"""

import json
import warnings
from pathlib import Path

import torch
from torch._ops import OpOverload

import engine
from engine.exporter import export_with_torch, translate
from engine.exporter.coverage import TABLE
from engine.exporter.handlers import HANDLERS, overload
from tests.exporter import cases_decomposed, cases_numeric, cases_order, cases_pointwise, cases_shape, cases_spatial
from tools.aten_page import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
MODULES = (cases_pointwise, cases_numeric, cases_shape, cases_order, cases_spatial, cases_decomposed)
CASES = [case for module in MODULES for case in module.CASES]
NAMES = tuple(dict.fromkeys(case.name for case in CASES))
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)

# The kernels sum in another order than torch; in half precision torch rounds between the steps of a composition too,
# so that a result may be several units in the last place off.
TOLERANCE = {torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
VALUES_ONLY = {"topk", "kthvalue", "median.dim"}  # torch names no rule for the positions of equal elements


class Unexported(Exception):
    """torch.export itself refuses what eager torch computes."""


class Groups(torch.nn.Module):
    """The call of a case on several groups of inputs, one behind the other."""

    def __init__(self, case, groups):
        super().__init__()
        self.op, self.call = overload(case.name), case.calls[0]
        self.bounds = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]
        self.values_only = case.name in VALUES_ONLY

    def forward(self, *inputs):
        results = [self.call(self.op, *inputs[a:b]) for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]
        return [one[0] for one in results] if self.values_only else results


def _as(tensor, dtype):
    if dtype.is_floating_point or not tensor.dtype.is_floating_point:
        return tensor.to(dtype)
    whole = (tensor.nan_to_num(0, 0, 0).clamp(-9, 9) * 3).round()
    return torch.where(whole == 0, 2, whole).to(dtype)  # no divisor is 0


def _group(case, dtype):
    """The inputs of a case in `dtype`: those of its kind, so that indices and masks stay what they are."""
    tensors = [t for t in case.inputs if isinstance(t, torch.Tensor)]
    floats = any(t.dtype.is_floating_point for t in tensors)
    return tuple(
        _as(t, dtype) if isinstance(t, torch.Tensor) and (t.dtype.is_floating_point or not floats) else t
        for t in case.inputs
    )


def _runs(case, group):
    try:
        case.calls[0](overload(case.name), *group)
    except (RuntimeError, ZeroDivisionError, ValueError, TypeError):
        return False
    return True


def _compiled(case, groups):
    """Ops of the graph. AssertionError where the program computes something else than torch."""
    module, inputs = Groups(case, groups).eval(), tuple(t for group in groups for t in group)
    try:
        program = torch.export.export(module, inputs, strict=False)
    except (RuntimeError, TypeError) as error:
        raise Unexported from error
    exported = export_with_torch(program, inputs)
    graph = translate(exported)
    # The program after its decompositions, which take most of the time.
    found, expected = engine.compile(exported.program, inputs)(*inputs), module(*inputs)
    leaves = (torch.utils._pytree.tree_leaves(one) for one in (found, expected))
    for ours, theirs in zip(*leaves, strict=True):
        tolerance = TOLERANCE.get(theirs.dtype, 1e-6)
        torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=tolerance, atol=tolerance)
    return {node.op.name for node in graph.nodes}


def _measured(case):
    """(ops, element types) of one case."""
    candidates = [(dtype, _group(case, dtype)) for dtype in DTYPES]
    candidates = [(dtype, group) for dtype, group in candidates if _runs(case, group)]
    try:
        return _compiled(case, [group for _, group in candidates]), [dtype for dtype, _ in candidates]
    except (Unexported, engine.UnsupportedOp):  # of one of the types
        ops, dtypes = set(), []
        for dtype, group in candidates:
            try:
                ops |= _compiled(case, [group])
            except (Unexported, engine.UnsupportedOp):
                continue
            dtypes.append(dtype)
        return ops, dtypes


def row(name):
    """What a program makes of one overload, by its first case."""
    case = next(case for case in CASES if case.name == name)
    op = overload(name)
    assert isinstance(op, OpOverload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ops, dtypes = _measured(case)
    return {
        "name": str(op),
        "dtypes": [str(dtype).removeprefix("torch.") for dtype in dtypes],
        "ops": sorted(ops - {"cast"}) or sorted(ops),
        "by": "handler" if op in HANDLERS else "torch's decomposition",
    }


def main():
    """Measure all, and write table and page."""
    rows = sorted((row(name) for name in NAMES), key=lambda one: one["name"])
    lines = ",\n".join(json.dumps(one) for one in rows)
    (ROOT / TABLE).write_text(f"[\n{lines}\n]\n")
    (ROOT / PAGE).write_text(page())


if __name__ == "__main__":
    main()
