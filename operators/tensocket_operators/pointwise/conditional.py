"""Composites that select elements: limits, conditions and masks."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.modes import STATE
from tensocket_core.keys import DTYPE_MASK, dtype_bit
from tensocket_core.launch.numbers import check_range
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..kinds.composite import composite
from . import arithmetic


@composite("clamp(Tensor input, Operand? min=None, Operand? max=None) -> Tensor", aliases=("clip",))
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limit elements to the range from min to max, which are numbers or tensors; None means no limit.

    Raises:
        ArgumentError: Both limits are None.
    """
    if max is None:
        _has_limit(min)
        return input.clamp_min(min)
    return input.clamp_max(max) if min is None else call(arithmetic.clamp, input, min, max)


@composite("clamp_(Tensor! input, Operand? min=None, Operand? max=None) -> Tensor", function=False, aliases=("clip_",))
def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """Apply ``clamp`` in place."""
    if max is None:
        _has_limit(min)
    if min is not None:
        input.clamp_min_(min)
    return input if max is None else input.clamp_max_(max)


def _has_limit(limit: Any) -> None:
    if limit is None:
        raise ArgumentError("clamp", "min=None, max=None", "at least one limit is given", "pass min or max")


def _where_host_path(key: int, state: Any, body: Any) -> Any:
    """Return the record's closure if the key has bool and another dtype: a bool mask, and values of the other."""
    bits = key & DTYPE_MASK
    if not bits & _BOOL or bits == _BOOL or bits & _UINT8:
        return None
    return arithmetic.where.below(key)


_BOOL: Final = dtype_bit(dtypes.bool_)
_UINT8: Final = dtype_bit(dtypes.uint8)


@composite("where(Tensor condition, Operand? input=None, Operand? other=None) -> any", method=False,
           host_path=_where_host_path)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return ``input`` where the condition holds, else ``other``; of a condition alone, its positions as a tuple."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if getattr(condition, "dtype", None) is dtypes.uint8:
        condition = condition != 0
    return call(arithmetic.where, condition, input, other)


@composite("where_self(Tensor input, Tensor condition, Operand other) -> Tensor", method="where", function=False)
def where_self(input: Any, condition: Any, other: Any) -> Any:
    """Return ``input`` where the condition holds, else ``other``."""
    return where(condition, input, other)


@composite("masked_fill(Tensor input, Tensor mask, Operand value) -> Tensor")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return ``value`` where the mask holds, else ``input``; the dtype is the input's."""
    imaginary = value.dtype.is_complex if hasattr(value, "_key") else isinstance(value, complex)
    if imaginary and not input.dtype.is_complex:
        raise DtypeError("masked_fill", f"a complex value for {input.dtype.name}",
                         "a real tensor holds no complex value", "convert the tensor, or pass value.real")
    if hasattr(value, "_key"):
        if value.ndim:
            raise ShapeError(
                "masked_fill",
                f"a value of shape {list(value.shape)}",
                "the value is a number or a 0-dimensional tensor",
                "use where to choose between tensors",
            )
        if value.dtype is not input.dtype and value._device_state.runtime.profile.host_resident and not (
                value._level or STATE.transforms or not value._device_state.holds_data):
            check_range("masked_fill", value.item(), input.dtype)
        value = value.to(input.dtype)
    elif input.dtype.category < 2:
        value = bool(value) if input.dtype is dtypes.bool_ else int(value)
        check_range("masked_fill", value, input.dtype)
    else:
        check_range("masked_fill", value, input.dtype)
    return call(arithmetic.where, mask, value, input)
