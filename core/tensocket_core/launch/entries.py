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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import Box, NativeForm, ProductForm
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.schedule import Strategy

from ..dispatch.registry import COMPOSITES
from ..keys import DEVICE_MASK, DIM0, DTYPE_MASK
from ..tensor import Tensor
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

_OF_DEVICE: Final = DEVICE_MASK | DTYPE_MASK
_LOCK: Final = held_over_forks(threading.RLock(), Rank.ENTRIES)
Build = Callable[[], tuple[Program, NativeForm]]


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """What the entry of an operator is compiled from.

    Attributes:
        variant: Tells it from other entries of the operator with the same result.
        result_key: Key of the result, without ``DIM0``.
        build: Makes the unscheduled program and its form, without a box.
        limit: Elements up to which it serves, where that is less than the form's.
        counted: Whether it is compiled after many calls only: what runs till then computes the same bits.
    """

    variant: tuple[Any, ...]
    result_key: int
    build: Build
    limit: int | None = None
    counted: bool = False


def build_entry(operator: Operator, key: int, entry: DeviceEntry, spec: EntrySpec,
                next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """The entry of a spec if it is there, or what compiles it in time; None where entries are not made.

    Args:
        operator: Whose entry it is.
        key: The dispatch key whose closure it becomes.
        entry: The device.
        spec: What it is compiled from.
        next_path: Serves what does not fit its form.
    """
    if not ENABLED or entry.runtime.target is None:
        return None
    place = (operator.name, *spec.variant, spec.result_key)
    known: Callable[..., Any] | None = entry.natives.get(place)
    if known is not None:
        return known

    def boxed() -> tuple[Program, NativeForm]:
        program, form = spec.build()
        return program, replace(form, box=tensor_box(spec.result_key), limit=min(form.limit, spec.limit or form.limit))

    def promote(build: Build) -> Callable[..., Any]:
        with _LOCK:  # so that what many threads ask for at once is made once
            made: Callable[..., Any] = entry.natives.get(place) or _compiled(entry, next_path, build) or next_path
            entry.natives[place] = made
        return made

    if spec.counted:
        return _counted(operator, key, next_path, lambda: promote(boxed))
    return _when_small(operator, key, next_path, boxed, promote)


def tensor_box(key: int) -> Box:
    """New tensors with a key, given without ``DIM0``."""
    return Box(Tensor, "_array", (("_key", key, key | DIM0), *((name, None, None) for name in _EMPTY)),
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


def native_kernel(operator: Operator, key: int, entry: DeviceEntry, variant: tuple[Any, ...], kernel: Kernel,
                  build: Build, instead: Callable[[], Kernel]) -> Kernel:
    """The native form of ``kernel`` on arrays, made when it is called, for closures with arguments of their own.

    Args:
        operator: Whose kernel it is: one that is native from the start.
        key: The dispatch key of the closures that use it.
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
                    found = _compiled(entry, kernel.run, lambda: (program, form))
                    made = entry.natives[place] = instead() if found is None else Kernel(found, True, form.limit)
                    _forget(operator, key)
            run = made.run
        return run(x)

    return Kernel(first, True, form.limit)


def exact(operator: str, compute: DType = dtypes.float32) -> bool:
    """Whether every correct implementation of an operator rounds alike."""
    return operator in (_EXACT_COMPLEX if compute.kind == "complex" else _EXACT)


def served(*kinds: DType, pointwise: bool = False) -> bool:
    """Whether native entries know these dtypes; those of pointwise operators know more."""
    return (_POINTWISE if pointwise else _SERVED).issuperset(kinds)


def _counted(operator: Operator, key: int, next_path: Callable[..., Any],
             promote: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """``next_path``, until it was called often enough for the entry to pay."""
    left, run = _CALLS, next_path

    def counted(*args: Any) -> Any:
        nonlocal left, run
        left -= 1
        if left == 0:
            run = promote()
            _replace(operator, key, counted, run)
        return run(*args)

    return counted


def _when_small(operator: Operator, key: int, next_path: Callable[..., Any], build: Build,
                promote: Callable[[Build], Callable[..., Any]]) -> Callable[..., Any]:
    """``next_path``, until a call comes that the entry would serve."""
    built: tuple[Program, NativeForm] | None = None
    run: Callable[..., Any] | None = None

    def when_small(*args: Any, **named: Any) -> Any:
        nonlocal built, run
        if run is None:
            if built is None:
                built = build()
            known = built
            array = getattr(args[0], "_array", None) if args else None
            if array is not None and array.size > known[1].limit:
                return next_path(*args, **named)
            run = promote(lambda: known)
            _replace(operator, key, when_small, run)
        return run(*args, **named)

    return when_small


def _replace(operator: Operator, key: int, closure: Callable[..., Any], better: Callable[..., Any]) -> None:
    """Put a better closure in the place of another one; those of layers above that hold it are looked up again."""
    for item in (operator, *[composite for composite in list(COMPOSITES.values()) if composite.direct is not None]):
        table = item.table
        for place, known in list(table.items()):
            if known is closure:
                table[place] = better
            elif place != key and place & _OF_DEVICE == key & _OF_DEVICE:
                table.pop(place, None)


def _forget(operator: Operator, key: int) -> None:
    """Let closures for a device and dtypes be looked up again: what they hold has become better."""
    for item in (operator, *[composite for composite in list(COMPOSITES.values()) if composite.direct is not None]):
        for place in list(item.table):
            if place & _OF_DEVICE == key & _OF_DEVICE:
                item.table.pop(place, None)


def _compiled(entry: DeviceEntry, fallback: Callable[..., Any], build: Build) -> Callable[..., Any] | None:
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
