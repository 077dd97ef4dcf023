"""torch's exported program as a judge: its values in float64, whole or from given ones on, and how far they may spread.

torch is imported inside of functions, as in all of `inspect`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine.memory import as_array, as_tensor
from engine.runtime.trace import Keep, Kind, NodeTrace, Trace, ValueTrace, summarise
from engine.tree import split_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.exporter import TorchExport

Arrays = Mapping[str, "NDArray[Any]"]


class Ref(NamedTuple):
    """The result of a call, in the arguments of another one."""

    name: str


class Call(NamedTuple):
    """One call of the flat program. A placeholder has no function; `args` is its weight, constant or number."""

    name: str
    function: Callable[..., Any] | None
    args: Any
    kwargs: Any
    inputs: tuple[str, ...]
    is_weight: bool = False
    is_tensor: bool = True


class Noise(NamedTuple):
    """What to change at random in an evaluation, to learn how far its result moves.

    Attributes:
        values: size of the change of each given and each computed floating-point value, relative to itself.
        rounded: likewise of each weight and buffer.
        quantised: of each weight, relative to the largest element of its first axis, or of its row.
        given: of each given value, relative to the largest element of its row.
        seed: of the changes.
    """

    values: float = 0.0
    rounded: float = 0.0
    quantised: float = 0.0
    given: float = 0.0
    seed: int = 0


class Exported:
    """The calls of `export` as one list, bodies of calls inlined. Names are those of `Origin.value`.

    `wide` computes all floating-point values in float64, whatever the model says; otherwise each has the model's type.

    Attributes:
        calls: all, by name, in order.
        results: names of what a call returns, in order; None for what is no tensor.
    """

    def __init__(self, export: TorchExport, *, wide: bool) -> None:
        from engine.exporter.signature import list_held, list_user_inputs

        self._wide = wide
        self.calls: dict[str, Call] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self._inputs = [node.name for node in list_user_inputs(export.program)]
        self._keywords = export.program.call_spec.in_spec.children()[1].context
        held = list_held(export.program)
        module = export.program.graph_module
        env: dict[Any, Any] = {}
        for node in module.graph.find_nodes(op="placeholder"):
            known = held.get(node)
            value = known.tensor if known is not None else _plain(node.meta.get("val"))
            is_weight = known is not None and known.is_parameter
            env[node] = self._add(Call(node.name, None, value, None, (), is_weight))
        made = [one.name if isinstance(one, Ref) else None for one in self._flatten(module, env, ())]
        self._outputs = {name for name in made if name is not None}
        kinds = [spec.kind.name for spec in export.program.graph_signature.output_specs]
        self.results = [name for name, kind in zip(made, kinds, strict=True) if kind == "USER_OUTPUT"]

    # --- reading the program -----------------------------------------------------------------------------------------

    def _add(self, call: Call) -> Ref:
        self.calls[call.name] = call
        return Ref(call.name)

    def _flatten(self, module: Any, env: dict[Any, Any], inside: tuple[str, ...]) -> list[Any]:
        """Add the calls of `module`, whose placeholders are in `env`. Returns its outputs."""
        from torch.fx.node import map_arg

        from engine.exporter.sources import from_trace, module_of, shorten
        from engine.exporter.walk import INLINED

        for node in module.graph.nodes:
            name = "/".join([*inside, node.name])
            if node.op == "get_attr":
                found = _attribute(module, str(node.target))
                env[node] = self._add(Call(name, None, found, None, ())) if hasattr(found, "dtype") else found
            if node.op != "call_function":
                continue
            args, kwargs = (map_arg(one, env.__getitem__) for one in (node.args, node.kwargs))
            if (inline := INLINED.get(getattr(node.target, "name", str)())) is not None:
                body, values = inline(args)
                placeholders = body.graph.find_nodes(op="placeholder")
                env[node] = self._flatten(body, dict(zip(placeholders, values, strict=True)), (*inside, node.name))
            elif node.target is operator.getitem and isinstance(args[0], Ref):
                of, index = args
                made = _is_tensor(node)
                env[node] = self._add(
                    Call(f"{of.name}[{index}]", operator.getitem, args, {}, (of.name,), is_tensor=made)
                )
            elif node.target is operator.getitem:
                env[node] = args[0][args[1]]
            else:
                names = tuple(one.name for one in _leaves((args, kwargs)) if isinstance(one, Ref))
                env[node] = self._add(Call(name, node.target, args, kwargs, names, is_tensor=_is_tensor(node)))
                self._places[name] = module_of(node), shorten(from_trace(node.meta.get("stack_trace")))
        (outputs,) = module.graph.output_node().args
        return list(map_arg(outputs, env.__getitem__))

    def __contains__(self, name: str) -> bool:
        return name in self.calls

    @cached_property
    def names(self) -> list[str]:
        """Of the calls that the results need, in order."""
        order, _ = self._order(self._outputs, {})
        return [name for name in order if self.calls[name].function is not None]

    def name_inputs(self, inputs: Any) -> dict[str, NDArray[Any]]:
        """The tensors of `inputs` by the names of their placeholders."""
        from engine.exporter.torch_internals import tree_leaves

        args, kwargs = split_arguments(inputs)
        leaves = zip(self._inputs, tree_leaves((args, [kwargs[name] for name in self._keywords])), strict=True)
        return {name: as_array(leaf) for name, leaf in leaves if hasattr(leaf, "dtype")}

    def locate(self, name: str) -> tuple[str, str]:
        """Module and line of a call; "" where unknown."""
        return self._places.get(name.partition("[")[0], ("", ""))

    # --- computing ---------------------------------------------------------------------------------------------------

    def values(self, names: Collection[str], inputs: Arrays) -> dict[str, NDArray[Any]]:
        """The values with these names in a run with these inputs and states, each by the name of its placeholder."""
        return {name: as_array(value) for name, value in self.compute(names, inputs, Noise())}

    def evaluate(self, name: str, given: Arrays, noise: Noise = Noise()) -> NDArray[Any]:  # noqa: B008  # immutable
        """One value, from the given ones on, which need not be inputs."""
        return as_array(dict(self.compute([name], given, noise))[name])

    def trace(self, inputs: tuple[Any, ...], keep: Keep) -> Trace:
        """A run of the whole program; a call with several results is a node for each of those that are read."""
        import torch

        given = self.name_inputs(inputs)
        names = [name for name in self.names if self.calls[name].is_tensor]
        selected = keep.select([(name, self.locate(name)[0]) for name in names], len(names))
        wanted = {name for number, name in enumerate(names) if number in selected | keep.positions}
        known = {name: _trace_value(name, "input", array, ("", ""), is_kept=False) for name, array in given.items()}
        for name, call in self.calls.items():
            if call.function is None and isinstance(call.args, torch.Tensor):
                stored: Kind = "weight" if call.is_weight else "constant"
                known[name] = _trace_value(name, stored, as_array(self._widen(call.args)), ("", ""), is_kept=False)
        nodes: list[NodeTrace] = []
        positions = {name: number for number, name in enumerate(names)}
        children: dict[str, dict[int, None]] = {}
        for name in names:
            for one in self._list_read(name):
                children.setdefault(one, {})[positions[name]] = None
        for name, value in self.compute(names, given, Noise()):
            kind: Kind = "output" if name in self._outputs else "computed"
            place, read = self.locate(name), self._list_read(name)
            known[name] = _trace_value(name, kind, as_array(value), place, is_kept=name in wanted)
            made = self.calls[name.partition("[")[0]].function
            values = tuple(known[one] for one in read if one in known)
            parents = tuple(positions[one] for one in read if one in positions)
            after = tuple(children.get(name, ()))
            own = (known[name],)
            nodes.append(NodeTrace(positions[name], str(made), {}, (), values, own, parents, after, "cpu", 0.0, *place))
        stored_ones = (one for one in known.values() if one.kind in ("weight", "constant"))
        return Trace(tuple(nodes), tuple(known[name] for name in given), tuple(stored_ones))

    def _list_read(self, name: str) -> tuple[str, ...]:
        """What a call reads; for one of several results, what the call of all reads."""
        whole = name.partition("[")[0]
        return self.calls[whole if whole in self.calls else name].inputs

    def compute(self, names: Collection[str], given: Arrays, noise: Noise) -> Iterator[tuple[str, Any]]:
        """Names and results of calls, in order."""
        import torch

        order, last = self._order(names, given)
        generator = torch.Generator().manual_seed(noise.seed)
        known: dict[str, Any] = {}
        moved = set(given)  # and what depends on it: the noise of values is added to these alone
        with torch.no_grad():
            for number, name in enumerate(order):
                call = self.calls[name]
                if name in given:
                    value = self._widen(as_tensor(given[name]).clone())
                    value = _spread(value, noise.given, generator, last=True)
                else:
                    value = self._run(call, known, noise, generator)
                    moved |= {name} if not moved.isdisjoint(call.inputs) else set()
                known[name] = _move(value, noise.values, generator) if name in moved else value
                if name in names:
                    yield name, known[name]
                for read in last.get(number, ()):
                    del known[read]

    def _order(self, names: Collection[str], given: Arrays) -> tuple[list[str], dict[int, list[str]]]:
        """The calls that `names` need, in order, and after which position which result is not read any more."""
        needed: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += () if name in given else self.calls[name].inputs
        order = [name for name in self.calls if name in needed]
        last = {name: number for number, name in enumerate(order)}
        for number, name in enumerate(order):
            last |= dict.fromkeys(() if name in given else self.calls[name].inputs, number)
        found: dict[int, list[str]] = {}
        for name, number in last.items():
            found.setdefault(number, []).append(name)
        return order, found

    def _run(self, call: Call, known: Mapping[str, Any], noise: Noise, generator: Any) -> Any:
        import torch

        if call.function is None:
            value = self._widen(call.args.detach()) if isinstance(call.args, torch.Tensor) else call.args
            value = _move(value, noise.rounded, generator)
            return _spread(value, noise.quantised, generator, last=False) if call.is_weight else value
        args, kwargs = (_substitute(one, known, wide=self._wide) for one in (call.args, call.kwargs))
        return call.function(*args, **kwargs)

    def _widen(self, value: Any) -> Any:
        import torch

        if not self._wide or not isinstance(value, torch.Tensor):
            return value
        return (
            value.double() if value.is_floating_point() else value.to(torch.complex128) if value.is_complex() else value
        )


def trace(model: Any, inputs: tuple[Any, ...], keep: Iterable[int | str] | None = None) -> Trace:
    """Run torch's exported program of `model` in float64, and describe every value: what a program should compute.

    Args:
        model: an `nn.Module` in eval mode or an `ExportedProgram`.
        inputs: positional inputs.
        keep: as of `CompiledModel.trace`; names are those of the exported graph, which `ValueTrace.exported` has, too.

    Raises:
        ConfigError, EngineError: as `compile`.
    """
    from engine import exporter

    return Exported(exporter.export_with_torch(model, inputs), wide=True).trace(inputs, Keep.read(keep))


def _trace_value(name: str, kind: Kind, array: NDArray[Any], place: tuple[str, str], *, is_kept: bool) -> ValueTrace:
    made = summarise(array)
    return ValueTrace(
        name, kind, made.dtype, made.shape, name, *place, np.array(array, copy=True) if is_kept else None, lambda: made
    )


def _move(value: Any, size: float, generator: Any) -> Any:
    """A floating-point tensor, or several, whose elements are changed by a normal share of themselves."""
    import torch

    if not size:
        return value
    if isinstance(value, list | tuple):
        return [_move(one, size, generator) for one in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value * (1 + size * torch.randn(value.shape, generator=generator, dtype=torch.float64)).to(value.dtype)


def _spread(value: Any, size: float, generator: Any, *, last: bool) -> Any:
    """A floating-point tensor whose elements are changed by up to a share of the largest one of a row.

    A row has one index of the first axis, or with `last` of all axes but the last.
    """
    import torch

    if not size or not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return value
    axes = (value.ndim - 1,) if last else tuple(range(1, value.ndim))
    largest = value.abs().amax(axes, keepdim=True) if value.ndim > 1 else value.abs().max()
    uniform = 2 * torch.rand(value.shape, generator=generator, dtype=torch.float64) - 1
    return value + (size * largest * uniform).to(value.dtype)


def _substitute(value: Any, known: Mapping[str, Any], *, wide: bool) -> Any:
    """`value` with results in place of references, and float64 in place of narrower floating-point types."""
    import torch

    if isinstance(value, Ref):
        return known[value.name]
    if isinstance(value, list | tuple):
        return type(value)(_substitute(one, known, wide=wide) for one in value)
    if isinstance(value, Mapping):
        return {key: _substitute(one, known, wide=wide) for key, one in value.items()}
    if wide and isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else torch.complex128 if value.is_complex else value
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, Ref) or not isinstance(value, list | tuple):
        yield value
        return
    for one in value:
        yield from _leaves(one)


def _is_tensor(node: Any) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.Tensor)


def _attribute(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _plain(value: Any) -> Any:
    """The argument that a placeholder stands for, if the program was exported for this one; None for a tensor."""
    return value if isinstance(value, bool | int | float | str) else None
