"""Planned paths of pointwise kinds: closures over generated kernels, for keys that settle everything but shapes.

A closure looks the kernel for contiguous arrays of one shape up once. For other layouts it caches the plan of a launch
by shapes and strides. Every call that does not fit goes to the next path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceEntry
from tensocket_core.geometry import broadcast_shapes, contiguous, element_strides, owner_of
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.numbers import Convert
from tensocket_core.launch.pointwise_plan import prepared
from tensocket_core.launch.programs import program
from tensocket_core.launch.stream_use import note_use
from tensocket_core.strides import empty_pointwise, empty_strided_array
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.ir.schedule import Strategy
from tensocket_plugins.kit.bounded import BoundedCache

Closure = Callable[..., Any]
#: Elements up to which devices count with 32 bits.
_MOST: Final = 1 << 30
#: Plans that a closure keeps, by shapes and strides.
_PLANNED: Final = 256
_BOOL: Final = dtype_bit(bool_)
_REAL: Final = (float, int)


@dataclass(frozen=True)
class Launcher:
    """What runs one pointwise kernel on arrays.

    Attributes:
        entry: The device.
        name: The operator's name and everything else that its kernels depend on, but geometry.
        formula: Over one expression per operand.
        compute: Dtype of the operands.
        result: Dtype of the result.
        numbers: What turns the second operand, a number, into what is passed; None where it is an array, or there is
            none.
        condition: Whether the first operand is a bool condition.
        least: Elements up to which the host path serves.
    """

    entry: DeviceEntry
    name: tuple[Any, ...]
    formula: Callable[..., Any]
    compute: DType
    result: DType
    numbers: Convert | None
    least: int
    condition: bool = False

    @property
    def held(self) -> Any:
        """The dtype of the operands' handles, which is compared: another thread may exchange them any time."""
        return self.compute.numpy if self.entry.runtime.profile.host_resident else self.compute

    def plan(self, arrays: tuple[Any, ...], out: Any = None, operands: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Kernel, scalars, shape and strides (None for row-major ones) of the result for arrays like these.

        Args:
            arrays: The operands that are arrays.
            out: Where the result is written, if not to a new array.
            operands: All operands, with a number in the place of each number; by default ``arrays``, and one number
                if ``numbers`` says so.

        Returns:
            None where the next path decides.
        """
        try:
            shape = broadcast_shapes(self.name[0], [x.shape for x in arrays])
        except ShapeError:
            return None
        if 0 in shape or max(x.size for x in arrays) <= self.least:
            return None
        if out is None:
            out = empty_pointwise(self.entry, shape, self.result, arrays)
        elif out.shape != shape or any(s == 0 and n > 1 for s, n in zip(element_strides(out), shape, strict=True)):
            return None
        given = operands or (arrays if self.numbers is None else (*arrays, 0))
        typed = [(x, bool_ if self.condition and k == 0 else self.compute) for k, x in enumerate(given)]
        key, build, geometry = prepared(self.entry, self.name, self.formula, typed, shape, [(out, self.result)])
        run = program(self.entry, key, build, Strategy.SERIAL)
        return run, tuple(geometry), shape, None if contiguous(out) else element_strides(out)

    def flat(self, arrays: tuple[Any, ...]) -> Any:
        """The kernel for arrays of one shape without gaps."""
        plan = self.plan(arrays)
        return None if plan is None else plan[0]


def out_of_place(launcher: Launcher, key: int, count: int, next_path: Closure) -> Closure:
    """A closure for ``count`` operands, of which the last may be a number; ``key`` is the result's."""
    return (_one if count == 1 or launcher.numbers is not None else _two)(launcher, key, next_path)


def _one(launcher: Launcher, key: int, next_path: Closure) -> Closure:
    entry, result, numbers, least = launcher.entry, launcher.result, launcher.numbers, launcher.least
    kernel: Any = None
    plans: BoundedCache[Any, Any] = BoundedCache(_PLANNED)
    empty, on_host, held = entry.runtime.empty, entry.runtime.profile.host_resident, launcher.held

    def planned_one(a: Any, *rest: Any) -> Any:
        nonlocal kernel
        x = a._array
        size = x.size
        if not least < size < _MOST or x.dtype is not held:
            return next_path(a, *rest)
        stream = entry.stream
        if x.flags.c_contiguous if type(x) is np.ndarray else contiguous(x):
            run = kernel
            if run is None:
                run = kernel = launcher.flat((x,))
            out, scalars = empty(x.shape, result, stream), (size,)
        else:
            plan = _planned(plans, launcher, (x.shape, x.strides), (x,))
            if plan is None:
                return next_path(a, *rest)
            run, scalars, shape, strides = plan
            out = empty(shape, result, stream) if strides is None else empty_strided_array(entry, shape, result,
                                                                                           strides)
        if not on_host:
            note_use((x, out), stream)
        run((out, x), scalars if numbers is None else (*scalars, numbers(rest[0])), stream)
        return wrap(out, key)

    return planned_one


def _two(launcher: Launcher, key: int, next_path: Closure) -> Closure:
    entry, result, least = launcher.entry, launcher.result, launcher.least
    kernel: Any = None
    plans: BoundedCache[Any, Any] = BoundedCache(_PLANNED)
    empty, on_host, held = entry.runtime.empty, entry.runtime.profile.host_resident, launcher.held

    def planned_two(a: Any, b: Any) -> Any:
        nonlocal kernel
        x, y = a._array, b._array
        size, shape = x.size, x.shape
        stream = entry.stream
        if x.dtype is not held or y.dtype is not held:
            return next_path(a, b)
        if least < size < _MOST and y.shape == shape and (
                x.flags.c_contiguous and y.flags.c_contiguous if type(x) is np.ndarray
                else contiguous(x) and contiguous(y)):
            run = kernel
            if run is None:
                run = kernel = launcher.flat((x, y))
            out, scalars = empty(shape, result, stream), (size,)
        else:
            plan = _planned(plans, launcher, (shape, x.strides, y.shape, y.strides), (x, y))
            if plan is None:
                return next_path(a, b)
            run, scalars, shape, strides = plan
            out = empty(shape, result, stream) if strides is None else empty_strided_array(entry, shape, result,
                                                                                           strides)
        if not on_host:
            note_use((x, y, out), stream)
        run((out, x, y), scalars, stream)
        return wrap(out, key)

    return planned_two


def many(launcher: Launcher, key: int, bit: int, count: int, converts: tuple[Convert, Convert],
         next_path: Closure) -> Closure:
    """A closure for ``count`` arrays or numbers, and numbers as extra arguments.

    Args:
        launcher: What runs the kernel.
        key: The result's key.
        bit: That of the arrays' dtype, but a condition's.
        count: Operands; further arguments are extra ones.
        converts: What turns numbers among the operands, and extra arguments, into what is passed.
        next_path: Serves what does not fit.
    """
    entry, result, condition, held = launcher.entry, launcher.result, launcher.condition, launcher.held
    plans: BoundedCache[Any, Any] = BoundedCache(_PLANNED)
    empty, on_host = entry.runtime.empty, entry.runtime.profile.host_resident

    def planned_many(*args: Any) -> Any:
        arrays: list[Any] = []
        numbers: list[Any] = []
        place: list[Any] = []
        for k, value in enumerate(args):
            if type(value) in _REAL:
                numbers.append(converts[k >= count](value))
                place.append(None)
            elif k < count and getattr(value, "_key", 0) & (_BOOL if condition and k == 0 else bit):
                x = value._array
                arrays.append(x)
                place += [x.shape, x.strides]
                if x.dtype is not held and not (condition and k == 0):
                    return next_path(*args)
            else:
                return next_path(*args)
        where = tuple(place)
        plan = plans.get(where, plans)
        if plan is plans:
            each = iter(arrays)
            operands = [next(each) if hasattr(x, "_key") else 0 for x in args]
            plan = plans[where] = launcher.plan(tuple(arrays), None, operands) if arrays else None
        if plan is None:
            return next_path(*args)
        run, scalars, shape, strides = plan
        stream = entry.stream
        out = empty(shape, result, stream) if strides is None else empty_strided_array(entry, shape, result, strides)
        if not on_host:
            note_use((*arrays, out), stream)
        run((out, *arrays), (*scalars, *numbers), stream)
        return wrap(out, key)

    return planned_many


def in_place(launcher: Launcher, next_path: Closure, bump: Callable[[Any], None]) -> Closure:
    """A closure for a target and another operand, which is an array or a number; ``next_path`` is for shared memory."""
    entry, numbers, least = launcher.entry, launcher.numbers, launcher.least
    plans: BoundedCache[Any, Any] = BoundedCache(_PLANNED)
    on_host, held = entry.runtime.profile.host_resident, launcher.held

    def planned_in_place(target: Any, other: Any) -> Any:
        x, counter = target._array, target._version_counter
        if not (least < x.size < _MOST and (counter is None or type(counter) is list)) or (
                type(x) is np.ndarray and not x.flags.writeable) or x.dtype is not held:
            return next_path(target, other)
        if numbers is not None:
            plan = _planned(plans, launcher, (x.shape, x.strides), (x,), x)
            buffers: tuple[Any, ...] = x, x
            more: tuple[Any, ...] = (numbers(other),)
        else:
            y = other._array
            if not apart(x, y) or y.dtype is not held:
                return next_path(target, other)
            plan = _planned(plans, launcher, (x.shape, x.strides, y.shape, y.strides), (x, y), x)
            buffers, more = (x, x, y), ()
        if plan is None:
            return next_path(target, other)
        stream = entry.stream
        if not on_host:
            note_use(buffers, stream)
        plan[0](buffers, (*plan[1], *more), stream)
        bump(target)
        return target

    return planned_in_place


def _planned(plans: dict[Any, Any], launcher: Launcher, key: Any, arrays: tuple[Any, ...],
             out: Any = None) -> tuple[Any, ...] | None:
    try:
        plan: tuple[Any, ...] | None = plans[key]
    except KeyError:
        plan = plans[key] = launcher.plan(arrays, out)
    return plan


def apart(x: Any, y: Any) -> bool:
    """Whether two arrays are one, or have memory of different owners."""
    return x is y or owner_of(x) is not owner_of(y)
