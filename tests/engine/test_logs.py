"""The loggers of the package: silent by default, and what `ENGINE_LOG` makes them say."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import engine
from engine import logs

CODE = """
import torch, engine
engine.compile(torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),))
"""


def run(**variables):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **variables},
    )
    return done.stdout, done.stderr


def test_nobody_hears_anything_unless_they_listen():
    assert run() == ("", "")


def test_the_variable_chooses_stages_and_levels():
    _, said = run(ENGINE_LOG="plan,kernels:debug")
    assert "engine.plan Linear: 1 steps, arena of " in said
    assert "engine.kernels Linear: linear" in said
    assert "engine.passes" not in said
    assert "engine.export" not in said


def test_a_file_gets_the_lines(tmp_path):
    path = tmp_path / "log"
    assert run(ENGINE_LOG="all", ENGINE_LOG_FILE=str(path)) == ("", "")
    said = path.read_text()
    assert all(f" engine.{stage} " in said for stage in ("export", "plan", "run"))


@pytest.mark.parametrize("text", ["pases", "passes:loud"])
def test_a_wrong_variable_is_ignored_and_said(text):
    _, said = run(ENGINE_LOG=text)
    assert f"ENGINE_LOG is ignored: unknown {text!r}; expected export, " in said


def test_python_s_own_way_works_too(caplog):
    with caplog.at_level(logging.DEBUG, logger="engine"):
        engine.compile(nn.Linear(4, 3).eval(), (torch.ones(2, 4),))
    assert {record.name for record in caplog.records} == {f"engine.{stage}" for stage in logs.STAGES}


def test_levels():
    assert logs.parse("all:debug,run") == {**dict.fromkeys(logs.STAGES, logging.DEBUG), "run": logging.INFO}
    assert logs.parse("") == {}
