"""Between the user's arguments and addresses: structure, types, devices, contiguity. Torch only if the user brought it.

Knows the signature of a graph; knows no target.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import dtypes, sizes, tree
from engine.errors import ExecutionError, ProgramError, ShapeError
from engine.graph import Graph
from engine.memory import NO_MEMORY_MODE, fault_of_memory
from engine.ops import TensorType
from engine.runtime.arguments import bind_arguments
from engine.targets.base import Device
from engine.targets.host import HOST

if TYPE_CHECKING:
    from engine.runtime.state import State


class Boundary:
    """Checks and unpacks the arguments of a call, makes and packs its results.

    `recycle`, for which all sizes are known, puts large results into memory of earlier ones that nobody refers to any
    longer.
    """

    def __init__(self, graph: Graph, *, device: Device = HOST, recycle: bool = False) -> None:
        signature = graph.signature
        self.signature = signature
        self.input_types = [value.type for value in graph.call_inputs]
        self.output_types = [value.type for value in graph.call_outputs]
        self.names = signature.input_names
        self._rebuild = signature.rebuild or (lambda leaves: tree.unflatten(signature.output_tree, leaves))
        arguments = signature.input_tree
        positional, keywords = arguments["tuple"]
        flat = all(t == tree.LEAF for t in positional["tuple"]) and not keywords["dict"]
        # A flat list of tensors, in order, needs no walk over a tree.
        self.is_flat = flat and list(signature.input_slots) == list(range(len(self.input_types)))
        self.is_single = signature.output_tree == tree.LEAF and list(signature.output_slots) == [0]
        self.arrays: list[tuple[Any, tuple[int, ...]]] = [
            (dtypes.dtype(t.dtype).numpy, t.shape) for t in self.input_types
        ]
        self._device = device
        makers = [device.new_array(t, recycle=recycle) for t in self.output_types]
        self.recycled = [maker is not None for maker in makers]
        self.new_arrays: list[Callable[[], Any]] = [
            maker or partial(np.empty, t.shape, dtypes.dtype(t.dtype).numpy)
            for t, maker in zip(self.output_types, makers, strict=True)
        ]
        self.where = _where(self.input_types, graph.scope)
        self._symbols = graph.scope.symbols
        # The same in torch's terms, once a call has met torch.
        self.tensor: Any = None
        self.strided: Any = None
        self.tensors: list[tuple[Any, tuple[int, ...], int, int]] = []  # dtype, shape, bytes of all and one element
        self.new_tensors: list[Callable[[], Any]] = []

    # --- inputs --------------------------------------------------------------------------------------------------

    def unpack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], state: State | None = None) -> list[Any]:
        """Dense CPU tensors or arrays of the right types, one for each input of the graph, in order.

        `kwargs` are without ``state``. An input in the memory of `state` is copied: the call changes that memory, maybe
        before it reads the input. Raises as `flatten_arguments`.
        """
        inputs = [self._dense(position, leaf) for position, leaf in enumerate(self.flatten_arguments(args, kwargs))]
        if state is None:
            return inputs
        return [_clone(value) if state.has_memory_of(value) else value for value in inputs]

    def flatten_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The caller's own tensors or arrays after a check, one for each input of the graph, in order.

        Raises a ShapeError that names the input and both sides, if number, names, structure, kind, dtype, shape or
        device differ.
        """
        if self.tensor is None:
            self._meet_torch()
        flat = self.is_flat and not kwargs and len(args) == len(self.input_types)
        leaves = list(args) if flat else self.list_leaves(args, kwargs)
        self.check(leaves)
        return leaves

    def check(self, leaves: Sequence[Any]) -> None:
        """Raises as `flatten_arguments`, for tensors or arrays in the order of the graph's inputs."""
        for position, leaf in enumerate(leaves):
            self._check(position, leaf)

    def sizes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
        """What the sizes that differ from call to call are in this one, in the order of the graph's symbols.

        Raises ShapeError if number, names, structure, kind or rank of the arguments differ, or a size is no value of
        its formula. Nothing else is checked.
        """
        if self.tensor is None:
            self._meet_torch()
        flat = self.is_flat and not kwargs and len(args) == len(self.input_types)
        return self.sizes_of(args if flat else self.list_leaves(args, kwargs))

    def sizes_of(self, leaves: Sequence[Any]) -> tuple[int, ...]:
        """As `sizes`, of tensors or arrays in the order of the graph's inputs."""
        return tuple([self._size(leaves[place.position], place) for place in self.where])

    def _size(self, leaf: Any, place: Where) -> int:
        position = place.position
        expected = self.input_types[position]
        if not (isinstance(leaf, np.ndarray) or (self.tensor is not None and isinstance(leaf, self.tensor))):
            raise self._wrong(position, f"{type(leaf).__name__}, which is neither a NumPy array nor a torch tensor")
        if not isinstance(leaf, np.ndarray):
            self._refuse_nested(position, leaf)
        if len(leaf.shape) != len(expected.shape):
            raise self._wrong(position, f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}")
        value, rest = divmod(int(leaf.shape[place.axis]) - place.shift, place.factor)
        if rest:
            raise ShapeError(self._describe_rest(place, int(leaf.shape[place.axis])))
        return value

    def _describe_rest(self, place: Where, size: int) -> str:
        """That a size is no value of its formula, such as 2*b, for any whole number of the symbol."""
        formula = self.input_types[place.position].shape[place.axis]
        low, high, _ = self._symbols[place.symbol]
        return (
            f"input {self.names[place.position]!r}: expected {formula} as the size of axis {place.axis}, for a whole "
            f"{place.symbol} from {low} to {high}, got {size}"
        )

    def _meet_torch(self) -> None:
        torch = sys.modules.get("torch")  # only if this process has imported it; the engine never does so by itself
        if torch is None:
            return
        self.tensor, self.strided = torch.Tensor, torch.strided
        self.tensors = [
            (getattr(torch, t.dtype), t.shape, t.nbytes, dtypes.dtype(t.dtype).size) for t in self.input_types
        ]
        # Sizes one by one: torch parses a tuple of them more slowly, but cannot do without where there are none.
        sizes = [t.shape or ((),) for t in self.output_types]
        kinds = [getattr(torch, t.dtype) for t in self.output_types]
        cpu = torch.device("cpu")  # torch.set_default_device may name another one
        self.new_tensors = [partial(torch.empty, *s, dtype=d, device=cpu) for s, d in zip(sizes, kinds, strict=True)]
        for number, new in enumerate(self.new_arrays):
            if self.recycled[number] and kinds[number] is not torch.bfloat16:  # of which torch takes no arrays
                self.new_tensors[number] = partial(_tensor_of, torch.from_numpy, new)

    def _check(self, position: int, leaf: Any) -> None:
        expected = self.input_types[position]
        if self.tensor is not None and isinstance(leaf, self.tensor):
            self._refuse_nested(position, leaf)
            dtype, shape, _, _ = self.tensors[position]
            strided = leaf.layout is self.strided
            if leaf.dtype is not dtype or leaf.shape != shape or not self._device.admits(leaf) or not strided:
                what = "" if strided else f"{leaf.layout} "
                got = f"{what}{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device}"
                raise self._wrong(position, got)
            if fault := fault_of_memory(leaf):
                raise self._wrong(position, fault)
        elif not isinstance(leaf, np.ndarray):
            raise self._wrong(position, f"{type(leaf).__name__}, which is neither a NumPy array nor a torch tensor")
        elif leaf.dtype.name != expected.dtype or leaf.shape != expected.shape:
            raise self._wrong(position, f"{leaf.dtype.name}{list(leaf.shape)}")
        elif isinstance(leaf, np.ma.MaskedArray):
            raise self._wrong(position, "a masked array, whose mask is not read; its method filled() makes a plain one")

    def _refuse_nested(self, position: int, leaf: Any) -> None:
        """ShapeError for a nested tensor, which torch gives no shape or one with symbols in it."""
        if leaf.is_nested:
            raise self._wrong(position, "a nested tensor; torch.nested.to_padded_tensor makes a dense one")

    def _dense(self, position: int, leaf: Any) -> Any:
        """A leaf that is right, row by row; itself where it is so."""
        if isinstance(leaf, np.ndarray):
            dtype = dtypes.dtype(self.input_types[position].dtype).numpy
            return np.require(leaf, dtype, ("C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"))
        # The memory of a lazily conjugated or negated tensor does not hold its values.
        if leaf.is_conj() or leaf.is_neg():
            leaf = leaf.resolve_conj().resolve_neg()
        return leaf if leaf.is_contiguous() else self._device.make_dense(leaf)

    def list_leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The caller's tensors or arrays in the order of the graph's inputs. ShapeError if the structure differs."""
        try:
            bound = bind_arguments(self.signature, self.input_types, args, kwargs)
            leaves = tree.flatten(self.signature.input_tree, bound)
        except ValueError as e:
            raise ShapeError(f"wrong arguments: {e}") from None
        ordered: list[Any] = [None] * len(self.input_types)
        where = list(tree.paths(self.signature.input_tree))
        for path, slot, leaf in zip(where, self.signature.input_slots, leaves, strict=True):
            if not isinstance(slot, Mapping):
                ordered[slot] = leaf
            elif leaf != slot["constant"] or type(leaf) is not type(slot["constant"]):
                raise ShapeError(f"argument {path}: compiled for the constant {slot['constant']!r}, got {leaf!r}")
        return ordered

    def _wrong(self, position: int, got: str) -> ShapeError:
        expected = self.input_types[position]
        return ShapeError(f"input {self.names[position]!r}: expected {expected} on {self._device.name}, got {got}")

    # --- outputs -------------------------------------------------------------------------------------------------

    def allocate(self, inputs: Sequence[Any]) -> list[Any]:
        """Outputs that nobody else has: torch tensors if any input is one, NumPy arrays otherwise; on the device if an
        input is there. Raises ExecutionError where torch makes tensors without memory.
        """
        if (place := self._device.place_of_results(inputs)) is not None:
            return [self._device.new_result(type_, place) for type_ in self.output_types]
        arrays = inputs and all(isinstance(value, np.ndarray) for value in inputs)
        if arrays or self.tensor is None:
            return [new() for new in self.new_arrays]
        outputs = [new() for new in self.new_tensors]
        if any(type(one) is not self.tensor or fault_of_memory(one) for one in outputs):
            raise ExecutionError(NO_MEMORY_MODE)
        return outputs

    def pack(self, outputs: list[Any]) -> Any:
        """The results in the model's own structure."""
        if self.is_single:
            return outputs[0]
        taken: set[int] = set()
        leaves = []
        for slot in self.signature.output_slots:
            if isinstance(slot, Mapping):
                leaves.append(slot["constant"])
                continue
            # One result returned twice must not be one tensor: writing to one would change the other.
            leaves.append(_clone(outputs[slot]) if slot in taken else outputs[slot])
            taken.add(slot)
        return self._rebuild(leaves)


class Where(NamedTuple):
    """An input and an axis of it whose size is ``factor * symbol + shift``."""

    symbol: str
    position: int
    axis: int
    factor: int
    shift: int


def _where(types: Sequence[TensorType], scope: sizes.Scope) -> list[Where]:
    """For each symbol of `scope` an axis to read it from; an axis whose size is the symbol itself, if there is one."""
    places: dict[str, Where] = {}
    for position, t in enumerate(types):
        for axis, size in enumerate(t.shape):
            if line := sizes.as_line(size):
                name, factor, shift = line
                known = places.get(name)
                if known is None or (factor, shift) == (1, 0) != (known.factor, known.shift):
                    places[name] = Where(name, position, axis, factor, shift)
    missing = [name for name in scope.symbols if name not in places]
    if missing:
        raise ProgramError(f"no input has the size {', '.join(missing)}")
    return [places[name] for name in scope.symbols]


def _tensor_of(from_numpy: Callable[[np.ndarray], Any], new: Callable[[], np.ndarray]) -> Any:
    return from_numpy(new())


def _clone(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value.clone()
