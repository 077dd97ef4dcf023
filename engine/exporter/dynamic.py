"""Checks `dynamic_shapes` against the example inputs, and says what torch found wrong with them during a capture."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch.export import Dim, ShapesCollection
from torch.fx import Node

from engine.errors import ConfigError
from engine.exporter.symbols import Ranges, get_expression, list_dims
from engine.exporter.torch_internals import tree_leaves
from engine.suggest import unknown

_LONGEST = 2**31
"""torch gives this size, or more, to a Dim without a maximum."""

_LEAST_OF_HINT = 2
"""torch begins the range of `Dim.AUTO` and `Dim.DYNAMIC` here; it takes sizes of 0 and 1 as fixed."""

_Hint = type(Dim.AUTO)


class DynamicShapes(NamedTuple):
    """The dynamic shapes of a model, as torch.export reads them.

    Attributes:
        shapes: by name of the input, with axes counted from 0: torch ignores axes that are counted from the last one.
            None if all sizes are fixed.
        restrictions: a text such as ``x.shape[0] = 1 (...)`` for each size of which the program takes fewer values
            than `shapes` allow. During a capture these are the sizes that are left to torch (`Dim.AUTO`) and that torch
            takes as fixed, because they are 0 or 1 in the example input; afterwards also those of `list_narrowed`.
    """

    shapes: dict[str, Any] | None = None
    restrictions: tuple[str, ...] = ()


def resolve_dynamic_shapes(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> DynamicShapes:
    """Check `shapes`, as a user gave them, against the example inputs.

    Raises:
        ConfigError: `shapes` has another structure than the inputs, names an axis that an input does not have, has
            something else than a size for an axis, or excludes the sizes of the example. Names the input.
    """
    if shapes is None:
        return DynamicShapes()
    if isinstance(shapes, ShapesCollection):
        try:
            shapes = shapes.dynamic_shapes(model, tuple(args), dict(kwargs))
        except ValueError as error:  # it has a tensor that is no input
            raise ConfigError(f"dynamic_shapes: {error}") from None
    if not isinstance(shapes, Mapping | tuple | list):
        raise ConfigError(f"dynamic_shapes: expected a dict, input name -> axes, got {type(shapes).__name__}")
    inputs = _name_inputs(model, args, kwargs)
    if not shapes or inputs is None:
        return DynamicShapes()
    walk = _Walk()
    found = {name: walk.resolve(name, inputs[name], shape) for name, shape in _by_name(shapes, inputs).items()}
    return DynamicShapes(found, tuple(walk.fixed))


def list_narrowed(
    shapes: Mapping[str, Any] | None, inputs: Sequence[Node], ranges: Ranges, least: Mapping[Any, int]
) -> list[str]:
    """A text such as ``x.shape[0] from 4 to 16 (...)`` for each size whose range the capture has made smaller.

    torch assumes 2 or more for a size that another one is a formula of, and for `Dim.AUTO` and `Dim.DYNAMIC`; and it
    restricts these two to the sizes that take the same branches as the example. For `Dim.AUTO` that may be one size. A
    symbol with several axes is named at the first one.

    Args:
        shapes: as of `DynamicShapes`.
        inputs: placeholders for the arguments of a call.
        ranges: least and largest value of each symbol after the capture.
        least: symbols that begin higher than torch's capture, because the model takes another path below.
    """
    found: dict[Any, str] = {}
    for node, axis, dim in list_dims(shapes, inputs):
        if not isinstance(dim, Dim | _Hint):
            continue
        place = f"{node.name}.shape[{axis}]"
        expression = get_expression(node, axis)
        if expression is None or expression.is_number:
            size = int(node.meta["val"].shape[axis])
            if _is_hint(dim, Dim.AUTO) and size >= _LEAST_OF_HINT:
                reason = f"the model's code fixes it, or combines it with a fixed size of {size}"
                found[place] = f"{place} = {size} ({reason})"
            continue
        symbols = expression.free_symbols & ranges.keys()
        if len(symbols) > 1 and isinstance(dim, Dim):
            found[place] = f"{place} as it follows from other sizes (torch takes it so; dynamic_shapes name it)"
        if len(symbols) != 1:
            continue
        (symbol,) = symbols
        start, most = _find_limits(dim)
        start = _LEAST_OF_HINT if start is None else start
        low, high = (_limit_of(expression, symbol, end) for end in (ranges[symbol].lower, ranges[symbol].upper))
        if low > start or high < (_LONGEST if most is None else most):
            taken = _write_range(low, high if high < _LONGEST else None)
            reason = "the model takes another path below" if symbol in least else "torch restricts it so"
            found.setdefault(symbol, f"{place} {taken} ({reason}; dynamic_shapes have {_write_range(start, most)})")
    return list(found.values())


def _limit_of(expression: Any, symbol: Any, end: Any) -> int:
    """The size `expression` where its symbol is at an end of its range; `_LONGEST` where the range has no end."""
    return int(expression.xreplace({symbol: end})) if isinstance(end, int | sympy.Integer) else _LONGEST


def _find_limits(dim: Any) -> tuple[int | None, int | None]:
    """Least and largest size that a Dim allows; None where it has no limit, or leaves that to torch."""
    root, formula = getattr(dim, "root", dim), getattr(dim, "fn", int)
    least = None if root.min is None else formula(root.min)
    most = formula(root.max) if isinstance(root.max, int) and formula(root.max) < _LONGEST else None
    return least, most


def _write_range(least: int, most: int | None) -> str:
    if least == most:
        return f"= {least}"
    return f"from {least} on" if most is None else f"from {least} to {most}"


def _name_inputs(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parameter of forward -> its example; None if the arguments do not fit forward, which torch then says.

    Raises:
        ConfigError: an example is given by a keyword that `forward` does not name.
    """
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    for one in bound.signature.parameters.values():
        if one.kind is inspect.Parameter.VAR_KEYWORD and one.name in bound.arguments:
            raise ConfigError(
                f"dynamic_shapes: forward takes {', '.join(bound.arguments[one.name])} by **{one.name}, for which "
                "torch.export has no dynamic shapes; expected a forward that names each of its parameters"
            )
    return dict(bound.arguments)


def _by_name(shapes: Any, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dynamic shapes of each input. ConfigError if there are not as many as inputs, or they have other names."""
    if not isinstance(shapes, Mapping):
        if len(shapes) != len(inputs):
            raise ConfigError(
                f"dynamic_shapes: expected {_count(len(inputs), 'entry', 'entries')}, one for each input "
                f"({', '.join(inputs)}), got {len(shapes)}"
            )
        return dict(zip(inputs, shapes, strict=True))
    for name in shapes:
        if name not in inputs:
            raise ConfigError(f"dynamic_shapes: {unknown('input', str(name), inputs)}")
    if missing := [name for name in inputs if name not in shapes]:
        raise ConfigError(
            f"dynamic_shapes: there is no entry for {', '.join(missing)}; expected one for each input "
            f"({', '.join(inputs)}), None where all sizes are fixed"
        )
    return shapes


def _is_hint(dim: Any, kind: Any) -> bool:
    """True for `kind`, which is one of `Dim.AUTO`, `Dim.DYNAMIC` and `Dim.STATIC`, with any range."""
    return isinstance(dim, _Hint) and dim.type is kind.type


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


class _Walk:
    """Resolves the dynamic shapes of the inputs of one model.

    Attributes:
        fixed: sizes that torch takes as fixed, as `DynamicShapes.restrictions`.
    """

    def __init__(self) -> None:
        self.fixed: list[str] = []
        self._ranges: dict[str, tuple[str, str]] = {}
        self._sizes: dict[str, tuple[int, str]] = {}

    def resolve(self, name: str, value: Any, shape: Any) -> Any:
        """The dynamic shapes `shape` of the example input `value`, with axes counted from 0.

        Args:
            name: of the input, or of the part of an input: ``x``, ``ys[0]`` or ``options['mask']``.
            value: the example.
            shape: as the user gave it.
        """
        if type(value) in (list, tuple):
            return self._resolve_list(name, value, shape)
        if type(value) is dict:
            return self._resolve_dict(name, value, shape)
        if isinstance(value, torch.Tensor):
            return None if shape is None else self._resolve_axes(name, value, shape)
        if not any(leaf is value for leaf in tree_leaves(value)):
            return shape  # of a class that is registered with torch's pytree: torch flattens and checks it
        if not (shape is None or _is_hint(shape, Dim.STATIC)):
            raise ConfigError(
                f"dynamic_shapes: {name}: expected None, because the example is no tensor but of type "
                f"{type(value).__name__}, got {shape!r}"
            )
        return None

    def _resolve_list(self, name: str, value: Any, shape: Any) -> Any:
        kind = type(value)
        if type(shape) is not kind or len(shape) != len(value):
            got = _count(len(shape), "entry", "entries") if type(shape) is kind else repr(shape)
            raise ConfigError(
                f"dynamic_shapes: {name}: expected a {kind.__name__} of {_count(len(value), 'entry', 'entries')}, as "
                f"the example is, got {got}"
            )
        parts = enumerate(zip(value, shape, strict=True))
        return kind(self.resolve(f"{name}[{i}]", one, part) for i, (one, part) in parts)

    def _resolve_dict(self, name: str, value: dict[Any, Any], shape: Any) -> Any:
        if type(shape) is not dict or shape.keys() != value.keys():
            keys = ", ".join(map(repr, value)) or "no keys"
            raise ConfigError(f"dynamic_shapes: {name}: expected a dict of {keys}, as the example is, got {shape!r}")
        return {key: self.resolve(f"{name}[{key!r}]", one, shape[key]) for key, one in value.items()}

    def _resolve_axes(self, name: str, value: torch.Tensor, axes: Any) -> dict[int, Any]:
        count = value.dim()
        if isinstance(axes, tuple | list) and len(axes) != count:
            raise ConfigError(
                f"dynamic_shapes: {name}: expected {_count(count, 'entry', 'entries')}, one for each axis, got "
                f"{len(axes)}"
            )
        if not isinstance(axes, Mapping | tuple | list):
            raise ConfigError(
                f"dynamic_shapes: {name}: expected a dict, axis -> torch.export.Dim, or one entry for each of its "
                f"{_count(count, 'axis', 'axes')}, got {axes!r}"
            )
        found: dict[int, Any] = {}
        for axis, dim in axes.items() if isinstance(axes, Mapping) else enumerate(axes):
            if type(axis) is not int or not -count <= axis < count:
                kind = "no axes" if count == 0 else "1 axis, 0" if count == 1 else f"{count} axes, 0 to {count - 1}"
                raise ConfigError(f"dynamic_shapes: {name} has {kind}; got axis {axis!r}")
            if axis % count in found:
                raise ConfigError(f"dynamic_shapes: {name}: expected each axis once, got axis {axis % count} twice")
            self._check_dim(f"{name}, axis {axis}", dim, value.shape[axis])
            if _is_hint(dim, Dim.AUTO) and value.shape[axis] < 2:
                self.fixed.append(
                    f"{name}.shape[{axis % count}] = {value.shape[axis]} (its size in the example input, and torch "
                    "takes sizes of 0 and 1 as fixed)"
                )
            found[axis % count] = dim
        return found

    def _check_dim(self, place: str, dim: Any, size: int) -> None:
        """ConfigError if `dim` cannot stand for an axis, or contradicts the example's `size` or an earlier axis."""
        if isinstance(dim, str):
            raise ConfigError(f"dynamic_shapes: {place}: expected torch.export.Dim({dim!r}), got a text")
        if dim is None:
            return
        if type(dim) is int and dim != size:
            raise ConfigError(
                f"dynamic_shapes: {place}: expected {size}, as in the example input, or a torch.export.Dim, got {dim}"
            )
        if not (type(dim) is int or isinstance(dim, Dim | _Hint)):
            raise ConfigError(
                f"dynamic_shapes: {place}: expected a torch.export.Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, an int or "
                f"None, got {dim!r}"
            )
        if isinstance(dim, Dim | _Hint):
            limits = _write_limits(place, dim, size)
            if isinstance(dim, Dim):
                self._check_named(place, dim, limits, size)

    def _check_named(self, place: str, dim: Dim, limits: str, size: int) -> None:
        """ConfigError if axes before this one give another range or another size to the Dim."""
        name = dim.__name__
        range_, first = self._ranges.setdefault(name, (limits, place))
        if range_ != limits:
            raise ConfigError(
                f"dynamic_shapes: {place}: {name} goes {limits}, and at {first} {range_}; expected one "
                "torch.export.Dim for both"
            )
        root, formula = getattr(dim, "root", dim), getattr(dim, "fn", int)
        value, rest = divmod(size - formula(0), formula(1) - formula(0))  # a Dim is a linear formula of its root
        if rest:
            raise ConfigError(
                f"dynamic_shapes: {place}: the example input has {size}, which is {name} for no whole {root.__name__}"
            )
        known, first = self._sizes.setdefault(root.__name__, (value, place))
        if known != value:
            raise ConfigError(
                f"dynamic_shapes: {place}: {root.__name__} is {value} in the example input, and {known} at {first}; "
                "expected one size"
            )


def _write_limits(place: str, dim: Any, size: int) -> str:
    """The range of a Dim as a text: ``from 1 to 8``.

    Raises:
        ConfigError: the range has negative sizes, or `size` is outside of it.
    """
    root = getattr(dim, "root", dim)
    for limit in (root.min, root.max):
        if isinstance(limit, bool) or not (limit is None or isinstance(limit, int | sympy.Basic)):
            raise ConfigError(f"dynamic_shapes: {place}: expected whole numbers as the limits of a Dim, got {limit!r}")
    least, most = _find_limits(dim)
    least = least or 0
    name = getattr(dim, "__name__", repr(dim))
    if least < 0:
        raise ConfigError(
            f"dynamic_shapes: {place}: {name} is {least} where {root.__name__} is {root.min}; expected a minimum of "
            f"{root.__name__} that makes it 0 or more"
        )
    limits = _write_range(least, most)
    if size < least or (most is not None and size > most):
        raise ConfigError(f"dynamic_shapes: {place}: {name} goes {limits}, and the example input has {size}")
    return limits


_MISFIT = "dynamic_shapes do not fit the model"
_ONE_LEFT = "Cannot create Dim with inconsistent"
"""How torch fails to suggest ``b = 2*_b`` where ``_b`` would have only one value."""
_DESCRIPTION_OF_ONE_LEFT = (
    "the model's code takes the branch of the example input only for sizes with one remainder, as with x.shape[0] % 2 "
    "== 0, and the range of a Dim has only one such size: use Dim.AUTO, which keeps to sizes that do, or leave this "
    "size out of dynamic_shapes"
)
_CONSTRAINTS = (
    "Constraints violated",
    "Found the following conflicts between user-specified ranges",
    "Specializations unexpectedly required",
)
_FIXED = (
    re.compile(r"You marked (?P<size>.+?) as dynamic but your code specialized it to be a constant \((?P<value>\d+)\)"),
    re.compile(r"guards generated for (?P<size>.+?)(?: = .+)? resulted in a specialized value of (?P<value>\d+)"),
    re.compile(r"export 0/1 specialized due to hint of (?P<value>\d+) for dimension (?P<size>\S+?)\.?$"),
)
_SPECIALISED = re.compile(r"Specializations unexpectedly required \((?P<names>.+?)\)!.*")
_SIZE = re.compile(r"(?:L|inputs)\['(\w+)'\]((?:\[[^\]]*\])*)\.(?:size\(\)|shape)\[(\d+)\]")
"""How torch names a size of an input: ``L['x'].size()[0]`` or ``inputs['x'].shape[0]``."""


def describe_constraints(lines: Sequence[str]) -> str | None:
    """What a model demands of sizes that `dynamic_shapes` lets vary; None if torch's error is about something else.

    Args:
        lines: of the text of the error. Each line that begins with ``- `` has one reason.
    """
    if lines[0].startswith(_ONE_LEFT):
        return f"{_MISFIT}; {_DESCRIPTION_OF_ONE_LEFT}"
    if not lines[0].startswith(_CONSTRAINTS):
        return None
    # torch joins the last reason and the sentence about specialised sizes without a separator.
    texts = [_SPECIALISED.sub("", line.removeprefix("- ")) for line in lines if line.startswith("- ")]
    reasons = list(dict.fromkeys([*_describe_conditions(texts), *map(_describe_reason, _without_conditions(texts))]))
    if not reasons:
        found = [found["names"] for line in lines if (found := _SPECIALISED.search(line))]
        reasons = [f"the model's code allows only one value of {names}" for names in dict.fromkeys(found)]
    return "; ".join([_MISFIT, *reasons])


_CONDITION = re.compile(
    r"Not all values of (?P<dim>\S+) = (?P<size>.+?) in the specified range (?:.+? )?satisfy the generated guard "
    r"(?P<condition>.+?)(?: and \S+ <= IntInfinity\(\))?\.?$"
)
"""How torch says that it cannot show the captured branch of the model's code to be for all sizes of a Dim."""


def _describe_conditions(texts: Iterable[str]) -> list[str]:
    """One reason for each Dim that torch names in such conditions. It lists all conditions of this Dim."""
    conditions: dict[tuple[str, str], list[str]] = {}
    for found in filter(None, map(_CONDITION.search, texts)):
        key = found["dim"], _name_sizes(found["size"])
        conditions.setdefault(key, []).append(_name_sizes(found["condition"]))
    return [
        f"the model's code takes the branch of the example input only for sizes with {' and '.join(found)}, and torch "
        f"cannot show that all sizes of {dim}, which is {size}, meet it: use Dim.AUTO, which keeps to sizes that do; "
        "for some conditions, a smaller range helps, too"
        for (dim, size), found in conditions.items()
    ]


def has_unshown_condition(error: BaseException | None) -> bool:
    """True if torch has refused a Dim, because it cannot show a condition of the capture for all its sizes."""
    return error is not None and any(map(_CONDITION.search, str(error).splitlines()))


def _without_conditions(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text and _CONDITION.search(text) is None]


def _describe_reason(text: str) -> str:
    fixed = next((found for pattern in _FIXED if (found := pattern.search(text))), None)
    if fixed is None:
        return _name_sizes(text).rstrip(".").replace("The values", "the values", 1)
    size, value = _name_sizes(fixed["size"]), int(fixed["value"])
    dim, least = _find_dim(size, value)
    if least < 2:
        return (
            f"{dim} is {least} in the example input, and torch takes sizes of 0 and 1 as fixed: use an example input "
            f"in which {dim} is 2 or more"
        )
    if value < 2:
        return (
            f"{size} is {value} in the example input, and torch takes sizes of 0 and 1 as fixed: use an example input "
            f"in which {size} is 2 or more"
        )
    return (
        f"{size} can only be {value}, because the model's code fixes it, or combines it with a size of {value} of an "
        f"input that dynamic_shapes leaves out: name that size there, too, remove {size} from dynamic_shapes, or "
        "change the code"
    )


_DERIVED = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<dim>[A-Za-z_]\w*)(?: (?P<sign>[+-]) (?P<offset>\d+))?")
"""How torch names a size that follows from a Dim: ``3*b`` or ``3*b + 1``."""


def _find_dim(size: str, value: int) -> tuple[str, int]:
    """The Dim that a size of `value` follows from, and what it is then; any other size and its value as they are."""
    found = _DERIVED.fullmatch(size)
    if found is None:
        return size, value
    offset = int(f"{found['sign'] or ''}{found['offset'] or 0}")
    return found["dim"], (value - offset) // int(found["factor"] or 1)


def _name_sizes(text: str) -> str:
    """The text with sizes of inputs as in Python: ``x.shape[0]``."""
    return _SIZE.sub(r"\1\2.shape[\3]", text)
