"""Kernels as built-in functions, on devices that make them: the same program that serves large arrays, called directly.

An operator whose result does not depend on who computes it starts with NumPy and is promoted when it is called often;
compiling at once would cost more than most programs win. Functions that NumPy rounds differently are native from the
start, so that a result never depends on how often something was called before. ``TENSOCKET_NATIVE=0`` turns all of
this off; results then are the reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import NativeForm
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.schedule import Strategy

from ..dispatch.registry import COMPOSITES
from .programs import scheduled

if TYPE_CHECKING:
    from ..device import DeviceEntry
    from ..dispatch.operator import Operator

ENABLED: Final = os.environ.get("TENSOCKET_NATIVE", "1") not in ("", "0")
#: Calls after which compiling has paid for itself within a factor of two, at about 0.15 microseconds a call.
_CALLS: Final = 8192
#: Operators that every correct implementation rounds alike.
_EXACT: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "maximum", "minimum", "relu", "sqrt", "square", "reciprocal", "where",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_not", "floor", "ceil", "trunc", "sign"})
_SERVED: Final = frozenset({
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64})


def native_kernel(operator: Operator, entry: DeviceEntry, variant: tuple[Any, ...], kernel: Kernel,
                  build: Callable[[], tuple[Program, NativeForm]]) -> Kernel:
    """``kernel``, or its native form: at once, or after many calls.

    Args:
        operator: Whose kernel it is; its table is cleared on promotion.
        entry: The device.
        variant: What tells this kernel from others of the operator.
        kernel: What runs otherwise, and where operands do not fit.
        build: Makes the unscheduled program and its form.
    """
    if not ENABLED or entry.runtime.target is None:
        return kernel
    key = (operator.name, *variant)
    known: Kernel | None = entry.natives.get(key)
    if known is not None:
        return known
    if operator.name in _EXACT:
        return Kernel(_counted(operator, entry, key, kernel, build), True, kernel.limit)
    return _promote(entry, key, kernel, build)


def served(*kinds: DType) -> bool:
    """Whether native entries know these dtypes."""
    return _SERVED.issuperset(kinds)


def _counted(operator: Operator, entry: DeviceEntry, key: tuple[Any, ...], kernel: Kernel,
             build: Callable[[], tuple[Program, NativeForm]]) -> Callable[..., Any]:
    left, run = _CALLS, kernel.run

    def counted(*args: Any) -> Any:
        nonlocal left, run
        left -= 1
        # Threads may count past zero together; later calls of a closure that is still held find the entry made.
        if left <= 0 and key not in entry.natives:
            run = _promote(entry, key, kernel, build).run
            operator.table.clear()
            for item in list(COMPOSITES.values()):
                if item.direct is not None:  # may hold this operator's closure
                    item.table.clear()
        return run(*args)

    return counted


def _promote(entry: DeviceEntry, key: tuple[Any, ...], kernel: Kernel,
             build: Callable[[], tuple[Program, NativeForm]]) -> Kernel:
    program, form = build()
    target = entry.runtime.target
    assert target is not None
    try:
        made = entry.runtime.native_entry(scheduled(program, target, Strategy.SERIAL), form, kernel.run)
    except KernelError:  # the reference serves as well
        made = None
    result = entry.natives[key] = kernel if made is None else Kernel(made, True, kernel.limit)
    return result
