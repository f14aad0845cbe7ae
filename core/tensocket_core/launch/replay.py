"""Replay: launches of an earlier call, as one call of machine code on small arrays.

What an operator launches follows from dtypes, shapes, strides and arguments that are not tensors. After a few calls
with the same ones, the device is asked to record what it launches (``OpenDevice.keep``) and to replay that. Operators
declare that their calls may be replayed: these look at values through ``guard_range`` only, write to no operand, and
return new tensors. Launches for large arrays, and results that are computed in another way, are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.forks import by_thread
from tensocket_plugins.contract.native import Kept
from tensocket_plugins.kit.bounded import BoundedCache

from ..device import DeviceEntry
from ..dispatch.modes import ACTIVE, STATE
from ..keys import AUTOGRAD, DIM0
from ..recording import REPLACED
from ..tensor import Tensor, wrap
from .arguments import frozen, identical
from .entries import ENABLED, tensor_box

Closure = Callable[..., Any]
#: Calls after which launches are kept, how often that is tried for one shape and the same arguments, and for how many
#: of these of one closure.
CALLS: Final = 3
_TRIES: Final = 4
_RECORDED: Final = 256
#: Most elements of the first operand.
ELEMENTS: Final = 1 << 14
#: Threads that are looking what to keep: calls go the long way meanwhile.
_LOOKING: Final[set[int]] = by_thread(set())


#: Threads that run a call of which a recording may come: operators inside of it are part of that, and record nothing.
_LEARNING: Final[set[int]] = by_thread(set())


class _Refused(Exception):
    """An operator asked not to be kept, in the thread that looks."""


def replayed(entry: DeviceEntry, tensor_positions: Sequence[int], count: int, run: Closure) -> Closure:
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
    # By shape of the first operand and arguments that are not tensors; full, it is emptied.
    places: BoundedCache[Any, _Place] = BoundedCache(2 * _RECORDED)
    last: Closure = _nothing

    def launch(*args: Any) -> Any:
        nonlocal last
        if REPLACED or _LOOKING or _LEARNING or (ACTIVE and STATE.mask is None):
            return run(*args)
        result = last(*args)
        if result is not None:
            return result
        try:
            key = args[0]._array.shape, pick(args)
            place = places.get(key)
            if place is None or not place.takes(args):
                place = _find_place(places, key, {k: args[k] for k in rest})
        except (TypeError, IndexError, AttributeError):  # a list among the arguments, or one that is left out
            return run(*args)
        if place.launches:
            given = list(args)
            for k, value in place.rest.items():
                given[k] = value
            for known in place.launches:
                result = known(*given)
                if result is not None:
                    last = known
                    return result
        place.missed += 1
        if place.missed > CALLS * _TRIES or args[0]._array.size > ELEMENTS:
            return run(*args)
        if place.missed % CALLS == 0:
            _look(entry, place, tensor_positions, run, args)
        return _learn(run, args)

    return launch


def _learn(run: Closure, args: tuple[Any, ...]) -> Any:
    me = get_ident()
    _LEARNING.add(me)
    try:
        return run(*args)
    finally:
        _LEARNING.discard(me)


def guard_range(entry: DeviceEntry, array: Any, low: int, high: int, other: int | None = None) -> bool:
    """Whether all elements of an int64 array lie from ``low`` to below ``high``, or are ``other``.

    In operators whose launches are kept, this is what they may know of values: it is checked in every call.

    Args:
        entry: A host-resident device.
        array: Its array, of any shape and not empty.
        low: The smallest number.
        high: The first one that is too large.
        other: What is allowed as well.
    """
    if np.minimum.reduce(array, None) < low or np.maximum.reduce(array, None) >= high:
        inside = (array >= low) & (array < high)
        if other is None or not (inside | (array == other)).all():
            return False
    note_guarded(entry, array, low, high, other)
    return True


def recording() -> bool:
    """Whether this thread looks at launches now: what else does the same is to be done by a launch."""
    return get_ident() in _LOOKING if _LOOKING else False


def forbid_replay() -> None:
    """Say that an operator goes a way that depends on values, on how they compare, or on a state.

    While this thread looks at its launches, that ends at once.
    """
    if _LOOKING and get_ident() in _LOOKING:
        raise _Refused


def constant(entry: DeviceEntry, array: Any) -> Any:
    """Return an array that follows from shapes and arguments, for kernels that are kept to read.

    Other memory of a launch that is kept is the operands', or was written by its kernels.
    """
    if _LOOKING:
        entry.runtime.constant(array)
    return array


def note_guarded(entry: DeviceEntry, array: Any, low: int, high: int, other: int | None = None) -> None:
    """Say that an operator has done what ``guard_range`` does; it matters while its launches are looked at."""
    if _LOOKING:
        entry.runtime.limit(array, low, high, low if other is None else other)


def assume_range(entry: DeviceEntry, array: Any, low: int, high: int) -> None:
    """Say that callers guarantee integers from ``low`` to below ``high``, which nobody checks again."""
    if _LOOKING:
        entry.runtime.assume(array, low, high)


class _Place:
    """What is known of calls with one shape of the first operand, and with the same arguments that are no tensors.

    Attributes:
        rest: These arguments: the objects that launches know, by position.
        launches: What a device kept, for other layouts of the operands each.
        missed: Calls that none of them served.
    """

    __slots__ = ("launches", "missed", "rest")

    def __init__(self, rest: dict[int, Any]) -> None:
        self.rest = rest
        self.launches: tuple[Closure, ...] = ()
        self.missed = 0

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether arguments are identical to these; shape and values are equal."""
        return all(args[k] is value or identical(args[k], value) for k, value in self.rest.items())


def _find_place(places: dict[Any, _Place], key: Any, rest: dict[int, Any]) -> _Place:
    """The place of a shape and of identical arguments, which is also found by equal ones if it comes first."""
    exact = key[0], frozen(tuple(rest.values()))
    place = places.get(exact)
    if place is None:
        place = places[exact] = _Place(rest)
        places.setdefault(key, place)
    return place


def _nothing(*args: Any) -> None:
    return None


def _look(entry: DeviceEntry, place: _Place, positions: Sequence[int], run: Closure, args: tuple[Any, ...]) -> None:
    """Keep what is launched, if the device can."""
    operands = {k: args[k] for k in positions}
    keys = [0 if x is None else x._key & ~(AUTOGRAD | DIM0) for x in operands.values()]

    def function(*arrays: Any) -> Kept | None:
        given = list(args)
        for k, key, array in zip(positions, keys, arrays, strict=True):
            given[k] = None if array is None else wrap(array, key)
        found = run(*given)
        many = type(found) is tuple
        results = found if many else (found,)
        if not all(type(x) is Tensor for x in results):
            return None
        return Kept(tuple([x._array for x in results]), tuple([tensor_box(x._key & ~DIM0) for x in results]), many)

    me = get_ident()
    _LOOKING.add(me)
    try:
        made = entry.runtime.keep(function, {
            k: None if x is None else x._array for k, x in operands.items()}, place.rest)
    except Exception:  # other contents than those of this call may be wrong; its own errors come from ``run``
        return
    finally:
        _LOOKING.discard(me)
    if made is not None:
        place.launches = (*place.launches, made)
