"""What a call accepts, refuses and returns; memory that is not the program's own stays untouched."""

from __future__ import annotations

import copy
import functools
import gc
import math
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # its customary name
from torch import nn

import engine
from engine.graph import list_constants
from engine.program import digest as compute_digest
from tests import messages

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}  # a few float32 roundings of sums over at most 64 terms


def module(function) -> nn.Module:
    class Wrapped(nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    return Wrapped().eval()


def mlp(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


X = torch.linspace(-2, 2, 24).reshape(3, 8)


def check(function, *inputs: torch.Tensor, exported=None, **config) -> engine.Program:
    """Compile a function, call it twice, compare both with eager and see that the inputs are as they were."""
    model = function if isinstance(function, nn.Module) else module(function)
    copies = [i.clone() for i in inputs]
    expected = model(*[i.clone() for i in inputs])
    program = engine.compile(model if exported is None else exported, inputs, engine.Config(**config))
    for _ in range(2):
        torch.testing.assert_close(program(*inputs), expected, equal_nan=True, **TOLERANCE)
    for before, given in zip(copies, inputs, strict=True):
        assert torch.equal(before.nan_to_num(), given.nan_to_num())
    return program


CONFIGS = [{}, {"threads": 2}, {"dispatch": "per_node"}, {"target": "interpreter"}, {"planner": "in_order"}]


def consumed_output(x):
    y = x * 2
    z = torch.exp(y)
    return y, torch.exp(z) - z


def same_value_twice(x):
    y = x.relu()
    return y, y


def input_as_output(x):
    return x, x + 1


def views_of_an_input(x):
    return x[1:], x[:, ::2], x.t(), x[-1]


def views_of_one_value(x):
    y = x.exp()
    return y[1:, 2:], y.t(), y.reshape(-1), y[:, -3:-1], y.sum(0)


def constants(x):
    return torch.arange(5), x * 0 + torch.ones(8)


def transposed_addend(x):
    y = x[:, :3].exp()
    return y + y.t()


def nested(x):
    return {"a": [x + 1, (x * 2, None)], "b": 3, "c": x.sum()}


@functools.cache
def export(function) -> torch.export.ExportedProgram:
    """A function of `X`, exported for all configurations."""
    return torch.export.export(module(function), (X,), strict=False)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        consumed_output,
        same_value_twice,
        input_as_output,
        views_of_an_input,
        views_of_one_value,
        constants,
        transposed_addend,
        nested,
    ],
    ids=lambda f: f.__name__,
)
def test_outputs_are_right_under_the_arena(function, config):
    check(function, X, exported=export(function), **config)


def test_a_value_returned_twice_is_two_tensors():
    first, second = engine.compile(module(same_value_twice), (X,))(X)
    first.zero_()
    assert second.abs().sum() > 0


def test_an_input_returned_as_output_is_a_copy():
    x = X.clone()
    out, _ = engine.compile(module(input_as_output), (x,))(x)
    out.zero_()
    assert torch.equal(x, X)


def test_a_result_that_is_held_survives_the_next_call():
    program = engine.compile(mlp(), (X,))
    first = program(X)
    kept = first.clone()
    program(-X)
    assert torch.equal(first, kept)


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (3, 0)])
def test_sizes_of_zero_and_one(shape):
    check(lambda x: (x.relu() + 1, x.sum(), x.reshape(-1), torch.cat([x, x])), torch.randn(shape))


def test_more_axes_than_kernels_can_hold_are_refused_with_their_line():
    with messages.raises(engine.UnsupportedOp):
        engine.compile(module(lambda x: x.reshape(1, 1, 1, 1, 1, 1, 1, 3, 8) + 1), (X,))
    with messages.raises(engine.UnsupportedOp):
        engine.compile(module(lambda x: x + 1), (torch.zeros([1] * 9),))


def test_a_batch_of_zero_rows_through_linear():
    check(mlp(), torch.randn(0, 8))


def test_nan_and_infinity_propagate_as_in_eager():
    x = X.clone()
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -float("inf")
    check(lambda x: (x.relu(), x.softmax(-1), x.exp(), nn.functional.silu(x), x.sum(0), x.amax(1)), x)
    # torch's own float32 GELU gives NaN for +inf, its float64 one inf: the latter is the definition.
    gelu = engine.compile(nn.GELU().eval(), (x,))(x)
    torch.testing.assert_close(gelu, nn.GELU()(x.double()).float(), equal_nan=True, **TOLERANCE)
    check(nn.Sequential(nn.LayerNorm(8), mlp()).eval(), x)


def test_numpy_in_numpy_out():
    program = engine.compile(mlp(), (X,))
    out = program(X.numpy())
    assert isinstance(out, np.ndarray)
    assert np.array_equal(out, program(X).numpy())


def test_non_contiguous_inputs_are_read_right():
    program = engine.compile(mlp(), (X,))
    turned = X.t().contiguous().t()
    assert not turned.is_contiguous()
    assert torch.equal(program(turned), program(X))
    large = torch.randn(40, 30, 50)
    moved = engine.compile(nn.Tanh().eval(), (large,))
    for one in (large.movedim(0, -1).contiguous().movedim(-1, 0), large[:1, :1].expand(40, 30, 50)):
        assert torch.equal(moved(one), moved(one.contiguous()))
    strided = torch.stack([X, X], -1)[..., 0]
    assert torch.equal(program(strided), program(X))
    fortran = np.asfortranarray(X.numpy())
    assert np.array_equal(program(fortran), program(X.numpy()))
    raw = np.zeros(X.numel() * 4 + 1, np.uint8)[1:].view(np.float32).reshape(3, 8)
    raw[...] = X.numpy()
    assert np.array_equal(program(raw), program(X.numpy()))


def test_arrays_of_every_make_are_read_right(tmp_path):
    model = mlp()
    program = engine.compile(model, (X,))
    expected = program(X.numpy())
    frozen = X.numpy().copy()
    frozen.setflags(write=False)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    mapped[:] = X.numpy()
    unaligned = np.empty(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    unaligned[:] = X.numpy()
    swapped = X.numpy().astype(">f4")
    for array in (frozen, mapped, X.numpy().view(np.matrix), unaligned, swapped, np.asfortranarray(X.numpy())):
        found = program(array)
        assert type(found) is np.ndarray
        assert found.tobytes() == expected.tobytes()
    assert program(nn.Parameter(X)).numpy().tobytes() == expected.tobytes()


def test_bfloat16_goes_in_and_out():
    program = engine.compile(module(lambda x: x + x), (X.bfloat16(),))
    assert torch.equal(program(X.bfloat16()), X.bfloat16() * 2)
    array = X.numpy().astype(ml_dtypes.bfloat16)
    assert program(array).tobytes() == (array + array).tobytes()
    narrowed = engine.compile(module(lambda x: x.bfloat16()), (X,))
    assert narrowed(X.numpy()).tobytes() == X.numpy().astype(ml_dtypes.bfloat16).tobytes()


def test_negated_views_are_read_right():
    program = engine.compile(mlp(), (X,))
    assert torch.equal(program(torch._neg_view(X)), program(-X))


def test_nan_scores_stay_nan_under_a_mask():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[2] = False
    q[0, 0, 2, 1] = k[0, 1, 4, 0] = v[0, 0, 3, 2] = float("nan")
    check(lambda q, k, v, m: nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, mask)


def test_two_steps_that_differ_in_the_sign_of_a_zero_keep_their_own():
    def pads(x):
        return nn.functional.pad(x, (1, 1), value=0.0), nn.functional.pad(x, (1, 1), value=-0.0)

    program = engine.compile(module(pads), (X,))
    for found, expected in zip(program(X), pads(X), strict=True):
        assert torch.equal(torch.signbit(found), torch.signbit(expected))


BAD = {
    "shape": ((torch.zeros(4, 8),), {}),
    "rank": ((torch.zeros(8),), {}),
    "dtype": ((X.double(),), {}),
    "device": ((X.to("meta"),), {}),
    "sparse": ((X.to_sparse(),), {}),
    "list": ((X.tolist(),), {}),
    "numpy dtype": ((X.double().numpy(),), {}),
    "numpy shape": ((X.numpy()[:2],), {}),
    "too many": ((X, X), {}),
    "none": ((), {}),
    "unknown name": ((X,), {"mask": X}),
    "misspelled name": ((), {"inptu": X}),
    "twice": ((X,), {"input": X}),
    "nothing": ((None,), {}),
}


@pytest.mark.parametrize(("args", "kwargs"), BAD.values(), ids=BAD.keys())
def test_wrong_inputs_are_named(args, kwargs):
    program = engine.compile(mlp(), (X,))
    with messages.raises(engine.ShapeError):
        program(*args, **kwargs)


def test_keyword_inputs_come_in_any_order_and_wrong_ones_are_named():
    model = module(lambda x, *, scale, shift: x * scale + shift)
    scale, shift = torch.full((8,), 2.0), torch.ones(8)
    program = engine.compile(model, ((X,), {"scale": scale, "shift": shift}))
    torch.testing.assert_close(program(X, shift=shift, scale=scale), X * 2 + 1)
    with messages.raises(engine.ShapeError):
        program(X, scale=scale)


def test_constants_among_the_arguments_must_stay_what_they_were():
    model = module(lambda x, factor, mask: x * factor if mask is None else x)
    program = engine.compile(model, (X, 3, None))
    torch.testing.assert_close(program(X, 3, None), X * 3)
    with messages.raises(engine.ShapeError):
        program(X, 4, None)


def test_an_index_out_of_range_is_an_error_with_its_line():
    program = engine.compile(nn.Embedding(5, 3).eval(), (torch.tensor([0, 4]),))
    for config in ({}, {"target": "interpreter"}):
        program = engine.compile(nn.Embedding(5, 3).eval(), (torch.tensor([0, 4]),), engine.Config(**config))
        for bad in (5, -1):
            with messages.raises(engine.ExecutionError):
                program(torch.tensor([0, bad]))
        program(torch.tensor([4, 0]))


def test_many_threads_call_one_program_at_once():
    program = engine.compile(mlp(), (X,), engine.Config(threads=2))
    inputs = [X * i for i in range(8)]
    expected = [program(x) for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        wrong.extend(number for _ in range(200) if not torch.equal(program(inputs[number]), expected[number]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_structure_of_a_transformers_output_comes_back():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50)
    model = BertModel(config).eval()
    ids = torch.arange(6).reshape(1, 6)
    with torch.no_grad():
        expected = model(ids)
    got = engine.compile(model, (ids,))(ids)
    assert type(got) is type(expected)
    torch.testing.assert_close(got.last_hidden_state, expected.last_hidden_state, **TOLERANCE)


def test_nothing_global_changes():
    before = (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state())
    program = engine.compile(mlp(), (X,), engine.Config(threads=2))
    program(X)
    after = (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state())
    assert before[:3] == after[:3]
    assert torch.equal(before[3], after[3])


def test_a_program_does_not_follow_later_changes_of_the_model():
    ids = torch.tensor([1, 2])
    model = nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)).eval()
    program = engine.compile(model, (ids,))
    before, digest = program(ids), program.digest
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(program(ids), before)
    assert compute_digest(program.graph) == digest
    assert all(np.any(one()) for one in list_constants([program.graph]) if one.type.shape not in {(4,), (3,)})


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_program_keeps_no_memory_of_the_model(target):
    model = mlp()
    expected = {tuple(p.shape): p.detach().numpy().copy() for p in model.parameters()}
    references = [weakref.ref(p) for p in model.parameters()]
    program = engine.compile(model, (X,), engine.Config(target=target))
    del model
    gc.collect()
    assert [r() for r in references] == [None] * 4
    for constant in list_constants([program.graph]):
        np.testing.assert_array_equal(constant(), expected[constant.type.shape])


class Projections(nn.Module):
    """Query, key and value of one input, or a gate and what it lets through, `layers` times: they are joined."""

    def __init__(self, size: int, layers: int, *, gated: bool) -> None:
        super().__init__()
        self.gated = gated
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(size, size) for _ in range(3)) for _ in range(layers))

    def forward(self, x):
        for first, second, third in self.layers:
            x = third(F.silu(first(x)) * second(x)) if self.gated else first(x).cos() + second(x).sin() - third(x).exp()
        return x


@pytest.mark.parametrize("gated", [False, True])
def test_compiling_holds_one_joined_weight_at_a_time_beside_the_packed_ones(gated):
    size, layers = 512, 4
    model, x = Projections(size, layers, gated=gated).eval(), torch.zeros(1, size)
    program = torch.export.export(model, (x,))
    engine.compile(program, (x,))  # imports and caches, which are not measured
    tracemalloc.start()  # of NumPy's memory, which is what compiling allocates; torch's own is not counted
    try:
        compiled = engine.compile(program, (x,))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert compiled.report().packed_bytes == 3 * layers * 4 * size * size
    assert peak < 1.1 * compiled.report().weight_bytes + 3 * 4 * size * size  # a tenth for tables


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_joined_weights_are_those_of_the_model_as_it_was(target, gated):
    model, x = Projections(8, 1, gated=gated).eval(), torch.linspace(-1, 1, 16).reshape(2, 8)
    program = engine.compile(model, (x,), engine.Config(target=target))
    expected = model(x).detach()
    weights = [layer.weight.detach().numpy().copy() for layer in model.layers[0]][: 2 if gated else 3]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    torch.testing.assert_close(program(x), expected, **TOLERANCE)
    arrays = (constant() for constant in list_constants([program.graph]))
    joined = next(a for a in arrays if a.ndim == 2 and len(a) > 8)
    np.testing.assert_array_equal(joined, np.concatenate(weights))


@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (300, 257)])
def test_weights_that_are_kept_packed_are_saved_as_they_were(shape, tmp_path):
    model = nn.Linear(shape[1], shape[0]).eval()
    with torch.no_grad():
        model.weight[0, 0], model.weight[-1, -1] = math.nan, -0.0
    program = engine.compile(model, (torch.zeros(2, shape[1]),))
    program.save(tmp_path / "p.engine")
    loaded = engine.load(tmp_path / "p.engine")
    assert loaded.digest == program.digest
    found = next(one() for one in list_constants([loaded.graph]) if len(one.type.shape) == 2)
    assert found.tobytes() == model.weight.detach().numpy().tobytes()


def test_constants_without_axes_are_saved_as_they_were(tmp_path):
    program = engine.compile(module(lambda x: torch.where(x > 0, x, torch.tensor(7.0))), (X,))
    program.save(tmp_path / "p.engine")
    assert torch.equal(engine.load(tmp_path / "p.engine")(X), program(X))


@pytest.mark.parametrize("disable", [(), ("fold_constants",)])
def test_two_parts_of_one_weight_are_two_packed_operands(disable):
    weight = nn.Parameter(torch.linspace(-1, 1, 12 * 8).reshape(12, 8))
    holder = module(lambda x: F.linear(x, holder.weight[:5]).sum(-1) + 3 * F.linear(x, holder.weight[5:]).sum(-1))
    holder.weight = weight
    check(holder, X, disable=disable)


def test_tied_weights_are_stored_once():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    ids = torch.tensor([1, 2])
    model = Tied().eval()
    program = check(model, ids)
    assert program.report().weight_bytes == 10 * 4 * 4


def test_a_program_is_saved_and_not_pickled():
    with messages.raises(TypeError):
        copy.deepcopy(engine.compile(mlp(), (X,)))


def test_autocast_around_compile_is_refused_by_name():
    with torch.autocast("cpu"), messages.raises(engine.ConfigError):
        engine.compile(mlp(), (X,))


def test_an_effectful_operation_is_listed_with_the_others():
    with pytest.raises(engine.UnsupportedOp) as e:
        engine.compile(module(lambda x: (torch.linalg.inv(x), torch.cummax(x, 0)[0])), (torch.eye(3),))
    assert len(e.value.offenders) >= 2
    assert any("cummax" in line for line in e.value.offenders)
    assert any("linalg" in line for line in e.value.offenders)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((X,), "missing a required argument: 'b'"), ((X, X, X), "too many positional arguments")],
)
def test_a_wrong_number_of_example_inputs_is_one_sentence(arguments, message):
    with pytest.raises(engine.EngineError, match=message):
        engine.compile(module_of_two(), arguments)


def test_example_inputs_without_a_tuple_are_refused():
    with messages.raises(engine.ConfigError):
        engine.compile(mlp(), X)


def test_what_a_model_raises_is_passed_on_with_its_line():
    with pytest.raises(engine.EngineError, match=r"division by zero.*test_calls\.py:\d+"):
        engine.compile(module(lambda x: x * (1 / 0)), (X,))


def module_of_two() -> nn.Module:
    class Two(nn.Module):
        def forward(self, a, b):
            return a + b

    return Two().eval()


def test_one_weight_read_both_as_it_is_and_transposed():
    weight = nn.Parameter(torch.randn(40, 40), requires_grad=False)
    check(lambda x: (x @ weight, x @ weight.t(), nn.functional.linear(x, weight)), torch.randn(5, 40))


NO_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "onnx", "pydantic", "scipy", "pandas"):
            raise ModuleNotFoundError("blocked: " + name, name=name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import engine
program = engine.load(sys.argv[1], config=engine.Config(threads=int(sys.argv[3])))
x = np.load(sys.argv[2])
np.save(sys.argv[4], program(x))
program.report(); str(program.profile(x, runs=2, roofs=False)); str(program.trace(x))
for function in (engine.compile, engine.compile_decoder):
    try:
        function(None, (x,))
    except engine.MissingPackageError as error:
        text = str(error)
    assert text.startswith(f"engine.{function.__name__} needs torch, which is not installed: ")
    assert "pip install 'enginebench[suites]'" in text and "\\n" not in text
assert not any(m.split(".")[0] == "torch" for m in sys.modules)
"""


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_saved_program_runs_where_torch_cannot_be_imported(tmp_path, threads):
    program = engine.compile(mlp(), (X,))
    program.save(tmp_path / "mlp.engine")
    np.save(tmp_path / "x.npy", X.numpy())
    command = [sys.executable, "-c", textwrap.dedent(NO_TORCH)]
    arguments = [tmp_path / "mlp.engine", tmp_path / "x.npy", threads, tmp_path / "y.npy"]
    subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, timeout=120)
    assert np.load(tmp_path / "y.npy").tobytes() == program(X).numpy().tobytes()


PEAK_OF_A_LOAD = """
    import sys
    from pathlib import Path
    import engine

    def resident(name):
        line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(name))
        return int(line.split()[1]) << 10

    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    program = engine.load(sys.argv[1], verify="full")
    print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_loading_holds_weights_once(tmp_path):
    """Checked, packed, and at no time more than 1.3 times the weights and one tensor resident."""
    sizes = [(1024, 2048), (2048, 1024)] * 4
    program = engine.compile(nn.Sequential(*[nn.Linear(*s) for s in sizes]).eval(), (torch.zeros(1, 1024),))
    program.save(tmp_path / "p.engine")
    command = [sys.executable, "-c", textwrap.dedent(PEAK_OF_A_LOAD), str(tmp_path / "p.engine")]
    peak = int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert peak <= 1.3 * program.graph.weight_bytes + 4 * 1024 * 2048


def test_importing_the_engine_imports_no_torch():
    code = "import sys, engine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_loaded_program_has_the_digest_of_the_saved_one(tmp_path):
    program = engine.compile(mlp(), (X,))
    program.save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p")
    assert loaded.digest == program.digest
    assert loaded.run_digest == program.run_digest
    assert engine.load(tmp_path / "p", config=engine.Config(threads=2)).run_digest != program.run_digest


def test_what_a_loaded_program_cannot_do_is_refused(tmp_path):
    engine.compile(mlp(), (X,)).save(tmp_path / "p")
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "p", config=engine.Config(disable=("fuse_epilogue",)))
    with messages.raises(engine.ConfigError):
        engine.load(tmp_path / "p", engine.Config())


@pytest.mark.parametrize("path", [".", "no/such/folder.engine"])
def test_a_place_that_takes_no_file_is_named(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with messages.raises(engine.ProgramError):
        engine.compile(mlp(), (X,)).save(path)


@pytest.mark.parametrize("layer", [nn.Linear(48, 48), nn.Conv1d(48, 48, 3, padding=1)])
def test_a_residual_that_is_also_the_layers_input_is_not_overwritten(layer):
    """The result could take the residual's memory, were it not still to be read as x."""
    x = torch.randn(2, 48, 48)
    model = module(lambda x: (layer(torch.relu(x)) + torch.relu(x)).sum(-1)).eval()  # a result in the arena
    torch.testing.assert_close(engine.compile(model, (x,))(x), model(x), rtol=1e-5, atol=1e-5)
