"""Operators of two tensors, which have the same mask unless one of them has no mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.formats import layout, sparse_coo, strided
from tensocket_operators import Tensor
from tensocket_operators.namespaces import ops
from tensocket_operators.sparse.tensor import like
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .core import _masks_match, data_of, is_masked_tensor, joined, name_of, rule, same_positions

#: PyTorch's names, including aliases.
BINARY_NAMES: Final = [
    "add", "atan2", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
    "bitwise_right_shift", "div", "divide", "floor_divide", "fmod", "logaddexp", "logaddexp2", "mul", "multiply",
    "nextafter", "remainder", "sub", "subtract", "true_divide", "eq", "ne", "le", "ge", "greater", "greater_equal",
    "gt", "less_equal", "lt", "less", "maximum", "minimum", "fmax", "fmin", "not_equal",
]  # fmt: skip
INPLACE_BINARY_NAMES: Final = [f"{name}_" for name in BINARY_NAMES if name not in (
    "logaddexp", "logaddexp2", "fmin", "minimum", "maximum", "fmax")]
NATIVE_BINARY_FNS: Final = [getattr(ops.aten, name) for name in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS: Final = [getattr(ops.aten, name) for name in INPLACE_BINARY_NAMES]


def _check_masks(name: str, args: tuple[Any, ...]) -> None:
    if any(isinstance(x, Tensor) for x in args[2:]):
        raise ArgumentTypeError(name, "more than two tensors: MaskedTensor binary ops do not support Tensor arguments "
                                "aside from the lhs and rhs", "the operator takes two operands", "pass numbers")
    if not _masks_match(*args[:2]):
        raise ArgumentError(name, "different masks: Input masks must match. If you need support for this, please open "
                            "an issue on Github.", "an element counts in both operands or in neither",
                            "fill one of them with to_tensor(value)")


def _check_sparse(name: str, kind: layout, operands: list[Any]) -> None:
    """Refuse operands whose stored elements have different positions."""
    words = "sparse_coo" if kind is sparse_coo else "sparse_csr"
    first, second = operands
    if first.layout is not second.layout or tuple(first.shape) != tuple(second.shape):
        raise ArgumentError(name, f"layouts {first.layout!r} and {second.layout!r}, shapes {list(first.shape)} and "
                            f"{list(second.shape)}: input1 and input2 must have the same size for binary functions.",
                            "sparse operands have one layout and shape", "convert one of them")
    if not same_positions(first, second):
        raise ArgumentError(name, f"other positions: {words} indices must match. If you need support for this, please "
                            "open an issue on Github.", "sparse operands store the same elements",
                            "make one with sparse_mask")


def _computed(func: Callable[..., Any], data: list[Any], rest: Any, kwargs: dict[str, Any]) -> Any:
    """Apply the operator to the operands' data, or to their stored elements."""
    operands: list[Any] = [x for x in data if isinstance(x, Tensor) and x.ndim + (x.layout is not strided)]
    kinds = [x.layout for x in operands if x.layout is not strided]
    if not kinds:
        return func(*data, *rest, **kwargs)
    if len(operands) == 2:
        _check_sparse(name_of(func), kinds[0], operands)
    operands = [x.coalesce() if x.layout is sparse_coo else x for x in operands]
    stored = [x.values() if getattr(x, "layout", strided) is not strided else x for x in data]
    return like(operands[0], func(*stored, *rest, **kwargs))


@rule(*(f.default.name for f in NATIVE_BINARY_FNS))
def binary(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator to the data, and keep the mask of either operand."""
    args = _positional(args, kwargs)
    _check_masks(name_of(func), args)
    result = _computed(func, data_of(list(args[:2])), args[2:], kwargs)
    mask = next(x for x in args if is_masked_tensor(x)).get_mask()
    return joined(result, mask.expand(tuple(result.shape)) if mask.layout is strided else mask)


@rule(*(f.default.name for f in NATIVE_INPLACE_BINARY_FNS))
def inplace_binary(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator in place to the data.

    Raises:
        ArgumentTypeError: The result would give a plain tensor a mask.
    """
    args = _positional(args, kwargs)
    _check_masks(name_of(func), args)
    target = args[0]
    if not is_masked_tensor(target):
        raise ArgumentTypeError(name_of(func), "a masked operand for a plain tensor", "plain tensors have no mask",
                                "use the operator that returns its result")
    operands = [target._masked_data, args[1]._masked_data if is_masked_tensor(args[1]) else args[1]]
    target._masked_data = _computed(func, operands, args[2:], kwargs)
    return target


def _positional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return both operands by position."""
    return args if len(args) > 1 else (*args, *(kwargs.pop(name) for name in ("other",) if name in kwargs))
