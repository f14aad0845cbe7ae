"""Small tensors that a factory has made before: a copy of the elements of an earlier call.

The elements that these factories make follow from their arguments, the default dtype and the device; a tensor that
they model the result on contributes its key and its layout. Guard: no mode is on, and all of these are identical to
those of an earlier call, numbers down to their bits. Work: one copy and one tensor. The factory itself serves all other
calls and raises all errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from operator import is_
from typing import Any, Final, TypeVar

import numpy as np

from tensocket_core.device import default_state, open_device
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.keys import DIM0, DTYPE_MASK, WRAPPER
from tensocket_core.launch.arguments import frozen, identical
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.kit.bounded import BoundedCache

from ..deterministic import SETTING
from .small import SMALL

F = TypeVar("F", bound=Callable[..., Any])
#: Most calls of one factory that are remembered at a time, and most that ever are: a program whose arguments always
#: differ then pays for a lookup alone (``benchmarks/overhead.py``).
_CALLS: Final = 256
_NOTED: Final = 2048
_new = object.__new__


class _Call:
    """An earlier call of a factory.

    Attributes:
        given: Its arguments.
        copy: Makes a new array like its result; None if there is none to copy.
        key: The result's key.
        repeats: Whether the call came a second time, so that its result is kept.
    """

    __slots__ = ("copy", "given", "key", "repeats")

    def __init__(self, given: tuple[Any, ...]) -> None:
        self.given = given
        self.copy: Callable[[], Any] | None = None
        self.key = 0
        self.repeats = False

    def keep(self, made: Any) -> None:
        """Keep a copy of the result, if it is a small tensor in the host's memory without any attributes."""
        self.repeats = True
        if type(made) is not Tensor or made.__dict__ or made._base is not None:
            return
        state, array = made._device_state, made._array
        if made._key & ~(DIM0 | DTYPE_MASK) != state.key or not state.holds_data or type(array) is not np.ndarray or (
                array.size > SMALL):
            return
        own = array.copy("K")
        copy: Callable[[], Any] = own.copy if own.flags.c_contiguous else partial(own.copy, "K")
        if copy().strides == array.strides:
            self.copy, self.key = copy, made._key


def remembered(factory: F) -> F:
    """Return a factory that copies the results of earlier calls with the same arguments."""
    return _remembered(factory, alike=False)


def remembered_numbers(factory: F) -> F:
    """Return ``remembered`` of a factory that reads 0-dimensional tensors among its arguments as their numbers."""
    return _remembered(factory, alike=False, numbers=True)


def remembered_lists(factory: F) -> F:
    """Return ``remembered`` of a factory whose arguments may be lists of numbers."""
    return _remembered(factory, alike=False, lists=True)


def remembered_like(factory: F) -> F:
    """Return ``remembered`` of a factory whose first argument is a tensor, of which it reads key and layout alone."""
    return _remembered(factory, alike=True)


def _number(value: Any) -> Any:
    """Return the number in a 0-dimensional tensor that nothing intercepts; any other argument as it is."""
    return value.item() if type(value) is Tensor and not value._key & WRAPPER and not value._array.shape else value


class _List(tuple[Any, ...]):
    """The elements of a list; ``identical`` tells it from a tuple."""

    __slots__ = ()


def _fixed(value: Any) -> Any:
    return _List(value) if type(value) is list else value


def _remembered(factory: F, *, alike: bool, numbers: bool = False, lists: bool = False) -> F:
    calls: BoundedCache[Any, _Call] = BoundedCache(_CALLS)
    left = _NOTED

    @wraps(factory)
    def run(*args: Any, device: Any = None, **named: Any) -> Any:
        nonlocal left
        if ACTIVE or RECORDERS or VALUE_OBSERVERS or SETTING.filling:
            return factory(*args, device=device, **named)
        if numbers and Tensor in map(type, args):
            args = tuple(map(_number, args))
        try:
            given = (*args[alike:], *named.values())
            if lists:
                given = tuple(map(_fixed, given))
            if alike:
                array = args[0]._array
                place = None if device is None else open_device(device)
                key: tuple[Any, ...] = (
                    given, *named, DEFAULT_DTYPE[0], place, args[0]._key, array.shape, array.strides)
            else:
                key = given, *named, DEFAULT_DTYPE[0], default_state() if device is None else open_device(device)
            found = calls.get(key)
        except (TypeError, IndexError, AttributeError, TensocketError):  # a list, or an argument of another type
            return factory(*args, device=device, **named)
        if found is None:
            if left and not (alike and args[0]._key & WRAPPER) and all(map(_is_frozen, given)):
                left -= 1
                calls[key] = _Call(given)
        elif all(map(is_, given, found.given)) or all(map(identical, given, found.given)):
            if found.copy is not None:
                t = _new(Tensor)
                t._array = found.copy()
                t._key = found.key
                t._grad = t._grad_fn = t._version_counter = t._base = None
                return t
            if not found.repeats:
                made = factory(*args, device=device, **named)
                found.keep(made)
                return made
        return factory(*args, device=device, **named)

    return run  # type: ignore[return-value]


def _is_frozen(value: Any) -> bool:
    """Whether an argument tells all of itself: it neither changes nor holds memory."""
    if isinstance(value, Tensor):
        return False
    try:
        frozen(value)
    except TypeError:
        return False
    return True
