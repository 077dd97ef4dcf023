"""A part of a model as a script of plain torch, which fails as the model does.

Imported where trials run, since it needs torch.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from pprint import pformat

import torch
from torch import Tensor, fx

_FEW = 32
"""Elements that are spelled as numbers where they are as recorded; more of them as bytes."""
_MANY = 4096
"""Elements up to which a tensor is rounded."""
_WIDTH = 100


def spell(tensor: Tensor, form: str, seed: int) -> str:
    """An expression for a tensor like `tensor`, in one of `engine.inspect.minify.FORMS`, or as it is.

    "" if it has no such form.
    """
    shape = tuple(tensor.shape)
    kind = "" if str(tensor.dtype) == "torch.float32" else f", dtype={tensor.dtype}"
    if form == "ones":
        return f"torch.ones({shape}{kind})"
    if form == "whole":
        return f"(torch.arange({math.prod(shape)}) * 5 % 7 - 3).reshape({shape}).to({tensor.dtype})"
    if not form:
        if tensor.numel() <= _FEW:
            return f"torch.tensor({tensor.tolist()}{kind})" + ("" if tensor.numel() else f".reshape({shape})")
        return _spell_bytes(tensor)
    if not tensor.is_floating_point() or not tensor.isfinite().all():
        return ""
    wide = tensor.double()
    if form == "seed":
        scale = float(f"{float(wide.std(correction=0)) or 1.0:.1g}")
        made = f"torch.randn({shape}, generator=torch.Generator().manual_seed({seed})) * {scale}"
        return made if not kind else f"({made}).to({tensor.dtype})"
    if tensor.numel() > _MANY:
        return ""
    digits = 1 - math.floor(math.log10(max(float(wide.abs().max()), 1e-30)))
    return f"torch.tensor({wide.round(decimals=digits).tolist()}{kind})"


def _spell_bytes(tensor: Tensor) -> str:
    data = base64.b64encode(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).decode()
    lines = pformat(data, width=_WIDTH) if len(data) > _WIDTH else repr(data)
    made = f"torch.frombuffer(bytearray(base64.b64decode({lines})), dtype={tensor.dtype})"
    return f"{made}.reshape({tuple(tensor.shape)})"


def evaluate(expression: str) -> Tensor:
    """The tensor of an expression that `spell` made."""
    made: Tensor = eval(expression, {"torch": torch, "base64": base64})  # noqa: S307  # of `spell`, not of a user
    return made


def write_script(
    module: fx.GraphModule,
    inputs: Sequence[str],
    spelled: Mapping[str, str],
    title: str,
    subject: str,
    check: str,
) -> str:
    """The text of a script: a module, its inputs, another way to run it, and what its results have to be.

    Args:
        module: of calls of torch, and buffers.
        inputs: names of those in `spelled` that are inputs.
        spelled: an expression for each input and buffer.
        title: the first line, as any text.
        subject: lines that make ``results``, a sequence, of ``model`` and ``inputs``.
        check: lines that raise if they are wrong.
    """
    buffers = [name for name in spelled if name not in inputs]
    held = [f"        self.register_buffer({name!r}, {spelled[name]})" for name in buffers]
    start = ["    def __init__(self):", "        super().__init__()", *held, ""] if held else []
    names = "".join(f", {name}" for name in inputs)
    imports = [line for line in subject.splitlines() if line.startswith("import ")]
    main = [
        "torch.set_grad_enabled(False)",
        "model = Model().eval()",
        "inputs = (",
        *(f"    {spelled[name]}," for name in inputs),
        ")",
        *(line for line in subject.splitlines() if line not in imports),
        *check.splitlines(),
    ]
    forward = [f"    def forward(self{names}):", *_list_body(module)]
    code = "\n".join(["class Model(torch.nn.Module):", *start, *forward, "", "", *main, ""])
    quoted = title.replace("\\", "/").replace('"', "'")
    return "\n".join([f'"""{quoted}"""', "", *_list_imports(code), *imports, "", "", code])


def _list_body(module: fx.GraphModule) -> list[str]:
    """The lines of ``forward`` behind its first one, which read buffers where they use them."""
    lines = [line for line in module.code.splitlines() if line.strip() and not line.strip().startswith("#")]
    first = next(number for number, line in enumerate(lines) if line.startswith("def forward"))
    text = "\n".join(f"    {re.sub(r';  .* = None$', '', line)}" for line in lines[first + 1 :])
    for name in re.findall(r"^ +(\w+) = self\.\1$", text, re.MULTILINE):
        text = re.sub(rf"^ +{name} = self\.{name}\n", "", text, flags=re.MULTILINE)
        text = re.sub(rf"(?<!\.)\b{name}\b", f"self.{name}", text)
    return text.splitlines()


def _list_imports(text: str) -> list[str]:
    """Lines that import what a script uses: modules, and names that code of torch.fx takes as known."""
    known = [name for name in ("device", "inf", "nan") if re.search(rf"(?<![\w.]){name}\b(?! ?=)", text)]
    lines = ["import base64", ""] if "base64." in text else []
    return [*lines, "import torch", *([f"from torch import {', '.join(known)}"] if known else [])]
