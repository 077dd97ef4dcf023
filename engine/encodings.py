"""How the elements of a constant are stored, where that is not one element of its own type after the other.

A value has an element type, in which arithmetic reads it (`TensorType.dtype`). A constant may be stored in another
form, its *encoding*: a narrower type, or integers with scales. The encoding is part of the constant's type. The numbers
are in *components*, arrays that only the constant has: `data`, and where the encoding has them `scale` and `zero`.

    element = (data - zero) * scale          zero: none, the middle of the range, or one integer a block
    element = data * scale + zero            zero: the least element of a block ("minimum")

Exact, then rounded once to the element type. Every encoding is one row of `FAMILIES`. Imports element types alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from engine import dtypes

Shape = tuple[int, ...]
Per = Literal["element", "tensor", "channel", "group"]
Zero = Literal["none", "middle", "integer", "minimum"]
Components = Mapping[str, np.ndarray]
"""By name: ``data``, and ``scale`` and ``zero`` if the encoding has them."""


@dataclass(frozen=True)
class Encoding:
    """How elements are stored. Hashable; holds no arrays.

    Attributes:
        family: name of its row in `FAMILIES`.
        stored: element type of `data`.
        bits: of one element in `data`: 8 or more, or 4, which lie two in a byte along `axis`, the first one low.
        low, high: least and largest stored integer; both 0 where no integers are stored.
        per: what one scale is for: no scale at all (``element``), the tensor, each index of an axis (``channel``), or
            each `group` neighbours along an axis.
        group: number of elements of a group; 0 without groups.
        scale: element type of scales; "" without scales.
        zero: what `zero` is, see the module.
        axis: the axis of channels, or the axis that groups lie along; 0 otherwise.
    """

    family: str
    stored: str
    bits: int
    low: int = 0
    high: int = 0
    per: Per = "element"
    group: int = 0
    scale: str = ""
    zero: Zero = "none"
    axis: int = 0

    def __str__(self) -> str:
        return f"{self.family}@{self.axis}" if self.per in ("channel", "group") else self.family

    @property
    def is_integer(self) -> bool:
        """True where integers with scales are stored."""
        return self.per != "element"

    def along(self, axis: int) -> Encoding:
        """The same encoding with channels at, or groups along, another axis."""
        return replace(self, axis=axis) if self.per in ("channel", "group") else self

    # --- shapes of the components ------------------------------------------------------------------------------------

    def check(self, shape: Shape) -> None:
        """ValueError where no tensor of `shape` can be stored so."""
        if self.per in ("channel", "group") and not 0 <= self.axis < len(shape):
            raise ValueError(f"encoding {self} needs an axis {self.axis}, the shape is {list(shape)}")
        if self.per == "group" and shape[self.axis] % self.group:
            raise ValueError(f"encoding {self} needs groups of {self.group}, axis {self.axis} has {shape[self.axis]}")

    def component_types(self, shape: Shape) -> dict[str, tuple[str, Shape]]:
        """Element type and shape of each component of a tensor of `shape`. Raises ValueError as `check`."""
        self.check(shape)
        data, scale = list(shape), list(shape)
        if self.bits == 4:
            data[self.axis] //= 2
        if self.per == "group":
            scale[self.axis] //= self.group
        else:
            scale = [shape[self.axis]] if self.per == "channel" else []
        found = {"data": (self.stored, tuple(data))}
        if self.scale:
            found["scale"] = (self.scale, tuple(scale))
        if self.zero in ("integer", "minimum"):
            found["zero"] = ("int8" if self.zero == "integer" else self.scale, tuple(scale))
        return found

    def nbytes(self, shape: Shape) -> int:
        """Bytes of all components of a tensor of `shape`."""
        return sum(_nbytes(*type_) for type_ in self.component_types(shape).values())

    # --- values ------------------------------------------------------------------------------------------------------

    def decode(self, components: Components, dtype: str) -> np.ndarray:
        """The elements in element type `dtype`, each rounded once."""
        if not self.is_integer:
            return components["data"].astype(dtypes.dtype(dtype).numpy)
        wide = self.integers(components).astype(np.float64)
        wide *= self._spread(components["scale"], wide.shape)
        if self.zero == "minimum":
            wide += self._spread(components["zero"], wide.shape)
        return wide.astype(dtypes.dtype(dtype).numpy)

    def integers(self, components: Components) -> np.ndarray:
        """The numbers that scales multiply, int32, in the shape of the tensor: `data`, less an integer zero.

        Raises:
            ValueError: the encoding stores no integers.
        """
        if not self.is_integer:
            raise ValueError(f"encoding {self} stores no integers")
        data = components["data"]
        whole = (self._unpacked(data) if self.bits == 4 else data).astype(np.int32)
        if self.zero == "middle":
            whole -= (self.low + self.high + 1) // 2
        elif self.zero == "integer":
            whole -= self._spread(components["zero"], whole.shape)
        return whole

    def encode(self, elements: np.ndarray, runs: Sequence[int] = ()) -> dict[str, np.ndarray]:
        """Components whose decoded elements are near `elements`, which are finite.

        The scale of a block maps its largest magnitude to the end of the range of integers (its whole range of values
        where there is a zero point), in the type of scales; elements are divided by that scale, and rounded half to
        even. A block of zeros has scale 1.

        Args:
            elements: of the tensor.
            runs: with channels: numbers of neighbouring channels that get the same scale, of all channels in order.
                Empty: a scale of its own for each channel.

        Raises:
            ValueError: as `check`.
        """
        self.check(elements.shape)
        if not self.is_integer:
            return {"data": elements.astype(dtypes.dtype(self.stored).numpy)}
        wide = elements.astype(np.float64)
        least, most = self._extremes(wide)
        if runs := [count for count in runs if count]:
            starts = np.cumsum([0, *runs[:-1]])
            least = np.repeat(np.minimum.reduceat(least, starts), runs)
            most = np.repeat(np.maximum.reduceat(most, starts), runs)
        scale, zero = self._choose(least, most)
        spread = self._spread(scale, wide.shape).astype(np.float64)
        if self.zero == "minimum":
            quotient = (wide - self._spread(zero, wide.shape).astype(np.float64)) / spread
        else:
            quotient = wide / spread + self._spread(zero, wide.shape)
        data = np.clip(np.rint(quotient), self.low, self.high).astype(dtypes.dtype(self.stored).numpy)
        components = {"data": self._packed(data) if self.bits == 4 else data, "scale": scale}
        if self.zero in ("integer", "minimum"):
            components["zero"] = zero if self.zero == "minimum" else zero.astype(np.int8)
        return components

    def _choose(self, least: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero of blocks with these extremes; zero as what is added to the quotient, or subtracted before."""
        kind = dtypes.dtype(self.scale).numpy
        if self.zero in ("none", "middle"):
            middle = 0 if self.zero == "none" else (self.low + self.high + 1) // 2
            scale = _nonzero((np.maximum(most, -least) / (self.high - middle)).astype(kind))
            return scale, np.full(scale.shape, middle)
        if self.zero == "minimum":
            return _nonzero(((most - least) / (self.high - self.low)).astype(kind)), least.astype(kind)
        least, most = np.minimum(least, 0), np.maximum(most, 0)  # so that 0 is exact
        scale = _nonzero(((most - least) / (self.high - self.low)).astype(kind))
        return scale, np.clip(np.rint(self.low - least / scale.astype(np.float64)), self.low, self.high)

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _extremes(self, wide: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest element of each block, in the shape of scales."""
        if self.per == "group":
            count = wide.shape[self.axis] // self.group
            blocks = wide.reshape(*wide.shape[: self.axis], count, self.group, *wide.shape[self.axis + 1 :])
            return blocks.min(self.axis + 1), blocks.max(self.axis + 1)
        others = tuple(a for a in range(wide.ndim) if self.per != "channel" or a != self.axis)
        return wide.min(others, initial=np.inf), wide.max(others, initial=-np.inf)

    def _spread(self, scale: np.ndarray, shape: Shape) -> np.ndarray:
        """One number a block as one number an element, or as an array that broadcasts to them."""
        if self.per == "group":
            return np.repeat(scale, self.group, axis=self.axis)
        if self.per == "channel":
            return scale.reshape([-1 if a == self.axis else 1 for a in range(len(shape))])
        return scale

    def _packed(self, data: np.ndarray) -> np.ndarray:
        """Pairs along `axis` in one byte, the first of each in the low half."""
        first, second = (np.moveaxis(data, self.axis, -1)[..., part::2].astype(np.uint8) & 15 for part in (0, 1))
        return np.ascontiguousarray(np.moveaxis(first | second << 4, -1, self.axis))

    def _unpacked(self, data: np.ndarray) -> np.ndarray:
        """What `_packed` packed, int8."""
        byte = np.moveaxis(data, self.axis, -1)
        halves = np.stack([byte & 15, byte >> 4], -1).reshape(*byte.shape[:-1], 2 * byte.shape[-1]).astype(np.int8)
        signed = np.where(halves > self.high, halves - 16, halves) if self.low < 0 else halves
        return np.moveaxis(signed, -1, self.axis)

    # --- parts of a tensor, without its elements ---------------------------------------------------------------------

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the components."""
        zero = ("zero",) if self.zero in ("integer", "minimum") else ()
        return ("data", *(("scale",) if self.scale else ()), *zero)

    def cuts(self, axis: int, start: int, stop: int) -> dict[str, tuple[int, int, int] | None] | None:
        """What to cut out of each component for the elements from `start` to `stop` of `axis`.

        Returns:
            For each component its axis, start and stop, or None if the component stays whole. None alone if a block
            would be cut.
        """
        scales: tuple[int, int, int] | None = None
        data = (axis, start, stop)
        if self.per == "group":
            scales = data
            if axis == self.axis:
                if start % self.group or stop % self.group:
                    return None
                scales = (axis, start // self.group, stop // self.group)
                data = (axis, start // 2, stop // 2) if self.bits == 4 else data
        elif self.per == "channel" and axis == self.axis:
            scales = (0, start, stop)
        return {name: data if name == "data" else scales for name in self.component_names}

    def joined_axes(self, axis: int) -> dict[str, int] | None:
        """The axis along which to join each component of tensors that are joined along `axis`.

        None where parts of the whole would need different scales.
        """
        if self.per == "tensor" or (self.per == "channel" and axis != self.axis):
            return None
        return {name: 0 if name != "data" and self.per == "channel" else axis for name in self.component_names}

    def survives_reshape(self, shape: Shape, other: Shape) -> bool:
        """True where the components of a tensor of `shape`, reshaped, are those of the tensor in shape `other`."""
        if self.per in ("element", "tensor"):
            return True
        after = int(np.prod(shape[self.axis + 1 :])), int(np.prod(other[self.axis + 1 :]))
        same = self.axis < len(other) and shape[self.axis] == other[self.axis] and after[0] == after[1]
        return same and shape[: self.axis] == other[: self.axis]

    def permuted(self, order: Sequence[int]) -> tuple[Encoding, bool]:
        """The encoding of the tensor with its axes in another order, and True where scales are permuted with `data`."""
        if self.per in ("element", "tensor"):
            return self, False
        return self.along(list(order).index(self.axis)), self.per == "group"

    def rows(self) -> dict[str, bool] | None:
        """For each component, True where rows (indices of axis 0) of the tensor are rows of the component.

        None where one row does not have blocks of its own.
        """
        if self.per == "group" and self.axis == 0:
            return None
        whole = self.per == "tensor" or (self.per == "channel" and self.axis != 0)
        return {name: name == "data" or not whole for name in self.component_names}


class Stored(NamedTuple):
    """An encoded constant: its components, and how to read them as elements of type `dtype`."""

    encoding: Encoding
    components: Components
    dtype: str

    def elements(self) -> np.ndarray:
        """The elements, each rounded once."""
        return self.encoding.decode(self.components, self.dtype)


def _nbytes(dtype: str, shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtypes.dtype(dtype).size


def _nonzero(scale: np.ndarray) -> np.ndarray:
    """`scale` with 1 in place of 0."""
    return np.where(scale == 0, scale.dtype.type(1), scale)


# --- the table -------------------------------------------------------------------------------------------------------

FAMILIES: dict[str, Encoding] = {}


def declare(encoding: Encoding) -> Encoding:
    """Put an encoding into the table; a second one of the same name is an error."""
    if encoding.family in FAMILIES:
        raise ValueError(f"encoding {encoding.family!r} is declared twice")
    FAMILIES[encoding.family] = encoding
    return encoding


def encoding(text: str) -> Encoding:
    """The encoding that `str` of it spells: a name, and ``@axis`` where there are channels or groups.

    Raises:
        ValueError: there is no such encoding.
    """
    family, _, axis = text.partition("@")
    found = FAMILIES.get(family)
    if found is None:
        raise ValueError(f"unknown encoding {family!r}; known: {', '.join(FAMILIES)}")
    made = found.along(int(axis) if axis.isdecimal() and len(axis) <= 2 else 0)
    if str(made) != text:
        raise ValueError(f"encoding {text!r}: expected {made}")
    return made


BFLOAT16 = declare(Encoding("bfloat16", "bfloat16", 16))
FLOAT16 = declare(Encoding("float16", "float16", 16))
INT8_TENSOR = declare(Encoding("int8_tensor", "int8", 8, -127, 127, "tensor", scale="float32"))
INT8_CHANNEL = declare(Encoding("int8_channel", "int8", 8, -127, 127, "channel", scale="float32"))
INT4 = {
    size: declare(Encoding(f"int4_group{size}", "uint8", 4, -8, 7, "group", size, "float32")) for size in (32, 64, 128)
}
INT4_ZERO = {
    size: declare(Encoding(f"int4_group{size}_zero", "uint8", 4, 0, 15, "group", size, "float32", "integer"))
    for size in (32, 64, 128)
}
# The blocks of GGUF files: https://github.com/ggml-org/ggml, ggml-quants.c.
Q8_0 = declare(Encoding("q8_0", "int8", 8, -128, 127, "group", 32, "float16"))
Q4_0 = declare(Encoding("q4_0", "uint8", 4, 0, 15, "group", 32, "float16", "middle"))
Q4_1 = declare(Encoding("q4_1", "uint8", 4, 0, 15, "group", 32, "float16", "minimum"))
