"""Loads, binds and runs one program file in every way, and says whether each outcome is one that is allowed.

Allowed are: a result that is right; ProgramError from loading; ShapeError for arguments that do not fit;
ExecutionError from a call. Everything else is a finding. Crashes and hangs are noticed by the process that started this
one.
"""

from __future__ import annotations

import math
import traceback
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import engine
from engine import Config, dtypes, tree
from engine.errors import ConfigError, ExecutionError, ProgramError, ShapeError
from engine.graph import Graph, Node, Value, specialise
from engine.memory import as_array
from engine.ops import TensorType
from engine.runtime.program import Program
from engine.targets.cpu import native
from tests.fuzz import compare
from tests.fuzz.samples import Sample

MOST_FLOPS = 1 << 27
MOST_BYTES = 1 << 27
"""A program with more declared work is bound and not run: it would take long, and rightly so."""
MOST_COMPARED = 1 << 22
"""Bytes of all values of a program that is compared with the definitions; larger ones run natively alone."""
MOST_STEPS = 1 << 12
"""Steps of Python loops in the NumPy definitions; programs with larger windows run natively alone."""
ADDRESS_SPACE = 6 << 30
"""Bytes of memory that a process which runs programs may map."""
IMPOSSIBLE = 1 << 42
"""Bytes that no machine has."""


class Finding(Exception):
    """An outcome that is not allowed."""


class Outcome(NamedTuple):
    """What became of one program.

    Attributes:
        stage: ``refused`` by load, ``bound`` but too large to run, ``failed`` with an ExecutionError, ``refused call``,
            or ``ran``.
        error: the message of the error, or "".
        finding: what is not allowed, with its stack; "" otherwise.
        kernels: names of the kernels that ran.
    """

    stage: str
    error: str = ""
    finding: str = ""
    kernels: tuple[str, ...] = ()


def check(path: Path, arrays: list[np.ndarray], config: dict[str, Any], seed: int, *, is_valid: bool) -> Outcome:
    """Run the file in every way. Never raises, but for what ends a process."""
    checker = _Checker(path, arrays, config, seed, is_valid=is_valid)
    try:
        checker.run()
    except Finding as finding:
        return checker.outcome(finding=str(finding))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
        return checker.outcome(finding=f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
    return checker.outcome()


def check_sample(sample: Sample, path: Path) -> Outcome:
    """Write the sample to `path` and check it."""
    try:
        sample.write(path)
    except (TypeError, ValueError, OverflowError, ProgramError) as error:  # nothing that a file can hold
        return Outcome("not written", f"{type(error).__name__}: {error}")
    return check(path, sample.draft.arrays, sample.config, sample.seed, is_valid=sample.kind == "valid")


def check_file(path: Path) -> Outcome:
    """Check a program file without a seed, for each instruction set; the first outcome with a finding, or the last."""
    outcome = Outcome("refused")
    for isa in native.kernel_isas():
        outcome = check(path, [], {"isa": isa}, 0, is_valid=False)
        if outcome.finding:
            break
    return outcome


class _Checker:
    """The state of one `check`."""

    def __init__(
        self, path: Path, arrays: list[np.ndarray], config: dict[str, Any], seed: int, *, is_valid: bool
    ) -> None:
        self.path = path
        self.arrays = arrays
        self.config = dict(config)
        self.rng = Random(seed)
        self.reading: dict[str, Any] = {
            "verify": self.rng.choice(("full", "header")),
            "mmap": self.rng.choice((False, True)),
        }
        self.is_valid = is_valid
        self.stage = "refused"
        self.error = ""
        self.kernels: tuple[str, ...] = ()

    def outcome(self, finding: str = "") -> Outcome:
        return Outcome(self.stage, self.error, finding, self.kernels)

    def load(self, **switches: Any) -> Program:
        """The program. A variant that no node can use is left out."""
        try:
            return engine.load(self.path, **self.reading, config=Config(**self.config, **switches))
        except ConfigError:
            if "variant" not in self.config:
                raise
            del self.config["variant"]
            return self.load(**switches)

    def run(self) -> None:
        try:
            program = self.load()
        except ProgramError as error:
            self.error = str(error)
            if self.is_valid:
                raise Finding(f"a valid program is refused: {error}") from None
            return
        self.stage = "bound"
        report = program.report()
        graph = program.lowered
        example = specialise(graph, graph.scope.example)
        returned = sum(value.type.nbytes for value in example.call_outputs)
        flops = max(report.flops, report.executed_flops, *map(_visits, example.nodes))
        work = flops > MOST_FLOPS or max(report.bytes, returned) > MOST_BYTES
        # What no machine has memory for is called nevertheless: it must fail as promised, and at once.
        if not _can_be_passed(example) or (work and report.arena_bytes + returned < IMPOSSIBLE):
            return
        two, plain = self.load(threads=2), self.load(target="interpreter")
        for sizes in self.sizes(graph):
            self.call(program, two, plain, sizes)
        self.kernels = tuple(name for name, _ in report.kernels)
        self.wrong_arguments(program)

    def sizes(self, graph: Graph) -> list[dict[str, int]]:
        """Sizes of calls: the example's, and others where the program takes them."""
        example = graph.scope.example
        if not example:
            return [example]
        others = []
        for name, symbol in graph.scope.symbols.items():
            near = max(min(symbol.high, symbol.example + self.rng.randint(1, 9)), symbol.low)
            others += [{**example, name: size} for size in (symbol.low, near) if size <= symbol.example + 64]
        return [example, *others]

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, program: Program, two: Program, plain: Program, sizes: dict[str, int]) -> None:
        """One call by each target, compared."""
        graph = program.lowered
        try:
            fixed = graph if graph.is_fixed else specialise(graph, sizes)
            if not _can_be_passed(fixed):
                return
            args, kwargs = self.arguments(fixed)
            leaves, states = self.results(program, args, kwargs)
        except ShapeError as error:
            if self.is_valid and graph.is_fixed:
                raise Finding(f"the right arguments are refused: {error}") from None
            self.stage, self.error = "refused call", str(error)
            return
        except ConfigError as error:  # other sizes have another plan, which may not be able to use the variant
            if "variant" not in self.config or graph.is_fixed:
                raise
            self.stage, self.error = "refused call", str(error)
            return
        except ExecutionError as error:
            self.stage, self.error = "failed", str(error)
            self.must_fail(plain, args, kwargs)
            return
        self.stage = "ran"
        again, states_again = self.results(two, args, kwargs)
        _same_bytes("threads 1 and 2", [*leaves, *states], [*again, *states_again])
        compared = sum(value.type.nbytes for value in _list_values(fixed)) <= MOST_COMPARED
        if compared and all(map(_is_quick, fixed.nodes)):
            try:
                reference, _ = self.results(plain, args, kwargs)
            except ProgramError:
                return  # a definition may need an intermediate value that no machine has memory for
            except ExecutionError as error:
                # The definitions look at every index; kernels at none where there is nothing to read. Passes drop
                # nodes whose results nobody reads.
                if program.graph.lowered and all(value.type.size for node in fixed.nodes for value in node.outputs):
                    raise Finding(f"the definition fails and C does not: {error}") from None
                return
            for one, other in zip(leaves, reference, strict=True):
                if (one.dtype, one.shape) != (other.dtype, other.shape):
                    raise Finding(f"the interpreter returns {other.dtype}{other.shape}, C {one.dtype}{one.shape}")
            self.trace(program, fixed, args, kwargs, leaves, states)

    def results(
        self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The arrays that a call returns, and what its state holds after it."""
        if program.lowered.states:
            state = program.new_state()
            result = program(*args, **{**kwargs, "state": state})
            states = [np.array(array) for array in state.values()]
        else:
            result, states = program(*args, **kwargs), []
        leaves = tree.flatten(program.lowered.signature.output_tree, result, "result")
        # A program without inputs returns tensors where the process has imported torch.
        return [as_array(leaf) for leaf in leaves if hasattr(leaf, "dtype")], states

    def must_fail(self, plain: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The definition must fail where C does; only asked of valid programs, whose sums cannot be indices."""
        if not self.is_valid:
            return
        try:
            self.results(plain, args, kwargs)
        except ExecutionError:
            return
        raise Finding(f"C fails ({self.error}) and the definition does not")

    def trace(
        self,
        program: Program,
        fixed: Graph,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[np.ndarray],
        states: list[np.ndarray],
    ) -> None:
        """Each node against its definition on the very operands that it had, then the results bit by bit.

        The traced run gives every value memory of its own, so a fault of the memory plan shows as other bits.
        """
        if program.lowered.states:
            kwargs = {**kwargs, "state": program.new_state()}
        nodes = program.trace(*args, keep=range(len(fixed.nodes)), **kwargs).nodes
        values = {value: value.elements for value in fixed.constants() if value.is_plain}
        for traced_node, node in zip(nodes, fixed.nodes, strict=True):
            results = [one.array for one in traced_node.outputs]
            operands = [None if one is None else one.array for one in traced_node.inputs]
            values |= zip(node.outputs, results, strict=True)
            for number, result in enumerate(results):
                wrong = compare.difference(node.op.name, operands, node.attributes, result, number)
                if wrong is not None:
                    raise Finding(f"wrong result: {wrong}\n{node}")
        slots = [slot for slot in fixed.signature.output_slots if isinstance(slot, int)]
        traced = [values.get(fixed.call_outputs[slot]) for slot in slots]
        traced += [values.get(value) for value in fixed.state_outputs]
        made = [(one, other) for one, other in zip([*leaves, *states], traced, strict=True) if other is not None]
        _same_bytes("a run and its trace", [one for one, _ in made], [other for _, other in made])

    # --- arguments ----------------------------------------------------------------------------------------------------

    def arguments(self, graph: Graph) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the graph's types: those of the sample, made to fit."""
        arrays = [self.array(number, value.type) for number, value in enumerate(graph.call_inputs)]
        slots = graph.signature.input_slots
        leaves = [arrays[slot] if isinstance(slot, int) else slot["constant"] for slot in slots]
        args, kwargs = tree.unflatten(graph.signature.input_tree, leaves)
        return args, kwargs

    def array(self, number: int, type_: TensorType) -> np.ndarray:
        kind = dtypes.dtype(type_.dtype).numpy
        if number >= len(self.arrays) or not self.arrays[number].size or not type_.size:
            if not type_.size or dtypes.dtype(type_.dtype).kind != "float":
                return np.ones(type_.shape, kind)  # 1 is in the range of most indices
            return np.resize(np.arange(7) / 2 - 1, type_.shape).astype(kind)
        with np.errstate(all="ignore"):
            array = self.arrays[number].astype(kind)
        return array if array.shape == type_.shape else np.resize(array, type_.shape)

    def wrong_arguments(self, program: Program) -> None:
        """Arguments that do not fit are a ShapeError."""
        graph = program.lowered
        if not graph.call_inputs or not graph.is_fixed or not program._boundary.is_flat:
            return
        args, _ = self.arguments(graph)
        state = {"state": program.new_state()} if graph.states else {}
        position = self.rng.randrange(len(args))
        wrong: tuple[Any, ...] = (
            args[:-1],
            (*args, args[0]),
            _changed(args, position, args[position][None]),
            _changed(args, position, args[position].astype(np.complex64)),
            _changed(args, position, None),
            _changed(args, position, [1.0]),
        )
        for bad in wrong:
            try:
                program(*bad, **state)
            except ShapeError:
                continue
            raise Finding(f"wrong arguments are taken: {[getattr(a, 'shape', a) for a in bad]}")


def _can_be_passed(graph: Graph) -> bool:
    """True where NumPy can make the inputs; it refuses even empty arrays whose other axes are very long."""
    types = [value.type for value in graph.inputs]
    return sum(math.prod(max(n, 1) for n in t.shape) * dtypes.dtype(t.dtype).size for t in types) <= MOST_BYTES


def _list_values(graph: Graph) -> set[Value]:
    """All values of a graph, components of encoded constants included."""
    return {*graph.inputs, *graph.stored_constants(), *(value for node in graph.nodes for value in node.outputs)}


def _changed(args: tuple[Any, ...], position: int, value: Any) -> tuple[Any, ...]:
    return (*args[:position], value, *args[position + 1 :])


def _same_bytes(what: str, some: list[np.ndarray], others: list[np.ndarray]) -> None:
    for number, (one, other) in enumerate(zip(some, others, strict=True)):
        if one.tobytes() != other.tobytes():
            raise Finding(f"{what}: other bits in result {number}: {one.reshape(-1)[:8]} and {other.reshape(-1)[:8]}")


def _visits(node: Node) -> int:
    """Steps of the reference kernel of `conv_transpose`, which looks at every tap for each element of its result."""
    return node.output.type.size * node.operand("weight").type.size if node.op.name == "conv_transpose" else 0


def _is_quick(node: Node) -> bool:
    """True where the NumPy definition neither loops long in Python nor pads its operand to a very large one."""
    op, attributes = node.op.name, node.attributes
    if "low" not in attributes or op == "pad":
        return True
    x, *others = node.input_types
    axes = len(attributes["low"])
    position = {"conv": 0, "conv_transpose": 0, "expand_depthwise": 2}.get(op)
    weight = None if position is None else others[position]
    kernel = attributes["kernel"] if weight is None else weight.shape[2:]
    if x is None or math.prod(kernel) > MOST_STEPS:
        return False
    is_last = attributes.get("channels_last", op == "expand_depthwise")
    size = x.shape[1:-1] if is_last else x.shape[2:]
    padded = math.prod(max(n, 1) for n in x.shape) // math.prod(max(n, 1) for n in size)
    for axis in range(axes):
        step = attributes["stride"][axis] if op == "conv_transpose" else 1
        reach = attributes.get("dilation", (1,) * axes)[axis] * kernel[axis]
        padded *= max(size[axis], 1) * step + abs(attributes["low"][axis]) + abs(attributes["high"][axis]) + reach
    return padded <= MOST_COMPARED
