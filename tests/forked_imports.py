"""What workers import and what torch imports for its first export: done once, before they are forked (forked.py)."""

import sys

import torch

import engine
import suites.harness.judge.reference
import suites.harness.measure.job
import suites.harness.run.worker  # noqa: F401

PATH = list(filter(None, sys.path))
"""Where this process finds modules, but for the folder that it starts in."""

engine.compile(torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),))
