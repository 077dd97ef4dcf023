"""torch.compile(model, backend="engine") against eager: what is compiled, sizes, graph breaks, options, refusals."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

import engine.dynamo
from suites import models
from tests import messages
from tests.torch_backend.dynamo import Block, check, compiled, random


@pytest.fixture(autouse=True)
def _anew():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


# --- what is compiled ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")  # transformers'
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("transformer-tiny", "cifar10-cnn-tiny") else pytest.mark.long)
        for name in models.names()
        if name.endswith("-tiny")
    ],
)
def test_every_model_is_one_program(name):
    model, inputs = models.get(name).build()
    with torch.inference_mode():
        expected = model(*inputs)
        got = compiled(model)(*inputs)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)  # of float32, in another order, through layers
    (report,) = engine.dynamo.reports()
    assert report.fallback_nodes == 0


def test_a_model_gets_the_kernels_of_engine_compile():
    model, inputs = models.get("transformer-tiny").build()
    with torch.inference_mode():
        compiled(model)(*inputs)
    (report,) = engine.dynamo.reports()
    assert report.kernels == engine.compile(model, inputs).report().kernels


def test_the_backend_is_found_without_an_import_of_the_engine():
    assert "engine" in torch._dynamo.list_backends()


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_sizes_that_change_are_compiled_once():
    check(Block().eval(), *[(random(2, length, 16),) for length in (5, 7, 9, 33)])
    static, dynamic = engine.dynamo.reports()
    assert static.sizes == ()
    assert len(dynamic.sizes) == 1


def test_a_dynamic_batch_is_one_program():
    model, x = Block().eval(), random(3, 5, 16)
    torch._dynamo.mark_dynamic(x, 0)
    check(model, (x,), (random(8, 5, 16),), (random(2, 5, 16),))
    (report,) = engine.dynamo.reports()
    assert len(report.sizes) == 1


class Halves(nn.Module):
    """Answers sizes beside tensors, one of them a formula."""

    def forward(self, x):
        length = x.shape[0]
        return x[: length // 2] * 2, length, length // 2 + 1, None


def test_sizes_among_the_results():
    check(Halves(), (random(6),), (random(8),), (random(11),))


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


class Scaled(nn.Module):
    def forward(self, x, number):
        return x * number + number


@pytest.mark.parametrize("numbers", [(2, 3, 4, 3), (2.0, 0.5, 3.25, 0.5)], ids=["int", "float"])
def test_numbers_among_the_inputs(numbers):
    check(Scaled(), *[(random(4), number) for number in numbers])


def by_factor(x):
    return functional.interpolate(x, scale_factor=1.3, mode="bilinear")


def by_grid(x):
    return functional.grid_sample(x, functional.affine_grid(torch.eye(2, 3)[None], x.shape, True), align_corners=True)


@pytest.mark.parametrize("function", [by_factor, by_grid])
def test_programs_for_sizes_of_their_own_where_the_engine_cannot_let_a_size_vary(function):
    found = torch.compile(function, backend="engine")
    with torch.no_grad():
        for size in (6, 8, 10, 8):
            torch.testing.assert_close(found(random(1, 2, size, 4)), function(random(1, 2, size, 4)))
    _static, *dynamic = engine.dynamo.reports()
    assert sorted(len(report.guards) for report in dynamic) == [0, 0]


# --- several graphs --------------------------------------------------------------------------------------------------


def test_a_cache_of_transformers_makes_one_graph_for_the_prompt_and_one_for_every_token_behind_it():
    model, (ids,) = models.get("gpt2-tiny").build(sequence=5)
    network = model.network

    def logits(forward):
        cache = transformers.StaticCache(config=network.config, max_cache_len=16)
        token, places, found = ids, torch.arange(5), []
        with torch.inference_mode():
            for _ in range(4):
                answer = forward(input_ids=token, past_key_values=cache, cache_position=places).logits[:, -1:]
                token, places = answer.argmax(-1), places[-1:] + 1
                found.append(answer)
        return torch.cat(found, 1)

    torch.testing.assert_close(logits(compiled(network)), logits(network), rtol=1e-4, atol=1e-4)  # as for every model
    assert len(engine.dynamo.reports()) == 2


class Breaks(nn.Module):
    """Two graphs, with Python between them that looks at a value."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = functional.relu(self.first(x))
        y = y * 2 if y.sum().item() > 1e9 else y + 1
        return self.second(y)


def test_a_model_with_a_graph_break_is_several_programs():
    torch.manual_seed(0)
    check(Breaks().eval(), (random(2, 8),))
    assert len(engine.dynamo.reports()) == 2


# --- options and refusals --------------------------------------------------------------------------------------------


def test_options_are_fields_of_the_config():
    check(Block().eval(), (random(2, 5, 16),), threads=2, disable=["fuse_attention", "fuse_epilogue"])
    (report,) = engine.dynamo.reports()
    assert report.switches["threads"] == 2
    assert report.switches["disable"] == ("fuse_attention", "fuse_epilogue")
    assert "fuse_epilogue" not in dict(report.passes)


def refusal(model, *inputs, **how):
    with pytest.raises(BackendCompilerFailed) as raised:
        torch.compile(model, backend="engine", **how)(*inputs)
    return raised.value.inner_exception


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_an_id_out_of_the_vocabulary_is_an_error(target):
    found = compiled(nn.Embedding(5, 3).eval(), target=target)
    with torch.inference_mode():
        found(torch.tensor([0, 4]))
        for bad in (5, -1, 1 << 40):
            with messages.raises(engine.ExecutionError):
                found(torch.tensor([0, bad]))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_an_error_names_the_line_where_it_is_known_and_is_silent_where_not(target):
    class Looks(nn.Module):
        def forward(self, x):
            return functional.embedding(x, torch.zeros(5, 3))

    for model in (nn.Embedding(5, 3).eval(), Looks()):
        with torch.inference_mode(), messages.raises(engine.ExecutionError):
            compiled(model, target=target)(torch.tensor([7]))


@pytest.mark.parametrize("options", [{"precision": "bf16"}, {"recipe": {"*": "bf16"}}])
def test_weights_made_under_inference_mode_have_no_chosen_precision_and_are_named(options):
    x = torch.ones(2, 8)
    with torch.inference_mode():
        model = nn.Linear(8, 3).eval()
        with messages.warns(engine.PlainWeightsWarning):
            got = torch.compile(model, backend="engine", options=options)(x)
        torch.testing.assert_close(got, model(x), rtol=1e-6, atol=1e-6)  # float32: only the order of sums differs


def test_an_unknown_option_hears_the_nearest_one():
    error = refusal(Scaled(), random(4), 2, options={"thread": 2})
    assert isinstance(error, engine.ConfigError)
    messages.check(str(error))
    error = refusal(Scaled(), random(4), 2, options={"states": "bfloat16"})  # a graph of torch.compile has none
    messages.check(str(error))
    error = refusal(Scaled(), random(4), 2, options=3)
    assert isinstance(error, engine.ConfigError)
    messages.check(str(error))
    error = refusal(Scaled(), random(4), 2, mode="max-autotune")
    messages.check(str(error))


def test_a_graph_that_requires_gradients_is_refused():
    error = refusal(Block().eval(), random(2, 5, 16))
    assert isinstance(error, engine.ConfigError)
    messages.check(str(error))


class Slope(nn.Module):
    """Differentiates inside, whatever surrounds it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.layer(x).sum(), x)[0]


@pytest.mark.parametrize("layer", [nn.Linear(3, 3), nn.Sigmoid()], ids=["with weights", "without"])
def test_a_model_that_differentiates_under_no_grad_is_refused(layer):
    with torch.no_grad():
        error = refusal(Slope(layer).eval(), torch.ones(3))
    assert isinstance(error, engine.ConfigError)
    messages.check(str(error))


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(4)], ids=["dropout", "batch_norm"])
def test_a_model_in_training_mode_is_refused_with_the_line(layer):
    with torch.no_grad():
        error = refusal(nn.Sequential(nn.Linear(4, 4), layer), random(3, 4))
    assert isinstance(error, engine.ConfigError)
    assert "the model is in training mode" in str(error)
    assert "call model.eval()" in str(error)


def test_tensors_that_are_not_strided_are_refused():
    with torch.no_grad():
        error = refusal(Doubled(), random(3, 3).to_mkldnn())
    assert isinstance(error, engine.ShapeError)
    messages.check(str(error))


def test_dynamo_leaves_what_meets_a_sparse_tensor_to_torch():
    x = torch.eye(3).to_sparse()
    with torch.no_grad():
        assert compiled(Doubled(), fallback=None)(x).layout is torch.sparse_coo
        assert engine.dynamo.reports() == []
        torch.compiler.reset()  # it has given this code up
        with pytest.raises(torch._dynamo.exc.Unsupported, match="does not support sparse"):
            torch.compile(Doubled(), backend="engine", fullgraph=True)(x)


def test_a_model_on_another_device_is_refused():
    with torch.no_grad():
        error = refusal(nn.Linear(4, 4, device="meta").eval(), torch.zeros(3, 4, device="meta"))
    assert isinstance(error, engine.ShapeError)
    messages.check(str(error))
