"""Plans of pointwise operators: one generated kernel for a key that settles everything but shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.geometry import broadcast_shapes, contiguous, element_strides, owner_of
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.numbers import Convert
from tensocket_core.launch.plan import PLANS, Operand, Plan, Result, Role, planned, real_number
from tensocket_core.launch.pointwise_plan import prepared
from tensocket_core.launch.programs import program
from tensocket_core.launch.stream_use import note_use
from tensocket_core.strides import empty_pointwise
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.kit.bounded import BoundedCache

Closure = Callable[..., Any]
_BOOL: Final = dtype_bit(bool_)
#: Types of extra numbers, which kernels take as arguments; a number in their place, which equals no bool; and the types
#: of it and of the extra arguments that specialise kernels.
_REAL: Final = (float, int)
_ANY: Final = 0.5
_SPECIAL: Final = (float, str, bool, type(None))
#: Elements up to which devices index with 32 bits.
MOST: Final = 1 << 30


@dataclass(frozen=True)
class PointwisePlanner:
    """A planner for one pointwise operator and one key.

    Attributes:
        state: The device.
        name: The operator's name and everything else that its kernels depend on, except geometry.
        formula: Over one expression per operand.
        compute: Dtype of the operands.
        result: Dtype of the result.
        converts: Functions that convert a number in the place of each operand, and each extra number, for the kernel.
        count: Number of operands; further arguments are extra numbers.
        least: Elements up to which the host path serves.
        condition: Whether the first operand is a bool condition.
    """

    state: DeviceState
    name: tuple[Any, ...]
    formula: Callable[..., Any]
    compute: DType
    result: DType
    converts: tuple[Convert, ...]
    count: int
    least: int
    condition: bool = False

    def closure(self, key: int, number: bool, next_path: Closure) -> Closure:
        """Return the closure over plans; ``key`` is the result's; with ``number``, the second operand is a number."""
        if self.count <= 2 and not self.condition and len(self.converts) == self.count:
            return _of_one_or_two(self, key, number, next_path)
        roles: list[Role] = [Operand(x) if k < self.count else real_number(x) for k, x in enumerate(self.converts)]
        return planned(self.state, roles, lambda args, arrays: self._of_call(args, arrays, key), next_path)

    def _of_call(self, args: Sequence[Any], arrays: Sequence[Any], key: int) -> Plan | None:
        """Return the plan of a call; None for arrays of other dtypes, and if extra arguments are omitted."""
        bit, held = dtype_bit(self.compute), self.held
        tensors = [(x, k == 0 and self.condition) for k, x in enumerate(args) if hasattr(x, "_key")]
        for (x, is_condition), array in zip(tensors, arrays, strict=True):
            if not x._key & (_BOOL if is_condition else bit) or (array.dtype is not held and not is_condition):
                return None
        each = iter(arrays)
        return self.plan(arrays, key, operands=[next(each) if hasattr(x, "_key") else 0 for x in args])

    @property
    def held(self) -> Any:
        """The dtype of the operands' handles, which closures compare: another thread may exchange them at any time."""
        return self.compute.numpy if self.state.runtime.profile.host_resident else self.compute

    def plan(self, arrays: Sequence[Any], key: int, out: Any = None, operands: Sequence[Any] = ()) -> Plan | None:
        """Return the plan for the layouts of these handles; None if the next path serves them.

        Args:
            arrays: The operands that are arrays.
            key: The result's key.
            out: The handle that receives the result, instead of a new array; the launch takes it before the operands.
            operands: All operands, with any number in the place of each number; by default ``arrays``.
        """
        try:
            shape = broadcast_shapes(self.name[0], [x.shape for x in arrays])
        except ShapeError:
            return None
        if 0 in shape or max(x.size for x in arrays) <= self.least:
            return None
        results: tuple[Result, ...] = ()
        if out is None:
            out = empty_pointwise(self.state, shape, self.result, arrays)
            results = Result(shape, self.result, key, None if contiguous(out) else element_strides(out)),
        elif out.shape != shape or any(s == 0 and n > 1 for s, n in zip(element_strides(out), shape, strict=True)):
            return None
        typed = [(x, bool_ if self.condition and k == 0 else self.compute) for k, x in enumerate(operands or arrays)]
        name, build, geometry = prepared(self.state, self.name, self.formula, typed, shape, [(out, self.result)])
        return Plan(program(self.state, name, build, Strategy.SERIAL), tuple(geometry), results)

    def in_place(self, number: bool, next_path: Closure, bump: Callable[[Any], None]) -> Closure:
        """Return the closure for a target and another operand, which is an array or a ``number``.

        Operands in the target's block of memory go to the next path, and so do targets that NumPy must not write.
        """
        state, convert, least = self.state, self.converts[-1], self.least
        plans: BoundedCache[Any, Plan | None] = BoundedCache(PLANS)
        held = self.held

        def planned_in_place(target: Any, other: Any) -> Any:
            x, counter = target._array, target._version_counter
            if not (least < x.size and (counter is None or type(counter) is list)) or (
                    type(x) is np.ndarray and not x.flags.writeable) or x.dtype is not held:
                return next_path(target, other)
            y = None if number else other._array
            if y is not None and (not is_same_or_disjoint(x, y) or y.dtype is not held):
                return next_path(target, other)
            key = (x.shape, x.strides) if y is None else (x.shape, x.strides, y.shape, y.strides)
            plan = plans.get(key, plans)
            if plan is plans:
                plan = plans[key] = self.plan((x,), 0, x, (x, 0)) if y is None else self.plan((x, y), 0, x)
            if plan is None:
                return next_path(target, other)
            if y is None:
                plan.launch(state, (x, x), (convert(other),))  # type: ignore[union-attr]
            else:
                plan.launch(state, (x, x, y))  # type: ignore[union-attr]
            bump(target)
            return target

        return planned_in_place


def by_extras(count: int, extras: int, make: Callable[[tuple[Any, ...]], PointwisePlanner | None], key: int,
              number: bool, next_path: Closure) -> Closure:
    """Return a closure that picks the plans for the extra arguments other than numbers, which specialise kernels.

    Args:
        count: Number of operands.
        extras: Number of extra arguments.
        make: Makes the planner from extra arguments, with some float in the places of numbers.
        key: The result's key.
        number: Whether the second operand is a number.
        next_path: Serves calls without plans, with all their arguments.
    """
    closures: BoundedCache[tuple[Any, ...], Closure] = BoundedCache(PLANS)
    given = count + extras

    def planned_by_extras(*args: Any) -> Any:
        special = tuple([_ANY if type(x) in _REAL else x for x in args[count:]])
        if len(args) != given or any(type(x) not in _SPECIAL for x in special):
            return next_path(*args)
        found = closures.get(special)
        if found is None:
            planner = make(special)
            rest = _restored(special, count, next_path)
            found = closures[special] = rest if planner is None else planner.closure(key, number, rest)
        return found(*args[:count], *[x for x in args[count:] if type(x) in _REAL])

    return planned_by_extras


def _restored(special: tuple[Any, ...], count: int, next_path: Closure) -> Closure:
    """Return a closure that calls the next path with the special arguments between the numbers."""

    def run(*args: Any) -> Any:
        numbers = iter(args[count:])
        return next_path(*args[:count], *[next(numbers) if type(x) is float else x for x in special])

    return run


def _of_one_or_two(planner: PointwisePlanner, key: int, number: bool, next_path: Closure) -> Closure:
    """Return the closure for a tensor, a tensor and a number, or two tensors.

    One kernel serves contiguous arrays of all shapes; other layouts have a plan each.
    """
    state, result, convert, least = planner.state, planner.result, planner.converts[-1], planner.least
    two = planner.count == 2 and not number
    flat: Plan | None = None
    plans: BoundedCache[Any, Plan | None] = BoundedCache(PLANS)
    empty, on_host, held = state.runtime.empty, state.runtime.profile.host_resident, planner.held

    def planned_pointwise(a: Any, *rest: Any) -> Any:
        nonlocal flat
        x = a._array
        y = rest[0]._array if two else x
        size, shape = x.size, x.shape
        fits = least < size < MOST
        if x.dtype is not held or y.dtype is not held or not (fits or two):
            return next_path(a, *rest)
        scalars = (size, convert(rest[0])) if number else (size,)
        if not (fits and (y is x or y.shape == shape) and (
                x.flags.c_contiguous and (y is x or y.flags.c_contiguous) if on_host
                else contiguous(x) and (y is x or contiguous(y)))):
            arrays = (x, y) if two else (x,)
            layouts = (shape, x.strides, y.shape, y.strides) if two else (shape, x.strides)
            plan = plans.get(layouts, plans)
            if plan is plans:
                plan = plans[layouts] = planner.plan(arrays, key, None, (x, 0) if number else ())
            return next_path(a, *rest) if plan is None else plan.run(state, arrays, scalars[1:])  # type: ignore[union-attr]
        found = flat
        if found is None:
            found = flat = planner.plan((x, y) if two else (x,), key, None, (x, 0) if number else ())
        stream = state.stream
        out = empty(shape, result, stream)
        buffers = (out, x, y) if two else (out, x)
        if not on_host:
            note_use(buffers, stream)
        found.kernel(buffers, scalars, stream)  # type: ignore[union-attr]  # not None: size > least
        return wrap(out, key)

    return planned_pointwise


def is_same_or_disjoint(x: Any, y: Any) -> bool:
    """Whether two arrays are the same object, or have memory of different owners."""
    return x is y or owner_of(x) is not owner_of(y)
