"""The table of instruction sets as Python reads it: rows, features of this machine, kernels that a row allows."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.switches import registered
from engine.targets.cpu import native
from engine.targets.plan import Kernel
from tests import messages


def read_table(text: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Of csrc/isas.txt: feature -> architecture; instruction set -> features, with those of the row that it extends."""
    features: dict[str, str] = {}
    isas: dict[str, set[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["feature"]:
            features[words[1]] = words[3]
        elif words[:1] == ["isa"]:
            clauses: dict[str, list[str]] = {}
            for word in words[2:]:
                if word in ("extends", "requires", "flags"):
                    last = clauses.setdefault(word, [])
                else:
                    last.append(word)
            inherited = (isas[base] for base in clauses.get("extends", ()))
            isas[words[1]] = set(clauses.get("requires", ())).union(*inherited)
    return features, isas


@pytest.fixture
def table(root):
    return read_table((root / "csrc/isas.txt").read_text())


def test_the_extension_lists_the_rows_of_the_table(table):
    features, isas = table
    assert list(native.features()) == list(features)
    bits = {name: 1 << index for index, name in enumerate(features)}
    assert native.isa_table() == {name: sum(bits[f] for f in required) for name, required in isas.items()}
    assert list(native.isa_table()) == list(isas)


def test_this_machine_has_the_features_that_the_system_lists(root, table):
    said = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    lines = [line for line in said if line.startswith(("flags", "Features"))]
    if not lines:
        pytest.skip("the system lists no features")
    listed = set(lines[0].partition(":")[2].split())
    features, _ = table
    architecture = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    assert {name: name in listed and features[name] == architecture for name in features} == native.features()


# A machine and a registry of its own: kernel isa -> allowed with Config(isa=...).
ROWS = ("avx512vnni", "avx512bf16", "avx512", "avxvnni", "avx2", "generic")
ALLOWED = {
    None: ROWS,
    "avx512vnni": ("avx512vnni", "avx512", "avx2", "generic"),
    "avx512bf16": ("avx512bf16", "avx512", "avx2", "generic"),
    "avx512": ("avx512", "avx2", "generic"),
    "avxvnni": ("avxvnni", "avx2", "generic"),
    "avx2": ("avx2", "generic"),
    "generic": ("generic",),
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a machine of the features of some instruction sets, whose registry has one kernel for each of `ROWS`."""
    names = [f"f32_linear__{isa}_test" for isa in ROWS]
    rows = tuple(Kernel(names[i], "linear", "test", "f32", isa, False, i) for i, isa in enumerate(ROWS))

    def make(*isas: str) -> None:
        mask = 0
        for isa in isas:
            mask |= native.isa_table()[isa]
        monkeypatch.setattr(native, "machine_mask", lambda: mask)
        monkeypatch.setattr(native, "kernels", lambda: rows)
        native.kernels_for.cache_clear()

    yield make
    native.kernels_for.cache_clear()


@pytest.mark.parametrize("isa", ALLOWED, ids=str)
def test_a_row_allows_kernels_that_require_nothing_beyond_it(machine, isa):
    machine(*ROWS)
    assert tuple(k.isa for k in native.kernels_for(isa)["linear"]) == ALLOWED[isa]


def test_a_machine_runs_kernels_whose_features_it_has(machine):
    machine("avxvnni")
    assert native.isas() == ("generic", "avx2", "avxvnni")
    assert tuple(k.isa for k in native.kernels_for(None)["linear"]) == ("avxvnni", "avx2", "generic")
    with messages.raises(ConfigError):
        native.kernels_for("avx512")
    machine("avx512vnni")
    assert native.isas() == ("generic", "avx2", "avx512", "avx512vnni")


def test_instruction_sets_without_kernels_take_no_part_in_ablations():
    switches = {switch.name: switch for switch in registered("isa")}
    assert list(switches) == list(native.isa_table())
    assert {name for name, switch in switches.items() if switch.available} == set(native.isas())
    assert {name for name, switch in switches.items() if switch.available and switch.usual} == set(native.kernel_isas())
