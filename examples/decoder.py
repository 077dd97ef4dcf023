"""Text generation with a cache, from a small module of your own.

    python examples/decoder.py

A model of transformers becomes such a module with suites/models/nets/cached.py.
"""

import torch
from torch import nn

import engine

VOCABULARY, WIDTH, MAX_LENGTH = 60, 32, 48


class TinyLM(nn.Module):
    """One layer of attention over a cache, with random weights."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(MAX_LENGTH, WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        # The cache: the keys and values of all tokens so far. The module writes to these buffers in place.
        self.register_buffer("keys", torch.zeros(batch, MAX_LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(batch, MAX_LENGTH, WIDTH))

    def forward(self, ids: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The logits after the last token of each text, [batch, vocabulary].

        Args:
            ids: int64 [batch, count], the next tokens of each text.
            position: int64 [batch], number of tokens that are in the cache already.
            lengths: int64 [batch], number of tokens that are in the cache after this call.
        """
        count = ids.shape[1]
        slots = position[:, None] + torch.arange(count)  # where the tokens belong, [batch, count]
        hidden = self.embedding(ids) + self.positions(slots)
        query, key, value = self.query_key_value(hidden).chunk(3, -1)
        index = slots[:, :, None].expand(-1, -1, WIDTH)
        self.get_buffer("keys").scatter_(1, index, key)
        self.get_buffer("values").scatter_(1, index, value)
        mask = torch.arange(MAX_LENGTH) <= slots[:, :, None]  # a token sees itself and the tokens before it
        attended = nn.functional.scaled_dot_product_attention(
            query, self.get_buffer("keys"), self.get_buffer("values"), mask
        )
        last = (lengths - position - 1)[:, None, None].expand(-1, 1, WIDTH)
        logits: torch.Tensor = self.head((hidden + attended).gather(1, last)[:, 0])
        return logits


def main() -> None:
    """Generate: greedily, by sampling, as a stream, and step by step."""
    torch.manual_seed(0)
    decoder = engine.compile_decoder(TinyLM(batch=2).eval(), max_length=MAX_LENGTH, batch=2)

    # Two prompts of different lengths: the shorter one is padded at its end.
    ids, lengths = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), [4, 2]
    print("greedy  ", decoder.generate(ids, 8, lengths).tolist())
    print("sampled ", decoder.generate(ids, 8, lengths, temperature=0.8, top_k=20, top_p=0.95, seed=0).tolist())

    # Texts end at an end token, or at a sequence of ids. After that the stream yields 0 for them.
    for tokens in decoder.stream(ids, 8, lengths, eos_token_id=7, stop=[[11, 12]]):
        print("streamed", tokens.tolist())

    # Step by step, with a state of its own, as each thread needs it.
    state = decoder.new_state()
    logits = decoder.prefill(ids, lengths, state)
    for _ in range(3):
        logits = decoder.decode(logits.argmax(-1, keepdim=True), state)
    print("in the cache:", state.lengths.tolist())


if __name__ == "__main__":
    main()
