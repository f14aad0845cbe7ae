"""Plans: the results and the launch that follow from the layouts of a call's operands.

A kind of operator makes plans from shapes, strides and dtypes alone (``LadderOperator.planned_path``); running one
allocates the results, launches the kernel and wraps the handles. ``planned`` returns the closure that caches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from tensocket_plugins.contract.backend import Executable
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import note_constant
from tensocket_plugins.kit.bounded import BoundedCache

from ..device import DeviceState
from ..geometry import Shape
from ..strides import empty_strided_array
from ..tensor import wrap
from .numbers import Convert
from .stream_use import note_use

Closure = Callable[..., Any]
#: Most plans of one closure, by the layouts of operands and the other arguments; a user's program needs few.
PLANS: Final = 256
_REAL: Final = (float, int)


class _Role(Enum):
    TENSOR = "a tensor, or None where it is optional"
    STATIC = "another argument, such as dimensions"


TENSOR: Final = _Role.TENSOR
STATIC: Final = _Role.STATIC


@dataclass(frozen=True, slots=True)
class Operand:
    """The role of a tensor, or a real number in its place, which ``convert`` converts for the kernel."""

    convert: Convert


#: The role of an argument. A function converts a number for the kernel, and refuses other arguments by a TypeError.
Role: TypeAlias = _Role | Operand | Convert


def real_number(convert: Convert) -> Convert:
    """Return the role of a Python float or int."""

    def checked(value: Any) -> Any:
        if type(value) not in _REAL:
            raise TypeError("a real number is wanted")
        return convert(value)

    return checked


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a plan.

    Attributes:
        shape: Shape that the kernel writes.
        dtype: Its dtype.
        key: Its key; ``DIM0`` is added.
        strides: Its strides in elements; None for row-major ones.
        view: Shape of the returned tensor, if it differs.
    """

    shape: Shape
    dtype: DType
    key: int
    strides: Shape | None = None
    view: Shape | None = None

    def make(self, state: DeviceState) -> Any:
        """Allocate a handle for it."""
        if self.strides is None:
            return state.runtime.empty(self.shape, self.dtype, state.stream)
        return empty_strided_array(state, self.shape, self.dtype, self.strides)


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch.

    Attributes:
        kernel: The compiled program; its buffers are the results, then the operands.
        scalars: Its scalars, before the numbers of a call.
        results: Its results; empty for a plan that writes to given handles.
        constants: Handles of tables that follow from the layouts; the last buffers of the program.
    """

    kernel: Executable
    scalars: tuple[int | float, ...]
    results: tuple[Result, ...] = ()
    constants: tuple[Any, ...] = ()

    def launch(self, state: DeviceState, buffers: Sequence[Any], numbers: Sequence[int | float] = ()) -> None:
        """Launch on the handles of results and operands, which have the planned layouts."""
        stream = state.stream
        if self.constants:
            buffers = (*buffers, *self.constants)
            for table in self.constants:
                note_constant(table)
        if not state.runtime.profile.host_resident:
            note_use(buffers, stream)
        self.kernel(buffers, (*self.scalars, *numbers) if numbers else self.scalars, stream)

    def run(self, state: DeviceState, arrays: Sequence[Any], numbers: tuple[int | float, ...] = ()) -> Any:
        """Make the results, launch, and return the result as a tensor, or several results as a tuple."""
        results = self.results
        if len(results) == 1:
            (result,) = results
            made = result.make(state)
            self.launch(state, (made, *arrays), numbers)
            return wrap(made if result.view is None else made.reshape(result.view), result.key)
        outs = [result.make(state) for result in results]
        self.launch(state, (*outs, *arrays), numbers)
        return tuple([wrap(out if x.view is None else out.reshape(x.view), x.key)
                      for out, x in zip(outs, results, strict=True)])


#: Plans of launches on given handles, by device, name and layouts.
_LAUNCHES: Final[BoundedCache[tuple[Any, ...], Plan]] = BoundedCache(1024)


def launch_planned(state: DeviceState, name: tuple[Any, ...], buffers: Sequence[Any], plan: Callable[[], Plan],
                   numbers: Sequence[int | float] = ()) -> None:
    """Launch on given handles of results and operands, by a plan that is made once for their layouts.

    Args:
        state: The device.
        name: Everything that the plan depends on, except the layouts.
        buffers: The handles.
        plan: Makes the plan.
        numbers: The numbers of this call.
    """
    key = (state.key, name, *[(x.shape, x.strides) for x in buffers])
    found = _LAUNCHES.get(key)
    if found is None:
        found = _LAUNCHES[key] = plan()
    found.launch(state, buffers, numbers)


def planned(state: DeviceState, roles: Sequence[Role], plan: Callable[..., Plan | None], next_path: Closure) -> Closure:
    """Return a closure that runs the plan for the layouts and other arguments of a call.

    Args:
        state: The device.
        roles: Roles of the arguments by position; a call may omit the last ones.
        plan: ``plan(args, arrays)`` makes the plan from the arguments and the handles of the tensors among them; it
            returns None for calls that the next path serves.
        next_path: Serves these calls, and calls with arguments of unexpected types.
    """
    plans: BoundedCache[tuple[Any, ...], Plan | None] = BoundedCache(PLANS)

    def run_planned(*args: Any) -> Any:
        arrays: list[Any] = []
        numbers: list[Any] = []
        layouts: list[Any] = []
        try:
            for x, role in zip(args, roles, strict=False):
                if role is STATIC:
                    layouts += (type(x), tuple(x) if type(x) is list else x)
                elif role is not TENSOR and type(role) is not Operand:
                    numbers.append(role(x))  # type: ignore[operator]
                    layouts.append(_REAL)
                elif type(role) is Operand and type(x) in _REAL:
                    numbers.append(role.convert(x))
                    layouts.append(_REAL)
                elif x is None and role is TENSOR:
                    layouts.append(None)
                else:
                    array = x._array
                    arrays.append(array)
                    layouts += (x._key, array.dtype, array.shape, array.strides)
            key = tuple(layouts)
            found = plans.get(key, STATIC)
        except (AttributeError, TypeError):  # an argument that is neither a tensor nor a number, or a list
            return next_path(*args)
        if found is STATIC:
            found = plans[key] = plan(args, arrays)
        return next_path(*args) if found is None else found.run(state, arrays, tuple(numbers))  # type: ignore[union-attr]

    return run_planned
