"""Replay: the launches of an earlier call on arrays that are not large, repeated by one compiled function.

The launches of an operator follow from dtypes, shapes, strides and the non-tensor arguments. After a few calls in which
these are the same, the device records the launches and compiles the recording (``ReplayPlan``). Operators declare that
their calls may be replayed: such an operator reads values through ``guard_range`` only, does not write to any operand,
and returns new tensors. Launches for large arrays, and results that NumPy computes, are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract import plans
from tensocket_plugins.contract.forks import by_thread
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_range
from tensocket_plugins.kit.bounded import BoundedCache

from ..device import DeviceState
from ..dispatch.modes import ACTIVE, STATE
from ..keys import AUTOGRAD, DIM0, LAZY
from ..recording import OVERRIDDEN_KERNELS
from ..tensor import Tensor, wrap
from .arguments import frozen, identical
from .entries import ENABLED, wrapper_layout
from .stream_use import note_use

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import RecordedCall


Closure = Callable[..., Any]
#: Calls after which launches are recorded, most recordings of one shape with the same arguments, and most shapes and
#: arguments of one closure (``benchmarks/overhead.py``: a recording costs as much as some thousand replays save).
CALLS: Final = 3
_TRIES: Final = 4
#: The calls, if NumPy serves them otherwise: kernels have to be compiled then.
PATIENCE = 1000
_RECORDED: Final = 256
#: Most elements of the first operand; those of small arrays; elements of larger ones per call before they are recorded,
#: which copies contents of many kinds and costs as much as replays of that many calls save.
ELEMENTS, SMALL, ELEMENTS_PER_CALL = 1 << 17, 1 << 14, 1 << 9
#: Most elements on devices with memory of their own, whose recordings follow from layouts: all of them are small.
DEVICE_ELEMENTS: Final = 1 << 22
#: Threads that run a call which may be recorded: operators inside it are part of it and make no recordings.
_LEARNING: Final[set[int]] = by_thread(set())


def replayed(state: DeviceState, tensor_positions: Sequence[int], count: int, run: Closure, *,
             wants_kernels: bool = False, rounds_freely: bool = False) -> Closure:
    """Return a closure that replays the launches of ``run``, a closure for a key of one device without layers.

    Args:
        state: The device.
        tensor_positions: Positions of the arguments that are tensors or None; the first one is a tensor.
        count: Number of arguments, all positional.
        run: Serves every call that no recording serves.
        wants_kernels, rounds_freely: See ``ReplayPlan``.
    """
    if not ENABLED or state.runtime.target is None:
        return run
    lead, patience = tensor_positions[0], PATIENCE if wants_kernels and not rounds_freely else CALLS
    large, small = (ELEMENTS, SMALL) if state.runtime.profile.host_resident else (DEVICE_ELEMENTS, DEVICE_ELEMENTS)
    others = [k for k in range(count) if k not in tensor_positions]
    pick: Callable[[Any], Any] = itemgetter(*others) if others else _decline
    # Recordings by the first operand's shape and the non-tensor arguments; emptied when it is full.
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
            array = args[lead]._array
            if array.size > large:
                return run(*args)
            key = array.shape, pick(args)
            found = layouts.get(key)
            if found is None or not found.takes(args):
                found = _find_recordings(layouts, key, {k: args[k] for k in others})
        except (TypeError, IndexError, AttributeError):  # a list among the arguments, or a missing argument
            return run(*args)
        if found.newest is not _decline:
            result = found.newest(*found.with_same_objects(args))
            if result is not None:
                last = found.newest
                return result
        found.missed += 1
        late = found.missed - (patience if array.size <= small else array.size // ELEMENTS_PER_CALL)
        if late < 0 or late > CALLS * _TRIES:
            return run(*args)
        if late % CALLS == 0:
            found.newest = compiled_launches(state, run, args, tensor_positions, found.newest, wants_kernels,
                                             rounds_freely, same=found.same) or found.newest
        return _learn(run, args)

    return replay


def replayed_forms(state: DeviceState, operands: Sequence[int], count: int, run: Closure) -> Closure:
    """Return a closure as ``replayed`` does, for operands that are tensors or numbers, as each call has it."""
    forms: dict[tuple[int, ...], Closure] = {}

    def replay(*args: Any) -> Any:
        form = tuple([k for k in operands if hasattr(args[k], "_key")])
        found = forms.get(form)
        if found is None:
            found = forms[form] = replayed(state, form, count, run, wants_kernels=True) if form else run
        return found(*args)

    return replay


def _learn(run: Closure, args: tuple[Any, ...]) -> Any:
    me = get_ident()
    _LEARNING.add(me)
    try:
        return run(*args)
    finally:
        _LEARNING.discard(me)


def guard_range(array: Any, low: int, high: int, other: int | None = None) -> bool:
    """Whether all elements of an int64 array are at least ``low`` and less than ``high``, or equal ``other``.

    A replayed operator may not read values in any other way: each replay repeats this test.

    Args:
        array: Its handle on a host-resident device, of any shape and not empty.
        low: The smallest number that is allowed.
        high: The first number that is too large.
        other: Another number that is allowed.
    """
    if np.minimum.reduce(array, None) < low or np.maximum.reduce(array, None) >= high:
        inside = (array >= low) & (array < high)
        if other is None or not (inside | (array == other)).all():
            return False
    note_range(array, low, high, other)
    return True


class _Recordings:
    """Recordings for one shape of the first operand and one set of non-tensor arguments.

    Attributes:
        same: These arguments by position: the objects that recordings compare with.
        seen: The last other object that was found identical, by position.
        newest: Serves the recorded layouts, the newest first; returns None for others.
        missed: Number of calls that no recording served.
    """

    __slots__ = ("missed", "newest", "same", "seen")

    def __init__(self, same: dict[int, Any]) -> None:
        self.same, self.seen = same, dict(same)
        self.newest: Closure = _decline
        self.missed = 0

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether arguments that are equal to these, with an equal shape, are also identical to them."""
        for k, value in self.same.items():
            x = args[k]
            if x is not value and x is not self.seen[k]:
                if not identical(x, value):
                    return False
                self.seen[k] = x
        return True

    def with_same_objects(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arguments with the objects that recordings compare with."""
        return [self.same.get(k, x) for k, x in enumerate(args)]


def _find_recordings(layouts: dict[Any, _Recordings], key: Any, same: dict[int, Any]) -> _Recordings:
    """Return the recordings for a shape and identical arguments; equality finds the first of several equal ones."""
    exact = key[0], frozen(tuple(same.values()))
    found = layouts.get(exact)
    if found is None:
        found = layouts[exact] = _Recordings(same)
        layouts.setdefault(key, found)
    return found


def _decline(*args: Any) -> None:
    return None


def compiled_launches(state: DeviceState, run: Closure, args: Sequence[Any], positions: Sequence[int],
                      next_path: Closure, wants_kernels: bool = False, rounds_freely: bool = False, *,
                      same: dict[int, Any]) -> Closure | None:
    """Record the launches of a call, and return a function that repeats them; None if the device cannot.

    Args:
        state: The device.
        run: The call.
        args: Its arguments.
        positions: Positions of those that are tensors or None.
        next_path: Serves all calls with tensors of other layouts, and with other objects.
        wants_kernels, rounds_freely: See ``ReplayPlan``.
        same: The other arguments, by position.
    """
    operands = {k: args[k] for k in positions}
    keys = [0 if x is None else x._key & ~(AUTOGRAD | DIM0) for x in operands.values()]

    def function(*arrays: Any) -> RecordedCall | None:
        given = list(args)
        for k, key, array in zip(positions, keys, arrays, strict=True):
            given[k] = None if array is None else wrap(array, key)
        made = run(*given)
        is_tuple = type(made) is tuple
        results = made if is_tuple else (made,)
        if not all(type(x) is Tensor and not x._key & LAZY for x in results):
            return None
        return plans.RecordedCall(tuple([x._array for x in results]),
                            tuple([wrapper_layout(x._key & ~DIM0) for x in results]), is_tuple)

    def stream(arrays: Sequence[Any]) -> Any:
        current = state.stream
        note_use(arrays, current)
        return current

    arrays = {k: None if x is None else x._array for k, x in operands.items()}
    plan = plans.ReplayPlan(function, arrays, same, stream, wants_kernels, rounds_freely)
    try:
        return state.runtime.compile_plan(plan, next_path)
    except Exception:  # a recording runs on other contents, which may be invalid; ``run`` raises the call's own errors
        return None
