"""Reasons of failed rows: the text of an exception, made fit for a record and a page. Imports nothing heavy."""

from __future__ import annotations

import re
from pathlib import Path

LIMIT = 1000
"""Characters of a reason in a record, at most."""
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and movements of the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[@-Z\\-_]"
    r"|[\x00-\x08\x0b-\x1f\x7f]"
)
_SCRATCH = re.compile(r"[^\s'\"=:]*/enginebench-[^\s'\":,;)]*")
_REVISION = re.compile(r"[^\s'\"=:(]*/enginebench/revisions/[0-9a-f]{12}/(?=[0-9a-f]{12}\b)")
"""The folder in which engines of git revisions are built, up to the name of the commit."""
_GENERATED = re.compile(r"[^\s'\"=:]*/torchinductor_[^/\s'\"]*(?=/)")
"""The folder in which inductor stores generated code. The name of the user is part of its name."""
_ADVICE = re.compile(
    r"\s*(?:Set TORCHDYNAMO_VERBOSE=1 for |For even more developer context, set TORCH_LOGS=|"
    r"You can suppress this exception and fall back to eager by setting:\s|"
    r"For more information, run with TORCH_LOGS=|For extended logs when we create symbols, |"
    r"If you suspect the guard was triggered from C\+\+, |"
    r"For more debugging help, see |For C\+\+ stack trace, run with |"
    r"The error above occurred when calling torch\.export\.export\. |"
    r"\(Refer to the full stack trace above for more information\.\)|"
    r"- Debug `torch\.export\.export` and submit a PR to PyTorch\.|- Create an issue in the PyTorch GitHub repository )"
    r"[^\n]*(?:\n {4}[^\n]*)*"
)
"""What torch.compile, torch.export and the exporter to ONNX add to each error: how to debug torch, and where to report
it."""
_FRAMES = re.compile(r"\s*\(?Exception raised from \S+ at \S+ \(most recent call first\):.*", re.DOTALL)
"""Where an error was raised in torch's C++, with addresses, which torch appends to some errors."""
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


_CAUSES = (
    re.compile(r"CMake Error at [^\s:]+:\d+(?: \([^)]*\))?:\s*[^\n]*\S"),  # CMake may say why in the line below
    re.compile(r"[^\s:]+:\d+(?::\d+)?: (?:fatal )?error: [^\n]+"),  # a compiler
    re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): [^\n]+", re.MULTILINE),  # Python
    re.compile(
        r"^(?!.*(?:subprocess-exited-with-error|Failed building))"  # pip says so of every build that fails
        r"(?:FAILED: |fatal: |.*\b(?:error: |undefined reference to |cannot find -l)).*\S",
        re.MULTILINE | re.IGNORECASE,
    ),  # another tool, such as a linker, ninja or git
)
"""Lines that say what is wrong, by the tool that writes them; those of the first tool come first."""


def find_cause(text: str) -> str | None:
    """The one line of a failed build that says what is wrong; None if no line of `text` looks like that."""
    plain = clean(text)
    found = next(filter(None, (pattern.search(plain) for pattern in _CAUSES)), None)
    return None if found is None else " ".join(found[0].split())


def name_error(error: BaseException) -> str:
    """The class and the text of an exception, and its notes."""
    said = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    return "; ".join([said, *getattr(error, "__notes__", ())])


def shorten(text: str, limit: int = LIMIT) -> str:
    """`text` in at most `limit` characters: its beginning and its end, with ``[...]`` for what is left out between."""
    if len(text) <= limit:
        return text
    cut = "\n[...]\n"
    beginning = int(0.3 * (limit - len(cut)))  # the end has more: runtimes name the cause there
    return text[:beginning] + cut + text[beginning - limit + len(cut) :]


def remove_escapes(text: str) -> str:
    """`text` without escape sequences of terminals and without control characters other than tabs and line ends."""
    return _ESCAPES.sub("", text)


def clean(text: str) -> str:
    """`text` without escape sequences of terminals, without what differs each time (scratch folders, addresses), and
    without torch's advice on debugging torch.
    """
    plain = _FRAMES.sub("", _ADVICE.sub("", remove_escapes(text)))
    plain = _REVISION.sub("", plain)
    return _ADDRESS.sub("0x...", _SCRATCH.sub("<scratch>", _GENERATED.sub("<inductor>", plain)))


def join_lines(text: str) -> str:
    """`text` in one line. A line that begins an item or a sentence is set off by a semicolon."""
    found = ""
    for line in filter(None, (" ".join(line.split()) for line in text.splitlines())):
        begins = line.startswith("- ") or line[0].isupper()
        gap = "; " if begins and found and found[-1] not in ".,:;!?" else " "
        found += (gap if found else "") + line.removeprefix("- ")
    return found


def clean_line(reason: str | None) -> str:
    """The reason of a row that is not ``ok`` as tables show it: clean, in one line."""
    return join_lines(clean(reason or "no reason recorded"))


def tidy(text: str) -> str:
    """A reason fit for a record: clean, without the name of the home folder, and not longer than `LIMIT`."""
    return shorten(clean(text).replace(str(Path.home()), "~"))
