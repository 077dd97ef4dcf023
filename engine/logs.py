"""Loggers of the package: ``engine``, and a child for each stage. Silent until someone listens, as libraries are.

The variable ``ENGINE_LOG`` makes the package itself listen: ``ENGINE_LOG=passes,kernels:debug`` writes what the stage
``passes`` says to standard error, and of ``kernels`` also details. ``all`` is all stages. ``ENGINE_LOG_FILE`` is a file
that they are added to instead. Knows no stage.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

STAGES = ("export", "passes", "plan", "kernels", "run")
_ROOT = logging.getLogger("engine")
_ROOT.addHandler(logging.NullHandler())
EXPORT, PASSES, PLAN, KERNELS, RUN = (_ROOT.getChild(stage) for stage in STAGES)
_heard: list[logging.Handler] = []
"""The handler that `listen` has added last."""
LEVELS = ("debug", "info", "warning")
VARIABLE, FILE_VARIABLE = "ENGINE_LOG", "ENGINE_LOG_FILE"


def parse(text: str) -> dict[str, int]:
    """Stage -> level, of ``stage[:level],...``; ValueError says what is unknown."""
    found: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        stage, _, level = item.partition(":")
        level = level or "info"
        if stage not in (*STAGES, "all") or level not in LEVELS:
            expected = f"expected {', '.join(STAGES)} or all, each with :{', :'.join(LEVELS)} or nothing behind it"
            raise ValueError(f"unknown {item!r}; {expected}")
        found |= dict.fromkeys(STAGES if stage == "all" else (stage,), getattr(logging, level.upper()))
    return found


def listen(environment: Mapping[str, str] = os.environ) -> None:
    """Do what the variables say. What they say wrong is told on standard error."""
    text = environment.get(VARIABLE, "")
    if not text:
        return
    try:
        levels = parse(text)
        path = environment.get(FILE_VARIABLE)
        handler = logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"engine: {VARIABLE} is ignored: {error}\n")
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    for stage in STAGES:
        for former in _heard:
            _ROOT.getChild(stage).removeHandler(former)
    _heard[:] = [handler]
    for stage, level in levels.items():
        logger = _ROOT.getChild(stage)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
