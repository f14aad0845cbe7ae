"""Kernels as built-in functions, on devices that make them: the same program that serves large arrays, called directly.

An operator whose result does not depend on who computes it starts with NumPy and is promoted when it is called often;
compiling at once would cost more than most programs win. Functions that NumPy rounds differently are native from the
first call that is small enough for it, and what native entries do not serve is a generated kernel's: a result depends
neither on how often something was called before nor on sizes and strides.
``TENSOCKET_NATIVE=0`` turns all of this off: the Python paths, which are the reference for these entries, serve
everything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import Box, NativeForm, ProductForm
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.schedule import Strategy

from .. import tensors
from ..dispatch.keys import DIM0
from ..dispatch.registry import COMPOSITES
from .programs import note_failure, scheduled

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
    "bitwise_or", "bitwise_xor", "bitwise_not", "floor", "ceil", "trunc", "sign", "copysign", "signbit",
    "relu_backward"})
#: Those that NumPy computes as kernels do on complex numbers; its products use fused instructions.
_EXACT_COMPLEX: Final = frozenset({
    "add", "sub", "neg", "where", "eq", "ne", "logical_and", "logical_or", "logical_xor", "logical_not",
    "conj_physical"})
#: Slots of a new tensor that hold nothing.
_EMPTY: Final = ("_grad", "_grad_fn", "_version_counter", "_base")
_SERVED: Final = frozenset({
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64})


#: What entries of pointwise operators know: these only copy words, and leave elements to the kernel.
_POINTWISE: Final = _SERVED | {dtypes.float16, dtypes.bfloat16, dtypes.complex64, dtypes.complex128}

_LOCK: Final = held_over_forks(threading.RLock(), Rank.ENTRIES)
Build = Callable[[], tuple[Program, NativeForm]]


def native_closure(operator: Operator, entry: DeviceEntry, variant: tuple[Any, ...], key: int, kernel: Kernel,
                   build: Build, make: Callable[[Kernel], Callable[..., Any]], at_once: bool = False
                   ) -> Callable[..., Any]:
    """``make(kernel)``, a closure over tensors, or what does the same natively: at once, or after many calls.

    Args:
        operator: Whose closure it is; its table is cleared on promotion.
        entry: The device.
        variant: What tells this closure from others of the operator.
        key: Key of the result, without ``DIM0``.
        kernel: What the closure runs.
        build: Makes the unscheduled program and its form, without a box.
        make: Makes the closure, which also serves what does not fit the native form.
        at_once: Whether the first call is native, also of an operator that NumPy rounds alike.
    """
    if not ENABLED or entry.runtime.target is None:
        return make(kernel)
    place = (operator.name, *variant, key)
    known: Callable[..., Any] | None = entry.natives.get(place)
    if known is not None:
        return known

    slow = make(kernel)

    def boxed() -> tuple[Program, NativeForm]:
        program, form = build()
        # Of what NumPy does in several passes, or slowly, a kernel does more before threads are worth it.
        several = operator.kind in ("row", "reduction")
        limit = form.limit if several else min(form.limit, kernel.limit or form.limit)
        return program, replace(form, box=tensor_box(key), limit=limit)

    def promote(build: Build = boxed) -> Callable[..., Any]:
        made: Callable[..., Any] = _entry(entry, slow, build) or slow
        entry.natives[place] = made
        return made

    if at_once or operator.name.removesuffix("_") not in _EXACT:
        return _when_small(operator, entry, place, slow, boxed, promote)
    return make(Kernel(_counted(operator, entry, place, kernel.run, promote), True, kernel.limit))


def tensor_box(key: int) -> Box:
    """New tensors with a key, given without ``DIM0``."""
    return Box(tensors.Tensor, "_array", (("_key", key, key | DIM0), *((name, None, None) for name in _EMPTY)),
               "_version_counter")


def native_product(operator: str, entry: DeviceEntry, dtype: DType, key: int, slow: Callable[..., Any], *,
                   affine: bool = False) -> Callable[..., Any]:
    """``slow``, a closure over two matrices (``affine``: and a bias), or what does the same natively.

    Args:
        operator: Name of the operator whose closure it is.
        entry: The device.
        dtype: Of operands and result.
        key: The result's.
        slow: Serves what the native form does not.
        affine: See ``ProductForm``.
    """
    if not ENABLED or entry.runtime.target is None:
        return slow
    place = (operator, dtype, key)
    made: Callable[..., Any] | None = entry.natives.get(place)
    if made is None:
        try:
            made = entry.runtime.native_product(ProductForm(dtype, tensor_box(key), affine), slow) or slow
        except KernelError:  # the reference serves as well
            made = slow
        entry.natives[place] = made
    return made


def native_kernel(operator: Operator, entry: DeviceEntry, variant: tuple[Any, ...], kernel: Kernel, build: Build,
                  instead: Callable[[], Kernel]) -> Kernel:
    """The native form of ``kernel`` on arrays, made when it is called, for closures with arguments of their own.

    Args:
        operator: Whose kernel it is: one that is native from the start.
        entry: The device.
        variant: What tells this kernel from others of the operator.
        kernel: What runs where operands do not fit; it takes one array, and so does the native form.
        build: Makes the unscheduled program and its form, whose limit becomes the kernel's.
        instead: What serves where there is no native form.
    """
    place = (operator.name, *variant)
    known: Kernel | None = entry.natives.get(place)
    if known is not None:
        return known
    if not ENABLED or entry.runtime.target is None:
        known = entry.natives[place] = instead()
        return known
    program, form = build()
    run: Callable[..., Any] | None = None

    def first(x: Any) -> Any:
        nonlocal run
        if run is None:
            with _LOCK:  # so that what many threads ask for at once is made once
                made: Kernel | None = entry.natives.get(place)
                if made is None:
                    found = _entry(entry, kernel.run, lambda: (program, form))
                    made = entry.natives[place] = instead() if found is None else Kernel(found, True, form.limit)
                    _forget(operator)
            run = made.run
        return run(x)

    return Kernel(first, True, form.limit)


def exact(operator: str, compute: DType = dtypes.float32) -> bool:
    """Whether every correct implementation of an operator rounds alike."""
    return operator in (_EXACT_COMPLEX if compute.kind == "complex" else _EXACT)


def served(*kinds: DType, pointwise: bool = False) -> bool:
    """Whether native entries know these dtypes; those of pointwise operators know more."""
    return (_POINTWISE if pointwise else _SERVED).issuperset(kinds)


def _counted(operator: Operator, entry: DeviceEntry, place: tuple[Any, ...], run: Callable[..., Any],
             promote: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    left = _CALLS

    def counted(*args: Any) -> Any:
        nonlocal left
        left -= 1
        # Threads may count past zero together; later calls of a closure that is still held find the entry made.
        if left <= 0 and place not in entry.natives:
            promote()
            _forget(operator)
        return run(*args)

    return counted


def _when_small(operator: Operator, entry: DeviceEntry, place: tuple[Any, ...], slow: Callable[..., Any],
                build: Build, promote: Callable[[Build], Callable[..., Any]]) -> Callable[..., Any]:
    """``slow``, until a call comes that the native form would not leave to it."""
    built: tuple[Program, NativeForm] | None = None

    def first(*args: Any, **named: Any) -> Any:
        nonlocal built
        made = entry.natives.get(place)
        if made is None:
            if built is None:
                built = build()
            array = getattr(args[0], "_array", None) if args else None
            if array is not None and array.size > built[1].limit:
                return slow(*args, **named)
            known = built
            with _LOCK:
                made = entry.natives.get(place) or promote(lambda: known)
            _forget(operator)
        return made(*args, **named)

    return first


def _forget(operator: Operator) -> None:
    """Let an operator's closures be looked up again: a better one is known."""
    operator.table.clear()
    for item in list(COMPOSITES.values()):
        if item.direct is not None:  # may hold this operator's closure
            item.table.clear()


def _entry(entry: DeviceEntry, fallback: Callable[..., Any], build: Build) -> Callable[..., Any] | None:
    program, form = build()
    target = entry.runtime.target
    assert target is not None
    # Rows are short, but all of an array may be long.
    strategy = Strategy.GROUP if form.shape == "scalar" else Strategy.SMALL
    try:
        return entry.runtime.native_entry(scheduled(program, target, strategy), form, fallback)
    except KernelError as error:  # the reference serves as well
        note_failure(entry, program, error)
        return None
