"""Writes a model of the suites as the GGUF file that the backend llama_cpp reads, and prints where it is.

    python scripts/make_gguf.py smollm2 --precision int8_weight

The file is in the cache of the user, under a digest of the weights; the backend finds it there. bf16 weights are those
that the harness rounds.
"""

from __future__ import annotations

import argparse

from engine.errors import EngineError
from suites import models
from suites.backends.llama_cpp import ENCODINGS, keep_file
from suites.cli import guard
from suites.harness.declare.precision import convert_model
from suites.harness.errors import UsageError


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name of a language model, see `enginebench list models`")
    parser.add_argument("--precision", choices=ENCODINGS, default="fp32")
    arguments = parser.parse_args()
    from suites.models.nets.gguf_write import CannotWrite

    try:
        model, _ = models.get(arguments.model).build()
        network = getattr(model, "network", None)
        if network is None:
            raise CannotWrite("it is no language model of transformers")
        print(keep_file(convert_model(network, arguments.precision), ENCODINGS[arguments.precision]))
    except (EngineError, CannotWrite) as error:
        raise UsageError(f"{arguments.model}: {error}") from None


if __name__ == "__main__":
    guard(main, "make_gguf")
