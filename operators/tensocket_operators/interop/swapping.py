"""Exchange of the contents of two tensors: ``utils.swap_tensors``."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from tensocket_core.autograd.hooks import extras_of
from tensocket_core.autograd.inference import is_inference
from tensocket_core.autograd.node import SEQUENCE
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.errors import AutogradError


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange values, class, attributes, gradient and history of two tensors, which keep their identities.

    A backward pass through operators that were recorded with a leaf before raises an error, because its gradient
    belongs to the old values.

    Args:
        t1: A tensor.
        t2: Another tensor, whose class has the same slots.

    Raises:
        AutogradError: A weak reference to one of them exists, or the classes have different slots.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise AutogradError("swap_tensors", f"{name}, a tensor of shape {list(tensor._array.shape)}",
                                f"Cannot swap {name} because it has weakref associated with it",
                                "drop the weak references first")
        if any(view() is not None for view in tensor._views):
            raise AutogradError("swap_tensors", f"{name}, a tensor with recorded views",
                                f"Expected use_count of {name} to be 1: its views share its history",
                                "drop the views first")
    slots = set(copyreg._slotnames(type(t1)))  # type: ignore[attr-defined]
    if slots != set(copyreg._slotnames(type(t2))):  # type: ignore[attr-defined]
        raise AutogradError("swap_tensors", f"a {type(t1).__name__} and a {type(t2).__name__}",
                            "Cannot swap t1 and t2 if they have different slots", "pass tensors of related classes")
    t1.__class__, t2.__class__ = type(t2), type(t1)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in slots:
        _swap_slot(t1, t2, name)
    _outdate(t1, t2)


def _swap_slot(t1: Any, t2: Any, name: str) -> None:
    missing = object()
    first, second = getattr(t1, name, missing), getattr(t2, name, missing)
    for tensor, value, before in ((t1, second, first), (t2, first, second)):
        if value is not missing:
            setattr(tensor, name, value)
        elif before is not missing:
            delattr(tensor, name)


def _outdate(t1: Any, t2: Any) -> None:
    """Invalidate graphs that saved either tensor or lead to it."""
    if not (is_inference(t1) or is_inference(t2)):
        version = max(t1._version, t2._version) + 1
        for tensor in (t1, t2):
            if tensor._version_counter is None:
                tensor._version_counter = [0]
            tensor._version_counter[0] = version
    for tensor in (t1, t2):
        # The leaf's node in graphs refers to the object, not to its new contents.
        tensor.__dict__.pop("_accumulator", None)
        if tensor._grad_fn is None and (t1._key | t2._key) & AUTOGRAD:
            extras_of(tensor, "_extras").swapped = next(SEQUENCE)
