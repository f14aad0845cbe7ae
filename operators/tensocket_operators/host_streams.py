"""Streams of host-resident devices: whole operators are queued as functions and run on the stream's own thread.

Host kernels are functions on arrays and have no notion of streams. While a thread works on such a stream, its outermost
dispatch mode is therefore ``_Queueing``: it infers the layout of an operator's result on ``meta``, makes the tensor,
and queues the operator, whose result is then copied into it. Shapes and dtypes are checked at once; later errors are
raised when the stream is synchronised. Views are made at once. Operators whose result depends on values, and functions
that are not operators, wait for the queue and then run in the calling thread. If no such stream is in use, this module
costs nothing.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

from tensocket_core.device import (
    ON_HOST_QUEUES,
    PENDING,
    DeviceState,
    host_queue,
    on_default_streams,
    open_device,
    runs_host_queue,
    wait_for_queue,
)
from tensocket_core.dispatch.modes import STATE, thread_state, update_state
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.protocol import TorchDispatchMode, tensors_in
from tensocket_core.dispatch.versions import bump
from tensocket_core.geometry import as_strided, contiguous_strides, element_strides, memory_of
from tensocket_core.keys import AUTOGRAD, WRAPPER, dtype_bit
from tensocket_core.meta import META
from tensocket_core.strides import reach
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.backend import HostQueue
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.forks import Rank, held_over_forks

#: Kinds of operators that are queued; views are made at once, and external functions run in the calling thread.
_QUEUED: Final = frozenset({"pointwise", "reduction", "row", "host", "matmul", "sequence", "custom", "inplace"})
_LOCK: Final = held_over_forks(threading.Lock(), Rank.LEAVES)


class _Queueing(TorchDispatchMode):
    """The dispatch mode; one object for all threads."""

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Queue an operator, or run it at once if it cannot be queued."""
        kwargs = kwargs or {}
        given = list(tensors_in((*args, *kwargs.values())))
        if types:
            wait_for_queue()
            return NotImplemented
        if not isinstance(func, Operator) and not given:
            with on_default_streams():  # a factory writes to new memory
                return func(*args, **kwargs)
        if isinstance(func, Operator) and func.kind == "view":
            return func(*args, **kwargs)
        call = _Call(func, args, kwargs, given)
        if not call.possible():
            wait_for_queue()
            return func(*args, **kwargs)
        return call.queue()


class _Call:
    """One call of an operator."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any]) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.given = given
        self.shapes: list[Any] = []
        self.several = self.alias = False

    def possible(self) -> bool:
        """Whether the layout of the result does not depend on values, so that the call can be queued."""
        func, given = self.func, self.given
        if not isinstance(func, Operator) or func.kind not in _QUEUED or func.overrides or not given:
            return False
        state: DeviceState = given[0]._device_state
        if any(x._device_state is not state or x._key & WRAPPER for x in given) or host_queue(state) is None:
            return False
        mutated = [p.mutated for p in func.schema.parameters]
        return mutated == [k == 0 and func.kind == "inplace" for k in range(len(mutated))] and self._infer()

    def _infer(self) -> bool:
        meta = {id(x): _empty_like(open_device(META), x) for x in self.given}
        try:
            made = self.func(*_replaced(self.args, meta), **_replaced(self.kwargs, meta))
        except TensocketError:  # refused, or it needs values: the device itself raises the right error
            return False
        if self.func.kind == "inplace":
            return _same_geometry(meta[id(self.args[0])], self.args[0])
        self.several = isinstance(made, tuple)
        self.shapes = list(made) if self.several else [made]
        if not all(hasattr(x, "_key") for x in self.shapes) or hasattr(made, "_fields"):
            return False
        memories = {id(memory_of(x._array)) for x in meta.values()}
        shared = [id(memory_of(x._array)) in memories for x in self.shapes]
        self.alias = all(shared)
        return self.alias or not any(shared)

    def queue(self) -> Any:
        """Queue the call and return its result, which the queued function fills."""
        if self.alias:
            return self.func(*self.args, **self.kwargs)
        state: DeviceState = self.given[0]._device_state
        queue = host_queue(state)
        assert queue is not None
        if self.func.kind == "inplace":
            target = self.args[0]
            bump(target)
            results = [target]
            _submit(queue, self.func, self._frozen(), ())
        else:
            results = [_empty_like(state, x) for x in self.shapes]
            _submit(queue, self.func, self._frozen(), tuple([x._array for x in results]))
        return tuple(results) if self.several else results[0]

    def _frozen(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they are now: memory is shared, geometry and version counters are not."""
        cut = {}
        for tensor in self.given:
            cut[id(tensor)] = alias = tensor._cut()
            alias._version_counter = None
        return _replaced(self.args, cut), _replaced(self.kwargs, cut)


def _submit(queue: HostQueue, func: Operator, given: tuple[tuple[Any, ...], dict[str, Any]],
            outs: tuple[Any, ...]) -> None:
    args, kwargs = given

    def run() -> None:
        with runs_host_queue(), thread_state(exclude=STATE.exclude | AUTOGRAD):
            made = func(*args, **kwargs)
            for out, result in zip(outs, made if type(made) is tuple else (made,), strict=bool(outs)):
                out[...] = result._array

    queue.submit(func.name, run)
    with _LOCK:
        PENDING[id(queue)] = weakref.ref(queue)


def _replaced(value: Any, by: dict[int, Any]) -> Any:
    """Return arguments with their tensors replaced, also inside tuples, lists and dicts."""
    if type(value) in (tuple, list):
        return type(value)([_replaced(item, by) for item in value])
    if type(value) is dict:
        return {name: _replaced(item, by) for name, item in value.items()}
    return by[id(value)] if hasattr(value, "_key") else value


def _empty(state: DeviceState, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    runtime = state.runtime
    if strides == contiguous_strides(shape):
        return runtime.empty(shape, dtype, runtime.default_stream)
    return as_strided(runtime.empty((reach(shape, strides),), dtype, runtime.default_stream), shape, strides, 0)


def _empty_like(state: DeviceState, tensor: Any) -> Any:
    """Return a new tensor on a device with a tensor's geometry."""
    array = tensor._array
    made = _empty(state, tuple(array.shape), tuple(element_strides(array)), tensor.dtype)
    return wrap(made, state.key | dtype_bit(tensor.dtype))


def _same_geometry(meta: Any, tensor: Any) -> bool:
    mine, other = meta._array, tensor._array
    return bool(mine.shape == other.shape and meta.dtype is tensor.dtype
                and tuple(element_strides(mine)) == tuple(element_strides(other)))


_MODE: Final = _Queueing()


def _switch(used: bool) -> None:
    """Put the mode below all others, or remove it."""
    modes = tuple([mode for mode in STATE.dispatch_modes if mode is not _MODE])
    modes = (_MODE, *modes) if used else modes
    if modes != STATE.dispatch_modes:
        update_state(dispatch_modes=modes)


ON_HOST_QUEUES[0] = _switch
