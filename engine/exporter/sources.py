"""Finds source lines and modules of calls in the user's model, from stack traces. Knows no graph."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ROOT = re.compile(r"^[LG]\['\w+'\]\.?")  # Dynamo begins a path with the local or global variable that holds the model
_TORCH = str(Path(torch.__file__).parent)
_ENGINE = str(Path(__file__).parents[1])
_STDLIB = sysconfig.get_paths()["stdlib"]
_SITE = sysconfig.get_paths()["purelib"]


def from_trace(trace: str | None) -> str:
    """``file:line`` of the innermost frame outside of torch, otherwise of the innermost frame; "" without frames."""
    frames = [frame for frame in _FRAME.findall(trace or "") if not frame[0].startswith("<")]
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    chosen = users or frames
    return f"{chosen[-1][0]}:{chosen[-1][1]}" if chosen else ""


def shorten(source: str) -> str:
    """The last two parts of a path: enough to find the line, without folders of the compiling machine."""
    return "/".join(source.split("/")[-2:])


def module_of(node: torch.fx.Node) -> str:
    """The path of the innermost module that makes the call, such as ``encoder.layer.3``; "" for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(next(reversed(stack.values()))[0]) if stack else ""
    return _ROOT.sub("", path)


def from_error(error: BaseException) -> str:
    """``file:line`` of the innermost frame of the user's own code that an error passed through, or ""."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _is_users(file: str) -> bool:
    if file.startswith((_TORCH, _ENGINE, "<")):
        return False
    return file.startswith(_SITE) or not file.startswith(_STDLIB)
