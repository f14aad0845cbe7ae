"""View operators: new metadata on the same memory. They never call a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.dtypes import DType

from .. import tensors
from ..autograd.rebase import note_view
from ..device import DeviceEntry
from ..dispatch.keys import DIM0, SCALAR_MASK
from ..dispatch.operator import Operator

_new = object.__new__


class View(Operator):
    """An operator whose result shares memory with its first argument.

    Attributes:
        view: ``view(array, *args) -> array`` over handles of either kind.
    """

    kind = "view"

    def __init__(self, schema: str, doc: str, view: Callable[..., Any], **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.view = view

    def recording(self, below: Callable[..., Any]) -> Callable[..., Any]:
        """Recorded views are known to their base, whose in-place changes they follow."""
        closure = super().recording(below)
        return closure if self.derivative is None else _noted(closure)

    def how(self, entry: DeviceEntry, dtype: DType) -> str:
        """``view``: no device runs anything."""
        return "view"

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """One closure for all devices: it works on handles."""
        Tensor = tensors.Tensor
        view = self.view
        key &= ~(DIM0 | SCALAR_MASK)

        def run(a: Any, *args: Any) -> Any:
            array = view(a._array, *args)
            version = a._version_counter
            if version is None:
                # Made when the first view appears, so that both sides count in-place changes together.
                version = a._version_counter = [0]
            t = _new(Tensor)
            t._array = array
            t._key = key if array.shape else key | DIM0
            t._grad = t._grad_fn = None
            t._version_counter = version
            t._base = a if a._base is None else a._base
            return t

        return run


def _noted(record: Callable[..., Any]) -> Callable[..., Any]:
    """``record`` with a note at the base, whose in-place changes the view follows."""

    def record_view(*args: Any) -> Any:
        view = record(*args)
        note_view(view)
        return view

    return record_view


class Custom(Operator):
    """An operator run by one function over tensors: ``function(entry, *args)``. Recording is this record's business;
    the function itself works on handles or detached tensors.
    """

    kind = "custom"

    def __init__(self, schema: str, doc: str, run: Callable[..., Any], **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.run = run

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """The function with its device."""
        run = self.run

        def call(*args: Any) -> Any:
            return run(entry, *args)

        return call
