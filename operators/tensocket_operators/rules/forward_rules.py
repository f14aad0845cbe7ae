"""Rules for tangents of operators, derived from the records' gradient functions.

The gradient function of a pointwise operator multiplies by the derivative at each element, and so does the tangent: it
is the same function. Linear operators are applied to tangents.
"""

from __future__ import annotations

from typing import Any

from tensocket_core import functions
from tensocket_core.autograd.conjugate import COMPLEX, for_key
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import RESULT, SHAPE
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.transforms.aliasing import shown, written
from tensocket_core.transforms.tangents import (
    CHANGES,
    CHANGING_KINDS,
    KINDS,
    forward_rule,
    tangent_of,
    transposed_twice,
)
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.errors import ShapeError

from ..kinds.inplace import InPlace
from ..kinds.pointwise import Pointwise
from ..kinds.view import View
from ..linalg.kind import MatMul
from ..shapes.arranged import Arranged


def _multiplies(operator: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Whether the gradient function multiplies by the derivative, which it does not if complex and not holomorphic."""
    given = any(hasattr(x, "_key") and x.is_complex() for x in (*args, result))
    return not given or for_key(operator.derivative, COMPLEX) is not operator.derivative


def _of_pointwise(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    if operator.derivative.joint is None and _multiplies(operator, args, result):
        return pointwise(operator, args, tangents, result)
    return transposed_twice(operator, args, tangents)


def pointwise(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """Return the sum of the arguments' gradient functions, each applied to its argument's tangent."""
    derivative = operator.derivative
    if result.dtype.kind not in ("float", "complex"):
        return None
    total = None
    for position, function, pick in zip(derivative.tensors, derivative.functions, derivative.picks, strict=True):
        tangent = tangents[position]
        if tangent is None or function is None:
            continue
        wide = tangent.to(result.dtype).expand(tuple(result.shape))
        term = function(wide, *[_saved(derivative.saved_positions[k], args, result) for k in pick])
        total = term if total is None else total + term
    return total


def _saved(position: int, args: tuple[Any, ...], result: Any) -> Any:
    if position == RESULT:
        return result
    return args[position] if position >= 0 else tuple(args[SHAPE - position].shape)


def _of_view(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    return None if tangents[0] is None else call(operator, tangents[0], *args[1:])


def _of_matmul(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """Return the tangent of a product, which is linear in each factor."""
    left = None if tangents[0] is None else call(operator, tangents[0], args[1])
    right = None if tangents[1] is None else call(operator, args[0], tangents[1])
    return right if left is None else left if right is None else left + right


KINDS[View] = _of_view
KINDS[Arranged] = _of_view
KINDS[MatMul] = _of_matmul
KINDS[Pointwise] = _of_pointwise


# ------------------------------------------------------------------------------------------------- linear operators


@forward_rule("view")
def _view(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if tangents[0] is None or result.dtype is not args[0].dtype:
        return None
    try:
        return tangents[0].view(tuple(result.shape))
    except ShapeError:  # a tangent need not have the layout of its primal
        return tangents[0].reshape(tuple(result.shape))


@forward_rule("as_strided")
def _as_strided(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if tangents[0] is None:
        return None
    _, size, stride, offset, (shape, strides) = args
    if tuple(tangents[0].stride()) == tuple(strides):
        return call(operator, tangents[0], *args[1:])
    whole = DeviceArray(None, result.dtype, shape, strides, 0)
    return shown(tangents[0], whole, whole.as_strided(size, stride, offset))


@forward_rule("clone", "convert", "embed_index", "sum", "mean", "gather_valid", "cumsum", "conj_physical",
              "reverse", "border", "triangle", "fft_c2c", "fft_r2c", "fft_c2r")
def _linear(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if tangents[0] is None or result.dtype.kind not in ("float", "complex"):
        return None
    return call(operator, tangents[0], *args[1:])


@forward_rule("drawn_from")
def _samples(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    return result.new_zeros(tuple(result.shape))


@forward_rule("div")
def _quotient(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    """Return (t - u * result) / other: one division, which is infinite, not NaN, where other is 0."""
    dividend, divisor = tangents[:2]
    if divisor is None or result.dtype.kind not in ("float", "complex"):
        return pointwise(operator, args, tangents, result)
    moved = divisor.to(result.dtype) * result
    return (-moved if dividend is None else dividend.to(result.dtype) - moved) / args[1]


@forward_rule("logcumsumexp")
def _log_running(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if not args[0].dtype.is_floating_point or not args[0].ndim:
        return tangents[0] if not args[0].ndim else transposed_twice(operator, args, tangents)
    return call(OPERATORS["logcumsumexp_tangent"], tangents[0], args[0], result, args[1])


@forward_rule("cat")
def _cat(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    parts = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in zip(args[0], tangents[0], strict=True)]
    return functions.cat(parts, args[1])


@forward_rule("blocks_on_diagonal")
def _blocks(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    parts = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in zip(args[0], tangents[0], strict=True)]
    return call(operator, parts)


@forward_rule("scatter_valid")
def _scatter(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    input, axis, index, src, add = args
    filled = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in ((input, tangents[0]), (src, tangents[3]))]
    return call(operator, filled[0], axis, index, filled[1], add)


@forward_rule("with_part")
def _with_part(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    filled = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in zip(args[:2], tangents[:2], strict=True)]
    return call(operator, *filled, *args[2:])


@forward_rule("softmax_rows")
def _softmax(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    scaled = tangents[0] * result
    return scaled - result * scaled.sum(args[1], True)


@forward_rule("log_softmax_rows")
def _log_softmax(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    return tangents[0] - (tangents[0] * result.exp()).sum(args[1], True)


# ------------------------------------------------------------------------------------------------- changes in place


def _of_form(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the tangent of the out-of-place form of the operator."""
    made = tangent_of(operator.origin, args, tangents, call(operator.origin, *args))
    return None if made is None else made.to(args[0].dtype)


def _of_source(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the tangent of the source that is written; that of the overwritten tensor is lost."""
    target = args[0]
    return None if tangents[1] is None else tangents[1].to(target.dtype).expand(tuple(target.shape))


def _of_part(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the tensor's tangent, with the tangent of the source written to the same part."""
    target, shape = args[0], tuple(args[0].shape)
    whole = DeviceArray(None, target.dtype, shape, contiguous_strides(shape), 0)
    room = target.new_zeros(shape) if tangents[0] is None else tangents[0]
    part = target.new_zeros(()) if tangents[2] is None else tangents[2]
    return written(room, whole, whole[tuple(args[1])], part)


CHANGING_KINDS[InPlace] = _of_form
CHANGES.update({"copy_": _of_source, "fill_": _of_source, "basic_put_": _of_part})
