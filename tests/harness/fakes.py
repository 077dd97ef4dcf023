"""Backends with one planted fault each, named in suites as ``path.py:Class``."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch

from engine import InternalError
from suites.backends.base import NotApplicable, Prepared
from suites.backends.eager import Eager


class Right(Eager):
    pass


class Wrong(Eager):
    """Off by one part in a hundred."""

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call
        return Prepared(lambda *x: call(*x) * 1.01)


class Crashing(Eager):
    """Dies of a signal in the middle of preparing, after a word on standard error."""

    def prepare(self, model, inputs):
        sys.stderr.write("kernel went astray\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)


class Devoured(Eager):
    """Ends as a process does that the kernel takes when memory runs out."""

    def prepare(self, model, inputs):
        os.kill(os.getpid(), signal.SIGKILL)


class Leaving(Eager):
    """Ends the process quietly."""

    def prepare(self, model, inputs):
        os._exit(7)


class Hanging(Eager):
    """Prepares, verifies, and then never returns from a timed call."""

    def prepare(self, model, inputs):
        call, calls = super().prepare(model, inputs).call, []

        def slow(*x):
            calls.append(1)
            if len(calls) > 6:
                time.sleep(1000)
            return call(*x)

        return Prepared(slow)


class Raising(Eager):
    def prepare(self, model, inputs):
        raise RuntimeError("this model is not to my taste")


class Elsewhere(Eager):
    """Has nothing to do with the model."""

    def prepare(self, model, inputs):
        raise NotApplicable("only for models of another kind")


class Defective(Eager):
    def prepare(self, model, inputs):
        raise InternalError("two rules contradict")


class Stale(Eager):
    """Answers anew for a while, then keeps giving the last answer: wrong only in timed calls."""

    def prepare(self, model, inputs):
        call, answers = super().prepare(model, inputs).call, []

        def cached(*x):
            if len(answers) < 400:
                answers.append(call(*x))
            return answers[-1]

        return Prepared(cached)


class Keyed(Eager):
    """Keeps its answers by the address of its first input."""

    def prepare(self, model, inputs):
        call, answers = super().prepare(model, inputs).call, {}

        def keyed(*x):
            if x[0].data_ptr() not in answers:
                answers[x[0].data_ptr()] = call(*x)
            return answers[x[0].data_ptr()].clone()

        return Prepared(keyed)


class Hundredth(Eager):
    """Right but for its hundredth call."""

    def prepare(self, model, inputs):
        call, calls = super().prepare(model, inputs).call, []

        def fickle(*x):
            calls.append(1)
            return call(*x) * (1.01 if len(calls) == 100 else 1)

        return Prepared(fickle)


class Aliasing(Eager):
    """Gives out the same buffer every time."""

    def prepare(self, model, inputs):
        call, buffer = super().prepare(model, inputs).call, []

        def shared(*x):
            buffer[:] = buffer or [call(*x).clone()]
            return buffer[0].copy_(call(*x))

        return Prepared(shared)


class Scribbling(Eager):
    """Right, but writes over its inputs."""

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def scribble(*x):
            found = call(*(one.clone() for one in x))
            x[0].neg_()
            x[0].neg_()
            x[0][0, 0] += 1
            return found

        return Prepared(scribble)


class Chatty(Eager):
    """Prints what looks like the protocol."""

    def load(self):
        super().load()
        sys.stdout.write('{"ok": {"seconds": 0}}\n')
        sys.stdout.flush()
        os.write(1, b'{"error": "not mine"}\n')

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def loud(*x):
            os.write(1, b"}{\n")
            return call(*x)

        return Prepared(loud, facts={"nodes": 3, "arena_bytes": 64})


class Nan(Eager):
    """NaN in one place."""

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def poison(*x):
            found = call(*x).clone()
            found.view(-1)[0] = torch.nan
            return found

        return Prepared(poison)


class Slower(Eager):
    """Waits 2 ms in each call."""

    def prepare(self, model, inputs):
        call = super().prepare(model, inputs).call

        def wait(*x):
            time.sleep(0.002)
            return call(*x)

        return Prepared(wait)
