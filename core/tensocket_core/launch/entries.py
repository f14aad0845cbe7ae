"""Entries: kernels as built-in functions, on devices that compile them from the program that serves large arrays.

If NumPy and kernels round an operator alike, it starts with NumPy and gets its entry once it is called often; compiling
at once would cost more than most programs gain. If NumPy rounds differently, the operator gets its entry at the first
call that is small enough, and a generated kernel serves all other calls: a result depends neither on the number of
earlier calls nor on sizes and strides.
``TENSOCKET_NATIVE=0`` turns entries off: the Python paths, which are their reference, serve all calls.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensocket_plugins.contract import dtypes, plans
from tensocket_plugins.contract.drafts import is_drafting
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.ir.strategies import Strategy

from ..dispatch.registry import COMPOSITES
from ..keys import DEVICE_MASK, DIM0, DTYPE_MASK
from ..tensor import Tensor
from .programs import note_failure

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import EntryPlan, Plan, WrapperLayout

    from ..device import DeviceState
    from ..dispatch.operator import Operator

ENABLED: Final = os.environ.get("TENSOCKET_NATIVE", "1") not in ("", "0")
#: Calls after which reading the machine code from disk, 2 ms, has paid for itself within a factor of two, at about one
#: microsecond a call. Making it takes 40 ms, once on each machine.
_CALLS: Final = 1024
#: The elements from which a pointwise call counts as several: its launch in Python takes longer.
_LARGE: Final = 1 << 14
_LARGE_CALLS: Final = 8
#: Operators whose rounding is the same in every correct implementation.
_EXACT: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "maximum", "minimum", "relu", "sqrt", "square", "reciprocal", "where",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_not", "floor", "ceil", "trunc", "sign", "copysign", "signbit",
    "relu_backward"})
#: Operators that NumPy computes as kernels do on complex numbers; NumPy's products use fused instructions.
_EXACT_COMPLEX: Final = frozenset({
    "add", "sub", "neg", "where", "eq", "ne", "logical_and", "logical_or", "logical_xor", "logical_not",
    "conj_physical"})
#: Slots of a new tensor that are None.
_EMPTY: Final = ("_grad", "_grad_fn", "_version_counter", "_base")
_SERVED: Final = frozenset({
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64})
#: Dtypes that entries of pointwise operators serve: the entries only copy words, and the kernel computes elements.
_POINTWISE: Final = _SERVED | {dtypes.float16, dtypes.bfloat16, dtypes.complex64, dtypes.complex128}

_OF_DEVICE: Final = DEVICE_MASK | DTYPE_MASK
_LOCK: Final = held_over_forks(threading.RLock(), Rank.ENTRIES)
Closure = Callable[..., Any]
Build: TypeAlias = "Callable[[], EntryPlan]"


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """The description from which an operator's entry is compiled.

    Attributes:
        variant: Distinguishes it from other entries of the operator with the same result.
        result_key: Key of the result, without ``DIM0``.
        build: Makes the plan, with an unscheduled program and without a wrapper.
        limit: Elements up to which it serves calls, if that is less than the plan's limit.
        counted: Whether it is compiled only after many calls: the next path computes the same bits.
    """

    variant: tuple[Any, ...]
    result_key: int
    build: Build
    limit: int | None = None
    counted: bool = False


def build_entry(operator: Operator, key: int, state: DeviceState, spec: EntrySpec, next_path: Closure
                ) -> Closure | None:
    """Return the entry of a spec if it is compiled, or a closure that compiles it later; None without entries.

    Args:
        operator: The entry's operator.
        key: The dispatch key whose closure it becomes.
        state: The device.
        spec: The description from which it is compiled.
        next_path: Serves the calls that the entry declines.
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
        return counted(operator, key, next_path, lambda: specialise(wrapped), _CALLS, _LARGE_CALLS)
    return _when_small(operator, key, next_path, wrapped, specialise)


def wrapper_layout(key: int) -> WrapperLayout:
    """Return the layout of new tensors with this key, which is given without ``DIM0``."""
    return plans.WrapperLayout(Tensor, "_array", (("_key", key, key | DIM0), *((name, None, None) for name in _EMPTY)),
                         "_version_counter")


def build_product(operator: str, state: DeviceState, dtype: DType, key: int, next_path: Closure, *,
                  affine: bool = False, ranks: tuple[int, int] = (2, 2)) -> Closure:
    """Return an entry for small products of matrices or vectors, or ``next_path`` without one.

    Args:
        operator: Name of the operator whose closure it is.
        state: The device.
        dtype: Dtype of operands and result.
        key: The result's key.
        next_path: Serves the calls that the entry declines.
        affine, ranks: See ``ProductPlan``.
    """
    if not ENABLED or state.runtime.target is None:
        return next_path
    plan = plans.ProductPlan(dtype, wrapper_layout(key), affine, ranks)
    made: Closure = _made_once(state, (operator, dtype, key, ranks), lambda: compiled_or(state, plan, next_path))
    return made


def build_join(operator: Operator, key: int, state: DeviceState, dtype: DType, next_path: Closure, *,
               new_dim: bool = False) -> Closure | None:
    """Return an entry that joins small arrays, or a closure that compiles it after many calls; None without entries.

    Args:
        operator: The operator whose closure it is.
        key: The dispatch key whose closure it becomes.
        state: The device.
        dtype: Dtype of operands and result.
        next_path: Serves the calls that the entry declines.
        new_dim: See ``JoinPlan``.
    """
    if not ENABLED or state.runtime.target is None:
        return None
    plan = plans.JoinPlan(dtype, wrapper_layout(key & ~DIM0), new_dim)
    name = (operator.name, plan.dtype, key & ~DIM0)
    known: Closure | None = state.native_entries.get(name)
    return known or counted(operator, key, next_path,
                            lambda: _made_once(state, name, lambda: compiled_or(state, plan, next_path)), _CALLS)


class ArrayEntry:
    """An entry on one array, for host paths that handle their other arguments themselves; compiled in its first call.

    Attributes:
        run: The current function; a closure that holds it registers with ``follow``.
        limit: Elements up to which it serves calls.
    """

    def __init__(self, run: Closure, limit: int | None) -> None:
        self.run = run
        self.limit = limit
        self._followers: list[Callable[[Closure], None]] = []

    def follow(self, use: Callable[[Closure], None]) -> None:
        """Call ``use`` with the current function, and again when a better one replaces it."""
        use(self.run)
        self._followers.append(use)

    def become(self, run: Closure) -> None:
        """Replace this function by a better one."""
        self.run = run
        for use in self._followers:
            use(run)
        self._followers.clear()


def array_entry(operator: Operator, state: DeviceState, variant: tuple[Any, ...], kernel: Kernel, build: Build,
                without: Callable[[], Kernel]) -> ArrayEntry:
    """Return the entry on arrays of an operator that gets its entry at the first call.

    Args:
        operator: The kernel's operator.
        state: The device.
        variant: Distinguishes this kernel from others of the operator.
        kernel: ``kernel(x)``; serves the calls that the entry declines.
        build: Makes the plan, with an unscheduled program; its limit becomes the entry's.
        without: Makes the kernel that serves all calls if there is no entry.
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
    """Return the compiled function called ``name``; it is made once, even if several threads need it at once."""
    found = state.native_entries.get(name)
    if found is None:
        with _LOCK:
            found = state.native_entries.get(name)
            if found is None:
                found = state.native_entries[name] = make()
    return found


def exact(operator: str, compute: DType = dtypes.float32) -> bool:
    """Whether every correct implementation of an operator rounds its results alike."""
    return operator in (_EXACT_COMPLEX if compute.kind == "complex" else _EXACT)


def served(*kinds: DType, pointwise: bool = False) -> bool:
    """Whether native entries serve these dtypes; entries of pointwise operators serve more."""
    return (_POINTWISE if pointwise else _SERVED).issuperset(kinds)


def counted(operator: Operator, key: int, next_path: Closure, specialise: Callable[[], Closure], calls: int,
            large: int = 1) -> Closure:
    """Return a closure that runs ``next_path``, and after a number of calls what ``specialise`` makes.

    One on many elements counts as ``large`` calls.
    """
    left, run = calls, next_path

    def run_counted(*args: Any, **named: Any) -> Any:
        nonlocal left, run
        array = getattr(args[0], "_array", None) if args else None
        step = 1 if array is None or array.size < _LARGE else large
        left -= step
        if -step < left <= 0:
            run = specialise()
            _replace(operator, key, run_counted, run)
        return run(*args, **named)

    return run_counted


def _when_small(operator: Operator, key: int, next_path: Closure, build: Build,
                specialise: Callable[[Build], Closure]) -> Closure:
    """Return a closure that runs ``next_path`` until the first call that the entry can serve."""
    plan: EntryPlan | None = None
    run: Closure | None = None

    def when_small(*args: Any, **named: Any) -> Any:
        nonlocal plan, run
        if run is None:
            known = plan = plan or build()
            array = getattr(args[0], "_array", None) if args else None
            # A recorded run hardly calls the operator again.
            if (array is not None and array.size > known.limit) or is_drafting():
                return next_path(*args, **named)
            run = specialise(lambda: known)
            _replace(operator, key, when_small, run)
        return run(*args, **named)

    return when_small


def _replace(operator: Operator, key: int, closure: Closure, better: Closure) -> None:
    """Replace a closure by a better one, and drop the closures of layers above that hold it; they are rebuilt."""
    for item in (operator, *[composite for composite in list(COMPOSITES.values()) if composite.host_path is not None]):
        table = item.table
        for place, known in list(table.items()):
            if known is closure:
                table[place] = better
            elif place != key and place & _OF_DEVICE == key & _OF_DEVICE:
                table.pop(place, None)


def compiled_or(state: DeviceState, plan: Plan, next_path: Closure) -> Closure:
    """Return the function of a plan; ``next_path``, the reference, if the device cannot compile it."""
    try:
        return state.runtime.compile_plan(plan, next_path) or next_path
    except KernelError:
        return next_path


def _compiled(state: DeviceState, plan: EntryPlan, next_path: Closure) -> Closure | None:
    from tensocket_plugins.ir.pipeline import scheduled

    target = state.runtime.target
    assert target is not None
    # Rows are short, but a whole array may be long.
    strategy = Strategy.GROUP if plan.shape == "scalar" else Strategy.SMALL
    try:
        return state.runtime.compile_plan(replace(plan, program=scheduled(plan.program, target, strategy)), next_path)
    except KernelError as error:  # the next path is the reference and computes the same
        note_failure(state, plan.program, error)
        return None
