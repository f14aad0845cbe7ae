"""Closures of operators that do nothing but launch kernels: on small arrays, a call is one call of machine code.

What such an operator launches follows from dtypes, shapes, strides and arguments that are no tensors. When it was
called a few times with the same ones, the device is asked to keep what it launches (``OpenDevice.keep``). Operators say
that they are of this kind by ``kept``: they look at no values, write to no operand, and return new tensors. What they
launch for large arrays, or compute in other ways, is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.native import Kept

from .. import tensors
from ..device import DeviceEntry
from ..dispatch.keys import AUTOGRAD, DIM0
from ..dispatch.modes import ACTIVE, STATE
from ..recording import REPLACED
from .native import ENABLED, tensor_box

Closure = Callable[..., Any]
#: Calls after which launches are kept, and for how many shapes and arguments of one closure.
_CALLS: Final = 3
_KEPT: Final = 256
#: Most elements of the first operand.
_ELEMENTS: Final = 1 << 14
#: An entry for each thread that is looking what to keep: its calls go the long way.
_LOOKING: Final[list[None]] = []


def kept(entry: DeviceEntry, tensor_positions: Sequence[int], count: int, run: Closure) -> Closure:
    """``run``, a closure for a key of one device without layers, with its launches kept.

    Args:
        entry: The device.
        tensor_positions: Of the arguments that are tensors, or None; the first one is a tensor.
        count: Number of arguments, all by position.
        run: What computes, also whatever is not kept.
    """
    if not ENABLED or entry.runtime.target is None or not entry.runtime.profile.host_resident:
        return run
    rest = [k for k in range(count) if k not in tensor_positions]
    pick: Callable[[Any], Any] = itemgetter(*rest) if rest else _nothing
    launches: dict[Any, _Launch | int] = {}
    last: Closure = _nothing

    def launch(*args: Any) -> Any:
        nonlocal last
        if REPLACED or _LOOKING or (ACTIVE and STATE.mask is None):
            return run(*args)
        result = last(*args)
        if result is not None:
            return result
        try:
            place = args[0]._array.shape, pick(args)
            found = launches.get(place, 0)
        except (TypeError, IndexError, AttributeError):  # a list among the arguments, or one that is left out
            return run(*args)
        if type(found) is _Launch:
            given = list(args)
            for k, value in found.rest.items():
                given[k] = value
            result = found.run(*given)
            if result is not None:
                last = found.run
                return result
        elif found < _CALLS and args[0]._array.size <= _ELEMENTS:  # type: ignore[operator]  # a number of calls
            _look(entry, launches, place, tensor_positions, run, args)
        return run(*args)

    return launch


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a device kept, and the arguments that are no tensors: the objects that it knows."""

    run: Closure
    rest: dict[int, Any]


def _nothing(*args: Any) -> None:
    return None


def _look(entry: DeviceEntry, launches: dict[Any, _Launch | int], place: Any, positions: Sequence[int], run: Closure,
          args: tuple[Any, ...]) -> None:
    """Count a call; after some of them, keep what is launched, if the device can."""
    if len(launches) >= _KEPT:
        launches.clear()
    calls: Any = launches.get(place, 0) + 1  # type: ignore[operator]  # a number of calls
    launches[place] = calls
    if calls < _CALLS:
        return
    operands = {k: args[k] for k in positions}
    keys = [0 if x is None else x._key & ~(AUTOGRAD | DIM0) for x in operands.values()]
    rest = {k: x for k, x in enumerate(args) if k not in operands}

    def function(*arrays: Any) -> Kept | None:
        given = list(args)
        for k, key, array in zip(positions, keys, arrays, strict=True):
            given[k] = None if array is None else tensors.wrap(array, key)
        found = run(*given)
        many = type(found) is tuple
        results = found if many else (found,)
        if not all(type(x) is tensors.Tensor for x in results):
            return None
        return Kept(tuple([x._array for x in results]), tuple([tensor_box(x._key & ~DIM0) for x in results]), many)

    _LOOKING.append(None)
    try:
        made = entry.runtime.keep(function, {
            k: None if x is None else x._array for k, x in operands.items()}, rest)
    except TensocketError:  # of values that the operator does not take; or machine code cannot be made
        made = None
    finally:
        _LOOKING.pop()
    if made is not None:
        launches[place] = _Launch(made, rest)
