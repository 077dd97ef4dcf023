"""Text generation: sampling, ends of texts and streams, against loops in Python and against transformers."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import ConfigError, ExecutionError, ShapeError
from engine.runtime.sampling import Sampling, probabilities
from tests import messages

ROOM, VOCABULARY, BATCH = 24, 50, 3
PROMPTS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])
LENGTHS = [4, 2, 3]


class Chain(nn.Module):
    """The logits after a text depend on its first and its last token, as the cache holds them."""

    def __init__(self, batch=BATCH, dtype=torch.float32):
        super().__init__()
        table = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(3))
        self.register_buffer("seen", torch.zeros(batch, ROOM))
        self.register_buffer("table", table.to(dtype))

    def forward(self, ids, position, lengths):
        self.seen.scatter_(1, position[:, None] + torch.arange(ids.shape[1]), ids.float())
        last = self.seen.gather(1, (lengths - 1)[:, None])[:, 0].long()
        return self.table[last] + self.table[self.seen[:, 0].long()]


TABLE = Chain().table.numpy()


@pytest.fixture(scope="module")
def decoder():
    return engine.compile_decoder(Chain().eval(), ROOM, BATCH)


def logits_after(text):
    return TABLE[text[-1]] + TABLE[text[0]]


def continue_texts(count, choose=lambda _row, logits: int(np.argmax(logits)), has_ended=lambda _text, _start: False):
    """The new tokens of each text, one token at a time."""
    new = []
    for row, length in enumerate(LENGTHS):
        text = PROMPTS[row, :length].tolist()
        while len(text) < length + count and not (len(text) > length and has_ended(text, length)):
            text.append(choose(row, logits_after(text)))
        new.append(text[length:])
    return new


def as_result(new, width):
    """What `generate` returns for these new tokens: int64 [batch, width]."""
    rows = [[*PROMPTS[row, :length].tolist(), *new[row]] for row, length in enumerate(LENGTHS)]
    return [row + [0] * (width - len(row)) for row in rows]


def plain_probabilities(logits, temperature, top_k, top_p):
    """As `probabilities`, by sorting and exact sums."""
    order = sorted(range(len(logits)), key=lambda token: (-float(logits[token]), token))
    kept = order[:top_k]
    highest = float(logits[order[0]])
    weights = {token: math.exp((float(logits[token]) - highest) / temperature) for token in kept}
    total = math.fsum(weights.values())
    if top_p is not None:
        count = next(n for n in range(1, len(kept) + 1) if math.fsum(weights[t] for t in kept[:n]) / total >= top_p)
        kept = kept[:count]
    total = math.fsum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(logits))]


# --- probabilities ----------------------------------------------------------------------------------------------------

FILTERS = [
    (1.0, None, None),
    (0.3, None, None),
    (5.0, 1, None),
    (1.0, 7, None),
    (1.0, 99, None),
    (1.0, None, 0.4),
    (2.0, None, 0.999),
    (1.0, None, 1e-9),
    (0.8, 10, 0.6),
    (1.5, 3, 1.0),
]


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), FILTERS)
def test_probabilities_are_those_of_a_plain_loop(temperature, top_k, top_p):
    for seed in range(20):
        logits = np.random.default_rng(seed).normal(0, 3, VOCABULARY).astype(np.float32)
        actual = probabilities(logits, Sampling(temperature, top_k, top_p))
        expected = plain_probabilities(logits, temperature, top_k, top_p)
        assert np.array_equal(actual > 0, np.array(expected) > 0)
        np.testing.assert_allclose(actual, expected, rtol=1e-13)


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), FILTERS)
def test_probabilities_are_those_of_transformers(temperature, top_k, top_p):
    """Its filters compute in float32, hence the tolerance."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    steps = [TemperatureLogitsWarper(temperature)]
    steps += [] if top_k is None else [TopKLogitsWarper(top_k)]
    steps += [] if top_p is None else [TopPLogitsWarper(top_p)]
    for seed in range(20):
        scores = torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3
        actual = probabilities(scores[0].numpy(), Sampling(temperature, top_k, top_p))
        for step in steps:
            scores = step(None, scores)
        np.testing.assert_allclose(actual, scores.softmax(-1)[0].numpy(), rtol=1e-5, atol=1e-7)


def test_of_equal_logits_the_smaller_ids_are_kept():
    logits = np.array([1.0, 2.0, 2.0, 0.0, 2.0], np.float32)
    assert probabilities(logits, Sampling(1.0, top_k=2)).tolist() == [0, 0.5, 0.5, 0, 0]
    assert probabilities(logits, Sampling(1.0, top_p=0.5)).nonzero()[0].tolist() == [1, 2]
    assert probabilities(np.zeros(4), Sampling(1.0, top_p=0.75)).nonzero()[0].tolist() == [0, 1, 2]


def test_masked_tokens_are_never_drawn_and_a_tiny_temperature_leaves_one_token():
    logits = np.array([-np.inf, 1.0, 0.5], np.float32)
    assert probabilities(logits, Sampling(1e6))[0] == 0
    assert probabilities(logits, Sampling(1e-320)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_logits_without_probabilities_are_an_error(bad):
    with messages.raises(ExecutionError):
        probabilities(np.array(bad, np.float32), Sampling(1.0))


# --- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "seed"),
    [(1.0, None, None, 0), (0.7, 5, None, 1), (1.3, None, 0.8, 2**70), (2.0, 20, 0.9, 4)],
)
def test_sampled_tokens_are_those_of_a_plain_loop(decoder, temperature, top_k, top_p, seed):
    sources = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(r,)))) for r in range(BATCH)]

    def choose(row, logits):
        number, total = sources[row].random(), 0.0
        for token, probability in enumerate(plain_probabilities(logits, temperature, top_k, top_p)):
            total += probability
            if total > number:
                return token
        raise AssertionError(number)

    actual = decoder.generate(
        PROMPTS,
        20,
        LENGTHS,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=np.int64(seed) if seed < 9 else seed,
    )
    assert actual.tolist() == as_result(continue_texts(20, choose), 24)


def test_a_seed_makes_texts_reproducible_and_global_generators_have_no_part_in_it(decoder):
    def generate(seed):
        return decoder.generate(PROMPTS, 20, LENGTHS, temperature=1.0, seed=seed).tolist()

    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002  # the global generator is the point
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002  # the global generator is the point
    first = generate(7)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002  # the global generator is the point
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002  # the global generator is the point
    assert generate(7) == first
    assert generate(8) != first
    assert generate(None) != generate(None)


def test_the_random_numbers_of_a_text_do_not_depend_on_the_others(decoder):
    alone = engine.compile_decoder(Chain(1).eval(), ROOM, 1)
    together = decoder.generate(PROMPTS, 20, LENGTHS, temperature=1.0, seed=5)
    assert together[:1].tolist() == alone.generate(PROMPTS[:1], 20, temperature=1.0, seed=5).tolist()


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"temperature": 0.0, "top_k": 3, "seed": 1}])
def test_without_a_temperature_the_most_likely_token_follows(decoder, options):
    assert decoder.generate(PROMPTS, 20, LENGTHS, **options).tolist() == as_result(continue_texts(20), 24)


def test_a_device_that_chooses_tokens_need_not_give_logits(decoder, monkeypatch):
    chosen = []

    def choose(logits):
        chosen.append(logits.numpy().argmax(1))
        return chosen[-1]

    monkeypatch.setattr(decoder._target.device, "choose_most_likely", choose, raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(
            "engine.runtime.decoder._to_array", lambda ids: ids.numpy() if ids.dtype == torch.int64 else 1 / 0
        )
        tokens = decoder.generate(PROMPTS, 5, LENGTHS)
    assert len(chosen) == 5
    assert tokens.tolist() == as_result(continue_texts(5), 9)
    decoder.generate(PROMPTS, 2, LENGTHS, temperature=1.0, seed=0)
    decoder.generate(PROMPTS, 2, LENGTHS, return_logits=True)
    assert len(chosen) == 5, "it is asked for the most likely token alone"


def test_bfloat16_logits_are_sampled_in_torch_and_in_numpy():
    decoder = engine.compile_decoder(Chain(1, torch.bfloat16).eval(), ROOM, 1)
    ids, logits = decoder.generate(PROMPTS[:1], 5, temperature=1.0, seed=0, return_logits=True)
    again, same = decoder.generate(PROMPTS[:1].numpy(), 5, temperature=1.0, seed=0, return_logits=True)
    assert logits.dtype == torch.float32
    assert ids.tolist() == again.tolist()
    assert np.array_equal(logits.numpy(), same)


# --- ends of texts ----------------------------------------------------------------------------------------------------


def test_a_text_ends_at_an_end_token_and_zeros_follow(decoder):
    free = continue_texts(20)
    for ends in ([free[1][3]], [free[0][0], free[2][5]], sorted({tokens[4] for tokens in free})):
        new = continue_texts(20, has_ended=lambda text, _start, ends=ends: text[-1] in ends)
        longest = max(map(len, new))
        state = decoder.new_state()
        for given in (
            ends,
            tuple(ends),
            np.array(ends),
            torch.tensor(ends),
            *([ends[0], torch.tensor(ends[0])] if len(ends) == 1 else []),
        ):
            actual = decoder.generate(PROMPTS, 20, LENGTHS, eos_token_id=given, state=state)
            assert actual.tolist() == as_result(new, 4 + longest)
        # The cache holds each text but its last token, so it can be continued.
        assert state.lengths.tolist() == [n + len(t) - 1 for n, t in zip(LENGTHS, new, strict=True)]
        texts = [PROMPTS[row, :n].tolist() + new[row] for row, n in enumerate(LENGTHS)]
        logits = decoder.decode(torch.tensor([[text[-1]] for text in texts]), state)
        np.testing.assert_array_equal(logits.numpy(), [logits_after(text) for text in texts])


def test_generation_ends_with_the_last_text(decoder):
    first = [tokens[0] for tokens in continue_texts(1)]
    assert decoder.generate(PROMPTS, 20, LENGTHS, eos_token_id=first).tolist() == as_result([[t] for t in first], 5)


def test_a_text_may_fill_the_cache_after_another_has_ended(decoder):
    ends = continue_texts(1)[0]
    new = continue_texts(21, has_ended=lambda text, _start: text[-1] in ends)
    actual = decoder.generate(PROMPTS, 21, LENGTHS, eos_token_id=ends)
    assert actual.tolist() == as_result(new, 4 + max(map(len, new)))


def ends_with(text, sequences):
    return any(text[-len(sequence) :] == sequence for sequence in sequences)


def test_a_text_ends_with_a_stop_sequence(decoder):
    free = continue_texts(20)
    stop = [free[0][3:6], free[1][6:7], [1] * 40]
    new = continue_texts(20, has_ended=lambda text, _start: ends_with(text, stop))
    assert [len(tokens) for tokens in new][:2] == [5, 7]
    for given in (stop, [np.array(sequence) for sequence in stop], tuple(map(tuple, stop))):
        assert decoder.generate(PROMPTS, 20, LENGTHS, stop=given).tolist() == as_result(new, 24)


def test_a_stop_sequence_may_begin_in_the_prompt_and_must_end_in_a_new_token(decoder):
    free = continue_texts(20)
    across = [[3, 4, free[0][0], free[0][1]], [6, free[1][0]]]
    inside = [[9, 10], [11], [3, 4]]  # what the prompt ends with ends nothing
    assert 11 not in free[2]
    new = continue_texts(20, has_ended=lambda text, _start: ends_with(text, [*across, *inside]))
    assert [len(tokens) for tokens in new] == [2, 1, 20]
    assert decoder.generate(PROMPTS, 20, LENGTHS, stop=[*across, *inside]).tolist() == as_result(new, 24)


def test_the_logits_of_each_new_token_are_returned(decoder):
    free = continue_texts(8)
    end = free[1][2]
    new = continue_texts(8, has_ended=lambda text, _start: text[-1] == end)
    expected = np.zeros((BATCH, max(map(len, new)), VOCABULARY), np.float32)
    for row, length in enumerate(LENGTHS):
        text = PROMPTS[row, :length].tolist()
        for step, token in enumerate(new[row]):
            expected[row, step] = logits_after(text)
            text.append(token)
    for kind, ids in ((torch.Tensor, PROMPTS), (np.ndarray, PROMPTS.numpy())):
        tokens, logits = decoder.generate(ids, 8, LENGTHS, eos_token_id=end, return_logits=True)
        assert isinstance(tokens, kind)
        assert isinstance(logits, kind)
        assert tokens.tolist() == as_result(new, tokens.shape[1])
        np.testing.assert_array_equal(np.asarray(logits), expected)


def test_texts_of_gpt2_end_where_those_of_transformers_do():
    from suites.models import gpt2
    from suites.models.nets.cached import CachedLM
    from suites.models.nets.causal import CausalLM

    def build():
        torch.manual_seed(0)
        made = CausalLM("gpt2", gpt2.TINY | {"n_layer": 1}, "sdpa").network.eval()
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.mul_(8 if parameter.dim() > 1 else 1)  # tokens differ from step to step
        return made

    decoder = engine.compile_decoder(CachedLM(build(), 2, 40).eval(), 40, 2)
    ids = torch.randint(1, 200, (2, 6), generator=torch.Generator().manual_seed(0))
    free = decoder.generate(ids, 30)
    for ends in ([int(free[0, 10])], [int(free[0, 8]), int(free[1, 12])], [int(free[1, -1])]):
        expected = build().generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=30,
            do_sample=False,
            eos_token_id=ends,
            pad_token_id=0,
        )
        assert decoder.generate(ids, 30, eos_token_id=ends).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": 2.0},
        {"max_new_tokens": True},
        {"eos_token_id": 50},
        {"eos_token_id": -1},
        {"eos_token_id": []},
        {"eos_token_id": [1, True]},
        {"stop": [[3, np.True_]]},
        {"eos_token_id": [1, 2.5]},
        {"eos_token_id": "</s>"},
        {"stop": "\n\n"},
        {"stop": ["\n"]},
        {"stop": [13, 10]},
        {"stop": 13},
        {"stop": [[]]},
        {"stop": [[50]]},
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"temperature": "1"},
        {"temperature": True},
        {"temperature": 1.0, "top_k": 0},
        {"temperature": 1.0, "top_k": 5.0},
        {"temperature": 1.0, "top_p": 0},
        {"temperature": 1.0, "top_p": 1.01},
        {"temperature": 1.0, "top_p": math.nan},
        {"temperature": 1.0, "seed": -1},
        {"temperature": 1.0, "seed": "a"},
        {"top_k": 5},
        {"top_p": 0.9},
        {"seed": 3},
    ],
)
def test_values_that_are_not_allowed_are_refused_before_anything_runs(decoder, options):
    state = decoder.new_state()
    for call in (decoder.generate, decoder.stream):
        with messages.raises(ConfigError):
            call(PROMPTS, state=state, **options)
    assert state.lengths.tolist() == [0] * BATCH


def test_return_logits_must_be_a_bool(decoder):
    with messages.raises(ConfigError):
        decoder.generate(PROMPTS, 1, return_logits=1)


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_stream_yields_the_tokens_of_generate(decoder, kind):
    ids = PROMPTS if kind == "torch" else PROMPTS.numpy()
    free = continue_texts(20)
    options = {"eos_token_id": free[0][5], "stop": [free[1][2:4]], "temperature": 0.0}
    new = continue_texts(20, has_ended=lambda text, _start: text[-1] == free[0][5] or ends_with(text, options["stop"]))
    steps = list(decoder.stream(ids, 20, LENGTHS, **options))
    assert all(type(step) is type(ids) and step.dtype == ids.dtype and step.shape == (BATCH,) for step in steps)
    longest = max(map(len, new))
    assert np.stack(steps, 1).tolist() == [tokens + [0] * (longest - len(tokens)) for tokens in new]
    sampled = decoder.generate(ids, 6, temperature=1.0, top_k=9, seed=3)[:, 4:]
    assert np.array_equal(np.stack(list(decoder.stream(ids, 6, temperature=1.0, top_k=9, seed=3)), 1), sampled)


def test_a_stream_that_is_left_early_leaves_the_decoder_usable(decoder):
    expected = as_result(continue_texts(5), 9)
    for _tokens in decoder.stream(PROMPTS, 20, LENGTHS):
        break
    assert decoder.generate(PROMPTS, 5, LENGTHS).tolist() == expected
    stream = decoder.stream(PROMPTS, 20, LENGTHS)
    next(stream)
    stream.close()
    assert decoder.generate(PROMPTS, 5, LENGTHS).tolist() == expected
    assert list(stream) == []
    unread = decoder.stream(PROMPTS, 20, LENGTHS)  # nothing has been asked for, so nothing is reserved
    assert decoder.generate(PROMPTS, 5, LENGTHS).tolist() == expected
    assert len(list(unread)) == 20
    assert decoder.generate(PROMPTS, 5, LENGTHS).tolist() == expected


def test_calls_with_the_state_of_a_stream_in_progress_are_refused(decoder):
    expected = continue_texts(6)
    for state in (None, decoder.new_state()):
        stream = decoder.stream(PROMPTS, 6, LENGTHS, state=state)
        tokens = [next(stream)]
        calls = (
            lambda state=state: decoder.prefill(PROMPTS, state=state),
            lambda state=state: decoder.decode(PROMPTS[:, :1], state=state),
            lambda state=state: decoder.generate(PROMPTS, 2, state=state),
            lambda state=state: next(decoder.stream(PROMPTS, 2, state=state)),
            (state or decoder._state).reset,
        )
        for call in calls:
            with messages.raises(ExecutionError):
                call()
        tokens += stream
        assert np.stack(tokens, 1).tolist() == expected


def test_streams_with_states_of_their_own_are_independent(decoder):
    expected = continue_texts(10)
    streams = [decoder.stream(PROMPTS, 10, LENGTHS, state=decoder.new_state()) for _ in range(2)]
    for step in range(10):
        for stream in streams:
            assert next(stream).tolist() == [tokens[step] for tokens in expected]
        assert decoder.generate(PROMPTS, 1, LENGTHS)[0, 4] == expected[0][0]


def test_a_stream_goes_on_in_another_thread_and_is_closed_in_a_third(decoder):
    """A lock that the stream held between its steps would belong to one of the threads."""
    expected = continue_texts(20)
    stream = decoder.stream(PROMPTS, 20, LENGTHS)
    for step in range(3):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(next, stream).result(timeout=20).tolist() == [tokens[step] for tokens in expected]
            with messages.raises(ExecutionError):
                pool.submit(decoder.generate, PROMPTS, 1).result(timeout=20)
            own = pool.submit(decoder.generate, PROMPTS, 1, LENGTHS, state=decoder.new_state())
            assert own.result(timeout=20).tolist() == as_result([tokens[:1] for tokens in expected], 5)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(stream.close).result(timeout=20)
    assert decoder.generate(PROMPTS, 1, LENGTHS).tolist() == as_result([tokens[:1] for tokens in expected], 5)


def test_threads_that_stream_with_states_of_their_own_get_their_own_texts(decoder):
    def stream(seed):
        state = decoder.new_state()
        steps = decoder.stream(PROMPTS, 20, LENGTHS, temperature=1.0, seed=seed, state=state)
        return np.stack(list(steps), 1).tolist()

    expected = [stream(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(stream, [*range(4)] * 5)) == expected * 5


def test_threads_that_read_one_stream_share_its_tokens(decoder):
    """A Python generator would raise ValueError."""
    expected = continue_texts(20)
    stream = decoder.stream(PROMPTS, 20, LENGTHS)
    with ThreadPoolExecutor(4) as pool:
        parts = [pool.submit(lambda: [step.tolist() for step in stream]) for _ in range(4)]
        tokens = [step for part in parts for step in part.result(timeout=60)]
    assert sorted(tokens) == sorted([text[step] for text in expected] for step in range(20))
    assert iter(stream) is stream


def test_a_stream_that_fails_releases_its_state(decoder):
    stream = decoder.stream(PROMPTS + 10**6, 4)
    with pytest.raises(ExecutionError):
        next(stream)
    assert decoder.generate(PROMPTS, 1).shape == (BATCH, 5)


def test_the_caller_may_change_what_a_stream_was_given_and_what_it_yields(decoder):
    ids, tokens = PROMPTS.clone(), []
    for step in decoder.stream(ids, 6, LENGTHS):
        tokens.append(step.tolist())
        step.fill_(0)
        ids.fill_(0)
    assert np.transpose(tokens).tolist() == continue_texts(6)
    ids = PROMPTS.clone()
    stream = decoder.stream(ids, 6, LENGTHS)
    ids.fill_(0)
    assert next(stream).tolist() == tokens[0]


@pytest.mark.parametrize("name", ["generate", "stream"])
def test_a_wrong_type_of_ids_is_told_before_a_wrong_length(decoder, name):
    for count in (2, 22):  # with 22 new tokens the texts do not fit either
        with messages.raises(ShapeError):
            getattr(decoder, name)(PROMPTS.float(), max_new_tokens=count)
    with messages.raises(ShapeError):
        decoder.generate(PROMPTS.float().numpy(), 22)


def test_a_stream_is_checked_when_it_is_made(decoder):
    with messages.raises(ShapeError):
        decoder.stream(PROMPTS[:1])
    with messages.raises(ShapeError):
        decoder.stream(PROMPTS, 22)
    with messages.raises(ShapeError):
        decoder.generate(PROMPTS, 3, lengths=(4, True, 1))
    with messages.raises(ShapeError):
        decoder.stream(PROMPTS, 2, [5, 1, 1])
    with messages.raises(ShapeError):
        decoder.stream(PROMPTS, 2, state=5)
