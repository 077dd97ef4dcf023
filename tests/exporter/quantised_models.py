"""Models quantised by torchao, for tests: weights of 8 bits with scales, and what they mean in float64."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Net(nn.Module):
    """An embedding and two linear layers, one without a bias; around them what reads no quantised weight."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 64)
        self.up = nn.Linear(64, 96)
        self.norm = nn.LayerNorm(96)
        self.down = nn.Linear(96, 40, bias=False)

    def forward(self, ids):
        return self.down(self.norm(torch.relu(self.up(self.table(ids)))))


WEIGHTS = ("table", "up", "down")
IDS = torch.arange(12).reshape(2, 6)


def made(seed=0, dtype=torch.float32):
    """A `Net` in evaluation mode. One row of a weight is zeros."""
    torch.manual_seed(seed)
    net = Net().eval().requires_grad_(requires_grad=False).to(dtype)
    net.up.weight[5] = 0
    return net


def weight_only(model, config=None):
    """`model` with its layers quantised by torchao, in place."""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    layers = (nn.Linear, nn.Embedding)
    quantize_(model, config or Int8WeightOnlyConfig(), filter_fn=lambda module, _name: isinstance(module, layers))
    return model


def qdq(model, inputs, *, per_channel=True, fold=True, activations=None):
    """`model` as a graph of `quantize` and `dequantize`, by torchao's prepare and convert for exported models.

    Weights of linear layers, convolutions and embeddings are quantised; `activations` is the specification of the first
    input of linear layers, if that is quantised, too.
    """
    from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
        observer_or_fake_quant_ctr=(PerChannelMinMaxObserver if per_channel else MinMaxObserver).with_args(eps=2**-20),
    )
    aten = torch.ops.aten
    position = {aten.linear.default: 1, aten.conv2d.default: 1, aten.embedding.default: 0, aten.layer_norm.default: 2}

    class Weights(Quantizer):
        def annotate(self, model):
            for node in model.graph.nodes:
                if node.target in position and (node.target is not aten.layer_norm.default or not per_channel):
                    wanted = {node.args[position[node.target]]: weights}
                    if activations is not None and node.target is aten.linear.default:
                        wanted[node.args[0]] = activations
                    node.meta["quantization_annotation"] = QuantizationAnnotation(wanted, _annotated=True)
            return model

        def validate(self, model):
            pass

    prepared = prepare_pt2e(torch.export.export(copy.deepcopy(model), inputs).module(), Weights())
    prepared(*inputs)
    return convert_pt2e(prepared, fold_quantize=fold)


def in_float64(model):
    """The function of a model quantised by torchao, computed in float64 with dequantised weights."""
    plain = Net().eval().requires_grad_(requires_grad=False).double()
    for name in WEIGHTS:
        weight = getattr(model, name).weight
        getattr(plain, name).weight.copy_(weight.qdata.double() * weight.scale.double())
    plain.up.bias.copy_(model.up.bias)
    plain.norm.load_state_dict(model.norm.state_dict())
    return plain
