"""Gather rows of tables, add them and normalise the sum in one pass over memory, as at the start of an encoder.

(word[ids] + type[types]) + position -> layer_norm or rms_norm. One term is a gather; up to two more are gathers or
values that broadcast along leading axes. The order of the additions does not change, so the bits do not change.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.ops.fused import TERMS
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Pattern, Rule, Var, apply, call

NORMS = ("layer_norm", "rms_norm")


def _gather(n: int) -> Pattern:
    return call("embedding", Var(f"table{n}"), Var(f"ids{n}"), name=f"gather{n}")


def _either(n: int) -> Pattern:
    """A gather that serves nobody else, or any value."""
    return OneOf((_gather(n), Var(f"term{n}")))


def _pattern(norm: str, terms: int) -> Pattern:
    total = _gather(0)
    for n in range(1, terms):
        total = call("add", total, _either(n))
    return call(norm, total, name="norm")


def _term(found: Match, n: int) -> tuple[Value | None, Value | None]:
    """(values, ids) of term `n`; the ids are None where it is no gather, both where there is no such term."""
    if f"gather{n}" in found.calls:
        return found.values[f"table{n}"], found.values[f"ids{n}"]
    return found.values.get(f"term{n}"), None


def _fits(found: Match) -> bool:
    """The norm is over the last axis, adds nothing itself, and every term has rows of its width."""
    norm = found.calls["norm"]
    x = norm.operand("x")
    width = norm.output.shape[-1:]
    if x.dtype != "float32" or norm.attributes["axes"] != 1 or norm["addend"] is not None:
        return False
    for n in range(len(TERMS)):
        values, ids = _term(found, n)
        if values is None:
            continue
        if values.shape[-1:] != width or (ids is not None and len(values.shape) != 2):
            return False
    return True


def _rule(op: str, terms: int) -> Rule:
    def rewrite(graph: Graph, found: Match) -> Value:
        norm = found.calls["norm"]
        inputs = {"weight": norm["weight"], "bias": norm["bias"] if op == "layer_norm" else None}
        for n, name in enumerate(TERMS):
            inputs[name], inputs[f"{name}_ids"] = _term(found, n)
        epsilon = norm.attributes["epsilon"]
        return graph.emit("embedding_norm", inputs, before=norm, source=norm.source, norm=op, epsilon=epsilon)

    return Rule(_pattern(op, terms), rewrite, (_fits,))


RULES = tuple(_rule(op, terms) for op in NORMS for terms in range(len(TERMS), 0, -1))


def run(graph: Graph) -> int:
    """Number of norms that gather their rows themselves."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_embedding_norm",
    run,
    before={
        "fuse_add_norm": "it would take one of the terms that are added to the gathered rows",
    },
)
