"""A constant of a program: its elements, and where they are. Knows no graph, no file and no target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from engine.graph.forms import Form, View, elements, roots, undo
from engine.memory import is_mapped, release
from engine.ops import TensorType


class Constant:
    """Elements that are known when compiling, of one type. All graphs of a program share it; it is a `Form` of values.

    Attributes:
        state: ``borrowed``: in memory of the model, in a file that will be closed, or made of such at each access;
            ``owned``: an array of the program, or in a mapped file; ``packed``: only in the form in which kernels read
            it, from which each access makes the elements.
        form: what makes the elements.
        copy: the packed copy from which the elements are made; None in other states.
    """

    __slots__ = ("_checksum", "copy", "form", "state", "type")

    def __init__(self, form: Form, type_: TensorType, state: Literal["borrowed", "owned"] = "borrowed") -> None:
        self.type = type_
        self.form = form
        self.state: Literal["borrowed", "owned", "packed"] = state
        self.copy: Callable[[], np.ndarray] | None = None
        self._checksum: str | None = None

    def __call__(self) -> np.ndarray:
        """The elements, which must not change."""
        return elements(self.form)

    @property
    def bases(self) -> tuple[Form]:
        return (self.form,)

    def own(self, views: Sequence[View] = ()) -> np.ndarray:
        """Keep the elements as an array from now on, dense in the form that `views` give it, the last one first.

        Returns the array in this form. An array that it already has stays as it is.
        """
        array = self()
        for view in reversed(views):
            array = view.apply(array)
        array = np.asarray(array, order="C")
        if self.state == "owned" and isinstance(self.form, np.ndarray):
            return array
        if self.state == "borrowed" and array.base is not None and _is_part_of(array, self.form):
            array = array.copy()
        self.state, self.form, self.copy = "owned", undo(views, array), None
        return array

    def pack(self, copy: Callable[[], np.ndarray], views: Sequence[View] = ()) -> None:
        """Make the elements at each access from what `copy` returns, which has the form that `views` give them."""
        self.state, self.copy = "packed", copy
        self.form = (lambda: undo(views, copy())) if views else copy

    @property
    def checksum(self) -> str:
        """SHA-256 of the elements in row-major order. It is computed once."""
        if self._checksum is None:
            self._checksum = compute_checksum(self())
            self.release()
        return self._checksum

    def expect(self, checksum: str) -> None:
        """Record the checksum that a file states; whoever reads the elements compares it."""
        self._checksum = checksum

    @property
    def is_mapped(self) -> bool:
        """True if elements are in a mapped file, which another process may change."""
        return any(isinstance(root, np.ndarray) and is_mapped(root) for root in roots(self.form))

    def release(self) -> None:
        """Give the pages of a mapped file back to the system, which reads them again at the next access."""
        for root in roots(self.form):
            if isinstance(root, np.ndarray) and is_mapped(root):
                release(root)


def compute_checksum(array: np.ndarray) -> str:
    """SHA-256 of the elements in row-major order, in hexadecimal digits."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _is_part_of(array: np.ndarray, form: Form) -> bool:
    """True if `array` may lie in memory of others: that of a root of `form`, or what a function answers."""
    return any(
        np.may_share_memory(array, root) if isinstance(root, np.ndarray) else not getattr(root, "is_new", False)
        for root in roots(form)
    )
