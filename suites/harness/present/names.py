"""Names of cases for people: one long description, and short names that tell the cases of one table apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from suites.harness.declare.device import CPU
from suites.harness.record.schema import Summary

_SHORT_SIZES = {"batch": "b", "sequence": "s"}


def describe_case(row: Summary, *, without: str | None = None) -> str:
    """Everything about the case but its model: ``batch 1, sequence 128, 1 thread, fp32, attention=manual``."""
    sizes = [f"{name} {size}" for name, size in row.shape.items() if name != without]
    return ", ".join([*sizes, count_threads(row.threads), row.precision, *_options(row), *_surroundings(row)])


def count_threads(threads: int) -> str:
    """``1 thread``, ``2 threads``."""
    return f"{threads} thread{'' if threads == 1 else 's'}"


def shorten_names(rows: Sequence[Summary]) -> dict[str, str]:
    """Case -> a short name: model, sizes, and what tells the cases apart.

    What most cases have in common (`describe_common`) is left out, and so are options that all cases of a model have
    in common (`describe_options`). Other options stay if their values are words. Numbers stay only where two names
    would be equal without them.
    """
    cases = {row.case: row for row in rows}
    usual = _find_usual(rows)
    names: dict[str, str] = {}
    for model in dict.fromkeys(row.model for row in cases.values()):
        own = [row for row in cases.values() if row.model == model]
        for choose in (_choose_words, _choose_varying, _choose_all):
            chosen = {row.case: _join(row, choose(row, own), usual) for row in own}
            if len(set(chosen.values())) == len(own):
                break
        else:
            chosen = {row.case: row.case for row in own}
        names |= chosen
    return {case: names[case] for case in cases}


def name_workloads(rows: Sequence[Summary]) -> dict[str, str]:
    """Case -> a short name of model, sizes and options, which cases at other threads, precisions and devices share.

    Two workloads have two names, whichever cases of them are shown beside each other.
    """
    cases = {row.case: row for row in rows}
    workloads: dict[tuple[object, ...], list[Summary]] = {}
    for row in cases.values():
        key = row.model, tuple(sorted(row.shape.items())), tuple(_options(row))
        workloads.setdefault(key, []).append(row)
    usual = {"threads": 1, "precision": "", "io": "torch", "device": CPU}
    first = [members[0].model_copy(update=usual) for members in workloads.values()]
    short = shorten_names(first)
    names: dict[str, str] = {}
    for members in workloads.values():
        name = short[members[0].case]
        settings = Counter((row.threads, row.precision, row.io, row.device) for row in members)
        for row in members:
            is_alone = settings[row.threads, row.precision, row.io, row.device] == 1
            names[row.case] = name if is_alone and name != members[0].case else row.case
    return names


def describe_differences(rows: Sequence[Summary]) -> dict[str, str]:
    """Case -> the sizes, options, precision and threads in which the cases differ: ``with sequence 16 at 2 threads``.

    The text is empty if there is one case only.
    """
    cases = {row.case: row for row in rows}
    own = list(cases.values())
    sizes = [name for name in dict.fromkeys(name for row in own for name in row.shape) if _varies(own, name)]
    found = {}
    for case, row in cases.items():
        parts = [f"{name} {row.shape[name]}" for name in sizes if name in row.shape]
        parts += _choose_varying(row, own)
        parts += [row.precision] if len({other.precision for other in own}) > 1 else []
        parts += [_place(row)] if len({_place(other) for other in own}) > 1 else []
        threads = f"at {count_threads(row.threads)}" if len({other.threads for other in own}) > 1 else ""
        with_parts = f"with {', '.join(filter(None, parts))}" if any(parts) else ""
        found[case] = f"{with_parts} {threads}".strip()
    return found


def _varies(rows: Sequence[Summary], size: str) -> bool:
    return len({row.shape.get(size) for row in rows}) > 1


def describe_common(rows: Sequence[Summary]) -> str:
    """Threads, precision, and device or kind of arrays that most cases have: ``1 thread unless named, fp32``."""
    usual, common = _find_usual(rows), []
    for part, value in usual.items():
        is_everywhere = all(part(row) == value for row in rows)
        text = count_threads(int(value[1:])) if part is _threads else value
        common += [text if is_everywhere else f"{text} unless named"] if text else []
    return ", ".join(common)


def describe_options(rows: Sequence[Summary]) -> list[str]:
    """For each model, the options that all of its cases have in common: ``gpt2 phase=decode``."""
    cases = {row.case: row for row in rows}
    found = []
    for model in dict.fromkeys(row.model for row in cases.values()):
        own = [row for row in cases.values() if row.model == model]
        varying = _find_varying(own)
        common = [text for text in _options(own[0]) if text.partition("=")[0] not in varying]
        found += [f"{model} {', '.join(common)}"] if common else []
    return found


def _find_usual(rows: Sequence[Summary]) -> dict[Callable[[Summary], str], str]:
    """Part of a name -> the value that more than half of the cases have."""
    cases = {row.case: row for row in rows}
    found: dict[Callable[[Summary], str], str] = {}
    for part in (_threads, _precision, _place):
        value, times = Counter(part(row) for row in cases.values()).most_common(1)[0]
        if times * 2 > len(cases):
            found[part] = value
    return found


def _join(row: Summary, options: Sequence[str], usual: Mapping[Callable[[Summary], str], str]) -> str:
    sizes = [f"{_SHORT_SIZES.get(name, name)}{size}" for name, size in row.shape.items()]
    parts = [part(row) for part in (_threads, _precision, _place) if usual.get(part) != part(row)]
    return " ".join(filter(None, [row.model, *sizes, *options, *parts]))


def _options(row: Summary) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(row.options.items())]


def _choose_words(row: Summary, own: Sequence[Summary]) -> list[str]:
    """Values of varying options that are words: those are understood without the name of the option."""
    return [str(row.options[name]) for name in _find_varying(own) if isinstance(row.options.get(name), str)]


def _choose_varying(row: Summary, own: Sequence[Summary]) -> list[str]:
    return [f"{name}={row.options[name]}" for name in _find_varying(own) if name in row.options]


def _choose_all(row: Summary, own: Sequence[Summary]) -> list[str]:
    del own
    return _options(row)


def _find_varying(own: Sequence[Summary]) -> list[str]:
    """Options in which the cases of a model differ."""
    names = sorted({name for row in own for name in row.options})
    return [name for name in names if len({str(row.options.get(name)) for row in own}) > 1]


def _threads(row: Summary) -> str:
    return f"t{row.threads}"


def _precision(row: Summary) -> str:
    return row.precision


def _place(row: Summary) -> str:
    return " ".join(_surroundings(row))


def _surroundings(row: Summary) -> list[str]:
    return [*([row.io] if row.io != "torch" else []), *([row.device] if row.device != CPU else [])]
