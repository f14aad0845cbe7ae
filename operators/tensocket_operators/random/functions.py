"""Functions that return tensors of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.fallback import note_host_operator
from tensocket_core.dispatch.modes import ACTIVE, as_leaf
from tensocket_core.formats import contiguous_format, preserve_format
from tensocket_core.geometry import contiguous
from tensocket_core.keys import DIM0, WRAPPER, dtype_bit
from tensocket_core.launch.copies import converted
from tensocket_core.launch.fill import finish, from_values
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.kit.host_memory import call_pooled

from ..creation import check_range, empty_like, options, shape_of
from ..creation.noted import noted
from ..creation.record import dispatch_factory, is_intercepted
from ..kinds.programs import Programs
from ..sorting import bitonic_kernel
from .ahead import FEW, noted_draw, small_draw
from .distributions import EXACT, INT_RANGE, NORMAL, UNIFORM, Formula, bits64
from .draws import draw_array, floats, through_transforms, whole_numbers
from .generator import Generator
from .small_samples import note_range, small_integers

_FLOAT32: Final = dtype_bit(dtypes.float32)


def _random(
    operator: str,
    formulas: tuple[Formula, Formula],
    size: tuple[Any, ...],
    dtype: Any,
    device: Any,
    requires_grad: bool,
    generator: Generator | None,
) -> Any:
    chosen, state = options(operator, dtype, generator.device if device is None and generator is not None else device)
    result = floats(operator, formulas, shape_of(operator, size), chosen, state, generator)
    return as_leaf(result) if requires_grad else result


@noted(note=noted_draw)
def rand(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
         requires_grad: bool = False, **rest: Any) -> Any:
    """Draw uniform numbers in [0, 1)."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(rand, *size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _random("rand", UNIFORM, size, dtype, device, requires_grad, generator)


@noted(note=noted_draw)
def randn(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
          requires_grad: bool = False, **rest: Any) -> Any:
    """Draw normal numbers with mean 0 and variance 1."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(randn, *size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _random("randn", NORMAL, size, dtype, device, requires_grad, generator)


def _small_like(formula: Formula, input: Any) -> Any:
    """Return float32 numbers in the shape of a small dense tensor in the host's memory; None for other tensors."""
    key, array = input._key & ~DIM0, input._array
    state = BY_KEY.get(key & ~_FLOAT32)
    if not key & _FLOAT32 or state is None or type(array) is not np.ndarray or not 0 < array.size <= FEW or (
            not array.flags.c_contiguous):
        return None
    made = small_draw(state, formula, dtypes.float32, 1, array.shape, None)
    return None if made is None else wrap(made, key)


def _floats_like(draw: Callable[..., Any], formulas: tuple[Formula, Formula], input: Any, dtype: Any, device: Any,
                 requires_grad: bool, memory_format: Any) -> Any:
    """Return ``drawn_like`` of floats, faster where no argument asks for anything but the properties of ``input``."""
    if ACTIVE or dtype or device or memory_format or input._key & WRAPPER or not contiguous(input._array):
        return drawn_like(draw, input, dtype, device, requires_grad, memory_format)
    drawn = floats(draw.__name__, formulas, input._array.shape, input.dtype, input._device_state, None)
    return as_leaf(drawn) if requires_grad else drawn


def drawn_like(draw: Callable[..., Any], input: Any, dtype: Any, device: Any, requires_grad: bool,
               memory_format: Any) -> Any:
    """Call ``draw`` for the shape, dtype and device of ``input``, in its layout or a memory format."""
    kept = memory_format is None or memory_format is preserve_format
    chosen = {"dtype": input.dtype if dtype is None else dtype, "device": input.device if device is None else device}
    drawn = draw(tuple(input.shape), **chosen)
    if not (memory_format is contiguous_format or (kept and input.is_contiguous())):
        drawn = empty_like(input, memory_format=memory_format, **chosen).copy_(drawn)
    return as_leaf(drawn) if requires_grad else drawn


@noted(like=True, note=noted_draw)
def rand_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """Draw uniform numbers in [0, 1) with another tensor's shape, strides, dtype and device."""
    if not (ACTIVE or dtype or device or requires_grad or memory_format or rest):
        small = _small_like(UNIFORM[0], input)
        if small is not None:
            return small
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(rand_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _floats_like(rand, UNIFORM, input, dtype, device, requires_grad, memory_format)


@noted(like=True, note=noted_draw)
def randn_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """Draw normal numbers with another tensor's shape, strides, dtype and device."""
    if not (ACTIVE or dtype or device or requires_grad or memory_format or rest):
        small = _small_like(NORMAL[0], input)
        if small is not None:
            return small
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(randn_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _floats_like(randn, NORMAL, input, dtype, device, requires_grad, memory_format)


@noted(note=noted_draw)
def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None,
            dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Draw integers in [low, high), by default of int64: random bits modulo the size of the range.

    Raises:
        ArgumentError: The range is empty, or the dtype cannot represent its bounds.
        ArgumentTypeError: No size is given.
    """
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(randint, low, high, size, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    low, high, size = _bounds(low, high, size)
    chosen, state = options(
        "randint", dtype, generator.device if device is None and generator is not None else device, dtypes.int64
    )
    result = _integers(state, shape_of("randint", (size,)), chosen, low, high, generator)
    return as_leaf(result) if requires_grad else result


def _integers(state: DeviceState, shape: tuple[int, ...], dtype: DType, low: int, high: int,
              generator: Generator | None) -> Any:
    """Return whole numbers in [low, high), of a dtype that represents the bounds.

    Raises:
        ArgumentError: The range is empty, or the dtype cannot represent its bounds.
    """
    if not ACTIVE:
        small = small_integers(state, shape, dtype, low, high, generator)
        if small is not None:
            return small
    _check_integers(low, high, dtype)
    note_range(low, high, dtype)
    drawn = whole_numbers(state, shape, dtype, low, high, generator)
    return drawn if drawn.dtype is dtype else drawn.to(dtype)


def _check_integers(low: int, high: int, dtype: DType) -> None:
    """Refuse an empty range, and bounds that a dtype cannot represent.

    Raises:
        ArgumentError: The range is one of these.
    """
    if high <= low:
        raise ArgumentError("randint", f"low={low}, high={high}", "low is less than high", "exchange them")
    if not -INT_RANGE <= low < high <= INT_RANGE:
        raise ArgumentError("randint", f"low={low}, high={high}", "bounds are numbers of int64", "pass smaller ones")
    if dtype is not dtypes.int64:
        check_range("randint", low, dtype)
        check_range("randint", high - 1, dtype)


def _bounds(low: Any, high: Any, size: Any) -> tuple[int, int, Any]:
    """Return low, high and size from ``randint(high, size)`` or ``randint(low, high, size)``, also passed by name."""
    if size is None:
        low, high, size = None, low, high
    elif high is None:
        low, high = None, low
    low = 0 if low is None else low
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError("randint", f"size={size!r}", "size is a tuple of ints", "pass for example (3,)")
    if not hasattr(low, "__index__") or not hasattr(high, "__index__"):
        raise ArgumentTypeError("randint", f"low={low!r}, high={high!r}", "bounds are integers", "pass integers")
    return low.__index__(), high.__index__(), size


@noted(like=True, note=noted_draw)
def randint_like(input: Any, low: Any = None, high: Any = None, *, generator: Generator | None = None,
                 dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
                 **rest: Any) -> Any:
    """Draw integers in [low, high) with another tensor's shape, strides, dtype and device.

    ``randint_like(input, high)`` draws from [0, high).
    """
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(randint_like, input, low, high, rest=rest, generator=generator, dtype=dtype,
                                device=device,
                    requires_grad=requires_grad, memory_format=memory_format)
    low, high = (0, low) if high is None else (0 if low is None else low, high)
    array, kind = input._array, input.dtype
    if not (ACTIVE or dtype or device or requires_grad or memory_format or input._key & WRAPPER) and (
            type(low) is int and type(high) is int and contiguous(array)):
        return _integers(input._device_state, array.shape, kind, low, high, generator)

    def draw(size: tuple[int, ...], **chosen: Any) -> Any:
        return randint(low, high, size, generator=generator, **chosen)

    return drawn_like(draw, input, dtype, device, requires_grad, memory_format)


_SORTED: Final = Programs("randperm", cpu=True, simt=False)
#: Number of keys from which they are sorted digit by digit.
_MANY: Final = 8192


def _ascending(keys: Any) -> Any:
    """Return the positions of keys in ascending order; equal keys keep their order."""
    order = np.argsort(keys, axis=-1)  # several times faster than a stable sort
    ordered = keys[order] if keys.ndim == 1 else np.take_along_axis(keys, order, -1)
    tied = np.count_nonzero(ordered[..., 1:] == ordered[..., :-1])
    return np.argsort(keys, axis=-1, kind="stable") if tied else order


def _order(state: DeviceState, keys: Any) -> Any:
    """Return ``_ascending`` of a long vector, on a processor: sort upper halves, then the few keys that share one."""
    upper = (keys >> 31).astype(np.uint32)
    order = bitonic_kernel.sorted_positions(state, upper, dtypes.uint32, 0, False)
    ranked = upper[order]
    tied = np.flatnonzero(ranked[1:] == ranked[:-1])
    if tied.size:
        places = np.union1d(tied, tied + 1)
        chosen = order[places]
        order[places] = chosen[np.lexsort((chosen, keys[chosen]))]
    return order


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """Return the integers from 0 to n - 1 in random order, which is that of n random keys of 63 bits."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(randperm, n, rest=rest, generator=generator, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    if n < 0:
        raise ArgumentError("randperm", f"n={n}", "n is not negative", "pass a non-negative number")
    chosen, state = options(
        "randperm", dtype, generator.device if device is None and generator is not None else device, dtypes.int64
    )
    check_range("randperm", n - 1, chosen)
    if chosen in EXACT and n - 1 > EXACT[chosen]:
        raise ArgumentError("randperm", f"n={n} for {chosen.name}", "the dtype holds all numbers below n",
                            "use a wider dtype")
    if not state.holds_data:
        return finish(state.runtime.empty((n,), chosen, state.stream), chosen, state, requires_grad)

    def draw(lead: tuple[int, ...]) -> Any:
        keys = wrap(draw_array("bits", bits64, state, (*lead, n), dtypes.int64, 2, generator),
                            state.key | dtype_bit(dtypes.int64))
        if not state.runtime.profile.host_resident:
            if state.runtime.target is not None:
                order = bitonic_kernel.sorted_positions(state, keys._array, dtypes.int64, len(lead), False)
                array = order if chosen is dtypes.int64 else converted(state, order, dtypes.int64, chosen)
                return wrap(array, state.key | dtype_bit(chosen))
            note_host_operator("randperm", keys)
        elif not lead and n >= _MANY and _SORTED.of(state):
            return from_values(_order(state, keys._host()), chosen, state)
        order = call_pooled("randperm", _ascending, keys._host())
        if chosen is dtypes.int64 and state.runtime.profile.host_resident:
            return wrap(order, keys._key)
        return from_values(order, chosen, state)

    result = through_transforms("randperm", draw)
    return as_leaf(result) if requires_grad else result
