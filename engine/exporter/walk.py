"""Translates the calls of an fx graph to a Graph, one after the other; handlers translate each ATen call.

Refused calls are collected; the walk continues with a placeholder value of their type. An InternalError ends it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from engine.errors import InternalError
from engine.exporter.context import CallContext, Element, Missing, tensor_type
from engine.exporter.encoded import decode
from engine.exporter.evaluate import Evaluator, Varies
from engine.exporter.handlers import FaultyCall, Handler, Refusal, bind, find_handler, overload, runs_for_effect
from engine.exporter.sources import from_trace, module_of, shorten
from engine.exporter.symbols import Symbols
from engine.exporter.torch_internals import HigherOrderOperator, OpOverload, tree_leaves
from engine.exporter.weights import Held, identity, to_numpy
from engine.graph import Graph, Origin, Source, Value
from engine.graph import Node as GraphNode
from engine.memory import fault_of_memory

_ASSERT, _ITEM, _SELECT = map(overload, ("_assert_scalar", "item", "select.int"))
Translated = Any  # a Value, a Missing, a number, or a list of them
FindObstacle = Callable[[GraphNode], str | None]
_PART = re.compile(r"\.parametrizations\.(\w+)\.original0$")
"""The end of the name that torch gives to the first part of a parameter that consists of several tensors."""


class Walk:
    """The translation of one fx graph.

    `offenders` has a line for each call or input that cannot be translated, and `has_faulty_call` is True if torch,
    too, refuses one of them, or if one is an input. `refused` maps calls to their lines; "" if only an input of the
    call is refused. `evaluated` has the results that torch has computed. `states` has the contents before a call, by
    name, of buffers to which the module writes. `settled` maps a size for which a call works only with the example's
    to a line about the call. `inside` has the higher-order operators whose bodies are being translated, outermost
    first. `sources` keeps positions, because parsing traces is slow. `find_obstacle` tells why a node cannot run, which
    refuses the call that becomes it; None: every node can.
    """

    def __init__(self, graph: Graph, symbols: Symbols, find_obstacle: FindObstacle | None = None) -> None:
        self.graph = graph
        self.symbols = symbols
        self.offenders: list[str] = []
        self.has_faulty_call = False
        self.refused: dict[Node, str] = {}
        self.states: dict[str, Value] = {}
        self.settled: dict[str, str] = {}
        self.inside: list[str] = []
        self.sources: dict[Node, str] = {}
        self.find_obstacle = find_obstacle
        self.evaluator = Evaluator()
        self.evaluated: dict[Node, Any] = {}
        self._constants: dict[tuple[Any, ...], Value] = {}

    def run(self, module: GraphModule, held: Mapping[Node, Held], written: Collection[str] = ()) -> list[Translated]:
        """Translate `module`: ATen calls without writes, whose nodes have ``meta["val"]``. Returns its outputs.

        `held` maps placeholders to weights, whose memory the graph shares. Those that the module changes, named in
        `written`, become `states` and no constants.
        """
        env = self.add_placeholders(module.graph.find_nodes(op="placeholder"), held, written)
        return list(map(self._as_elements, self._run(module, env)))

    def add_placeholders(
        self, nodes: Iterable[Node], held: Mapping[Node, Held], written: Collection[str] = ()
    ) -> dict[Node, Translated]:
        """Translate placeholders, each to an input, a number, a constant or a state. Arguments as of `run`."""
        env: dict[Node, Translated] = {}
        for node in nodes:
            known = held.get(node)
            if known is not None and known.name not in written and isinstance(known.tensor, torch.Tensor):
                self.evaluator.known[node] = known.tensor
            try:
                env[node] = self._add_input(node) if known is None else self._add_weight(known, written)
            except Refusal as refusal:
                name = f"input {node.name}" if known is None else _PART.sub(r".\1", known.name)
                self.refused[node] = f"{name}: {refusal}"
                self.has_faulty_call |= known is None
                self.offenders.append(self.refused[node])
                env[node] = Missing(None)
            self.with_origin(node, env[node])
        return env

    def _add_input(self, node: Node) -> Translated:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return self.graph.add_input(node.name, tensor_type(value, self.symbols.size))
        return self.symbols.size(value) if isinstance(value, torch.SymInt) else value

    def _add_weight(self, held: Held, written: Collection[str]) -> Value:
        """A constant or a state; tied weights are one constant."""
        tensor, name = held.tensor, held.name
        if not isinstance(tensor, torch.Tensor):
            raise Refusal(f"a {type(tensor).__name__} cannot be a constant of a program")
        type_ = tensor_type(tensor, self.symbols.size)
        if fault := fault_of_memory(tensor):
            raise Refusal(f"expected a dense tensor with data, got {fault}")
        if name in written:
            first = to_numpy(tensor)
            self.states[name] = Value(self.graph.unique(name), type_)
            initial = self.graph.constant(first.copy(), name) if first.any() else None
            self.graph.states.append((name, initial))
            return self.states[name]
        key = identity(tensor)
        if key not in self._constants:
            name = _PART.sub(r".\1", name) + ".data" if tensor.dtype is torch.int8 else name
            self._constants[key] = self.graph.constant(to_numpy(tensor), name)
            self._constants[key].is_parameter = held.is_parameter
        return self._constants[key]

    def _run(self, module: GraphModule, env: dict[Node, Translated]) -> list[Translated]:
        """Translate the calls of `module` that its outputs need. `env` has its placeholders. Returns its outputs."""
        needed = needed_by_outputs(module.graph.nodes)
        for node in module.graph.nodes:
            if node.op == "call_function" and node in needed:
                env[node] = self._call(node, env)
            elif node.op == "get_attr":
                name = str(node.target)
                env[node] = self.with_origin(node, self._constant_of(getattr(module, name), name))
            if node.target is _ASSERT:
                (condition, *_) = node.all_input_nodes or (node,)
                self.symbols.note(condition.meta.get("val"))
        (outputs,) = module.graph.output_node().args
        return list(map_arg(outputs, env.__getitem__))  # type: ignore[arg-type]  # an exported graph returns a tuple

    def _as_elements(self, result: Translated) -> Translated:
        """`result`, decoded if it is an encoded constant: a program returns elements."""
        is_encoded = isinstance(result, Value) and result.type.encoding is not None
        return decode(self.graph, result) if is_encoded else result

    def _constant_of(self, held: Any, name: str = "", source: str = "") -> Translated:
        """A tensor as a constant, or Missing if a program cannot have it; a number, or the body of an operator."""
        if not isinstance(held, torch.Tensor):
            return held
        try:
            tensor_type(held, self.symbols.size)
        except Refusal as refusal:
            return Missing(f"{refusal} ({source})" if source else str(refusal))
        return self.graph.constant(to_numpy(held), name)

    def with_origin(self, node: Node, result: Translated) -> Translated:
        """Record `node` of the exported program as the origin of `result`, a value or a list of values. Returns it."""
        several = isinstance(result, list)
        for number, value in enumerate(result if several else [result]):
            if isinstance(value, Value):
                name = "/".join([*self.inside, node.name]) + (f"[{number}]" if several else "")
                value.trace_to(Origin(name, module_of(node), shorten(self._source(node))))
        return result

    def _call(self, node: Node, env: dict[Node, Translated]) -> Translated:
        args = map_arg(node.args, env.__getitem__)
        kwargs = map_arg(node.kwargs, env.__getitem__)
        source = self._source(node)
        meta = node.meta.get("val")
        try:
            if node.target is _ITEM and isinstance(args[0], Value) and self._is_position(node):
                return Element(f"the size {meta} depends on the values of tensors", args[0])
            if isinstance(meta, torch.SymInt | int):  # arithmetic on sizes, which torch has computed
                return self.symbols.size(meta)
            if isinstance(meta, torch.SymFloat) and not isinstance(node.target, OpOverload):
                is_told = any(map(self._is_reported, node.all_input_nodes))
                return Missing(None) if is_told else self.symbols.number(meta.node.expr)
            if node.target is operator.getitem:
                if node.all_input_nodes[0] in self.refused:
                    self.refused[node] = ""
                return _item(args)
            if isinstance(node.target, HigherOrderOperator):
                return self._inline(node, node.target, args)
            if not isinstance(node.target, OpOverload):
                return Missing(None)  # a comparison of sizes, or a number that is computed from sizes and is no size
            handler = find_handler(node.target)
            missing = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Missing)]
            if missing and not (node.target is _SELECT and missing == [args[2]] and isinstance(args[2], Element)):
                if not any(map(self._is_reported, node.all_input_nodes)):
                    raise Refusal(
                        missing[0].reason or "a number that is computed from sizes in this way is not supported"
                    )
                self.refused[node] = ""
                return self._stand_in(meta)
            where = Source(shorten(source), module_of(node))
            context = CallContext(self.graph, meta, where, self.symbols.size)
            return self.with_origin(node, self._translate(handler, node.target, args, kwargs, context, source))
        except Refusal as first:
            try:
                return self.with_origin(node, self._evaluate(node))
            except Varies:
                refusal = first
            except Refusal as second:
                refusal = second
            call = node.all_input_nodes[0] if node.target is operator.getitem else node
            # A call that a quantiser has inserted has no line of its own: the line of its reader tells where it is.
            source = source or next(filter(None, map(self._source, call.users)), "")
            is_of_python = call.op == "call_function" and not isinstance(call.target, OpOverload | HigherOrderOperator)
            name = getattr(call.target, "__name__", call.target) if is_of_python else call.target
            line = f"{name}: {refusal}" + (f" ({source})" if source else "")
            self.offenders.append(line)
            self.has_faulty_call |= isinstance(refusal, FaultyCall)
            self.refused |= {node: "", call: line}
            return self._stand_in(meta)

    def _is_position(self, node: Node) -> bool:
        """Whether an element only says what to select. Torch runs it, too, where it runs calls: it is no tensor."""
        is_read = all(user.target is _SELECT for user in node.users)
        return is_read and isinstance(node.meta.get("val"), torch.SymInt) and self.find_obstacle is None

    def _evaluate(self, node: Node) -> Translated:
        """The result of a call that depends on no input, which torch computes. Raises as `Evaluator.find`."""
        result = self.evaluated[node] = self.evaluator.find(node)
        several = isinstance(result, list | tuple)
        made = [self._constant_of(one, source=self._source(node)) for one in (result if several else [result])]
        return made if several else made[0]

    def _source(self, node: Node) -> str:
        """``file:line`` of a call. A higher-order operator has the line of the first call in its body."""
        if node not in self.sources:
            nodes = [node, *(n for body in node.all_input_nodes for n in _body(body))]
            traces = (n.meta.get("stack_trace") for n in nodes)
            self.sources[node] = next((source for trace in traces if (source := from_trace(trace))), "")
        return self.sources[node]

    def _is_reported(self, node: Node) -> bool:
        """Whether `node` is refused, or is arithmetic on numbers with a result of a refused call."""
        is_call = isinstance(node.target, OpOverload) or node.op != "call_function"
        return node in self.refused or (not is_call and any(map(self._is_reported, node.all_input_nodes)))

    def _note_settled(self, target: OpOverload, source: str) -> None:
        for name, only in self.symbols.scope.settled.items():
            line = f"{target}: it is supported for one value of the size {name}; in the example {name} is {only}"
            self.settled.setdefault(name, line + (f" ({source})" if source else ""))

    def _inline(self, node: Node, target: HigherOrderOperator, args: Any) -> Translated:
        if target.name() not in INLINED:
            wrapped = next((argument for argument in args if isinstance(argument, OpOverload)), None)
            if wrapped is not None:  # a call that writes to its arguments, or has another side effect
                raise Refusal(f"it wraps {wrapped}, which has no handler")
            raise Refusal("control flow and other higher-order operators are not supported")
        body, values = INLINED[target.name()](args)
        placeholders = body.graph.find_nodes(op="placeholder")
        before = len(self.offenders)
        self.inside.append(node.name)
        results = self._run(body, dict(zip(placeholders, values, strict=True)))
        self.inside.pop()
        if self.offenders[before:]:
            self.refused[node] = "; ".join(self.offenders[before:])
        return results

    def _translate(
        self, handler: Handler, target: OpOverload, args: Any, kwargs: Any, context: CallContext, source: str
    ) -> Translated:
        guards, nodes = len(self.symbols.scope.guards), len(self.graph.nodes)
        result = handler.translate(context, **bind(handler, args, kwargs))
        self._check(target, result, source, context.meta)
        if len(self.symbols.scope.guards) > guards:
            self._note_settled(target, source)
        if self.find_obstacle is not None:
            obstacles = list(map(self.find_obstacle, self.graph.nodes[nodes:]))
            if found := next(filter(None, obstacles), None):
                raise Refusal(found)
        return result

    def _check(self, target: OpOverload, result: Translated, source: str, meta: Any) -> None:
        """InternalError if the handler of `target` returned a value of another type than `meta`, torch's result."""
        if isinstance(result, list):
            for one, its_meta in zip(result, meta, strict=True):
                self._check(target, one, source, its_meta)
        elif isinstance(result, Value) and result.type.plain != (expected := tensor_type(meta, self.symbols.size)):
            where = f" ({source})" if source else ""
            raise InternalError(f"{target} was translated to {result.type}, but in torch it is {expected}{where}")

    def _stand_in(self, meta: Any) -> Translated:
        """A placeholder value for an untranslated result, of its type in torch; Missing if that type is not known."""
        if isinstance(meta, list | tuple):
            return [self._stand_in(one) for one in meta]
        try:
            return Value("stand_in", tensor_type(meta, self.symbols.size))
        except Refusal:
            return Missing(None)


def _body(node: Node) -> Iterable[Node]:
    module = getattr(node.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
    return module.graph.nodes if isinstance(module, GraphModule) else ()


def _item(args: Any) -> Translated:
    """One of several results."""
    several, position = args
    chosen = several if isinstance(several, Missing) else several[position]
    if isinstance(chosen, Missing) and chosen.reason is not None:
        raise Refusal(chosen.reason)
    return chosen


def _without_grad(args: Any) -> tuple[GraphModule, Sequence[Translated]]:
    """wrap_with_set_grad_enabled(enabled, body, *values): only the body matters, since there are no gradients."""
    _enabled, body, *values = args
    return body, values


def _without_autocast(args: Any) -> tuple[GraphModule, Sequence[Translated]]:
    """wrap_with_autocast(device, dtype, enabled, cache_enabled, body, *values); the body, if autocast is disabled."""
    _device, _dtype, enabled, _cache, body, *values = args
    if enabled:
        raise Refusal("autocast is not supported inside of a model; cast explicitly")
    return body, values


INLINED: dict[str, Callable[[Any], tuple[GraphModule, Sequence[Translated]]]] = {
    "wrap_with_set_grad_enabled": _without_grad,
    "wrap_with_autocast": _without_autocast,
}
"""Higher-order operators whose body is translated in place of the call."""


def needed_by_outputs(nodes: Iterable[Node]) -> set[Node]:
    """Nodes on which the outputs depend, and calls that run for their effect."""
    needed: set[Node] = set()
    for node in reversed(list(nodes)):
        if node.op == "output" or node in needed or _must_run(node):
            needed.add(node)
            needed.update(node.all_input_nodes)
    return needed


def _must_run(node: Node) -> bool:
    if isinstance(node.target, OpOverload):
        return runs_for_effect(node.target)
    return isinstance(node.target, HigherOrderOperator) and node.target.name() not in INLINED
