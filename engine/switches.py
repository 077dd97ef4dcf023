"""Every switch by name. Only collects: passes, planner strategies and kernels declare theirs.

The command line, the suites, the ablation tables and the documentation read this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Switch:
    """One thing that can be turned.

    Attributes:
        kind: ``pass``, ``planner``, ``kernel``, ``threads``, ``dispatch``, ``outputs``,
            ``isa`` or ``executor``.
        name: the name within its kind.
        default: its value in ``Config()``, as text.
        summary: one line.
    """

    kind: str
    name: str
    default: str
    summary: str


@cache
def all_switches() -> tuple[Switch, ...]:
    """Every switch, in the order in which data flows."""
    from engine import config, passes, planner

    found = [Switch("pass", p.name, "on", p.summary) for p in passes.PASSES.values()]
    found += [
        Switch("planner", name, "on" if name == "default" else "off", s.summary)
        for name, s in planner.STRATEGIES.items()
    ]
    for op, variants in kernel_variants().items():
        found += [Switch("kernel", f"{op}={v}", "", f"run {op} by the {v} kernel where it applies") for v in variants]
    found.append(Switch("threads", "threads", "1", "worker threads of one call"))
    found.append(Switch("dispatch", "dispatch", "whole", "one C call a run (whole) or a node (per_node)"))
    found.append(
        Switch("outputs", "outputs", "recycled", "memory of large results: of earlier ones (recycled) or fresh")
    )
    found.append(Switch("isa", "isa", "best", f"the instruction set: {', '.join(config.ISAS)}"))
    found.append(Switch("executor", "executor", "native", f"who runs the program: {', '.join(config.EXECUTORS)}"))
    return tuple(found)


@cache
def names(kind: str) -> tuple[str, ...]:
    """Names of the switches of one kind (``pass`` or ``planner``)."""
    from engine import passes, planner

    return {"pass": tuple(passes.PASSES), "planner": tuple(planner.STRATEGIES)}[kind]


@cache
def kernel_variants() -> dict[str, tuple[str, ...]]:
    """Op name -> names of its kernel variants, best first, as the C registry lists them."""
    from engine.targets.cpu import native

    found: dict[str, dict[str, None]] = {}
    for kernel in native.kernels():
        found.setdefault(kernel.op, {})[kernel.variant] = None
    return {op: tuple(variants) for op, variants in sorted(found.items())}
