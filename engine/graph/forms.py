"""How a graph has the elements of a constant: as an array, or as what makes them whenever somebody looks.

Passes do not touch the elements of large weights: what they make of them is a form, which packing looks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np

from engine.encodings import Components, Encoding

Form = np.ndarray | Callable[[], np.ndarray]
"""A constant's elements, or what makes them whenever somebody looks."""


def identity(form: Form) -> Hashable:
    """Equal for forms that are the same elements of the same memory, or made of such in the same way."""
    if callable(form):
        return getattr(form, "identity", id(form))
    return (form.ctypes.data, form.shape, form.strides, str(form.dtype))


def elements(form: Form) -> np.ndarray:
    """The elements."""
    return np.asarray(form() if callable(form) else form)


class Joined:
    """Constants one after the other along an axis; made when called."""

    def __init__(self, parts: Sequence[Form], axis: int) -> None:
        self.parts = parts
        self.axis = axis
        self.identity = ("joined", axis, *map(identity, parts))

    def __call__(self) -> np.ndarray:
        """The elements."""
        return np.concatenate([elements(part) for part in self.parts], self.axis)


class Reshaped:
    """A constant's elements in row-major order, seen in another shape; made when called.

    Args:
        base: the constant.
        shape: as many elements as it has.
    """

    def __init__(self, base: Form, shape: tuple[int, ...]) -> None:
        self.base = base
        self.shape = shape
        self.identity = ("reshaped", shape, identity(base))

    def __call__(self) -> np.ndarray:
        """The elements."""
        return elements(self.base).reshape(self.shape)


class Cut:
    """The elements of a constant from `start` to `stop` of an axis; made when called."""

    def __init__(self, base: Form, axis: int, start: int, stop: int) -> None:
        self.base = base
        self.where = (slice(None),) * axis + (slice(start, stop),)
        self.identity = ("cut", axis, start, stop, identity(base))

    def __call__(self) -> np.ndarray:
        """The elements."""
        return elements(self.base)[self.where]


class Encoded:
    """The components of a constant that is to be encoded; computed at the first access, together.

    Args:
        base: the constant, not encoded.
        encoding: how it is to be stored.
    """

    def __init__(self, base: Form, encoding: Encoding) -> None:
        self.base = base
        self.encoding = encoding

    @cached_property
    def components(self) -> Components:
        """The components."""
        return self.encoding.encode(elements(self.base))


class Component:
    """One component of a constant that is to be encoded; computed once, with the others.

    Args:
        whole: all components.
        name: of the component.
    """

    def __init__(self, whole: Encoded, name: str) -> None:
        self.whole = whole
        self.name = name
        self.identity = ("component", whole.encoding, name, identity(whole.base))

    def __call__(self) -> np.ndarray:
        """The elements of the component."""
        return self.whole.components[self.name]


class Decoded:
    """The elements that components stand for; made when called.

    Args:
        components: the form of each by its name.
        encoding: how to read them.
        dtype: element type of the elements.
    """

    def __init__(self, components: Mapping[str, Form], encoding: Encoding, dtype: str) -> None:
        self.components = components
        self.encoding = encoding
        self.dtype = dtype
        self.identity = ("decoded", encoding, dtype, *((name, identity(f)) for name, f in sorted(components.items())))

    def __call__(self) -> np.ndarray:
        """The elements, each rounded once."""
        return self.encoding.decode({name: elements(form) for name, form in self.components.items()}, self.dtype)
