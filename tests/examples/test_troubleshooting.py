"""The messages that docs/troubleshooting.md quotes are those that users see."""

from __future__ import annotations

import importlib.metadata
import platform
import re

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.switches import kernel_variants, variants_kind
from engine.targets.triton import target
from tests.files import saved_with


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs/troubleshooting.md").read_text()


@pytest.fixture(scope="module")
def program():
    return engine.compile(nn.Linear(2, 2).eval(), (torch.zeros(1, 2),))


def message_of(call):
    with pytest.raises(engine.EngineError) as raised:
        call()
    return f"{type(raised.value).__name__}: {raised.value}"


def test_the_message_about_another_format_version(page, program, tmp_path):
    path = tmp_path / "model.engine"
    saved_with(program, path, lambda header: header.update(version=99))
    assert message_of(lambda: engine.load(path)).replace(f"{tmp_path}/", "") in page


def test_the_message_about_a_damaged_file(page, program, tmp_path):
    path = tmp_path / "model.engine"
    program.save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert re.sub("checksum of .* does", "checksum of ... does", message_of(lambda: engine.load(path))).partition(
        "model.engine: "
    )[2].removeprefix("the ") in page.replace("\n", " ")


def test_the_message_about_inputs(page, program):
    assert message_of(lambda: program(np.zeros((2, 2), np.float32))) in page


def test_the_message_about_training_mode(page):
    assert message_of(lambda: engine.compile(nn.Linear(2, 2).train(), (torch.zeros(1, 2),))) in page


def test_the_messages_about_instruction_sets(page):
    foreign = "neon" if platform.machine() == "x86_64" else "avx512"
    start = message_of(lambda: engine.compile(nn.Linear(2, 2).eval(), (torch.zeros(1, 2),), engine.Config(isa=foreign)))
    assert start.replace(foreign, "neon").partition("this machine has")[0] + "this machine has" in page


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).real


def test_the_message_about_control_flow(page):
    text = message_of(lambda: engine.compile(Branch().eval(), (torch.ones(2, 3),)))
    torchs, _, hint = text.partition("; ")
    shown = page.replace("\n", " ")
    assert torchs.partition(" (unhinted")[0] + " ...; " + hint.partition(" (")[0] in shown


def test_the_message_about_operations_that_are_missing(page):
    text = message_of(lambda: engine.compile(Spectrum().eval(), (torch.ones(2, 3),)))
    assert re.sub(r"\([^()]*\.py:\d+\)", "(model.py:7)", text) in page


def pretend(monkeypatch, *, versions=(), capability=None, built="12.8"):
    """A machine without the interpreter, with these versions of packages (None: not installed) and this device."""
    kernel_variants(variants_kind("triton"))  # registered once for the process, if triton is there
    known = dict(versions)

    def version(name):
        found = known.get(name, {"triton": "3.7.1", "torch": "2.13.0"}[name])
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(target, "find_missing_package", target.find_missing_package.__wrapped__)
    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")


@pytest.mark.parametrize(
    "machine",
    [
        {"versions": [("triton", None)]},
        {"versions": [("triton", "3.5.1")]},
        {"built": None},
        {},
        {"capability": (7, 5)},
    ],
    ids=str,
)
def test_the_messages_about_a_gpu(page, monkeypatch, machine, tmp_path, program):
    path = tmp_path / "model.engine"
    program.save(path)
    pretend(monkeypatch, **machine)
    config = engine.Config(target="triton")
    compiled = message_of(lambda: engine.compile(nn.Linear(2, 2).eval(), (torch.zeros(1, 2),), config))
    loaded = message_of(lambda: engine.load(path, config=config))
    assert f"\n{compiled}\n" in page
    assert loaded == compiled


def test_the_messages_of_a_program_on_a_gpu(page):
    pytest.importorskip("triton")
    config = engine.Config(target="triton")
    image = torch.zeros(1, 1, 8, 8)
    model = nn.Sequential(nn.Conv2d(1, 1, 3)).eval()
    text = message_of(lambda: engine.compile(model, (image,), config))
    assert re.sub(r"conv\.py:\d+", "conv.py:565", text) in page
    lookup = engine.compile(nn.Embedding(4, 8).eval(), (torch.tensor([1]),), config)
    text = message_of(lambda: lookup(torch.tensor([9])))
    assert re.sub(r"sparse\.py:\d+", "sparse.py:189", text) in page


@pytest.mark.parametrize(
    ("quoted", "file", "written"),
    [
        ("a call takes 4000000000004 bytes; this process can have", "engine/memory.py", "bytes; this process can have"),
        ("bytes of a program's values", "engine/memory.py", "bytes of a program's values"),
        ("a stream is in progress with this state", "engine/runtime/decoder.py", "a stream is in progress with this"),
        ("noisy: the A/A floor is above 1.20x", "suites/harness/present/notes.py", None),
        (
            "disturbed: other processes used the processors, also when rounds were repeated",
            "suites/harness/present/notes.py",
            None,
        ),
        ("(as by a system that runs out of memory)", "suites/harness/run/session.py", None),
        ("so the backends take turns in", "suites/harness/run/runner.py", None),
        ("do not fit into memory, so the backends take turns", "suites/harness/run/runner.py", None),
        (
            "relative error 3.10e-02, allowed",
            "suites/harness/judge/verify.py",
            "relative error {found.relative:.2e}, allowed",
        ),
        (
            "openvino not installed: pip install 'enginebench[openvino]'",
            "suites/backends/__init__.py",
            " not installed: ",
        ),
        ("pip install 'enginebench[openvino]'", "suites/backends/__init__.py", None),
        ("CUDA reports an error: an illegal", "engine/targets/triton/device.py", "CUDA reports an error: {error}"),
        (
            "bytes of memory of cuda:0, which has",
            "engine/targets/triton/device.py",
            "bytes of memory of {place}, which has",
        ),
    ],
)
def test_the_messages_that_need_a_broken_machine_are_in_the_code(page, root, quoted, file, written):
    assert quoted in page
    assert (written or quoted) in (root / file).read_text()
