"""A backend whose switches were planted: what each is worth is known exactly, since it brings its own clock.

Time in its process passes only when it is called, so nothing that else runs on the machine can be seen in it.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from pathlib import Path

from suites.backends.base import BackendSwitch, Prepared
from suites.backends.eager import Eager

# What a switch is worth: a call takes so many times as long without it.
WORTH = {"pays20": 1.20, "pays2": 1.02, "costs10": 1 / 1.10, "digest_only": 1.0, "no_op": 1.0}
PAIRS = {"redundant": 1.15, "synergy": 1.15}
NAMES = (*WORTH, *(f"{pair}_{one}" for pair in PAIRS for one in "ab"))


def factor(off):
    """How many times as long a call takes without the switches `off`."""
    found = math.prod(WORTH.get(name, 1.0) for name in off)
    for pair, worth in PAIRS.items():
        gone = [f"{pair}_{one}" in off for one in "ab"]
        lost = all(gone) if pair == "redundant" else any(gone)
        found *= worth if lost else 1.0
    return found


class Planted(Eager):
    lists = ("off", "on")

    @classmethod
    def switches(cls):
        found = [BackendSwitch("planted", name, {"off": name}, {"on": name}) for name in NAMES]
        return [*found, BackendSwitch("planted", "inapplicable", {"off": "inapplicable"})]

    def inapplicable_errors(self):
        return (LookupError,)

    @classmethod
    def bare(cls):
        return {"on": "none"}

    def _off(self):
        if "on" in self.options:
            return set(NAMES) - set(self.options["on"].split("+"))
        return set(filter(None, self.options.get("off", "").split("+")))

    def load(self):
        super().load()
        self._now = time.perf_counter()
        time.perf_counter = lambda: self._now

    def prepare(self, model, inputs):
        if "inapplicable" in self._off():
            raise LookupError("no layer of this model can use it")
        call = super().prepare(model, inputs).call
        name = Path(json.loads(sys.argv[1])["scratch"]).name  # generation and label
        luck = random.Random(name)
        seconds = 2e-3 * factor(self._off()) * math.exp(luck.gauss(0, 0.002))

        def timed(*x):
            self._now += seconds * math.exp(luck.gauss(0, 0.005))
            return call(*x)

        digest = "+".join(sorted(self._off() - {"no_op"}))
        nodes = 10 + len(self._off() - {"no_op", "digest_only"})
        slow = int("pays20" in self._off())
        facts = {"run_digest": digest, "nodes": nodes, "launches": 4, "slow_launches": slow}
        return Prepared(timed, facts=facts)
