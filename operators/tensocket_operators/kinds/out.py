"""``out=`` of pointwise operators on large arrays: the kernel writes directly to ``out``."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import contiguous, dense_overlaps
from tensocket_core.keys import AUTOGRAD, DIM0, LAZY, SCALAR, SCALAR_MASK, WRAPPER
from tensocket_core.launch.stream_use import note_use
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.backend import Executable

from .pointwise import Pointwise
from .pointwise_planner import MOST, PointwisePlanner

#: Elements from which a second pass over them costs more than the test whether it is needed.
_LARGE: Final = 4096
_PARTS: Final = AUTOGRAD | LAZY | WRAPPER
#: Planner and kernel by operator and key of a call; keys are few. None if the call has no simple form.
_FOUND: Final[dict[tuple[str, int], tuple[PointwisePlanner, Executable] | None]] = {}


def written(operator: Operator, out: Any, *operands: Any) -> bool:
    """Compute directly into ``out``, if all arrays are large, contiguous and of its shape, and disjoint or identical.

    Args:
        operator: A pointwise operator with one or two operands.
        out: The tensor or tensors to write.
        operands: Tensors; the last one may be a number.

    Returns:
        Whether the result was computed.
    """
    if type(out) is not Tensor or ACTIVE or out._key & _PARTS or not _LARGE <= out._array.size < MOST:
        return False
    target, state = out._array, out._device_state
    arrays: list[Any] = []
    key = 0
    for value in operands:
        if type(value) in (int, float) and arrays:
            key |= SCALAR[type(value)]
            continue
        array = getattr(value, "_array", None)
        if array is None or value._key & _PARTS or value._device_state is not state or array.shape != target.shape:
            return False
        if not contiguous(array) or (array is not target and dense_overlaps(array, target)):
            return False
        arrays.append(array)
        key |= value._key
    if not contiguous(target) or (found := _planner(operator, key & ~DIM0, state, arrays)) is None:
        return False
    planner, run = found
    if planner.result is not out.dtype:
        return False
    check_writable(operator.name, out)
    numbers = (planner.converts[-1](operands[-1]),) if key & SCALAR_MASK else ()
    stream = state.stream
    note_use((*arrays, target), stream)
    run((target, *arrays), (target.size, *numbers), stream)
    bump(out)
    return True


def _planner(operator: Operator, key: int, state: DeviceState, arrays: list[Any]
             ) -> tuple[PointwisePlanner, Executable] | None:
    name = operator.name, key
    if name not in _FOUND:
        planner = operator.planner(operator.signature(key, state)) if isinstance(operator, Pointwise) else None
        operands = (*arrays, 0) if key & SCALAR_MASK else arrays
        plan = None if planner is None else planner.plan(arrays, 0, operands=operands)
        _FOUND[name] = None if planner is None or plan is None else (planner, plan.kernel)
    return _FOUND[name]
