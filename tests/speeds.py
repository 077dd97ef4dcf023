"""Finds operations that are wrong, far slower than eager PyTorch, or below the class of their kernels.

`python -m tests.speeds`, a stage of `make check-all`.
Takes each tenth case of `suites/operations`. Times depend on the machine, so the margin is wide, and a case fails only
if it does so again and again. Inputs whose layout the call has to change first are left out.
"""

from __future__ import annotations

import sys

import engine
from suites.harness.run import operations
from suites.operations import Operation, list_operations

EACH = 10
MARGIN = 4.0
"""How many times eager's time a case may take."""
TRIALS = 3
LAYOUTS = {"channels_last", "transposed"}


def find_fault(operation: Operation) -> str:
    """What is wrong with a case each time that it is measured; empty if nothing is, or if the engine refuses it."""
    for _ in range(TRIALS):
        line = operations.measure(operation, engine.Config(threads=1))
        if line.problem is not None and line.problem.startswith("wrong"):
            return line.problem
        is_slow = line.speed_high is not None and line.speed_high * MARGIN < 1
        if not is_slow and not line.lapses:
            return ""
    return "; ".join([f"{line.speed:.2f} of the speed of eager PyTorch, {line.kernel}", *line.lapses])


def main() -> None:
    """Prints a line for each fault; exits with 1 if there is one."""
    chosen = [one for one in list_operations() if not LAYOUTS & set(" ".join(one.operands).split())][::EACH]
    faults = [f"{one.title}: {fault}" for one in chosen if (fault := find_fault(one))]
    sys.stdout.write("\n".join([*faults, f"{len(chosen)} operations, {len(faults)} faults", ""]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
