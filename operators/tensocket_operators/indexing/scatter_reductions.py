"""Reductions of the values that share one position."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE, is_grad_enabled
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import AUTOGRAD, WRAPPER, dtype_bit
from tensocket_core.launch.copies import converted
from tensocket_core.promotion import FLOAT8
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, UndefinedDtype

from ..differentiation.delayed import DelayedError
from ..kinds.composite import composite
from ..kinds.inplace import check_separate
from ..kinds.pointwise import Pointwise
from ..kinds.private import own
from ..reductions.value_checks import any_true
from ..unrolled.recomputed import Recomputed
from . import kernel
from .gather_scatter import (
    check_reach,
    checked_index,
    empty_index_and_source,
    gather_valid,
    rows_index,
    same_dtype,
    same_rank,
    scatter_valid,
)
from .gradients import at_least_1d
from .masked_scatter import vector_index

_MODES: Final = ("sum", "prod", "mean", "amax", "amin")


def _neutral(mode: str, dtype: Any) -> Any:
    """Return the value that leaves every other value unchanged."""
    if mode in ("sum", "mean"):
        return 0
    if mode == "prod":
        return 1
    if dtype.kind == "float":
        return float("-inf") if mode == "amax" else float("inf")
    if dtype.kind == "bool":
        return mode == "amin"
    bits = 8 * dtype.itemsize - (dtype.kind == "int")
    low = -(1 << bits) if dtype.kind == "int" else 0
    return low if mode == "amax" else (1 << bits) - 1


def _check_kind(operator: str, mode: str, dtype: Any) -> None:
    """Check that values of a dtype can be reduced.

    Raises:
        UndefinedDtype: ``mean`` and ``index_reduce`` do not take truth values; complex numbers have no order.
    """
    if dtype is dtypes.bool_ and (mode == "mean" or operator == "index_reduce"):
        raise UndefinedDtype(operator, f"reduce={mode!r} of dtype bool",
                             "this reduction is not defined for truth values", "convert with .to(dtype) first")
    if dtype.kind == "complex" and mode in ("amax", "amin"):
        raise UndefinedDtype(operator, f"reduce={mode!r} of dtype {dtype.name}", "complex numbers have no order",
                             "reduce their absolute values")


def _in_order(out: Any, index: Any, src: Any) -> bool:
    """Whether a generated kernel serves the call: numbers, a code generator, and no mode or recording."""
    key, state = out._key | index._key | src._key, out._device_state
    intercepted = key & WRAPPER or STATE.transforms or STATE.dispatch_modes or (key & AUTOGRAD and is_grad_enabled())
    return not intercepted and state.runtime.target is not None and state.holds_data and out.dtype is src.dtype and (
        out.dtype.kind in ("int", "float") and out.dtype not in FLOAT8)


def _ordered(mode: str, out: Any, axis: int, index: Any, src: Any) -> Any:
    out, index, src = (own("scatter_reduce", x) for x in (out, index, src))
    state, dtype = out._device_state, out.dtype
    made = converted(state, out._array, dtype, dtype)
    if 0 not in index._array.shape:
        check_reach("scatter_reduce", axis, index, out._array.shape, src)
        kernel.combine_arrays(state, made, index._array, src._array, axis, dtype, mode)
    return wrap(made, state.key | dtype_bit(dtype))


def _combined(mode: str, out: Any, axis: int, index: Any, src: Any) -> Any:
    """Combine the values that share a position, in order or in rounds that take one value per position.

    It does not matter which value a round takes; a device only needs to write and read at positions.
    """
    if _in_order(out, index, src):
        return _ordered(mode, out, axis, index, src)
    flat = src.numel()
    number = src.new_arange(0, flat, 1).reshape(tuple(src.shape))
    spare = out.shape[axis]
    # Values that are done go to a spare position after the others.
    target = index
    widened = [*out.shape]
    widened[axis] = spare + 1
    rounds = flat if src._device_state.holds_data else min(flat, 1)
    out = functions.clone(out)  # there may be no value to combine
    for _ in range(rounds):
        claims = call(scatter_valid, number.new_full(widened, -1), axis, target, number, False)
        taken = (call(gather_valid, claims, axis, target) == number) & (target != spare)
        if not any_true(taken):
            break
        place = functions.where(taken, target, spare)
        wide = functions.cat([out, out.narrow(axis, 0, 1)], axis)
        before = call(gather_valid, wide, axis, place)
        after = {"prod": functions.mul, "amax": functions.maximum, "amin": functions.minimum}[mode](before, src)
        out = call(scatter_valid, wide, axis, place, after, False).narrow(axis, 0, spare)
        target = functions.where(taken, spare, target)
    return out.contiguous()


def _reduced(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    if not include_self:
        start = src.new_full((), _neutral(reduce, src.dtype)).expand(index.shape)
        input = call(scatter_valid, input, dim, index, start, False)
    if reduce not in ("sum", "mean"):
        return _combined(reduce, input, dim, index, src)
    total = call(scatter_valid, input, dim, index, src, True)
    if reduce == "sum":
        return total
    count = _counts(input, dim, index, include_self)
    if total.dtype.kind == "float":
        return call(mean_of_total, total, count)
    count = count.clamp_min(1)
    return total / count if total.dtype.kind == "complex" else total.floor_divide(count).to(total.dtype)


#: A kernel divides, so that replays contain it.
mean_of_total: Final = Pointwise(
    "mean_of_total(Tensor total, Tensor count) -> Tensor", "total / count, where at least one value counts.",
    lambda m, total, count: total / m.maximum(count, 1), kinds="f", launched=True, method=False, function=False,
    derivative=Derivative(total=lambda grad, count: grad / count.clamp_min(1)))


def _counts(input: Any, dim: int, index: Any, include_self: bool) -> Any:
    """Count the values that share each position, in a dtype that holds any such number."""
    ones = input.new_ones(tuple(input.shape), dtype=dtypes.int64)
    base = ones if include_self else call(scatter_valid, ones, dim, index, ones.new_zeros(tuple(index.shape)), False)
    return call(scatter_valid, base, dim, index, ones.new_ones(tuple(index.shape)), True)


def _gradients(grad: Any, wanted: tuple[bool, ...], result: Any, input: Any, src: Any, dim: int, index: Any,
               reduce: str, include_self: bool) -> tuple[Any, None, Any]:
    """Return the gradients of the tensors of a product, a largest or a smallest value."""
    own: Any
    if reduce == "prod":
        if not include_self:
            input = call(scatter_valid, input, dim, index, input.new_ones(tuple(index.shape)), False)
        own, given = _prod_gradients(grad, result, input, src, dim, index)
    else:
        mine, theirs = (input == result).to(grad.dtype), (src == call(gather_valid, result, dim, index)).to(grad.dtype)
        if not include_self:
            mine = call(scatter_valid, mine, dim, index, mine.new_zeros(tuple(index.shape)), False)
        share = grad / call(scatter_valid, mine, dim, index, theirs, True).clamp_min(1)
        untouched = _counts(input, dim, index, False) == 0
        own = share * functions.where(untouched, 1, mine)
        given = theirs * call(gather_valid, share, dim, index)
    if not include_self:
        own = call(scatter_valid, own, dim, index, own.new_zeros(tuple(index.shape)), False)
    return own if wanted[0] else None, None, given if wanted[2] else None


def _is_hole(value: Any) -> Any:
    """Return the mask of the factors that a division cannot remove from a product."""
    return (value == 0) | (value != value)


def _prod_gradients(grad: Any, result: Any, input: Any, src: Any, dim: int, index: Any) -> tuple[Any, Any]:
    """Return the gradients of a product: for each value, the product of all other values at its position.

    For a zero or NaN, this is the product of the values that are neither, unless several of them share the position.
    A quotient of the result follows it where it is zero, so the second derivative is right there as well. Where
    several zeros share a position, a second derivative raises an error.
    """
    def count(mine: Any, theirs: Any) -> Any:
        return call(scatter_valid, mine.to(grad.dtype), dim, index, theirs.to(grad.dtype), True)

    zeros, missing = count(input == 0, src == 0), count(input != input, src != src)
    whole = _combined("prod", functions.where(_is_hole(input), 1, input), dim, index,
                      functions.where(_is_hole(src), 1, src))

    def others(value: Any, product: Any, total: Any, zeros: Any, missing: Any) -> Any:
        alone = functions.where(zeros - (value == 0).to(zeros.dtype) != 0, 0, product)
        alone = functions.where(missing - (value != value).to(zeros.dtype) != 0, math.nan, alone)
        hole = _is_hole(value)
        return functions.where(hole, alone, total / functions.where(hole, 1, value))

    own = grad * others(input, whole, result, zeros, missing)
    places = [call(gather_valid, x, dim, index) for x in (grad, whole, result, zeros, missing)]
    given = places[0] * others(src, *places[1:])
    if is_grad_enabled() and (src.requires_grad or input.requires_grad) and any_true(zeros > 1):
        return DelayedError("a gradient of products with several zeros at one place", 2)(own, given)  # type: ignore[no-any-return]
    return own, given


@composite(
    "scatter_reduce_valid(Tensor input, int dim, Tensor index, Tensor src, str reduce, bool include_self) -> Tensor",
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(_gradients),
)
def scatter_reduce_valid(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Apply ``scatter_reduce`` to checked positions and a source of their shape."""
    return _reduced(input, dim, index, src, reduce, include_self)


def _at_valid(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Reduce at checked positions; sums and means save neither operands nor the result, which may change later."""
    if reduce in ("sum", "mean"):
        return _reduced(input, dim, index, src, reduce, include_self)
    return call(COMPOSITES["scatter_reduce_valid"], input, dim, index, src, reduce, include_self)


@composite(
    "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    replayable=True, recomputed=Recomputed(copied=("input", "src"), saved=("index",)))
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return a copy of the tensor with the values of ``src`` that share a position reduced.

    Args:
        input: [..].
        dim: Dimension along which positions count.
        index: Positions, of the input's rank.
        src: Values, at least as large as ``index``.
        reduce: ``sum``, ``prod``, ``mean``, ``amax`` or ``amin``.
        include_self: Whether the input's own values are included.

    Raises:
        ArgumentError: The reduction is unknown.
        DtypeError: ``src`` has another dtype.
    """
    if reduce not in _MODES:
        raise ArgumentError("scatter_reduce", f"reduce={reduce!r}", f"reduce is one of {', '.join(_MODES)}",
                            "pass one of these")
    axis = normalize_axis("scatter_reduce", dim, input.ndim)
    same_dtype("scatter_reduce", input, src)
    _check_kind("scatter_reduce", reduce, input.dtype)
    if 0 in index._array.shape:
        index, src = empty_index_and_source(input, index, src)
    if input.ndim == 0 or index.ndim == 0 or src.ndim == 0:
        made = at_least_1d(input).scatter_reduce(axis, at_least_1d(index), at_least_1d(src), reduce,
                                                 include_self=include_self)
        return made.reshape(tuple(input.shape))
    same_rank("scatter_reduce", input, index, axis, src)
    places = checked_index("scatter_reduce", index, input._array.shape[axis])
    part = src if src.shape == index.shape else src.basic_index(tuple(slice(0, n) for n in index.shape))
    return _at_valid(input, axis, places, part, reduce, include_self)


@composite(
    "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    replayable=True, recomputed=Recomputed(copied=("input", "source"), saved=("index",)))
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return a copy of the tensor with the slices of ``source`` that share a position of a dimension reduced.

    Raises:
        ArgumentError: The reduction is unknown; a sum is ``index_add``.
    """
    if reduce not in _MODES[1:]:
        raise ArgumentError("index_reduce", f"reduce={reduce!r}", f"reduce is one of {', '.join(_MODES[1:])}",
                            "pass one of these")
    axis, places, source = vector_index("index_reduce", input, dim, index, source)
    _check_kind("index_reduce", reduce, input.dtype)
    if input.ndim == 0:
        return input.scatter_reduce(0, places.reshape(()), source.reshape(()), reduce, include_self=include_self)
    wide = rows_index(places, tuple(source.shape), axis)
    return _at_valid(input, axis, wide, source, reduce, include_self)


# -------------------------------------------------------------------------------------------------------- in place


def _before(input: Any, source: Any) -> Any:
    """Return the tensor as it is before the in-place change, for a gradient of either operand that needs it."""
    return input.clone() if (input._key | source._key) & AUTOGRAD else input


@composite(
    "scatter_reduce_(Tensor! input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)"
    " -> Tensor",
    function=False,
)
def scatter_reduce_(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Apply ``scatter_reduce`` in place."""
    check_separate("scatter_reduce_", input, index, src)
    return input.copy_(_before(input, src).scatter_reduce(dim, index, src, reduce, include_self=include_self))


@composite(
    "index_reduce_(Tensor! input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"
    " -> Tensor",
    function=False,
)
def index_reduce_(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Apply ``index_reduce`` in place."""
    check_separate("index_reduce_", input, index, source)
    return input.copy_(_before(input, source).index_reduce(dim, index, source, reduce, include_self=include_self))
