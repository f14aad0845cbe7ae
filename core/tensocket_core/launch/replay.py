"""Replay: the launches of an earlier call on small arrays, repeated by one compiled function.

The launches of an operator follow from dtypes, shapes, strides and the arguments that are not tensors. After a few
calls with the same ones, the device is asked to record them and to compile the recording (``ReplayPlan``). Operators
declare that their calls may be replayed: such an operator learns values through ``guard_range`` only, writes to no
operand, and returns new tensors. Launches for large arrays, and results that NumPy computes, are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.forks import by_thread
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_range
from tensocket_plugins.contract.plans import RecordedCall, ReplayPlan
from tensocket_plugins.kit.bounded import BoundedCache

from ..device import DeviceState
from ..dispatch.modes import ACTIVE, STATE
from ..keys import AUTOGRAD, DIM0
from ..recording import OVERRIDDEN_KERNELS
from ..tensor import Tensor, wrap
from .arguments import frozen, identical
from .entries import ENABLED, wrapper_layout
from .stream_use import note_use

Closure = Callable[..., Any]
#: Calls after which launches are recorded, most recordings of one shape with the same arguments, and most shapes and
#: arguments of one closure (``benchmarks/overhead.py``: a recording costs as much as some thousand replays win).
CALLS: Final = 3
_TRIES: Final = 4
_RECORDED: Final = 256
#: Most elements of the first operand.
ELEMENTS: Final = 1 << 14
#: Threads that run a call of which a recording may come: operators inside of it are part of it and record nothing.
_LEARNING: Final[set[int]] = by_thread(set())


def replayed(state: DeviceState, tensor_positions: Sequence[int], count: int, run: Closure) -> Closure:
    """Return ``run``, a closure for a key of one device without layers, with its launches replayed.

    Args:
        state: The device.
        tensor_positions: Of the arguments that are tensors, or None; the first one is a tensor.
        count: Number of arguments, all by position.
        run: Serves every call that no recording serves.
    """
    if not ENABLED or state.runtime.target is None:
        return run
    others = [k for k in range(count) if k not in tensor_positions]
    pick: Callable[[Any], Any] = itemgetter(*others) if others else _decline
    # By shape of the first operand and arguments that are not tensors; full, it is emptied.
    layouts: BoundedCache[Any, _Recordings] = BoundedCache(2 * _RECORDED)
    last: Closure = _decline

    def replay(*args: Any) -> Any:
        nonlocal last
        if OVERRIDDEN_KERNELS or RECORDERS or _LEARNING or (ACTIVE and STATE.mask is None):
            return run(*args)
        result = last(*args)
        if result is not None:
            return result
        try:
            key = args[0]._array.shape, pick(args)
            found = layouts.get(key)
            if found is None or not found.takes(args):
                found = _find_recordings(layouts, key, {k: args[k] for k in others})
        except (TypeError, IndexError, AttributeError):  # a list among the arguments, or one that is left out
            return run(*args)
        if found.newest is not _decline:
            result = found.newest(*found.with_same_objects(args))
            if result is not None:
                last = found.newest
                return result
        found.missed += 1
        if found.missed > CALLS * _TRIES or args[0]._array.size > ELEMENTS:
            return run(*args)
        if found.missed % CALLS == 0:
            _record(state, found, tensor_positions, run, args)
        return _learn(run, args)

    return replay


def _learn(run: Closure, args: tuple[Any, ...]) -> Any:
    me = get_ident()
    _LEARNING.add(me)
    try:
        return run(*args)
    finally:
        _LEARNING.discard(me)


def guard_range(array: Any, low: int, high: int, other: int | None = None) -> bool:
    """Whether all elements of an int64 array are from ``low`` to below ``high``, or ``other``.

    This is the only way in which a replayed operator may learn values: each replay compares them, too.

    Args:
        array: Its handle on a host-resident device, of any shape and not empty.
        low: The smallest number.
        high: The first number that is too large.
        other: A number that is allowed as well.
    """
    if np.minimum.reduce(array, None) < low or np.maximum.reduce(array, None) >= high:
        inside = (array >= low) & (array < high)
        if other is None or not (inside | (array == other)).all():
            return False
    note_range(array, low, high, other)
    return True


class _Recordings:
    """Recordings for one shape of the first operand and one set of arguments that are not tensors.

    Attributes:
        same: These arguments: the objects that recordings know, by position.
        newest: Serves the layouts that were recorded, the newest first; returns None for others.
        missed: Calls that none of them served.
    """

    __slots__ = ("missed", "newest", "same")

    def __init__(self, same: dict[int, Any]) -> None:
        self.same = same
        self.newest: Closure = _decline
        self.missed = 0

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether arguments are identical to these; shape and values are equal."""
        return all(args[k] is value or identical(args[k], value) for k, value in self.same.items())

    def with_same_objects(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arguments with the objects that recordings know."""
        given = list(args)
        for k, value in self.same.items():
            given[k] = value
        return given


def _find_recordings(layouts: dict[Any, _Recordings], key: Any, same: dict[int, Any]) -> _Recordings:
    """Return the recordings for a shape and identical arguments; equal arguments find them, too, if they come first."""
    exact = key[0], frozen(tuple(same.values()))
    found = layouts.get(exact)
    if found is None:
        found = layouts[exact] = _Recordings(same)
        layouts.setdefault(key, found)
    return found


def _decline(*args: Any) -> None:
    return None


def _record(state: DeviceState, found: _Recordings, positions: Sequence[int], run: Closure,
            args: tuple[Any, ...]) -> None:
    """Add a recording for the layouts of a call, if the device can make one."""
    operands = {k: args[k] for k in positions}
    keys = [0 if x is None else x._key & ~(AUTOGRAD | DIM0) for x in operands.values()]

    def function(*arrays: Any) -> RecordedCall | None:
        given = list(args)
        for k, key, array in zip(positions, keys, arrays, strict=True):
            given[k] = None if array is None else wrap(array, key)
        made = run(*given)
        is_tuple = type(made) is tuple
        results = made if is_tuple else (made,)
        if not all(type(x) is Tensor for x in results):
            return None
        return RecordedCall(tuple([x._array for x in results]),
                            tuple([wrapper_layout(x._key & ~DIM0) for x in results]), is_tuple)

    def stream(arrays: Sequence[Any]) -> Any:
        current = state.stream
        note_use(arrays, current)
        return current

    arrays = {k: None if x is None else x._array for k, x in operands.items()}
    plan = ReplayPlan(function, arrays, found.same, stream)
    try:
        made = state.runtime.compile_plan(plan, found.newest)
    except Exception:  # other contents than those of this call may be wrong; its own errors come from ``run``
        return
    if made is not None:
        found.newest = made
