"""Settings of the process are the same before and after whatever the engine does, also where it raises."""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

import engine
import engine.dynamo
from engine.exporter import handlers, walk
from engine.torch_backend import optimizer_steps
from suites import models
from tests.modules import Function


def loggers():
    return {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("torch")}


def settings(known):
    """Settings of the process and of this thread, by name; of loggers, those that are `known`."""
    return {
        "gc": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_debug()),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "loggers": {n: (o.level, o.disabled, o.propagate, o.filters[:], o.handlers[:]) for n, o in known.items()},
        "logging": (logging.root.level, logging.root.manager.disable, logging.getLogger("engine").level),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "hooks of Python": (sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile()),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval()),
        "paths": (os.getcwd(), list(sys.path)),  # noqa: PTH109  # a string compares as it is
        "environment": dict(os.environ),
        "processors": os.sched_getaffinity(0),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "locale": locale.setlocale(locale.LC_ALL),
        "NumPy": (np.geterr(), np.get_printoptions()),
        "random numbers": (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()),  # noqa: NPY002  # the global generator is the point
        "torch, this thread": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled()),
        "torch": (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.get_num_threads(),
            torch.get_num_interop_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.mkldnn.enabled,
            torch._C._len_torch_function_stack(),
            torch._C._len_torch_dispatch_stack(),
        ),
        "hooks of optimizers": (dict(_global_optimizer_pre_hooks), dict(_global_optimizer_post_hooks)),
        "hooks of modules": (
            dict(nn.modules.module._global_forward_hooks),
            dict(nn.modules.module._global_forward_pre_hooks),
        ),
        "operators": composite_kernels(),
    }


def composite_kernels():
    """How torch defines operators by others; exporters replace these definitions for a while."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return {op: op.py_kernels.get(key) for op in handlers.HANDLERS}


@pytest.fixture(scope="module", autouse=True)
def _torch_is_loaded():
    """Let torch import its own modules first: they change settings when they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.export(nn.Linear(2, 2).eval(), (torch.ones(1, 2),), strict=False).run_decompositions()
    torch.compile(nn.Linear(2, 2).eval(), backend="aot_eager")(torch.ones(1, 2))
    torch.compiler.reset()
    gc.collect()
    gc.freeze()  # what is there before the tests need not be looked through each time
    yield
    gc.unfreeze()


@contextmanager
def unchanged():
    """Compare all settings before and after the block, with the engine's objects collected."""
    known = loggers()
    before = settings(known)
    yield
    torch.compiler.reset()
    gc.collect()
    after = settings(known)
    for name, value in before.items():
        assert after[name] == value, f"{name} changed"


def compiled(function, x, **options):
    return engine.compile(Function(function).eval(), (x,), engine.Config(**options))


X = torch.ones(3, 4)


@pytest.fixture
def linear():
    return nn.Linear(4, 4).eval()


def test_compile_call_report_profile(linear):
    with unchanged():
        program = engine.compile(linear, (X,))
        program(X)
        program(X.numpy())
        program.report()
        program.profile(X, runs=1, roofs=False)
        del program


def test_save_load_call(linear, tmp_path):
    with unchanged():
        engine.compile(linear, (X,)).save(tmp_path / "model.engine")
        engine.load(tmp_path / "model.engine")(X)


def test_sizes_that_differ(linear):
    rows = torch.export.Dim("rows", min=2, max=9)
    with unchanged():
        program = engine.compile(linear, (X,), dynamic_shapes={"input": {0: rows}})
        for size in range(2, 9):
            program(torch.ones(size, 4))


@pytest.mark.parametrize("options", [{"target": "interpreter"}, {"threads": 2}, {"variant": {"linear": "openblas"}}])
def test_other_ways_to_run(linear, options):
    with unchanged():
        engine.compile(linear, (X,), engine.Config(**options))(X)


def test_a_call_that_is_decomposed():
    with unchanged():
        compiled(torch.special.entr, X)(X)


def test_segments_on_torch():
    with unchanged():
        program = compiled(lambda x: torch.cummax(x, 0)[0] + 1, X, fallback="torch")
        assert program(X).shape == X.shape
        assert program.report().fallback_nodes == 1


def test_a_model_whose_scan_is_replaced():
    model, inputs = models.get("mamba-tiny").build()
    with unchanged():
        engine.compile(model, inputs)


def test_torch_compile_with_this_backend(linear):
    optimizer_steps._register()  # one hook of optimizers stays as long as the process
    with unchanged(), torch.no_grad():
        found = torch.compile(linear, backend="engine")
        found(X)
        linear.weight.add_(1)
        found(X)
        del found


def branches(x):
    return x if x.sum() > 0 else -x


def mismatched(x):
    return x @ torch.ones(7, 7)


def raising(_x):
    raise KeyError("of the user")


@pytest.mark.parametrize(
    "function", [branches, pytest.param(mismatched, marks=pytest.mark.long), raising, torch.linalg.inv]
)
def test_compile_that_raises(function):
    with unchanged(), pytest.raises(engine.EngineError):
        compiled(function, torch.eye(3))


def test_torch_compile_that_raises():
    with unchanged(), torch.no_grad(), pytest.raises(engine.UnsupportedOp):
        torch.compile(torch.linalg.inv, backend="engine", options={"fallback": None})(torch.eye(3))


def test_a_compilation_that_a_defect_ends(monkeypatch):
    monkeypatch.setattr(walk.Walk, "run", None)
    with unchanged(), pytest.raises(TypeError):
        compiled(torch.relu, X)


def test_calls_that_raise():
    program = compiled(torch.relu, X)
    lookup = engine.compile(nn.Embedding(4, 4).eval(), (torch.tensor([1]),))
    with unchanged():
        with pytest.raises(engine.ShapeError):
            program(torch.ones(7, 7))
        with pytest.raises(engine.ExecutionError):
            lookup(torch.tensor([9]))
