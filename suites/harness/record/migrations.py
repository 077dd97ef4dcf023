"""Lines of earlier schemas, upgraded when they are read. Stored files are never changed.

One function a step, from a schema to the next one. A step works on plain JSON and uses nothing of the harness that may
change, so that a file means tomorrow what it meant when it was written. Golden files of every schema are in
tests/golden/records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Line = dict[str, Any]


def upgrade(line: Line, newest: int) -> Line:
    """`line`, as JSON gives it, in the form of the `newest` schema."""
    for schema in range(line["schema"], newest):
        line = STEPS[schema](line)
    return line


def _from_1(line: Line) -> Line:
    """Upgrades to schema 2, which adds the role of each backend: readers of schema 1 asked their own code for it.

    A column that a line of schema 1 lacks gets the default of schema 2: None if the value is unknown, otherwise the
    only value that existed then (``cpu``, ``torch``).
    """
    if line["kind"] == "environment":
        plan, versions = line["plan"], line["versions"]
        labels = dict.fromkeys(label for labels in plan["cases"].values() for label in labels)
        engines = plan.get("engines", {})
        return line | {"backends": {label: _backend_from_1(label, versions, engines) for label in labels}}
    return line | {"role": _role_from_1(line["backend"])} if line["kind"] == "summary" else line


_ENGINES_1 = ("engine", "engine_interpreter", "engine_dynamo")
"""Names of this engine's backends under schema 1."""
_PACKAGES_1 = {
    "eager": ("torch",),
    "torch_compile": ("torch",),
    "onnxruntime": ("onnxruntime", "onnx", "onnxscript", "torch"),
    "openvino": ("openvino", "torch"),
    **dict.fromkeys(_ENGINES_1, ("enginebench", "torch")),
}
"""What the backends of schema 1 ran on."""


def _backend_from_1(label: str, versions: Mapping[str, str], engines: Mapping[str, Any]) -> Line:
    name, _, options = label.partition("#")[0].partition("[")
    pairs = (part.partition("=") for part in filter(None, options.rstrip("]").split(",")))
    packages = {one: versions[one] for one in _PACKAGES_1.get(name, ()) if one in versions}
    return {
        "name": name,
        "role": _role_from_1(label),
        "options": {key: value for key, _, value in pairs},
        "packages": dict(engines[name]["packages"]) if name in engines else packages,
    }


def _role_from_1(label: str) -> str:
    name = label.partition("#")[0].partition("[")[0]
    if name in _ENGINES_1:
        return "engine"
    return "version" if name.startswith("engine@") and ".py:" not in name else "peer"


def _keep(line: Line) -> Line:
    """Upgrades to a schema that only adds columns whose default is null, or kinds of lines."""
    return line


_KEYS_5 = {"share_of_time": "time_share", "share_of_roof": "roof_share"}
"""Columns of the kind `node` that schema 6 renames."""


def _from_5(line: Line) -> Line:
    """Upgrades to schema 6, which renames one verdict and the shares of nodes: tables and kernels use these words."""
    renamed = {_KEYS_5.get(key, key): value for key, value in line.items()} if line["kind"] == "node" else line
    return {key: _rename_verdicts(key, value) for key, value in renamed.items()}


def _rename_verdicts(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rename_verdicts(name, one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rename_verdicts(key, one) for one in value]
    return "unclear" if key == "verdict" and value == "inconclusive" else value


_KEYS_6 = {"ratio": "speed", "torch_ratio": "torch_speed", "openblas_ratio": "openblas_speed"}
"""Columns that schema 7 inverts and renames: in schema 6 they are times over times."""
_COMPARED_6 = ("best_peer", "versions", "runner_up")
"""Columns that have such a column in them."""
_VERDICTS_6: Mapping[Any, str] = {
    "pays": "faster", "costs": "slower", "redundant": "slower", "synergy": "faster", "independent": "same"
}  # fmt: skip
_TURNED_6: Mapping[Any, str] = {"faster": "slower", "slower": "faster"}


def _from_6(line: Line) -> Line:
    """Upgrades to schema 7, whose comparisons are speeds: above 1 is faster, in every kind of line.

    In schema 6 an ablation compares the time without a switch with the time with it, which is a speed already, unless
    the switch names a value (`level=basic`): then the program without the switch is the one with the value.
    """
    if line["kind"] == "ablation":
        return _ablation_from_6(line)
    return {_KEYS_6.get(key, key): _invert(key, value) for key, value in line.items()}


def _from_7(line: Any) -> Any:
    """Upgrades a line, or a part of it, to schema 8, which calls the launches slow that a program warns of."""
    if isinstance(line, list):
        return [_from_7(one) for one in line]
    if not isinstance(line, dict):
        return line
    return {"slow_launches" if key == "reference_launches" else key: _from_7(value) for key, value in line.items()}


def _ablation_from_6(line: Line) -> Line:
    rest = {key: value for key, value in line.items() if key != "ratio"}
    verdict = line.get("verdict")
    found = rest | {"speed": line.get("ratio"), "verdict": _VERDICTS_6.get(verdict, verdict)}
    if line["mode"] == "pair":
        return found | {"speed": _invert("ratio", line.get("ratio"))}
    if "=" not in line["switch"]:
        return found
    return found | {
        "speed": _invert("ratio", line.get("ratio")),
        "verdict": _TURNED_6.get(found["verdict"], found["verdict"]),
        "with": line["without"],
        "without": line["with"],
        "deltas": {name: pair[::-1] for name, pair in line.get("deltas", {}).items()},
    }


def _invert(key: str, value: Any) -> Any:
    """The value of a column with every ratio in it inverted."""
    if value is None or key not in (*_KEYS_6, *_COMPARED_6):
        return value
    if isinstance(value, list):
        return [_invert(key, one) for one in value]
    if key in _COMPARED_6:
        return {_KEYS_6.get(name, name): _invert(name, one) for name, one in value.items()}
    if isinstance(value, dict):
        return {"value": 1 / value["value"], "low": 1 / value["high"], "high": 1 / value["low"]}
    return 1 / value


STEPS: dict[int, Callable[[Line], Line]] = {
    1: _from_1,
    2: _keep,  # schema 3 adds `options` of a plan and `reference_launches`
    3: _keep,  # schema 4 adds the kind `accuracy`
    4: _keep,  # schema 5 adds the kinds `kernel`, `node` and `commit`
    5: _from_5,
    6: _from_6,
    7: _from_7,
}
"""Schema -> the step to the next one."""
