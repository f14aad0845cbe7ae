"""Factories by noted calls: if the arguments of a call came before, one compiled function makes its result.

The elements of a new tensor follow from the arguments, the default dtype and the default device; a tensor that the new
one is modelled on contributes its key and its layout. So the device notes what a call made (``FactoryPlan``), and makes
it again. Guard: no mode is on, and no thread has a default device of its own. The factory itself serves all other
calls and raises all errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

from tensocket_core.device import PROCESS_DEFAULT, SELECTING, default_state
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.keys import DIM0, DTYPE_MASK, WRAPPER
from tensocket_core.launch.arguments import frozen
from tensocket_core.launch.entries import ENABLED, compiled_or, wrapper_layout
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import plans
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS

from ..deterministic import SLOW_PATHS
from ..unwarned import WarnedError, unwarned
from .small import SMALL

F = TypeVar("F", bound=Callable[..., Any])
#: From a factory and the arguments of a call: what calls like it make, as ``FactoryPlan.function`` returns it.
Note = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
#: Calls of a factory after which its calls are noted: reading the machine code from disk takes 2 ms.
_CALLS: Final = 128
_CONTEXT: Final = (DEFAULT_DTYPE, PROCESS_DEFAULT)
_OVERRIDES: Final = (ACTIVE, RECORDERS, VALUE_OBSERVERS, SELECTING, SLOW_PATHS)


def noted(*, like: bool = False, numbers: bool = False, note: Note | None = None) -> Callable[[F], F]:
    """Return a decorator of factories whose calls are noted.

    Args:
        like: Whether the first argument is a tensor, of which the factory reads key and layout alone.
        numbers: Whether it reads 0-dimensional tensors among its arguments as their numbers.
        note: Tells what a call makes; None for a copy of what it makes now.
    """
    def decorate(factory: F) -> F:
        left, run_next = _CALLS, factory

        def count(*args: Any, **named: Any) -> Any:
            nonlocal left, run_next
            left -= 1
            if left == 0:
                run_next = _compiled(factory, like, numbers, note or _copy_of)
            return factory(*args, **named)

        @wraps(factory)
        def run(*args: Any, **named: Any) -> Any:
            return run_next(*args, **named)

        run_next = count  # type: ignore[assignment]
        return run  # type: ignore[return-value]

    return decorate


def _compiled(factory: F, like: bool, numbers: bool, note: Note) -> F:
    """Return the compiled function of a factory; the factory if the process's default device has none."""
    state = PROCESS_DEFAULT[0] if PROCESS_DEFAULT else default_state()
    if not ENABLED or state.runtime.target is None or not state.runtime.profile.host_resident:
        return factory

    def function(*args: Any, **named: Any) -> Any:
        return _noted_call(factory, like, numbers, note, args, named)

    plan = plans.FactoryPlan(function, wrapper_layout(state.key), "_key", _CONTEXT, _OVERRIDES, elements=numbers)
    return compiled_or(state, plan, factory)  # type: ignore[return-value]


def _noted_call(factory: Callable[..., Any], like: bool, numbers: bool, note: Note, args: tuple[Any, ...],
                named: dict[str, Any]) -> Any:
    """Return what calls like one make, as ``FactoryPlan.function`` does."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    others = [x for x in (*args, *named.values()) if not isinstance(x, Tensor)]
    if not all(map(_is_compared, others)):
        return NotImplemented
    is_known = all(type(x._array) is np.ndarray and not x._key & WRAPPER for x in tensors)
    is_read = like if len(tensors) == 1 and tensors[0] is args[0] else not tensors
    is_number = numbers and all(not x._array.shape for x in tensors)
    device = named.get("device")
    if not is_known or not (is_read or is_number) or str(device or HOST_DEVICE) != HOST_DEVICE or len(tensors) + len(
            others) != len(args) + len(named) or any(isinstance(x, Tensor) for x in named.values()):
        return None
    try:
        with unwarned():
            return note(factory, args, named)
    except WarnedError:
        return None  # each call warns


def _is_compared(value: Any) -> bool:
    """Whether the device compares an argument by value, or its identity tells all of it."""
    if not isinstance(value, (tuple, list)):
        return _is_frozen(value)
    items = value[0] if len(value) == 1 and isinstance(value[0], (tuple, list)) else value
    return all(map(_is_frozen, items))


def _is_frozen(value: Any) -> bool:
    """Whether an argument tells all of itself: it neither changes nor holds memory."""
    try:
        frozen(value)
    except TypeError:
        return False
    return True


def _copy_of(factory: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> plans.RecordedCopy | None:
    """Return a copy of the result, if it is a small tensor in the host's memory without any attributes."""
    made = factory(*args, **named)
    if not is_plain(made) or made._array.size > SMALL:
        return None
    array = made._array
    own = array.copy("K")
    return plans.RecordedCopy(own, made._key) if own.strides == array.strides and own.dtype is array.dtype else None


def is_plain(made: Any) -> bool:
    """Whether a tensor has no attributes, and an array in the host's memory that is all of its memory."""
    if type(made) is not Tensor or made.__dict__ or made._base is not None or made._version_counter is not None:
        return False
    state, array = made._device_state, made._array
    return made._key & ~(DIM0 | DTYPE_MASK) == state.key and state.holds_data and type(array) is np.ndarray
