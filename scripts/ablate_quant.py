#!/usr/bin/env python3
"""What each precision costs in accuracy, as a table for each model: weights, scores on real data, 95% intervals.

Times nothing; `enginebench run quantization` does. Example:

    python scripts/ablate_quant.py stories15m smollm2 --backends engine,eager,openvino \
        --recipe smollm2=examples/smollm2_recipe.toml --into docs/quantization-results.md
"""

from __future__ import annotations

from pathlib import Path

from suites import models
from suites.accuracy import datasets, evaluate, tables
from suites.cli import guard
from suites.cli.accuracy import DEFAULT_PRECISIONS, make_subjects
from suites.cli.output import console
from suites.cli.scripts import check_models, check_page, models_parser, positive, read_path
from suites.harness.present import markdown
from suites.harness.record import machine

MODELS = ("minilm", "stories15m", "smollm2", "cifar10-cnn", "resnet50-imagenet")
MARKER = "accuracy"


def main() -> None:
    """Evaluate each model and print or write its table."""
    parser = models_parser(__doc__)
    parser.add_argument("--precision", default=DEFAULT_PRECISIONS, help="separated by commas")
    parser.add_argument("--backends", default="engine,eager", help="separated by commas")
    parser.add_argument(
        "--recipe", action="append", default=[], metavar="MODEL=FILE", help="a further row of the engine; repeatable"
    )
    parser.add_argument("--chunks", type=positive, help="calls of each model, otherwise as many as usual")
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--into", type=read_path, help=f"write the tables between the markers {MARKER} of this file")
    arguments = parser.parse_args()
    check_models(parser, arguments.model)
    recipes = [text.partition("=")[::2] for text in arguments.recipe]
    if wrong := [model for model, path in recipes if not path or model not in (arguments.model or MODELS)]:
        parser.error(f"--recipe: expected MODEL=FILE with a model that is scored, got {wrong[0]!r}")
    subjects = {
        model: make_subjects(
            arguments.precision, arguments.backends, [Path(path) for name, path in recipes if name == model]
        )
        for model in arguments.model or MODELS
    }
    check_page(arguments.into, MARKER)
    for model in subjects:
        reason = models.get(model).unavailable() or datasets.missing(model)
        if reason is not None:
            parser.error(f"model {model} is unavailable: {reason}")
    progress = console(stderr=True)
    found = [f"Commit `{machine.revision()['commit']}`."]
    for model in arguments.model or MODELS:
        progress.print(model)
        data = datasets.read(model, {}, arguments.chunks)
        rows = list(evaluate.evaluate(model, data, subjects[model], arguments.threads, progress.print))
        found.append(f"### Accuracy of {model}")
        found.append(tables.write_markdown(tables.tabulate(data.task, rows), tables.describe(data.task, model, rows)))
    text = "\n\n".join(found)
    if arguments.into:
        markdown.write_between(arguments.into, MARKER, text)
    else:
        print(text)


if __name__ == "__main__":
    guard(main, "ablate_quant")
