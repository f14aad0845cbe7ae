"""Entries: kernels as built-in functions, on devices that compile them from the program that serves large arrays.

An operator that NumPy and kernels round alike starts with NumPy and gets its entry when it is called often; compiling
at once would cost more than most programs win. Functions that NumPy rounds differently have their entry from the first
call that is small enough for it, and a generated kernel serves all other calls: a result depends neither on how often
something was called before nor on sizes and strides.
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
from tensocket_plugins.contract.plans import EntryPlan, ProductPlan, WrapperLayout
from tensocket_plugins.ir.schedule import Strategy

from ..dispatch.registry import COMPOSITES
from ..keys import DEVICE_MASK, DIM0, DTYPE_MASK
from ..tensor import Tensor
from .programs import note_failure, scheduled

if TYPE_CHECKING:
    from ..device import DeviceState
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
Closure = Callable[..., Any]
Build = Callable[[], EntryPlan]


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """What the entry of an operator is compiled from.

    Attributes:
        variant: Tells it from other entries of the operator with the same result.
        result_key: Key of the result, without ``DIM0``.
        build: Makes the plan, with an unscheduled program and without a wrapper.
        limit: Elements up to which it serves, where that is less than the plan's limit.
        counted: Whether it is compiled after many calls only: the next path computes the same bits.
    """

    variant: tuple[Any, ...]
    result_key: int
    build: Build
    limit: int | None = None
    counted: bool = False


def build_entry(operator: Operator, key: int, state: DeviceState, spec: EntrySpec, next_path: Closure
                ) -> Closure | None:
    """Return the entry of a spec if it is there, or a closure that compiles it in time; None without entries.

    Args:
        operator: Whose entry it is.
        key: The dispatch key whose closure it becomes.
        state: The device.
        spec: What it is compiled from.
        next_path: Serves the calls that do not fit.
    """
    if not ENABLED or state.runtime.target is None:
        return None
    name = (operator.name, *spec.variant, spec.result_key)
    known: Closure | None = state.native_entries.get(name)
    if known is not None:
        return known

    def wrapped() -> EntryPlan:
        plan = spec.build()
        return replace(plan, wrapper=wrapper_layout(spec.result_key), limit=min(plan.limit, spec.limit or plan.limit))

    def specialise(build: Build) -> Closure:
        made: Closure = _made_once(state, name, lambda: _compiled(state, build(), next_path) or next_path)
        return made

    if spec.counted:
        return _counted(operator, key, next_path, lambda: specialise(wrapped))
    return _when_small(operator, key, next_path, wrapped, specialise)


def wrapper_layout(key: int) -> WrapperLayout:
    """Return the layout of new tensors with a key, given without ``DIM0``."""
    return WrapperLayout(Tensor, "_array", (("_key", key, key | DIM0), *((name, None, None) for name in _EMPTY)),
                         "_version_counter")


def build_product(operator: str, state: DeviceState, dtype: DType, key: int, next_path: Closure, *,
                  affine: bool = False) -> Closure:
    """Return an entry for small products of two matrices (``affine``: and a bias), or ``next_path`` without one.

    Args:
        operator: Name of the operator whose closure it is.
        state: The device.
        dtype: Dtype of operands and result.
        key: The result's key.
        next_path: Serves the calls that do not fit.
        affine: See ``ProductPlan``.
    """
    if not ENABLED or state.runtime.target is None:
        return next_path

    def compile_product() -> Closure:
        plan = ProductPlan(dtype, wrapper_layout(key), affine)
        try:
            return state.runtime.compile_plan(plan, next_path) or next_path
        except KernelError:  # the reference serves as well
            return next_path

    made: Closure = _made_once(state, (operator, dtype, key), compile_product)
    return made


class ArrayEntry:
    """An entry on one array, for host paths with arguments of their own; compiled in its first call.

    Attributes:
        run: The function at present; those who hold it say so with ``follow``.
        limit: Elements up to which it serves.
    """

    def __init__(self, run: Closure, limit: int | None) -> None:
        self.run = run
        self.limit = limit
        self._followers: list[Callable[[Closure], None]] = []

    def follow(self, use: Callable[[Closure], None]) -> None:
        """Call ``use`` with the function now, and again when a better one is there."""
        use(self.run)
        self._followers.append(use)

    def become(self, run: Closure) -> None:
        """Put a better function in the place of this one."""
        self.run = run
        for use in self._followers:
            use(run)
        self._followers.clear()


def array_entry(operator: Operator, state: DeviceState, variant: tuple[Any, ...], kernel: Kernel, build: Build,
                without: Callable[[], Kernel]) -> ArrayEntry:
    """Return the entry on arrays of an operator that has its entry from the first call on.

    Args:
        operator: Whose kernel it is.
        state: The device.
        variant: Tells this kernel from others of the operator.
        kernel: ``kernel(x)``; serves the calls that do not fit.
        build: Makes the plan, with an unscheduled program; its limit becomes the entry's.
        without: Makes the kernel that serves where there is no entry.
    """
    name = (operator.name, *variant)
    known: Kernel | None = state.native_entries.get(name)
    if known is None and (not ENABLED or state.runtime.target is None):
        known = state.native_entries[name] = without()
    if known is not None:
        return ArrayEntry(known.run, known.limit)
    plan = build()

    def compile_kernel() -> Kernel:
        found = _compiled(state, plan, kernel.run)
        return without() if found is None else Kernel(found, True, plan.limit)

    def first(x: Any) -> Any:
        if made.run is first:
            made.become(_made_once(state, name, compile_kernel).run)
        return made.run(x)

    made = ArrayEntry(first, plan.limit)
    return made


def _made_once(state: DeviceState, name: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the compiled function called ``name``; threads that need it at once make it once."""
    found = state.native_entries.get(name)
    if found is None:
        with _LOCK:
            found = state.native_entries.get(name)
            if found is None:
                found = state.native_entries[name] = make()
    return found


def exact(operator: str, compute: DType = dtypes.float32) -> bool:
    """Whether every correct implementation of an operator rounds alike."""
    return operator in (_EXACT_COMPLEX if compute.kind == "complex" else _EXACT)


def served(*kinds: DType, pointwise: bool = False) -> bool:
    """Whether native entries know these dtypes; those of pointwise operators know more."""
    return (_POINTWISE if pointwise else _SERVED).issuperset(kinds)


def _counted(operator: Operator, key: int, next_path: Closure, specialise: Callable[[], Closure]) -> Closure:
    """Return ``next_path``, until it was called often enough for the entry to pay."""
    left, run = _CALLS, next_path

    def counted(*args: Any) -> Any:
        nonlocal left, run
        left -= 1
        if left == 0:
            run = specialise()
            _replace(operator, key, counted, run)
        return run(*args)

    return counted


def _when_small(operator: Operator, key: int, next_path: Closure, build: Build,
                specialise: Callable[[Build], Closure]) -> Closure:
    """Return ``next_path``, until a call comes that the entry would serve."""
    plan: EntryPlan | None = None
    run: Closure | None = None

    def when_small(*args: Any, **named: Any) -> Any:
        nonlocal plan, run
        if run is None:
            known = plan = plan or build()
            array = getattr(args[0], "_array", None) if args else None
            if array is not None and array.size > known.limit:
                return next_path(*args, **named)
            run = specialise(lambda: known)
            _replace(operator, key, when_small, run)
        return run(*args, **named)

    return when_small


def _replace(operator: Operator, key: int, closure: Closure, better: Closure) -> None:
    """Put a better closure in the place of another one; closures of layers above that hold it are built anew."""
    for item in (operator, *[composite for composite in list(COMPOSITES.values()) if composite.host_path is not None]):
        table = item.table
        for place, known in list(table.items()):
            if known is closure:
                table[place] = better
            elif place != key and place & _OF_DEVICE == key & _OF_DEVICE:
                table.pop(place, None)


def _compiled(state: DeviceState, plan: EntryPlan, next_path: Closure) -> Closure | None:
    target = state.runtime.target
    assert target is not None
    # Rows are short, but all of an array may be long.
    strategy = Strategy.GROUP if plan.shape == "scalar" else Strategy.SMALL
    try:
        return state.runtime.compile_plan(replace(plan, program=scheduled(plan.program, target, strategy)), next_path)
    except KernelError as error:  # the reference serves as well
        note_failure(state, plan.program, error)
        return None
