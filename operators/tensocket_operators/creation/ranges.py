"""Evenly spaced values."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.launch.copies import from_host
from tensocket_core.launch.fill import MANY, finish
from tensocket_core.launch.host_convert import to_dtype
from tensocket_core.launch.numbers import as_number
from tensocket_core.launch.primitives import primitive
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.promotion import FLOAT8, number_dtype
from tensocket_core.strides import empty_strided_array
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, UndefinedDtype
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.kit.host_memory import pooled

from .base import options
from .noted import noted
from .record import dispatch_factory, is_intercepted
from .small import small_range

#: Number of elements from which the host first allocates memory, so that it fails before it computes any.
_MANY: Final = 1 << 32
#: Number of steps that Python counts faster than NumPy, in the same arithmetic.
_FEW_STEPS: Final = 32


@noted()
def arange(start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
           requires_grad: bool = False, **rest: Any) -> Any:
    """Return start, start + step, ... up to but without end; int64 for integers. A single number is the end.

    Raises:
        ArgumentError: step is zero or leads away from end, or a number is not finite.
        ArgumentTypeError: No number is given.
    """
    if not (ACTIVE or requires_grad or rest):
        small = small_range(0, start, step, dtype, device) if end is None else (
            small_range(start, end, step, dtype, device))
        if small is not None:
            return small
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(arange, start, end, step, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    if start is None and end is None:
        raise ArgumentTypeError("arange", "no end", "the end is given", "pass arange(end) or arange(start, end)")
    bounds: tuple[Any, ...] = (0, start, step) if end is None else (0 if start is None else start, end, step)
    first, last, step = (x.item() if hasattr(x, "_key") or isinstance(x, np.generic) else x for x in bounds)
    if not all(map(math.isfinite, (first, last, step))) or step == 0 or (last - first) * step < 0:
        raise ArgumentError(
            "arange",
            f"start={first}, end={last}, step={step}",
            "numbers are finite, and step is not zero and leads from start to end",
            "change the sign of step",
        )
    whole = all(isinstance(x, int) for x in (first, last, step))
    chosen, state = options("arange", dtype, device, dtypes.int64 if whole else None)
    if chosen.is_complex or chosen in FLOAT8:
        raise UndefinedDtype("arange", f"dtype {chosen.name}", "ranges are of integers and real floats",
                             "convert with .to(dtype)")
    if chosen is dtypes.int64:
        first, last, step, whole = int(first), int(last), int(step), True
        if step == 0:
            raise ArgumentError("arange", f"a step between -1 and 1 for {chosen.name}",
                                "a step of integers is a whole one, not zero", "use a float dtype")
    # For all dtypes but int64, PyTorch counts with the given numbers and then converts them.
    count = max(0, -((first - last) // step)) if whole else max(0, math.ceil((last - first) / step))
    if chosen.category < 2:
        first, step = int(first), int(step)
    out = state.runtime.empty((count,), chosen, state.stream)
    if count:
        _fill_range(state, out, first, step, chosen)
    return finish(out, chosen, state, requires_grad)


@pooled("arange")
def _count(out: Any, first: Any, step: Any, dtype: DType) -> None:
    wide = np.float64 if dtype.kind == "float" else np.int64
    out[...] = to_dtype(np.arange(out.size, dtype=wide) * wide(step) + wide(first), dtype)


def _fill_range(state: DeviceState, out: Any, first: Any, step: Any, dtype: DType) -> None:
    from tensocket_plugins.ir.build.nest import Operand, pointwise_nest
    from tensocket_plugins.ir.nodes import cast as expr_cast

    runtime = state.runtime
    # Floats are rounded once, from float64.
    kernel = runtime.target is not None and dtype.category == 1 and out.size >= MANY
    if runtime.profile.host_resident and not kernel:
        _count(out, first, step, dtype)
    elif runtime.target is not None:
        index = index_dtype(state, (out.size,))
        number = Operand("number", dtype)
        launch(
            state,
            ("arange", dtype, index),
            lambda: pointwise_nest(
                "arange",
                lambda i, a, b: a + expr_cast(i, a.dtype) * b,
                [number, number],
                [Operand("flat", dtype)],
                1,
                index,
                position=True,
            ),
            Strategy.SERIAL,
            [out],
            [out.size, as_number(first, dtype), as_number(step, dtype)],
        )
    else:
        primitive("arange", state, "arange", dtype)(
            [out], [], (as_number(first, dtype), as_number(step, dtype)), state.stream
        )


@noted(numbers=True)
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """Return ``steps`` evenly spaced values from start to end, both included."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(linspace, start, end, steps, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    if hasattr(start, "_key") or hasattr(end, "_key"):
        start, end = (x.item() if hasattr(x, "_key") else x for x in (start, end))
        return linspace(start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad)
    either = isinstance(start, complex) or isinstance(end, complex)
    chosen, state = options("linspace", dtype, device, number_dtype(3) if either else None)
    if either and not chosen.is_complex:
        raise ArgumentError("linspace", f"complex bounds for {chosen.name}", "real numbers have no imaginary part",
                            "use a complex dtype")
    if steps < 0:
        raise ArgumentError(
            "linspace", f"steps={steps}", "the number of steps is not negative", "pass a non-negative number"
        )
    return finish(_spaced(state, start, end, steps, chosen), chosen, state, requires_grad)


def empty_without_data(state: DeviceState, count: int, dtype: DType) -> Any:
    """Return an array without values on a device that holds no data; None if the host must compute ``count`` values.

    Raises:
        OutOfMemoryError: The memory is too small for them.
        ShapeError: No memory can hold that many.
    """
    if state.holds_data and count < _MANY:
        return None
    made = empty_strided_array(state, (count,), dtype, (1,))
    return None if state.holds_data else made


@pooled("linspace")
def _spaced(state: DeviceState, start: Any, end: Any, steps: int, dtype: DType) -> Any:
    made = empty_without_data(state, steps, dtype)
    if made is not None:
        return made
    spaced = even_steps(start, end, steps) if dtype.category > 1 else _whole_steps(int(start), int(end), steps)
    return from_host(state, to_dtype(spaced, dtype), dtype)


def even_steps(start: Any, end: Any, steps: int) -> Any:
    """Return evenly spaced numbers, each counted from the nearer end, so that both ends are exact."""
    if steps < 2:
        return np.full(steps, start)
    kind = np.complex128 if isinstance(start + end, complex) else float
    with np.errstate(all="ignore"):
        return steps_between(kind(start), kind(end), steps)


def steps_between(start: Any, end: Any, steps: int) -> Any:
    """Return what ``even_steps`` does for at least two numbers and bounds of one type, without guarding overflow."""
    step = (end - start) / (steps - 1)
    if steps <= _FEW_STEPS and type(start) is float:
        half, last = steps // 2, steps - 1
        return np.array([start + step * k if k < half else end - step * (last - k) for k in range(steps)])
    places = np.arange(steps)
    return np.where(places < steps // 2, start + step * places, end - step * (steps - 1 - places))


def _whole_steps(start: int, end: int, steps: int) -> Any:
    """Return truncated evenly spaced values between integers, counted from the nearer end, so that both are exact."""
    step = (end - start) / max(steps - 1, 1)
    places = np.arange(steps)
    return np.where(places < steps // 2, start + step * places, end - step * (steps - 1 - places)) if steps > 1 else (
        np.full(steps, start))


@noted(numbers=True)
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """Return ``base`` to the power of ``steps`` evenly spaced exponents from start to end, both included.

    For an integer dtype, start and end are converted to integers.

    Raises:
        ArgumentError: ``steps`` is negative, or a bound is complex and the dtype is not.
        ShapeError: A bound is a tensor with dimensions.
    """
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(logspace, start, end, steps, base, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    for bound in (start, end):
        if getattr(bound, "ndim", 0):
            raise ShapeError("logspace", f"a bound of shape {list(bound.shape)}", "bounds are numbers",
                             "pass 0-dimensional tensors")
    if hasattr(start, "_key") or hasattr(end, "_key"):
        start, end = (x.item() if hasattr(x, "_key") else x for x in (start, end))
        return logspace(start, end, steps, base, dtype=dtype, device=device, requires_grad=requires_grad)
    either = isinstance(start, complex) or isinstance(end, complex)
    chosen, state = options("logspace", dtype, device, number_dtype(3) if either else None)
    if either and not chosen.is_complex:
        raise ArgumentError("logspace", f"complex bounds for {chosen.name}", "real numbers have no imaginary part",
                            "use a complex dtype")
    if steps < 0:
        raise ArgumentError(
            "logspace", f"steps={steps}", "the number of steps is not negative", "pass a non-negative number"
        )
    if chosen.category < 2:
        start, end = int(start), int(end)
    return finish(_powers(state, start, end, steps, base, chosen), chosen, state, requires_grad)


@pooled("logspace")
def _powers(state: DeviceState, start: Any, end: Any, steps: int, base: float, dtype: DType) -> Any:
    made = empty_without_data(state, steps, dtype)
    if made is not None:
        return made
    exponents = even_steps(start, end, steps)
    with np.errstate(all="ignore"):
        values = np.power(np.asarray(base, np.result_type(exponents, base)), exponents)
    return from_host(state, to_dtype(values, dtype), dtype)
