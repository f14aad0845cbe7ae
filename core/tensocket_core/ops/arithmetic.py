"""Composites of pointwise operators: other forms of arithmetic, conversion methods, in-place assignment."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.devices import HOST_DEVICE, Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError

from ..device import open_entry
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..dispatch.keys import DTYPE_MASK, dtype_bit
from ..formats import preserve_format
from ..promotion import result_type
from . import pointwise
from .movement import convert


def div_rounded(input: Any, other: Any, rounding_mode: str) -> Any:
    """Division with rounding.

    Raises:
        ArgumentError: The mode is not None, ``trunc`` or ``floor``.
    """
    if rounding_mode == "floor":
        return call(pointwise.floor_divide, input, other)
    if rounding_mode == "trunc":
        return call(pointwise.truncated_divide, input, other)
    raise ArgumentError(
        "div", f"rounding_mode={rounding_mode!r}", "the mode is None, 'trunc' or 'floor'", "pass one of these"
    )


def scaled(input: Any, other: Any, alpha: Any) -> Any:
    """The second summand times ``alpha``.

    Raises:
        DtypeError: alpha is a float and both summands are integers.
    """
    if type(alpha) is float and result_type((input, other)).category < 2:
        raise DtypeError(
            "add",
            f"alpha={alpha!r} for integers",
            "a factor of integers is an integer",
            "convert to a floating-point dtype",
        )
    return other * alpha


@composite("clamp(Tensor input, Operand? min=None, Operand? max=None) -> Tensor", aliases=("clip",))
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limited to the range from min to max, which are numbers or tensors; None is no limit.

    Raises:
        ArgumentError: Both limits are None.
    """
    if max is None:
        _has_limit(min)
        return input.clamp_min(min)
    return input.clamp_max(max) if min is None else call(pointwise.clamp, input, min, max)


@composite("clamp_(Tensor input, Operand? min=None, Operand? max=None) -> Tensor", function=False, aliases=("clip_",))
def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """``clamp`` in place."""
    if max is None:
        _has_limit(min)
    if min is not None:
        input.clamp_min_(min)
    return input if max is None else input.clamp_max_(max)


def _has_limit(limit: Any) -> None:
    if limit is None:
        raise ArgumentError("clamp", "min=None, max=None", "at least one limit is given", "pass min or max")


def _where_direct(key: int, entry: Any, body: Any) -> Any:
    """The record's closure, where the key shows a mask of bools and values of another dtype."""
    bits = key & DTYPE_MASK
    if not bits & _BOOL or bits == _BOOL or bits & _UINT8:
        return None
    chosen = pointwise.where.below(key)
    return lambda c, a, b: body(c, a, b) if a is None and b is None else chosen(c, a, b)


_BOOL: Final = dtype_bit(dtypes.bool_)
_UINT8: Final = dtype_bit(dtypes.uint8)


@composite("where(Tensor condition, Operand? input=None, Operand? other=None) -> any", method=False,
           direct=_where_direct)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; of a condition alone, its positions as a tuple."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if getattr(condition, "dtype", None) is dtypes.uint8:
        condition = condition != 0
    return call(pointwise.where, condition, input, other)


@composite("where_self(Tensor input, Tensor condition, Operand other) -> Tensor", method="where", function=False)
def where_self(input: Any, condition: Any, other: Any) -> Any:
    """``input`` where the condition holds, else ``other``."""
    return where(condition, input, other)


@composite("masked_fill(Tensor input, Tensor mask, Operand value) -> Tensor")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``value`` where the mask holds, else ``input``; the dtype is the input's."""
    if hasattr(value, "_key"):
        if value.ndim:
            raise ShapeError(
                "masked_fill",
                f"a value of shape {list(value.shape)}",
                "the value is a number or a 0-dimensional tensor",
                "use where to choose between tensors",
            )
        value = value.to(input.dtype)
    elif input.dtype.category < 2:
        value = bool(value) if input.dtype is dtypes.bool_ else int(value)
    return call(pointwise.where, mask, value, input)


def _refused(given: str) -> ArgumentTypeError:
    return ArgumentTypeError("to", given, "arguments are a dtype, a device or a tensor",
                             "for example .to('cpu', tensocket.float32)")


@composite(
    "to(Tensor input, any args, *, device? device=None, dtype? dtype=None, bool non_blocking=False, "
    "bool copy=False, any memory_format=None) -> Tensor",
    function=False,
)
def to(
    input: Any, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None
) -> Any:
    """This tensor with another dtype or on another device; itself where nothing changes and ``copy`` is False."""
    for position, arg in enumerate(args):
        if isinstance(arg, DType):
            dtype = arg
        elif isinstance(arg, (str, Device)):
            device = arg
        elif hasattr(arg, "_key"):
            device, dtype = arg.device, arg.dtype
        elif type(arg) is bool and position:  # non_blocking, then copy
            copy, non_blocking = (arg, non_blocking) if type(args[position - 1]) is bool else (copy, arg)
        elif arg is not None:
            raise _refused(f"{type(arg).__name__} {arg!r}")
    target = input._entry if device is None else open_entry(device)
    wanted = input.dtype if dtype is None else dtype
    if not isinstance(wanted, DType):
        raise _refused(f"dtype {wanted!r}")
    keeps = memory_format is None or memory_format is preserve_format
    if target is input._entry and wanted is input.dtype:
        if copy:
            return input.clone(memory_format=memory_format)
        return input if keeps else input.contiguous(memory_format=memory_format)
    # Gradients end where values become integers.
    result = call(convert, input if wanted.category >= 2 else input.detach(), target, wanted)
    return result if keeps else result.contiguous(memory_format=memory_format)


def _conversion(dtype: DType, name: str) -> Any:
    """The method ``name()`` that converts to a dtype."""

    def run(input: Any, memory_format: Any = None) -> Any:
        return input.to(dtype) if memory_format is None else input.to(dtype, memory_format=memory_format)

    run.__doc__ = f"This tensor as {dtype.name}."
    run.__name__ = f"to_{name}"
    return composite(f"{name}(Tensor input, any memory_format=None) -> Tensor", function=False)(run)


to_float: Final = _conversion(dtypes.float32, "float")
to_double: Final = _conversion(dtypes.float64, "double")
to_half: Final = _conversion(dtypes.float16, "half")
to_bfloat16: Final = _conversion(dtypes.bfloat16, "bfloat16")
to_int: Final = _conversion(dtypes.int32, "int")
to_long: Final = _conversion(dtypes.int64, "long")
to_short: Final = _conversion(dtypes.int16, "short")
to_char: Final = _conversion(dtypes.int8, "char")
to_byte: Final = _conversion(dtypes.uint8, "byte")
to_bool: Final = _conversion(dtypes.bool_, "bool")


@composite("type_as(Tensor input, Tensor other) -> Tensor", function=False)
def type_as(input: Any, other: Any) -> Any:
    """This tensor with another tensor's dtype."""
    return input.to(other.dtype)


@composite("cpu(Tensor input, any memory_format=None) -> Tensor", function=False)
def cpu(input: Any, memory_format: Any = None) -> Any:
    """This tensor in host memory."""
    return input.to(HOST_DEVICE, memory_format=memory_format)


@composite("cuda(Tensor input, any device=None, bool non_blocking=False, any memory_format=None) -> Tensor",
           function=False)
def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """This tensor on the device called ``cuda``, or on another one that is given by number or name."""
    if type(device) is int:
        device = f"cuda:{device}"
    return input.to("cuda" if device is None else device, memory_format=memory_format)
