"""The shared code of generated functions: their binding to records, ``out=`` and argument errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from tensocket_core.dispatch.modes import ACTIVE, STATE, is_grad_enabled
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.overrides import (
    call_torch_function,
    not_implemented_or_raise,
    overridden,
    overrides_functions,
    participants,
)
from tensocket_core.dispatch.results import OF_OUT
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import as_strided, dense_overlaps, element_strides, is_dense
from tensocket_core.keys import AUTOGRAD, LAZY, WRAPPER
from tensocket_core.promotion import can_cast, result_type
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, DtypeError, ShapeError
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.ir.element_types import arithmetic_dtype

from .interop.asarray import as_tensor
from .kinds.inplace import check_parts
from .shapes.storage_ops import resize_unrecorded

#: Functions whose first operand may be a number if the second one is a tensor.
_NUMBER_FIRST: Final = frozenset({
    "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "float_power", "pow",
    "remainder", "xlogy",
})
#: Functions that take a number for either operand, or for both, with the reflected method for a number on the left.
_REFLECTED: Final = {"add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "div": "__rtruediv__",
                     "floor_divide": "__rfloordiv__"}
#: Default of a dimension, if it is not passed by its own name.
MISSING: Final[Any] = object()
#: Default of factors, compared by identity: True and 1.0 equal it, but are not valid factors of integers.
ONE: Final = 1
#: Bits of tensors that ``out=`` cannot write, or not just as elements.
_SPECIAL: Final = AUTOGRAD | LAZY | WRAPPER
#: Elements up to which results are copied to ``out`` by this thread.
_FEW: Final = 1 << 14
_Function = TypeVar("_Function", bound=Callable[..., Any])
_COMPARISONS: Final = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})


def public(record: Operator) -> Callable[[_Function], _Function]:
    """Make the decorated function the public function of a record, with the record's documentation."""

    def bind(function: _Function) -> _Function:
        function.__doc__ = record.doc
        record.public = function
        return function

    return bind


def argument_error(operator: str, *arguments: Any) -> ArgumentTypeError:
    """Return the error for arguments that are neither tensors nor numbers."""
    kinds = ", ".join(type(a).__name__ for a in arguments)
    return ArgumentTypeError(operator, f"arguments of types {kinds}", "operands are tensors, the first one at least",
                             "convert them with tensocket.tensor(...)")


def settled(operator: str, axis: Any) -> Any:
    """Return a dimension that the caller passed as ``axis``.

    Raises:
        ArgumentTypeError: The dimension is missing.
    """
    if axis is None:
        raise ArgumentTypeError(operator, "no dim", "the argument 'dim' is required", "pass dim")
    return axis


def python_number(value: Any) -> Any:
    """Convert a number without a key bit (of NumPy, or of a subclass) to a Python number; return None for the rest."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = next((k for k in (bool, int, float, complex) if isinstance(value, k)), None)
    return None if kind is None else kind(value)


def foreign_key(operator: Operator, args: tuple[Any, ...]) -> int:
    """Return the key of a call with an argument without a key: an argument overrides functions, or a mode is active.

    Raises:
        ArgumentTypeError: No argument overrides functions.
    """
    if STATE.function_modes or any(overrides_functions(type(value)) for value in participants(args)):
        return WRAPPER
    raise argument_error(operator.name, *[args[k] for k in operator.schema.tensors]) from None


def retry_operator(function: Callable[[Any, Any], Any], operator: Operator, input: Any, other: Any, args: Any) -> Any:
    """Run a Python operator with an operand of an unknown type; ``args`` are the operands in the operator's order.

    NumPy arrays handle arithmetic with tensors, as in PyTorch; they leave comparisons to tensors.
    """
    if isinstance(other, np.ndarray) and function.__name__ in _COMPARISONS:
        return function(input, as_tensor(other, device=input.device))
    number = python_number(other)
    if number is not None:
        return function(input, number)
    if not overrides_functions(type(other)):
        return NotImplemented
    try:
        if hasattr(other, "_key") and overridden(input, other):
            # Python has already called the method of the left operand's class.
            return call_torch_function(operator.name, function, (input, other), (input, other), {})
        return operator(*args)
    except ArgumentTypeError as error:
        return not_implemented_or_raise(error)


def defer_to_other(operator: Operator, other: Any, args: Any) -> Any:
    """Leave a Python operator over two tensors to the other operand: to its method, or to its override of functions."""
    try:
        return operator(*args) if overrides_functions(type(other)) else NotImplemented
    except ArgumentTypeError as error:
        return not_implemented_or_raise(error)


def retry_function(operator: Operator, function: Callable[..., Any], input: Any, other: Any) -> Any:
    """Run a function with an operand of an unknown type.

    Raises:
        ArgumentTypeError: The operand is not a number.
    """
    number = python_number(other)
    if operator.name in _REFLECTED and (first := python_number(input)) is not None:
        if hasattr(other, "_key"):
            return getattr(other, _REFLECTED[operator.name])(first)
        if number is not None:
            return function(as_tensor(first), number)
    if operator.name in _NUMBER_FIRST and hasattr(other, "_key") and python_number(input) is not None:
        first = python_number(input)
        common = result_type((first, other))
        result = function(as_tensor(first, dtype=arithmetic_dtype(common), device=other.device), other)
        return result if operator.name == "float_power" or result.dtype is common else result.to(common)
    if number is None or not hasattr(input, "_key"):
        foreign_key(operator, (input, other))
        return operator(input, other)
    return function(input, number)


def write_out(operator: str, out: Any, result: Any, *, exact: bool = False, truth: bool = False,
              apart: tuple[Any, ...] = (), beside: tuple[Any, ...] = ()) -> Any:
    """Store a result (or several) into the ``out=`` tensor (or tensors) and return ``out``.

    Args:
        operator: Name of the operator.
        out: The tensor or tensors to write.
        result: The values.
        exact: Whether ``out`` must have the result's dtype.
        truth: Whether ``out`` must hold bools or uint8.
        apart: Operands that must not share memory with ``out``.
        beside: Operands that must not share memory with ``out``, except for all of it element by element.

    Raises:
        ArgumentTypeError: ``out`` is not a tensor, or does not hold one tensor per result.
        AutogradError: The call would be recorded for a gradient.
        DtypeError: The result's dtype does not convert to that of ``out``, or differs although ``exact`` is set.
        ShapeError: Elements of ``out`` share memory with each other or with operands.
    """
    if not (truth or apart) and _write_plain(out, result, beside):
        return out
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise ArgumentTypeError(operator, f"out of type {type(out).__name__}",
                                    f"out is a tuple of {len(result)} tensors", "pass one tensor for every result")
        written = [write_out(operator, x, y, exact=exact, truth=truth, apart=apart, beside=beside)
                   for x, y in zip(out, result, strict=True)]
        made = OF_OUT.get(type(result))
        return tuple(written) if made is None else made(*written)
    if not hasattr(out, "_key"):
        raise ArgumentTypeError(operator, f"out of type {type(out).__name__}", "out is a tensor", "pass a tensor")
    if (result._key & AUTOGRAD or (out._key & AUTOGRAD and is_grad_enabled()) or getattr(result, "is_dual", False)
            or getattr(out, "is_dual", False)):
        raise AutogradError(operator, "out for tensors that require grad", "what is written to out has no gradient",
                            "detach() the tensors, or use the result")
    if exact and result.dtype is not out.dtype:
        raise DtypeError(operator, f"a result of dtype {result.dtype.name} for out of dtype {out.dtype.name}",
                         "out has the result's dtype", "pass an out of that dtype")
    if truth:
        if out.dtype not in (dtypes.bool_, dtypes.uint8):
            raise DtypeError(operator, f"out of dtype {out.dtype.name}", "out is of bools or uint8",
                             "pass an out of dtype bool")
        result = result.to(out.dtype)
    check_writable(operator, out)
    if result.dtype is not out.dtype and not can_cast(result.dtype, out.dtype):
        raise DtypeError(operator, f"a result of dtype {result.dtype.name} for out of dtype {out.dtype.name}",
                         "out keeps the result's dtype category", "pass an out of the result's dtype")
    if out._array.shape != result._array.shape:
        _resize(operator, out, tuple(result.shape))
        strides = element_strides(result._array)
        if strides != element_strides(out._array) and is_dense(result._array.shape, strides):
            out._array = as_strided(out._array, tuple(result.shape), strides, 0)  # it gets the layout of the result
    if any(dense_overlaps(x._array, out._array) for x in apart if hasattr(x, "_array")):
        raise ShapeError(operator, f"out of shape {list(out.shape)} within the memory of an operand",
                         "out has memory of its own here", "clone() the operand first")
    check_parts(operator, out, beside)
    return out.copy_(result)


def _write_plain(out: Any, result: Any, beside: tuple[Any, ...]) -> bool:
    """Store a small result of the host if nothing speaks against it; return whether it is stored.

    Both are plain tensors without gradients, of one form and without gaps, and ``out`` is no part of an operand.
    """
    if not type(out) is type(result) is Tensor or out._key != result._key or out._key & _SPECIAL or (
            ACTIVE or RECORDERS or VALUE_OBSERVERS):
        return False
    to, made, counter = out._array, result._array, out._version_counter
    if type(to) is not np.ndarray or to.shape != made.shape or made.size > _FEW or (
            not (to.flags.carray and made.flags.c_contiguous and (counter is None or type(counter) is list))):
        return False
    for x in beside:
        array = None if x is out else getattr(x, "_array", None)
        if array is not None and (type(array) is not np.ndarray or np.may_share_memory(array, to)):
            return False
    np.copyto(to, made)
    bump(out)
    return True


def _resize(operator: str, out: Any, shape: tuple[int, ...]) -> None:
    """Resize ``out``, with a warning if it has elements."""
    if out.numel():
        warnings.warn(
            f"[{operator}] An output with one or more elements was resized: {list(out.shape)} became {list(shape)} — "
            "out has the result's shape, or no elements — call out.resize_(0) first",
            UserWarning,
            stacklevel=4,
        )
    resize_unrecorded(out, shape)
