"""Pointwise operators: a scalar formula, and every path that runs it.

In order of preference: a direct kernel (host-resident devices, small arrays), a registered kernel, a kernel generated
from the formula, the formula evaluated primitive by primitive.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tensocket_core.device import DeviceState, state_of_key
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.keys import (
    DEVICE_MASK,
    DIM0,
    DTYPE_MASK,
    DTYPE_OF,
    SCALAR,
    SCALAR_LEFT,
    SCALAR_MASK,
    SCALAR_SHIFT,
    dtype_bit,
)
from tensocket_core.launch import entries, host_kernels
from tensocket_core.launch.entries import EntrySpec
from tensocket_core.launch.host_convert import to_dtype
from tensocket_core.launch.numbers import NUMBER_TYPES, Convert, check_range, converter, plain_number
from tensocket_core.launch.path import LadderOperator, Signature
from tensocket_core.launch.pointwise_plan import run_generated
from tensocket_core.launch.primitives import run_formula
from tensocket_core.promotion import FLOAT8, number_dtype, result_type
from tensocket_core.strides import empty_pointwise
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes, plans
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError, UndefinedDtype
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.launch_recorder import wants_kernels
from tensocket_plugins.contract.primitives import PRIMITIVES
from tensocket_plugins.ir.element_types import COMPONENT, arithmetic_dtype
from tensocket_plugins.kit.host_kernels_math import ArrayMath

from . import host_paths
from .exactness import is_exact
from .pointwise_planner import PointwisePlanner, by_extras
from .private import private

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import EntryPlan


#: Elements up to which a formula evaluated with NumPy, in several passes, is cheaper than calling a generated kernel.
_DERIVED_LIMIT: Final = 2048
#: Elements up to which entries serve, while they hold the interpreter's lock; beyond, a call's time matters little.
_MEDIUM: Final = 1 << 17
#: Types of extra arguments that are passed to kernels.
_EXTRAS: Final = (int, float, complex)
_BOOL: Final = dtype_bit(dtypes.bool_)
#: Key bits of numbers on the left.
_LEFT: Final = sum(SCALAR_LEFT.values())
_LEFT_SHIFT: Final = SCALAR_LEFT[int].bit_length() - SCALAR[int].bit_length()
_BOOLS: Final = dtype_bit(dtypes.bool_) | SCALAR[bool] | SCALAR_LEFT[bool]


def _converted(value: Any, convert: Convert) -> Any:
    """Convert an extra argument that is not a Python number, but may be a tensor of one number."""
    number = plain_number(value)
    return convert(number) if type(number) in _EXTRAS else number


def kind_letter(dtype: DType) -> str:
    """Return the letter of a dtype's kind, as records list them."""
    if dtype.kind == "uint":
        return "i"
    return "8" if dtype in FLOAT8 else dtype.kind[0]


def _anything(compute: DType) -> None:
    """Return None: numbers need not fit into any dtype."""


class Pointwise(LadderOperator):
    """An operator whose result element depends on one element of each operand.

    Attributes:
        formula: ``formula(m, *operands, *extras)``; see ``ir.build.math``.
        result: Dtype of the result: ``same`` as the compute dtype, ``bool``, ``real``: the dtype of a complex dtype's
            parts, or ``complex``: the complex dtype with such parts.
        compute: ``promote``: the dtype that the operands promote to. ``float``: likewise, but the default float dtype
            for integers and bools. ``number``: likewise, but int64 for bools.
        count: Number of tensor operands, which are the schema's first parameters.
        condition: Whether the first operand is a bool condition that takes no part in promotion.
        kinds: Letters of the dtype kinds that it computes with: ``b`` bool, ``i`` integers, ``f`` floats, ``c`` complex
            numbers, ``8`` float8, which is otherwise refused.
        bools: Whether it accepts bool operands, next to others that decide the compute dtype.
        guard: ``guard(compute dtype, operands)`` refuses Python numbers for which an integer result is undefined.
        launched: Whether the generated kernel also serves small arrays, because NumPy would take too many passes.
        guard_values: Whether the guard also checks the elements of integer tensors.
        holds: ``holds(compute dtype)``: the dtype that must hold numbers after the first operand, or None if integers
            wrap and floats become infinite.
        stored: Whether numbers among narrow floats are first rounded like elements; by default kernels compute with
            them in float32.
        holds_extras: Whether numbers among the extra arguments must fit into the dtype of computations.
        stored_extras: Positions of extra arguments that must fit into the operands' dtype, in which kernels do not
            compute if it is a narrow float.
        keywords: Keyword-only arguments of the public function that are resolved before dispatch: name to default
            and the statement (over ``input``, ``other`` and the name) that runs if the argument is not the default.
    """

    kind = "pointwise"

    def __init__(self, schema: str, doc: str, formula: Callable[..., Any], *,
                 result: Literal["same", "bool", "real", "complex"] = "same",
                 compute: Literal["promote", "float", "number"] = "promote", condition: bool = False,
                 kinds: str = "bif", bools: bool = True, guard: Callable[[DType, Sequence[Any]], None] | None = None,
                 guard_values: bool = False, launched: bool = False,
                 holds: Callable[[DType], DType | None] = _anything, stored: bool = False, holds_extras: bool = True,
                 stored_extras: tuple[int, ...] = (), keywords: dict[str, tuple[str, str]] | None = None,
                 **record: Any) -> None:
        super().__init__(schema, doc, **record)
        self.formula = formula
        self.result = result
        self.compute = compute
        self.condition = condition
        self.kinds = kinds
        self.bools = bools
        self.guard = guard
        self.guard_values = guard_values
        self.launched = launched
        self.holds = holds
        self.stored = stored
        self.holds_extras = holds_extras
        self.stored_extras = stored_extras
        self.keywords = keywords or {}
        self._derived: dict[DType, Kernel] = {}
        self._exact: dict[tuple[DeviceState, DType], bool] = {}
        self.count = len(self.schema.tensors)
        self.extras = len(self.schema.parameters) - self.count

    # ------------------------------------------------------------------------------------------ dispatch

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """Return the closure for a device; zero-dimensional tensors may be on another one, as in PyTorch."""
        devices = key & DEVICE_MASK
        if devices & (devices - 1) and key & DIM0:
            return self._mixed
        return super().resolve_device(key)

    def _mixed(self, *args: Any) -> Any:
        """Move zero-dimensional tensors to the device of the others, or from the host to the device; dispatch again."""
        given = [x for x in args[:self.count] if hasattr(x, "_key")]
        devices = {x._device_state for x in given if x.ndim} or {x._device_state for x in given
                                                                 if x.device.type != HOST_DEVICE}
        if len(devices) != 1:
            return state_of_key(self.name, functools.reduce(operator.or_, (x._key for x in given)))
        (state,) = devices
        return call(self, *[x.detach().to(state.device) if hasattr(x, "_key") else x for x in args])

    def signature(self, key: int, state: DeviceState) -> Signature:
        """Return the dtypes, if the key settles them, and the host kernel."""
        self.check_key(key)
        settled = self._settled(key)
        if settled is None:
            return Signature(key, state)
        dtype, number = settled
        compute, result = self._dtypes(dtype)
        return Signature(key, state, dtype, compute, result, number, self.host_kernel(state, compute, result))

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the closure that promotes, broadcasts, checks, then runs one kernel or primitive by primitive."""
        return private(self.name, partial(self.run, call.state))

    def replays(self, call: Signature) -> bool:
        """Whether generated kernels also serve small arrays, or a number takes a place that entries do not serve."""
        numbers = call.key & SCALAR_MASK
        return bool(numbers & _LEFT or (numbers and self.condition)) or (not numbers and self._launches(call.state))

    def rounds_alike(self, call: Signature, args: Sequence[Any] = ()) -> bool:
        """Return True: NumPy serves only formulas that it rounds as kernels do (``exactness``)."""
        return True

    def _launches(self, state: DeviceState) -> bool:
        """Whether kernels also serve small host arrays: formulas with extra arguments are many steps in NumPy."""
        return bool(self.launched or self.extras) and state.runtime.target is not None

    def check_key(self, key: int) -> None:
        """Refuse bool operands if the operator is not defined for them.

        Raises:
            DtypeError: The key has a bool tensor or number.
        """
        if not self.bools and key & _BOOLS:
            raise DtypeError(self.name, "a bool operand", f"{self.name} is not defined for bools",
                             "use ^ or logical_not for masks, or convert with .to(dtype)")

    def _settled(self, key: int) -> tuple[DType, bool] | None:
        """Return the dtype of the operands, and whether one of them is a number; None if the key does not decide all
        but the extra arguments.
        """
        bits = key & DTYPE_MASK
        if self.condition and bits != _BOOL:
            bits &= ~_BOOL
        if bits & (bits - 1):
            return None
        dtype = DTYPE_OF[bits]
        number = (key & SCALAR_MASK).bit_length()
        if self.guard_values and self.guarded(dtype):
            return None
        # Numbers on the left have no entries, numbers of a higher category decide the dtype, and guards check values.
        if number and (number > SCALAR_SHIFT + 4 or number - SCALAR_SHIFT - 1 > dtype.category or self.guarded(dtype)):
            return None
        return dtype, bool(number)

    def planned_path(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure for arrays that are too large for a host kernel."""
        if not self.extras:
            found = Pointwise.planner(self, call)
            return None if found is None else found.closure(call.result_key, call.number, next_path)
        if Pointwise.planner(self, call) is None:
            return None
        return by_extras(self.count, self.extras, lambda extras: Pointwise.planner(self, call, extras),
                         call.result_key, call.number, next_path)

    def planner(self, call: Signature, extras: tuple[Any, ...] | None = None) -> PointwisePlanner | None:
        """Return the planner of the generated kernel; None unless the key settles everything but shapes.

        Args:
            call: The facts that the key settles.
            extras: Extra arguments that specialise the kernel, with any number in the places of those that each call
                passes on; by default these are all.
        """
        state, dtype, compute, result = call.state, call.dtype, call.compute, call.result
        if dtype is None or compute is None or result is None or state.runtime.target is None:
            return None
        if compute is not dtype or "complex" in (compute.kind, result.kind) or not {compute.name, result.name} <= (
                state.runtime.profile.dtypes):
            return None
        if self.guard is not None and (dtype.category < 2 or arithmetic_dtype(dtype) is not dtype):
            return None  # the guard may refuse the operands
        if self.extras and (dtype.category < 2 or (self.stored_extras and arithmetic_dtype(dtype) is not dtype)):
            return None  # extra numbers have a dtype of their own, or have to fit into that of the operands
        least = 0 if call.kernel is None else call.kernel.limit
        if least is None:
            return None
        formula, static, numbers = self._bind(compute, (1.0,) * self.extras if extras is None else extras)
        converts = (*[self.converter(compute)] * self.count, *[self._converter_of_extras(compute)] * len(numbers))
        return PointwisePlanner(state, (self.name, static, compute, result), formula, compute, result, converts,
                                self.count, least, self.condition)

    def host_closure(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over the host kernel."""
        if call.key & _LEFT:
            return self._number_on_the_left(call, next_path)
        if call.kernel is None or not self._served_by_key(call) or (self.count > 2 and not self.condition):
            return None
        assert call.dtype is not None
        kernel, key, dtype = call.kernel, call.result_key, call.dtype
        if self.condition:
            return host_paths.choice(kernel, key, dtype, next_path)
        if self.count == 1:
            return host_paths.unary(kernel, key, call.zero_dim, next_path)
        if not call.number:
            return host_paths.binary(kernel, key, call.zero_dim, next_path)
        if arithmetic_dtype(dtype) is not dtype:  # narrow floats and numbers compute in float32; the result is rounded
            kernel = host_kernels.rounding(kernel, DTYPE_OF[key & DTYPE_MASK])
        return host_paths.number(kernel, key, dtype, self.converter(dtype), call.zero_dim, next_path)

    def _number_on_the_left(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over the host kernel for a number and a tensor, if a number on the right has one."""
        numbers = call.key & SCALAR_MASK
        if self.count != 2 or numbers & ~_LEFT:
            return None
        mirrored = self.signature(call.key ^ numbers | numbers >> _LEFT_SHIFT, call.state)
        if mirrored.kernel is None or not self._served_by_key(mirrored):
            return None
        assert mirrored.dtype is not None
        kernel, dtype = mirrored.kernel, mirrored.dtype
        if arithmetic_dtype(dtype) is not dtype:
            kernel = host_kernels.rounding(kernel, DTYPE_OF[mirrored.result_key & DTYPE_MASK])
        return host_paths.number_first(kernel, mirrored.result_key, dtype, self.converter(dtype, 0), call.zero_dim,
                                       next_path)

    def entry(self, call: Signature) -> EntrySpec | None:
        """Return an entry for dense operands; if NumPy computes the same bits, it is compiled only later."""
        compute, result = call.compute, call.result
        if compute is None or result is None or not call.state.runtime.profile.host_resident or not (
                self._served_by_key(call) and self._native(compute, result, call.number)):
            return None
        # A formula takes NumPy several calls, so that its entry pays off as early as that of an inexact function.
        counted = call.kernel is not None and call.kernel is not self._derived.get(compute) and entries.exact(self.name)
        return EntrySpec((compute, call.number, call.zero_dim), call.result_key,
                         partial(self.entry_plan, compute, result, call.number), counted=counted)

    def _served_by_key(self, call: Signature) -> bool:
        """Whether the key decides everything for small arrays: it settles dtypes, and there are no extra arguments."""
        if call.dtype is None or call.compute is not call.dtype or self.extras or self._launches(call.state):
            return False
        if self.condition:
            # The closure checks which operand is the mask, as the key does not tell; 0-d operands need promotion.
            return not (call.number or call.zero_dim or call.dtype is dtypes.bool_)
        return self.count <= 2 or not call.zero_dim

    def _native(self, compute: DType, result: DType, number: bool) -> bool:
        """Whether a native entry agrees with other paths: it takes numbers unchecked, and has no guard."""
        narrow = arithmetic_dtype(compute) is not compute
        if narrow and (self.guard is not None or (number and (self.stored or self.holds(compute) is not None))):
            return False
        return not (number and compute.kind == "complex") and entries.served(compute, result, pointwise=True)

    def entry_plan(self, compute: DType, result: DType, number: bool) -> EntryPlan:
        """Return the plan for dense operands; with ``number``, all behind the first that may be are Python numbers."""
        from tensocket_plugins.ir.build.nest import Operand, pointwise_nest

        parameters = self.schema.parameters[:self.count]
        numbers = frozenset(k for k, x in enumerate(parameters) if number and k and x.type == "Operand")
        kinds = tuple(dtypes.bool_ if self.condition and k == 0 else compute for k in range(self.count))
        formula, _, _ = self._bind(compute, ())
        specs = [Operand("number" if k in numbers else "flat", dtype) for k, dtype in enumerate(kinds)]
        nest = pointwise_nest(self.name, formula, specs, [Operand("flat", result)], 1, dtypes.int64)
        scalars = ("size", *[f"number{k}" for k in sorted(numbers)])
        return plans.EntryPlan(nest, kinds, result, "same", scalars, numbers, _MEDIUM)

    def host_kernel(self, state: DeviceState, compute: DType, result: DType) -> Kernel | None:
        """Return the kernel for small arrays on a host-resident device: registered, else the formula in NumPy.

        None if generated kernels round differently.
        """
        if not state.runtime.profile.host_resident or self._launches(state) or (
                state.runtime.target is not None and (not self._rounds_alike(state, compute) or wants_kernels())):
            return None
        registered = None if self.extras else state.runtime.kernels.find(self.name, compute.name, direct=True)
        if registered is not None or arithmetic_dtype(compute) is not compute:
            return registered
        derived = self._derived.get(compute)
        if derived is None:
            run = numpy_formula(self.formula, compute, result)
            derived = self._derived[compute] = Kernel(run, True, _DERIVED_LIMIT)
        return derived

    def _rounds_alike(self, state: DeviceState, compute: DType) -> bool:
        """Whether NumPy computes the same bits as generated kernels."""
        found = self._exact.get((state, compute))
        if found is None:
            registered = None if self.extras else state.runtime.kernels.find(self.name, compute.name, direct=True)
            kinds = (dtypes.bool_ if self.condition else compute, *(compute,) * (self.count - 1))
            found = self._exact[state, compute] = compute.category < 2 or (
                entries.exact(self.name, compute) if registered is not None
                else not self.extras and is_exact(self.formula, compute, kinds))
        return found

    def converter(self, compute: DType, position: int = 1) -> Convert:
        """Return the function that converts a number among the operands, by default the second, for kernels."""
        return converter(self.name, compute, self.holds(compute) if position else None, self.stored)

    def _converter_of_extras(self, compute: DType) -> Convert:
        return converter(self.name, compute, arithmetic_dtype(compute) if self.holds_extras else None)

    def guarded(self, dtype: DType) -> bool:
        """Whether the guard checks numbers before the operator runs on ``dtype``."""
        return self.guard is not None and dtype.category < 2

    def result_dtype(self, promoted: DType) -> DType:
        """Return the result dtype for the dtype that the operands promote to."""
        return self._dtypes(promoted)[1]

    def compute_dtype(self, operands: Sequence[Any]) -> DType:
        """Return the dtype that a call with these operands, tensors or numbers, computes in."""
        return self._dtypes(result_type(operands))[0]

    def _dtypes(self, promoted: DType) -> tuple[DType, DType]:
        """Return compute and result dtype for the dtype that the operands promote to."""
        compute = promoted
        if self.compute == "float" and promoted.category < 2:
            compute = number_dtype(2)
        elif self.compute == "number" and promoted is dtypes.bool_:
            compute = dtypes.int64
        if kind_letter(compute) not in self.kinds:
            raise UndefinedDtype(
                self.name, f"dtype {compute.name}",
                f"{self.name} is not defined for {'float8' if compute in FLOAT8 else compute.kind} dtypes",
                "convert with .to(dtype) first")
        if self.result == "real":
            return compute, COMPONENT.get(compute, compute)
        if self.result == "complex":
            return compute, compute.to_complex()
        return compute, dtypes.bool_ if self.result == "bool" else compute

    # ------------------------------------------------------------------------------------------ general path

    def run(self, state: DeviceState, *args: Any) -> Any:
        """Promote, broadcast, allocate, run, wrap."""
        compute, result = self._dtypes(result_type(args[1:self.count] if self.condition else args[:self.count]))
        array = self.run_arrays(state, compute, result, self._operands(args), args[self.count:], None)
        return wrap(array, state.key | dtype_bit(result))

    def _operands(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the operands, and check the condition."""
        operands = list(args[:self.count])
        if self.condition and (not hasattr(operands[0], "_key") or operands[0].dtype is not dtypes.bool_):
            raise DtypeError(self.name, f"condition {getattr(operands[0], 'dtype', operands[0])!r}",
                             "the condition is a bool tensor", "compare first, as in tensor > 0")
        return operands

    def run_inplace(self, target: Any, *args: Any) -> Any:
        """Compute into ``target``, which is also the first operand; broadcasts the others to its shape."""
        state = target._device_state
        compute, result = self._dtypes(result_type((target, *args[:self.count - 1])))
        operands = [target, *args[:self.count - 1]]
        return self.run_arrays(state, compute, result, operands, args[self.count - 1:], target)

    def run_arrays(self, state: DeviceState, compute: DType, result: DType, operands: list[Any],
                   extras: tuple[Any, ...], target: Any) -> Any:
        """Return the result's handle; the result is written into ``target``, if that is a tensor."""
        check_dtype(self.name, state, compute)
        if self.result == "complex":
            check_dtype(self.name, state, result)
        if extras and compute.kind != "complex" and any(type(x) is complex for x in extras):
            raise DtypeError(self.name, f"a complex number for operands of dtype {compute.name}",
                             "a factor is of the operands' category", "convert the operands to a complex dtype")
        if self.guard is not None:
            self.guard(compute, operands)
        shape = broadcast_shapes(self.name, [x._array.shape for x in operands if hasattr(x, "_key")])
        typed = [self._typed(k, x, compute) for k, x in enumerate(operands)]
        for position in self.stored_extras:
            check_range(self.name, plain_number(extras[position]), compute)
        convert = self._converter_of_extras(compute)
        extras = tuple([convert(x) if type(x) in _EXTRAS else _converted(x, convert) for x in extras])
        out = None
        if target is not None:
            shape, out = target._array.shape, target._array
        kernel = self.host_kernel(state, compute, result)
        if kernel is not None and (kernel.limit is None or math.prod(shape) <= kernel.limit):
            given = [x if type(x) is np.ndarray else host_kernels.number_array(x, dtype) for x, dtype in typed]
            made = np.asarray(host_kernels.quietly(kernel)(*given, *extras))
            if out is None:
                made = to_dtype(made, result) if made.dtype != result.numpy else made
                return self._laid_out(state, made, result, given)
            out[...] = to_dtype(made, target.dtype)
            return out
        stored = result if target is None else target.dtype
        if out is None:
            out = empty_pointwise(state, shape, stored, [x for x, _ in typed])
        if 0 not in shape:
            self._run_kernel(state, compute, stored, typed, extras, shape, out)
        return out

    def _laid_out(self, state: DeviceState, made: Any, result: DType, operands: list[Any]) -> Any:
        """Return NumPy's result in PyTorch's layout; NumPy makes it row-major if the operands' layouts differ."""
        if made.ndim < 2 or all(x.flags.c_contiguous for x in operands):
            return made
        out = empty_pointwise(state, made.shape, result, operands)
        if out.strides == made.strides:
            return made
        out[...] = made
        return out

    def _typed(self, position: int, operand: Any, compute: DType) -> tuple[Any, DType]:
        """Return an operand as a handle of the compute dtype or a Python number, and its element type.

        Numbers, and zero-dimensional tensors of other dtypes, are converted to the dtype that kernels calculate in.
        """
        if not hasattr(operand, "_key"):
            if type(operand) not in NUMBER_TYPES:
                raise ArgumentTypeError(self.name, f"operand of type {type(operand).__name__}",
                                        "operands are tensors or numbers", "convert it with tensocket.tensor(...)")
            return self.converter(compute, position)(operand), arithmetic_dtype(compute)
        dtype = dtypes.bool_ if self.condition and position == 0 else compute
        if operand.dtype is not dtype:
            if operand._key & DIM0 and dtype is compute and not self.stored:
                dtype = arithmetic_dtype(compute)
            operand = operand.detach().to(dtype)
        return operand._array, dtype

    def _run_kernel(self, state: DeviceState, compute: DType, stored: DType, typed: list[tuple[Any, DType]],
                    extras: tuple[Any, ...], shape: tuple[int, ...], out: Any) -> None:
        runtime = state.runtime
        formula, static, numbers = self._bind(compute, extras)
        registered = None
        if runtime.target is None and self._is_primitive(compute):
            registered = runtime.kernels.find(self.name, compute.name, direct=False)
        operands = [*typed, *((x, arithmetic_dtype(compute)) for x in numbers)]
        if runtime.target is not None:
            run_generated(state, (self.name, static, compute, stored), formula, operands, shape, [(out, stored)])
        else:
            run_formula(self.name, state, formula, operands, compute, shape, out, stored, registered)

    def _is_primitive(self, compute: DType) -> bool:
        """Whether a registered kernel of this name computes this operator: a primitive does so within its domain."""
        primitive = PRIMITIVES.get(self.name)
        return primitive is None or kind_letter(compute) in primitive.domain

    def _bind(self, compute: DType,
              extras: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
        """Return the formula over expressions, the values that specialise it, and its numbers as kernel arguments.

        Python numbers among the extra arguments become kernel arguments; None, bools and strings specialise.
        """
        numeric = [type(x) in _EXTRAS for x in extras]
        static = tuple(x if not n else "number" for x, n in zip(extras, numeric, strict=True))
        numbers = [x for x, n in zip(extras, numeric, strict=True) if n]

        def formula(*values: Any) -> Any:
            from tensocket_plugins.ir.build.math import ExprMath

            m = ExprMath(arithmetic_dtype(compute), compute)
            given = iter(values[self.count:])
            bound = [next(given) if n else x for x, n in zip(extras, numeric, strict=True)]
            return m.finished(self.formula(m, *values[:self.count], *bound))

        return formula, static, numbers


def numpy_formula(formula: Callable[..., Any], compute: DType, result: DType) -> Callable[..., Any]:
    """Return a formula as a direct kernel over NumPy arrays of ``compute``; the result is a new array of dtype
    ``result``.
    """
    m, dtype = ArrayMath(compute), result.numpy

    def run(*values: Any) -> Any:
        made = np.asarray(formula(m, *values), dtype)
        # A formula that changes nothing, such as rounding of integers, returns its operand or a view of it.
        return made.copy("K") if made.base is not None or any(made is value for value in values) else made

    return run
