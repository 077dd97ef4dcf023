"""The weights of smollm2: what each tensor of a GGUF file becomes."""

from __future__ import annotations

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

from suites import models
from suites.models import smollm2
from suites.models.nets import gguf_llama

STORED = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
Q8_0, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32


def stored_name(name: str) -> str:
    """``model.layers.1.mlp.up_proj.weight`` -> ``blk.1.ffn_up.weight``."""
    _model, *parts, _weight = name.split(".")
    return (
        f"blk.{parts[1]}.{STORED['.'.join(parts[2:])]}.weight" if parts[0] == "layers" else f"{STORED[parts[0]]}.weight"
    )


def save(path, tensors, kinds=None):
    """A GGUF file; `tensors` by the file's names."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, values in tensors.items():
        kind = (kinds or {}).get(name, F32)
        writer.add_tensor(name, values if kind is F32 else quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def drawn(model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    named = [(name, p) for name, p in model.network.named_parameters()]
    return {stored_name(name): rng.standard_normal(p.shape).astype(np.float32) for name, p in named}


def test_a_file_is_read_by_its_names_and_heads_are_turned_by_halves(tmp_path):
    model, _ = models.get("smollm2-tiny").build()
    tensors = drawn(model)
    grid = "blk.1.ffn_down.weight"  # its rows are 64 long: two blocks
    gguf_llama.load(model.network, save(tmp_path / "weights.gguf", tensors, {grid: Q8_0}), smollm2.TINY)
    state = {name: tensor.numpy() for name, tensor in model.network.state_dict().items()}
    np.testing.assert_array_equal(state["model.embed_tokens.weight"], tensors["token_embd.weight"])
    np.testing.assert_array_equal(state["lm_head.weight"], tensors["token_embd.weight"])
    np.testing.assert_array_equal(state["model.norm.weight"], tensors["output_norm.weight"])
    np.testing.assert_array_equal(state["model.layers.1.mlp.up_proj.weight"], tensors["blk.1.ffn_up.weight"])
    np.testing.assert_array_equal(state["model.layers.0.self_attn.v_proj.weight"], tensors["blk.0.attn_v.weight"])
    on_grid = dequantize(quantize(tensors[grid], Q8_0), Q8_0)
    np.testing.assert_array_equal(state["model.layers.1.mlp.down_proj.weight"], on_grid)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # of a head of 8 rows: neighbours in the file, halves here
    for name, heads in (("q", 6), ("k", 2)):
        turned = tensors[f"blk.0.attn_{name}.weight"].reshape(heads, 8, 48)[:, order].reshape(-1, 48)
        np.testing.assert_array_equal(state[f"model.layers.0.self_attn.{name}_proj.weight"], turned)
