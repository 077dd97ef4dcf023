"""How a graph has the elements of a constant: as an array, or as what makes them whenever somebody looks.

Passes do not touch the elements of large weights: they make forms of them, which packing looks at once. A form that is
made from others names them as `bases`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from engine import dtypes
from engine.encodings import Components, Encoding
from engine.ops import TensorType

Form = np.ndarray | Callable[[], np.ndarray]
"""A constant's elements, or what makes them whenever somebody looks: in new memory each time if it says `is_new`."""


def identity(form: Form) -> Hashable:
    """Equal for forms that are the same elements of the same memory, or made of such in the same way."""
    if callable(form):
        return getattr(form, "identity", id(form))
    return (form.ctypes.data, form.shape, form.strides, str(form.dtype))


def elements(form: Form) -> np.ndarray:
    """The elements."""
    return np.asarray(form() if callable(form) else form)


def roots(form: Form) -> Iterator[Form]:
    """The arrays and functions that the elements come from; `form` itself if it is made from no other form."""
    bases: tuple[Form, ...] = getattr(form, "bases", ())
    for base in bases:
        yield from roots(base)
    if not bases:
        yield form


def undo(views: Sequence[View], array: np.ndarray) -> np.ndarray:
    """The elements under `views`, the last one first, of an array with those of the last view."""
    for view in views:
        array = view.undo(array)
    return array


def split_views(form: Form) -> tuple[Form, tuple[View, ...]]:
    """The form under all views, and the views, the last one first."""
    views: list[View] = []
    while isinstance(form, View):
        views.append(form)
        form = form.base
    return form, tuple(views)


class Joined:
    """Constants one after the other along an axis; made when called."""

    def __init__(self, parts: Sequence[Form], axis: int) -> None:
        self.bases = tuple(parts)
        self.axis = axis
        self.identity = ("joined", axis, *map(identity, parts))

    def __call__(self) -> np.ndarray:
        return np.concatenate([elements(part) for part in self.bases], self.axis)


def joined_sizes(form: Form, axis: int) -> tuple[int, ...]:
    """The sizes along `axis` of the constants that were joined along it, in order; one size if none were joined."""
    if isinstance(form, Permuted):
        return joined_sizes(form.base, form.order[axis])
    if isinstance(form, Joined) and form.axis == axis:
        cuts = [part.bases[0] for part in form.bases if isinstance(part, Cut)]
        if len(cuts) == len(form.bases) and all(base is cuts[0] for base in cuts):
            return (elements(form).shape[axis],)  # parts of one constant in another order
        return tuple(size for part in form.bases for size in joined_sizes(part, axis))
    return (elements(form).shape[axis],)


class Filled:
    """An array of one number, rounded to float32; made when called."""

    def __init__(self, number: float, shape: tuple[int, ...]) -> None:
        self.number = np.float32(number)
        self.shape = shape
        self.identity = ("filled", float(self.number), shape)

    def __call__(self) -> np.ndarray:
        return np.full(self.shape, self.number)


class View:
    """A constant's elements in another order or shape; made when called, without a copy where strides permit."""

    def __init__(self, base: Form, identity: Hashable) -> None:
        self.base = base
        self.bases = (base,)
        self.identity = identity

    def __call__(self) -> np.ndarray:
        return self.apply(elements(self.base))

    def apply(self, array: np.ndarray) -> np.ndarray:
        """An array with the elements of `base` in the form of the view."""
        raise NotImplementedError

    def undo(self, array: np.ndarray) -> np.ndarray:
        """The elements of `base`, of an array with those of the view."""
        raise NotImplementedError


class Reshaped(View):
    """A constant of the shape `before`, in row-major order, seen in another shape; made when called."""

    def __init__(self, base: Form, before: tuple[int, ...], shape: tuple[int, ...]) -> None:
        super().__init__(base, ("reshaped", shape, identity(base)))
        self.before = before
        self.shape = shape

    def apply(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(self.shape)

    def undo(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(self.before)


class Permuted(View):
    """A constant with its axes in another order: axis i is its axis order[i]. Made when called; use `permuted`."""

    def __init__(self, base: Form, order: tuple[int, ...]) -> None:
        super().__init__(base, ("permuted", order, identity(base)))
        self.order = order

    def apply(self, array: np.ndarray) -> np.ndarray:
        return array.transpose(self.order)

    def undo(self, array: np.ndarray) -> np.ndarray:
        return array.transpose(np.argsort(self.order))


def permuted(form: Form, order: tuple[int, ...]) -> Form:
    """`form` with its axes in another order. A permutation of a permutation is one, and `form` itself if it is none."""
    if isinstance(form, Permuted):
        return permuted(form.base, tuple(form.order[axis] for axis in order))
    return form if order == tuple(range(len(order))) else Permuted(form, order)


class Cut:
    """The elements of a constant from `start` to `stop` of an axis, each `step`-th one; made when called."""

    def __init__(self, base: Form, axis: int, start: int, stop: int, step: int = 1) -> None:
        self.bases = (base,)
        self.where = (slice(None),) * axis + (slice(start, stop, step),)
        self.identity = ("cut", axis, start, stop, step, identity(base))

    def __call__(self) -> np.ndarray:
        return elements(self.bases[0])[self.where]


class Cast:
    """A constant in another floating-point type, each element rounded once; made when called."""

    def __init__(self, base: Form, dtype: str) -> None:
        self.bases = (base,)
        self.dtype = dtype
        self.identity = ("cast", dtype, identity(base))

    def __call__(self) -> np.ndarray:
        return elements(self.bases[0]).astype(dtypes.dtype(self.dtype).numpy)


class Encoded:
    """The components of a constant that is to be encoded; computed at the first access, together.

    `runs`: numbers of neighbouring channels that get the same scale (`Encoding.encode`).
    """

    def __init__(self, base: Form, encoding: Encoding, runs: tuple[int, ...] = ()) -> None:
        self.base = base
        self.encoding = encoding
        self.runs = runs

    @cached_property
    def components(self) -> Components:
        return self.encoding.encode(elements(self.base), self.runs)


class Component:
    """One component of a constant that is to be encoded; computed once, with the others."""

    def __init__(self, whole: Encoded, name: str) -> None:
        self.whole = whole
        self.bases = (whole.base,)
        self.name = name
        self.identity = ("component", whole.encoding, whole.runs, name, identity(whole.base))

    def __call__(self) -> np.ndarray:
        return self.whole.components[self.name]


class Decoded:
    """The elements that components stand for, each rounded once to `dtype`; made when called."""

    def __init__(self, components: Mapping[str, Form], encoding: Encoding, dtype: str) -> None:
        self.components = components
        self.bases = tuple(components.values())
        self.encoding = encoding
        self.dtype = dtype
        self.identity = ("decoded", encoding, dtype, *((name, identity(f)) for name, f in sorted(components.items())))

    def __call__(self) -> np.ndarray:
        return self.encoding.decode({name: elements(form) for name, form in self.components.items()}, self.dtype)


def is_decoded(form: Form) -> bool:
    """True if the elements are those of an encoded constant, or made from such elements."""
    return isinstance(form, Decoded) or any(map(is_decoded, getattr(form, "bases", ())))


def can_join(types: Sequence[TensorType], axis: int) -> bool:
    """True where constants of these types can be joined along `axis` without decoding them."""
    encoding = types[0].encoding
    alike = all(type_.encoding == encoding for type_ in types)
    return alike and (encoding is None or encoding.joined_axes(axis) is not None)


def can_cut(type_: TensorType, axis: int, start: int, stop: int, step: int) -> bool:
    """True where a constant of this type can be cut without decoding it: between blocks, and without gaps."""
    encoding = type_.encoding
    return encoding is None or (step == 1 and encoding.cuts(axis, start, stop) is not None)


def can_reshape(type_: TensorType, shape: tuple[int, ...]) -> bool:
    """True where a constant of this type can be reshaped without decoding it."""
    return type_.encoding is None or type_.encoding.survives_reshape(type_.shape, shape)
