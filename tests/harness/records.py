"""Records for tests: a line needs only what the test is about."""

from __future__ import annotations

from suites.harness.record.facts import AllFacts
from suites.harness.record.launches import KernelRecord, NodeRecord
from suites.harness.record.schema import Environment, Plan, Samples, Summary

CASE = "mlp/b1/t1/fp32"


def environment(**fields):
    """The first line of a run that has no cases."""
    plan = {
        "name": "tiny", "baseline": "eager", "rounds": 3, "samples_per_round": 3, "generations": 2,
        "generation_budget_s": 1.0, "same_within": 0.02, "timeouts": {}, "cases": {},
    }  # fmt: skip
    usual = {
        "machine": "cpu-2c", "cpu": "x", "architecture": "x86_64", "cores": 2, "caches": {}, "isa": [],
        "memory_bytes": 1 << 30, "kernel": "Linux 6", "python": "3.11.7", "versions": {}, "commit": None, "dirty": None,
        "difference": None, "threads": [1], "suite": "tiny", "plan_digest": "0",
    }  # fmt: skip
    return Environment(**usual | {"plan": Plan(**plan | fields.pop("plan", {}))} | fields)


def samples(**fields):
    """What `eager` did in one generation."""
    usual = {"case": CASE, "backend": "eager", "generation": 0, "threads": 1}
    facts = AllFacts(**fields.pop("facts", None) or {})
    return Samples(**usual | {"facts": facts} | fields)


def summary(**fields):
    """A row of a peer, unless its backend is the engine or another version of it."""
    backend = fields.get("backend", "eager")
    role = "version" if backend.startswith("engine@") else "engine" if backend.startswith("engine") else "peer"
    usual = {
        "case": CASE, "model": "mlp", "shape": {"batch": 1}, "threads": 1, "precision": "fp32", "backend": backend,
        "role": role, "baseline": "eager", "status": "ok",
    }  # fmt: skip
    return Summary(**usual | fields)


def kernel(**fields):
    """A product of matrices that arithmetic binds."""
    usual = {
        "op": "linear", "name": "16 x 768 x 768", "kernel": "f32_linear__avx512_packed", "isa": "avx512",
        "seconds": 2e-4, "flops": 2e7, "bytes": 3e6, "bound": "compute", "roof_share": 0.97, "executed_share": 0.97,
        "torch_speed": 0.66, "openblas_speed": 0.58, "peak_flops": 1e11, "read_bandwidth": 3e10, "copy_bandwidth": 4e10,
    }  # fmt: skip
    return KernelRecord(**usual | fields)


def node(**fields):
    """A launch of the engine that arithmetic binds."""
    usual = {
        "case": CASE, "backend": "engine", "index": 0, "op": "linear", "kernel": "f32_linear__avx512_packed",
        "shape": [1, 16], "module": "layers.0", "seconds": 2e-4, "flops": 20_000_000, "executed_flops": 20_000_000,
        "bytes": 3_000_000, "time_share": 0.5, "roof_share": 0.97, "bound": "compute", "peak_flops": 1e11,
        "bandwidth": 3e10,
    }  # fmt: skip
    return NodeRecord(**usual | fields)
