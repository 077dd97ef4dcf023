"""Warnings of the engine: what they say, where they point to, and when they are issued."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
from torch import nn

import engine
from engine import sizes, terms
from engine.runtime import warn
from engine.runtime.limits import describe_restrictions
from engine.targets.cpu import native
from tests import messages

X = torch.linspace(-2, 2, 32).reshape(4, 8)
MLP = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
WIDE = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 4)).eval()


@pytest.fixture
def issued(monkeypatch):
    """The warnings of the test, as in a process that has issued none yet."""
    monkeypatch.setattr(warn, "_ISSUED", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def slow(issued):
    return [one for one in issued if one.category is engine.SlowKernelWarning]


def test_slow_kernels_are_said_once_per_process_at_the_line_that_compiles(issued):
    for _ in range(2):
        program = engine.compile(WIDE, (X,), engine.Config(precision="int4_weight"))
    (one,) = slow(issued)
    report = program.report()
    count = f"{report.slow_launches} of {report.launches} launches"
    assert 0 < report.slow_launches <= report.launches
    assert str(one.message).startswith(f"Sequential: {count} (")
    assert "use slow kernels, because there are no fast kernels" in str(one.message)
    assert one.filename == __file__
    assert issubclass(engine.SlowKernelWarning, engine.EngineWarning)


def test_slow_kernels_of_a_program_with_fallback_are_counted_as_a_whole(issued):
    class Spectrum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8).double()

        def forward(self, x):
            return torch.fft.fft(self.linear(x).sinh()).real.tanh()

    program = engine.compile(Spectrum().eval(), (X.double(),), engine.Config(fallback="torch"))
    (one,) = slow(issued)
    report = program.report()
    assert (report.slow_launches, report.launches) == (2, 5)
    assert str(one.message).startswith("Spectrum: 2 of 5 launches (48% of the bytes) use slow kernels")


def test_slow_kernels_without_flops_count_by_their_bytes(issued):
    class Halved(nn.Module):
        def forward(self, x):
            return x.half(), x.flip(-1)

    program = engine.compile(Halved().eval(), (X.double(),))
    (one,) = slow(issued)
    report = program.report()
    assert (report.flops, report.slow_flops, report.slow_bytes) == (0, 0, X.numel() * (8 + 2))
    assert report.bytes == X.numel() * (8 + 2 + 8 + 8)
    assert str(one.message).startswith("Halved: 1 of 2 launches (38% of the bytes) uses slow kernels")


def test_a_cache_that_scatter_writes_needs_no_slow_kernel(issued):
    class Keeps(nn.Module):
        def forward(self, cache, position, row):
            return cache.scatter(1, position[:, None, None].expand(-1, 1, 8), row)

    inputs = (torch.randn(2, 16, 8), torch.tensor([3, 0]), torch.randn(2, 1, 8))
    program = engine.compile(Keeps().eval(), inputs)
    assert torch.equal(program(*inputs), Keeps()(*inputs))
    assert not slow(issued)
    assert program.report().slow_launches == 0


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8_weight", "int8_weight_tensor", "int8_dynamic"])
def test_nothing_is_said_of_linear_layers_with_weights_that_fast_kernels_read(issued, precision):
    program = engine.compile(MLP, (X,), engine.Config(precision=precision))
    assert not slow(issued)
    assert program.report().slow_launches == 0


def test_a_type_without_instructions_is_said_once_and_counted(issued, monkeypatch):
    monkeypatch.setattr(native, "isas_within", lambda _isa: ("generic", "avx2"))
    for _ in range(2):
        program = engine.compile(MLP, (X,), engine.Config(precision="bf16"))
    (one,) = issued
    assert one.category is engine.SlowPrecisionWarning
    report = program.report()
    assert (report.emulated_launches, report.launches) == (2, 2)
    assert str(one.message).startswith("Sequential: 2 of 2 launches have products in bfloat16, for which")
    assert one.filename == __file__
    assert "products in bfloat16" in str(report)


def test_nothing_is_said_where_nothing_is_in_bfloat16_or_the_user_chose_the_instruction_set(issued):
    chosen = engine.compile(MLP, (X,), engine.Config(precision="bf16", isa="generic"))
    plain = engine.compile(MLP, (X,), engine.Config(precision="int8_weight", isa="generic"))
    assert not issued
    assert (chosen.report().emulated_launches, plain.report().emulated_launches) == (2, 0)
    assert "emulated" not in str(plain.report())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_slow_kernels_of_narrow_models_are_said_when_loading_too(issued, tmp_path, dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval().to(dtype)
    engine.compile(model, (X.to(dtype),)).save(tmp_path / "wide.engine")
    assert not slow(issued), "their values are widened"
    engine.compile(model, (X.to(dtype),), engine.Config(activations="model")).save(tmp_path / "p.engine")
    assert len(slow(issued)) == 1
    warn._ISSUED.clear()
    engine.load(tmp_path / "p.engine")
    assert len(slow(issued)) == 2


def test_nothing_is_said_where_nothing_is_slow_or_slow_kernels_were_asked_for(issued):
    class Positions(nn.Module):
        """A float32 model with one integer operation that only a reference kernel computes."""

        def forward(self, x):
            return x @ x.mT + torch.arange(4) % 3

    engine.compile(MLP, (X,))
    engine.compile(MLP, (X,), engine.Config(target="interpreter", precision="bf16"))
    engine.compile(MLP, (X,), engine.Config(variant={"linear": "reference"}))
    engine.compile(Positions().eval(), (torch.randn(4, 256),))
    assert slow(issued) == []


def test_a_profile_marks_launches_of_slow_kernels():
    program = engine.compile(WIDE, (X,), engine.Config(precision="int4_weight"))
    profile = program.profile(X, runs=1, roofs=False)
    marked = [node for node in profile.nodes if node.is_slow]
    assert len(marked) == program.report().slow_launches < len(profile.nodes)
    assert {node.op for node in marked} == {"linear"}
    text = str(profile)
    assert sum("_reference s " in line for line in text.splitlines()) == len(marked)
    share = sum(node.time_share for node in marked)
    launches = f"s: {len(marked)} of {len(profile.nodes)} launches, {share:.1%} of the time, use slow kernels"
    assert text.splitlines()[-1] == f"{launches}."
    assert "use slow kernels" not in str(engine.compile(MLP, (X,)).profile(X, runs=1, roofs=False))


# --- sizes that guards exclude ----------------------------------------------------------------------


class Squeezed(nn.Module):
    def forward(self, x):
        return x.squeeze(0) * 2


ROWS = {"x": {0: torch.export.Dim("rows", min=1, max=8)}}


def test_sizes_that_a_program_does_not_take_are_said_when_it_is_compiled(issued):
    x = torch.randn(4, 3)
    program = engine.compile(Squeezed().eval(), (x,), dynamic_shapes=ROWS)
    (one,) = issued
    assert one.category is engine.GuardWarning
    assert one.filename == __file__
    messages.check(str(one.message))
    torch.testing.assert_close(program(x[:2]), x[:2] * 2)
    with messages.raises(engine.ShapeError):
        program(x[:1])
    at_one = engine.compile(Squeezed().eval(), (x[:1],))  # as the warning says
    torch.testing.assert_close(at_one(x[:1]), x[0] * 2)


def test_a_program_that_takes_all_sizes_says_nothing(issued):
    at_least_two = {"x": {0: torch.export.Dim("rows", min=2, max=8)}}
    engine.compile(Squeezed().eval(), (torch.randn(4, 3),), dynamic_shapes=at_least_two)
    engine.compile(MLP, (X,), dynamic_shapes={"input": {0: torch.export.Dim("rows", min=1, max=8)}})
    assert issued == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (lambda s, t: [s == 1], ["s from 2 to 9 (guard s - 1 != 0)"]),
        (lambda s, t: [s == 5, 2 * s == 7], ["s from 1 to 4 and from 6 to 9 (guards s - 5 != 0, 2*s - 7 != 0)"]),
        (lambda s, t: [s < 5, s == 2], ["s = 1 and from 3 to 4 (guards s - 5 < 0, s - 2 != 0)"]),
        (lambda s, t: [3 * s > 8], ["s from 3 to 9"]),
        (lambda s, t: [t == 1], ["t from 2 on (guard t - 1 != 0)"]),
        (lambda s, t: [s == t], ["s, t with s - t != 0"]),
        (lambda s, t: [s * s == 1], ["s with s*s - 1 != 0"]),
        (lambda s, t: [s == 3, t == 1], ["s from 1 to 2 and from 4 to 9", "t from 2 on"]),
    ],
)
def test_the_sizes_that_remain_are_those_at_which_every_guard_holds(asked, expected):
    scope = sizes.Scope()
    scope.symbols.update(s=sizes.Symbol(1, 9, 4), t=sizes.Symbol(1, sizes.UNBOUNDED, 7))
    with scope.deciding():
        asked(*(scope.size(terms.symbol(name)) for name in "st"))
    found = describe_restrictions(scope)
    assert len(found) == len(expected)
    assert all(text.startswith(beginning) for text, beginning in zip(found, expected, strict=True)), found


# --- weights that change ----------------------------------------------------------------------


def scale_in_place(model):
    with torch.no_grad():
        model[0].weight.mul_(2)


def replace_parameter(model):
    model[0].weight = nn.Parameter(torch.zeros(4, 8))


def take_a_step(model):
    model(X).sum().backward()
    torch.optim.SGD([model[0].weight], lr=0.1).step()


def write_buffer(model):
    model[1].running_mean += 1


def load_other_weights(model):
    model.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()})


def make_model():
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).eval()


def inspect_by(name, program, tmp_path):
    """Call `report`, `save`, `trace` or `profile`."""
    options = {"profile": {"runs": 1, "roofs": False}}.get(name, {})
    arguments = {"report": (), "save": (tmp_path / "p.engine",)}.get(name, (X,))
    getattr(program, name)(*arguments, **options)


CHANGES = [scale_in_place, replace_parameter, take_a_step, write_buffer, load_other_weights]


@pytest.mark.parametrize("change", CHANGES)
def test_every_report_says_which_weights_have_changed_since(issued, change):
    model = make_model()
    program = engine.compile(model, (X,))
    before = program(X)
    program.report()
    assert issued == []
    change(model)
    assert torch.equal(program(X), before)
    assert issued == [], "a call does not look"
    program.report()
    program.report()
    one, again = issued
    assert str(again.message) == str(one.message)
    assert one.category is engine.StaleWeightsWarning
    assert one.filename == __file__
    names = {
        write_buffer: "1.running_mean",
        load_other_weights: "0.weight, 0.bias, 1.weight and 4 more",
    }.get(change, "0.weight")
    assert str(one.message) == (
        f"weights of Sequential changed after it was compiled: {names}. "
        "The program keeps the former weights; compile the model again to use the new ones."
    )


@pytest.mark.parametrize("config", [engine.Config(), engine.Config(fallback="torch")], ids=["engine", "torch"])
@pytest.mark.parametrize("name", ["save", "trace", "profile", "report"])
def test_whatever_shows_or_stores_a_program_looks_for_changes(issued, name, config, tmp_path):
    class Model(nn.Sequential):
        def forward(self, x):
            return super().forward(x) if config.fallback is None else torch.lgamma(super().forward(x))

    model = Model(*make_model()).eval()
    program = engine.compile(model, (X,), config)
    scale_in_place(model)
    with contextlib.suppress(engine.ProgramError):  # a program of which torch runs a part cannot be saved
        inspect_by(name, program, tmp_path)
    expected = [] if (name, config.fallback) == ("save", "torch") else [engine.StaleWeightsWarning]
    assert [one.category for one in issued] == expected


def test_a_program_is_not_saved_in_silence_after_an_earlier_warning(issued, tmp_path):
    model = make_model()
    program = engine.compile(model, (X,))
    scale_in_place(model)
    program.report()
    write_buffer(model)  # a further change
    issued.clear()
    program.save(tmp_path / "p.engine")
    (one,) = issued
    assert one.category is engine.StaleWeightsWarning
    assert "changed after it was compiled: 0.weight, 1.running_mean. " in str(one.message)


def test_weights_of_an_exported_program_are_looked_at_too(issued):
    model = make_model()
    program = engine.compile(torch.export.export(model, (X,)), (X,))
    scale_in_place(model)
    program.report()
    assert [one.category for one in issued] == [engine.StaleWeightsWarning]


def test_no_change_is_said_of_models_that_are_gone_loaded_or_write_to_their_own_buffers(issued, tmp_path):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x + self.calls

    model = Counts().eval()
    program = engine.compile(model, (X,))
    model(X)
    program.report()
    program = engine.compile(make_model(), (X,))
    program.report()
    program.save(tmp_path / "p.engine")
    engine.load(tmp_path / "p.engine").report()
    with torch.inference_mode():
        engine.compile(make_model(), (X,)).report()  # tensors of inference mode have no count of writes
    assert issued == []
