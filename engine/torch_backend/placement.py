"""Lets torch run its part of a model where a target runs the rest. Knows no program.

`Device.bring` moves tensors that torch reads there. Calls that make tensors, as ``arange``, name the model's device.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from engine.exporter.torch_internals import OpOverload, schema_arguments
from engine.targets.base import Device
from engine.torch_backend.layouts import ensure_strides


def find_place(device: Device) -> torch.device:
    """Where the tensors are that `bring` returns."""
    return torch.device(bring(device, torch.empty(0)).device)


def bring(device: Device, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` where programs of `device` need not fetch it, with the same strides; itself if it is there."""
    return _keep_strides(tensor, device.bring(tensor))


def move(tensor: torch.Tensor, place: torch.device | str) -> torch.Tensor:
    """`tensor` on the device `place`, with the same strides; itself if it is there."""
    return _keep_strides(tensor, tensor.to(place))


def _keep_strides(tensor: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    return moved if moved is tensor else ensure_strides(moved, tensor.stride())


def move_calls(module: GraphModule, place: torch.device) -> None:
    """Changes `module` so that its calls make their tensors on `place`, and its constants are there. Bodies of
    higher-order operators are replaced by changed copies.
    """
    for name in dict.fromkeys(str(node.target) for node in module.graph.find_nodes(op="get_attr")):
        held = getattr(module, name)
        if isinstance(held, torch.Tensor):
            delattr(module, name)  # a parameter gives its name to no plain tensor
            setattr(module, name, move(held.detach(), place))
        elif isinstance(held, GraphModule):
            body = copy.deepcopy(held)
            move_calls(body, place)
            setattr(module, name, body)
    for node in module.graph.nodes:
        if node.op == "call_function":
            _move_call(node, place)
    module.recompile()


def _move_call(node: Node, place: torch.device) -> None:
    def replace(argument: Any) -> Any:
        return place if isinstance(argument, torch.device) else argument

    node.args, node.kwargs = map_aggregate(node.args, replace), map_aggregate(node.kwargs, replace)
    # Without an argument `device`, a call that reads no tensor makes one on the cpu.
    if (
        isinstance(node.target, OpOverload)
        and not node.all_input_nodes
        and any(argument.name == "device" for argument in schema_arguments(node.target))
    ):
        node.update_kwarg("device", place)
