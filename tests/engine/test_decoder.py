"""Text generation against transformers' own: ids, batches of different lengths, states, files, bad input."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import ConfigError, EngineError, ExecutionError, ProgramError, ShapeError
from suites import models
from suites.models import gpt2
from suites.models.nets.cached import CachedLM
from suites.models.nets.causal import CausalLM, draw_vectors
from tests import messages
from tests.files import saved_with

LONGEST = 48
FAMILIES = ["one-layer", *(pytest.param(name, marks=pytest.mark.long) for name in ("gpt2-tiny", "qwen3-tiny"))]


def network(name):
    """A tiny model of transformers, its weights such that tokens differ from step to step."""
    if name == "one-layer":
        return one_layer()
    model, _inputs = models.get(name).build()
    return model.network


def one_layer():
    """GPT-2 with a single layer, its weights so large that every token of a text counts."""
    torch.manual_seed(0)
    made = CausalLM("gpt2", gpt2.TINY | {"n_layer": 1}, "sdpa").network.eval()
    draw_vectors(made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    return made


def cached(name, batch=1):
    return CachedLM(network(name), batch, LONGEST).eval()


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def decoder(family):
    return engine.compile_decoder(cached(family), LONGEST)


@pytest.fixture(scope="module")
def reference(family):
    """The same network, without a cache."""
    return network(family).eval()


def greedy(reference, ids, count):
    """Token by token, everything computed anew."""
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, reference(ids, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    return ids


def some_ids(rows, length, seed=0):
    return torch.randint(0, 200, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [1, 2, 7, 20])
def test_the_tokens_are_those_of_the_model_without_a_cache(decoder, reference, length):
    ids = some_ids(1, length, length)
    assert decoder.generate(ids, 24).tolist() == greedy(reference, ids, 24).tolist()


def test_the_logits_are_those_of_the_model(decoder, reference):
    ids = some_ids(1, 12)
    with torch.no_grad():
        expected = reference(ids, use_cache=False).logits
    torch.testing.assert_close(decoder.prefill(ids[:, :9]), expected[:, 8], rtol=1e-4, atol=1e-4)
    for place in range(9, 12):
        torch.testing.assert_close(decoder.decode(ids[:, place : place + 1]), expected[:, place], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "pad"),  # padding need not be an id, and may be one
    [(one_layer, -100), pytest.param(lambda: network("qwen3-tiny").eval(), 9, marks=pytest.mark.long)],
    ids=["gpt2", "qwen3"],
)
def test_texts_of_different_lengths_do_not_disturb_each_other(make, pad):
    reference = make()
    decoder = engine.compile_decoder(CachedLM(make(), 3, 24).eval(), 24, 3)
    lengths = [4, 11, 7]
    texts = [some_ids(1, length, length) for length in lengths]
    ids = torch.stack([nn.functional.pad(text[0], (0, 11 - text.shape[1]), value=pad) for text in texts])
    before = ids.clone()
    found = decoder.generate(ids, 10, lengths)
    assert np.array_equal(decoder.generate(ids.numpy(), 10, lengths), found)
    assert torch.equal(ids, before)
    for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        assert found[row, : length + 10].tolist() == greedy(reference, text, 10)[0].tolist()
        assert found[row, length + 10 :].tolist() == [0] * (11 - length)


def test_two_states_are_two_texts(decoder, reference):
    one, other = decoder.new_state(), decoder.new_state()
    first, second = some_ids(1, 5, 1), some_ids(1, 9, 2)
    expected = [greedy(reference, text, 6) for text in (first, second)]
    logits = [decoder.prefill(first, state=one), decoder.prefill(second, state=other)]
    for step in range(5):
        for number, state in enumerate((one, other)):
            token = logits[number].argmax(1, keepdim=True)
            assert token.item() == expected[number][0, -6 + step]
            logits[number] = decoder.decode(token, state=state)
    assert (one.lengths.tolist(), other.lengths.tolist()) == ([10], [14])


def test_weights_are_packed_once(decoder):
    reports = decoder.report()
    assert reports["prefill"].packed_bytes == reports["decode"].packed_bytes
    assert reports["decode"].packed_bytes < 1.3 * reports["decode"].weight_bytes
    assert reports["prefill"].sizes == (f"sequence=8 of 2..{LONGEST}",)


def test_the_cache_is_written_in_place(decoder):
    """A copy of the cache for each layer would be a launch each."""
    assert re.match(r"prefill\n-------\nname +.*\n\ndecode\n------\nname ", str(decoder.report()), re.DOTALL)
    for report in decoder.report().values():
        assert report.copies < 3


def test_a_file_generates_the_same_without_torch(decoder, tmp_path):
    decoder.save(tmp_path / "d.engine")
    ids = some_ids(1, 6)
    np.save(tmp_path / "ids.npy", ids.numpy())
    np.save(tmp_path / "expected.npy", decoder.generate(ids, 12).numpy())
    code = f"""
import sys, numpy as np, engine
decoder = engine.load_decoder({str(tmp_path / "d.engine")!r})
found = decoder.generate(np.load({str(tmp_path / "ids.npy")!r}), 12)
assert np.array_equal(found, np.load({str(tmp_path / "expected.npy")!r}))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with messages.raises(ProgramError):
        engine.load(tmp_path / "d.engine")


def test_a_file_of_a_program_is_no_decoder(tmp_path):
    engine.compile(nn.Linear(2, 2).eval(), (torch.zeros(1, 2),)).save(tmp_path / "p.engine")
    with messages.raises(ProgramError):
        engine.load_decoder(tmp_path / "p.engine")


def test_what_the_cache_cannot_hold_is_refused(decoder):
    with messages.raises(ShapeError):
        decoder.prefill(some_ids(1, 49))
    with messages.raises(ShapeError):
        decoder.generate(some_ids(1, 40), 10)
    state = decoder.new_state()
    decoder.prefill(some_ids(1, 48), state=state)
    with messages.raises(ShapeError):
        decoder.decode(some_ids(1, 1), state=state)


@pytest.mark.parametrize(
    ("ids", "lengths"),
    [
        (torch.zeros(2, 5, dtype=torch.long), None),
        (torch.zeros(5, dtype=torch.long), None),
        (torch.zeros(1, 0, dtype=torch.long), None),
        ([[1, 2]], None),
        (torch.zeros(1, 5), None),
        (torch.zeros(1, 5, dtype=torch.long), [6]),
        (torch.zeros(1, 5, dtype=torch.long), [0]),
        (torch.zeros(1, 5, dtype=torch.long), [2, 2]),
        (torch.zeros(1, 5, dtype=torch.long), 3),
        (torch.zeros(1, 5, dtype=torch.long), [2.7]),
        (torch.zeros(1, 5, dtype=torch.long), [True]),
        (torch.zeros(1, 5, dtype=torch.long), ["2"]),
        (torch.zeros(1, 5, dtype=torch.long), [[1, 2], [3]]),
    ],
)
def test_ids_that_do_not_fit_are_refused(decoder, ids, lengths):
    with messages.raises(ShapeError):
        decoder.prefill(ids, lengths)


def test_a_state_that_is_no_cache_is_refused(decoder):
    for state in (decoder.entry("prefill").new_state(), {}):
        with messages.raises(ShapeError):
            decoder.prefill(some_ids(1, 3), state=state)
    with messages.raises(ConfigError):
        decoder.generate(some_ids(1, 3), 0)


def test_a_state_of_another_decoder_is_refused(adding):
    """Of the same number of texts; where its cache is the shorter one, writing would go behind its end."""
    roomy = engine.compile_decoder(Adding(64).eval(), 64)
    for one, other in ((adding, roomy), (roomy, adding)):
        with messages.raises(ShapeError):
            one.prefill(some_ids(1, 3), state=other.new_state())


def test_a_state_of_another_decoder_of_the_same_shapes_is_refused(decoder, tmp_path):
    """Its texts are not those of this decoder's weights."""
    decoder.save(tmp_path / "d.engine")
    state = decoder.new_state()
    decoder.prefill(some_ids(1, 3), state=state)
    other = engine.load_decoder(tmp_path / "d.engine")
    for call, more in ((other.prefill, {}), (other.decode, {}), (other.generate, {"max_new_tokens": 2})):
        with messages.raises(ShapeError):
            call(some_ids(1, 1), state=state, **more)


def test_lengths_are_to_be_read_only(decoder):
    state = decoder.new_state()
    decoder.prefill(some_ids(1, 3), state=state)
    seen = state.lengths
    with pytest.raises(ValueError, match="read-only"):
        seen[:] = 1
    with pytest.raises(AttributeError):
        state.lengths = np.ones(1, np.int64)
    decoder.decode(some_ids(1, 1), state=state)
    assert (seen.tolist(), state.lengths.tolist()) == ([3], [4])


class Adding(nn.Module):
    """The next token is the sum of all tokens of the text, modulo 50."""

    def __init__(self, room):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, room))

    def forward(self, ids, position, lengths):
        places = position[:, None] + torch.arange(ids.shape[1])
        self.seen.scatter_(1, places, ids.float())
        total = (self.seen * (torch.arange(self.seen.shape[1]) < lengths[:, None])).sum(1, keepdim=True)
        return -(torch.arange(50) - total.remainder(50)).abs()


@pytest.fixture(scope="module")
def adding():
    return engine.compile_decoder(Adding(LONGEST).eval(), LONGEST)


@pytest.fixture
def late(adding, monkeypatch):
    """A decoder where another thread has its turn between the checks of `decode` and its run."""
    run = adding.entry("decode")

    def run_late(*args, **kwargs):
        time.sleep(1e-4)
        return run(*args, **kwargs)

    monkeypatch.setattr(adding, "_decode", run_late)
    return adding


def test_threads_that_share_a_decoder_get_their_own_texts(late):
    texts = [some_ids(1, 3 + number, number) for number in range(6)]
    expected = []
    for text in texts:
        tokens = text[0].tolist()
        for _ in range(8):
            tokens.append(sum(tokens) % 50)
        expected.append([tokens])
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda text: late.generate(text, 8).tolist(), texts * 4)) == expected * 4


def test_threads_that_share_a_state_do_not_put_more_into_it_than_it_holds(late):
    state = late.new_state()
    late.prefill(some_ids(1, 2), state=state)

    def put(_number):
        try:
            late.decode(some_ids(1, 1), state=state)
        except ShapeError as error:
            return str(error)
        return "put"

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(put, range(60)))
    assert found.count("put") == LONGEST - 2
    assert found.count(f"decode: the cache holds {LONGEST} tokens and is full") == 60 - (LONGEST - 2)
    assert state.lengths.tolist() == [LONGEST]


def test_a_thread_goes_on_while_another_holds_its_own_state(decoder):
    mine, theirs = decoder.new_state(), decoder.new_state()
    with ThreadPoolExecutor(1) as pool, theirs.lock:
        assert pool.submit(decoder.generate, some_ids(1, 3), 4, state=mine).result(timeout=20).shape == (1, 7)


def test_texts_of_another_batch_than_that_of_the_prompt_are_refused(decoder):
    decoder.prefill(some_ids(1, 3))
    with messages.raises(ShapeError):
        decoder.decode(some_ids(2, 1))
    with messages.raises(ShapeError):
        decoder.generate(some_ids(2, 3))


def test_a_batch_that_the_module_cannot_hold_is_named():
    with pytest.raises(EngineError, match=r"the module must take batch=3 texts of up to max_length=16 tokens"):
        engine.compile_decoder(Adding(32).eval(), 16, batch=3)


def test_a_decoder_says_what_it_holds(decoder):
    assert repr(decoder) == f"<Decoder {decoder._graphs['decode'].name}(max_length=48, batch=1)>"


def test_a_cache_that_is_too_short_is_refused_when_compiling():
    with messages.raises(ConfigError):
        engine.compile_decoder(Adding(32).eval(), 33)
    decoder = engine.compile_decoder(Adding(32).eval(), 32)
    assert decoder._state["seen"].tolist() == [[0.0] * 32]
    assert decoder.generate(torch.tensor([[7, 8]]), 3).tolist() == [[7, 8, 15, 30, 10]]


def test_positions_that_the_model_lacks_are_refused_when_compiling():
    """GPT-2 with a cache for 65 tokens, and in this configuration 64 positions."""
    with messages.raises(ConfigError):
        engine.compile_decoder(CachedLM(one_layer(), 1, 65).eval(), 65)


def test_the_time_of_exporting_is_stated_apart(decoder):
    for report in decoder.report().values():
        assert report.export_seconds > 0


def test_a_decoder_file_with_other_facts_is_refused(decoder, tmp_path):
    for number, change in enumerate(
        [
            lambda h: h["facts"].update(batch=2),
            lambda h: h["facts"].pop("max_length"),
            lambda h: h["entries"].pop("decode"),
            lambda h: h["entries"]["decode"].update(states=[]),
            lambda h: h["entries"].update(decode=5),
        ]
    ):
        saved_with(decoder, tmp_path / f"{number}.engine", change)
        with pytest.raises(ProgramError):
            engine.load_decoder(tmp_path / f"{number}.engine")


def test_decoding_an_empty_cache_is_refused(decoder):
    with messages.raises(ShapeError):
        decoder.decode(some_ids(1, 1), state=decoder.new_state())


def test_decode_asks_for_one_column_whatever_is_wrong(decoder):
    ids = some_ids(1, 2)
    for given in (ids, ids[0], ids[:, :1].float()):
        with messages.raises(ShapeError):
            decoder.decode(given)


@pytest.mark.parametrize("length", [1, 4])
def test_a_token_that_the_vocabulary_lacks_is_an_error_and_leaves_the_length(decoder, length):
    state = decoder.new_state()
    decoder.prefill(some_ids(1, 3), state=state)
    ids = torch.full((1, length), 5000)
    with messages.raises(ExecutionError):
        (decoder.decode if length == 1 else decoder.prefill)(ids, state=state)
    assert state.lengths.tolist() == [3]


def test_a_module_without_a_cache_is_refused():
    class Plain(nn.Module):
        def forward(self, ids, position, lengths):
            return (ids + position[:, None] + lengths[:, None]).float()[:, :1].expand(-1, 7)

    with messages.raises(ConfigError):
        engine.compile_decoder(Plain().eval(), 8)


class Branching(Adding):
    """Takes its branch for prompts of some lengths."""

    def __init__(self, condition):
        super().__init__(16)
        self.condition = condition

    def forward(self, ids, position, lengths):
        count = ids.shape[1]
        found = super().forward(ids, position, lengths)
        return found if count == 1 or self.condition(count) else -found


def test_the_cache_is_on_the_device_of_its_network():
    assert {one.device.type for one in CachedLM(network("gpt2-tiny").to("meta"), 1, 8).buffers()} == {"meta"}


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(lambda count: count % 2 == 0, marks=pytest.mark.long),
        lambda count: torch.sym_min(count, 12) == count,
    ],
)
def test_a_condition_that_holds_for_some_lengths_is_refused(condition):
    with messages.raises(EngineError):
        engine.compile_decoder(Branching(condition).eval(), 16)


@pytest.mark.parametrize(("name", "value"), [("max_length", 1), ("max_length", 2.0), ("batch", 0), ("batch", True)])
def test_sizes_of_the_cache_are_checked(name, value):
    with messages.raises(ConfigError):
        engine.compile_decoder(nn.Identity().eval(), **{name: value})


def test_the_shortest_cache_holds_two_tokens(tmp_path):
    reference = one_layer()
    decoder = engine.compile_decoder(CachedLM(one_layer(), 1, 2).eval(), 2)
    decoder.save(tmp_path / "short.engine")
    ids = some_ids(1, 2)
    for one in (decoder, engine.load_decoder(tmp_path / "short.engine")):
        assert one.generate(ids, 1).tolist() == greedy(reference, ids, 1).tolist()
        assert one.generate(ids[:, :1], 2).tolist() == greedy(reference, ids[:, :1], 2).tolist()
        with messages.raises(ShapeError):
            one.prefill(some_ids(1, 3))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda way: way.__name__)
def test_a_decoder_and_its_state_cannot_be_copied(decoder, copied):
    with messages.raises(TypeError):
        copied(decoder)
    with messages.raises(TypeError):
        copied(decoder.new_state())


@pytest.mark.parametrize(
    "module",
    [3, None, nn.Linear, torch.export.export(nn.ReLU(), (torch.ones(1),))],
    ids=["number", "none", "class", "exported"],
)
def test_what_is_no_module_is_refused_in_one_sentence(module):
    with messages.raises(ConfigError):
        engine.compile_decoder(module, max_length=LONGEST)
