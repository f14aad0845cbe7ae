"""Tangents of operators: from the record's own formulas where that is possible, else by transposing twice.

A reverse rule of a pointwise operator multiplies with the derivative at each element, and so does the tangent: it is
the same function. Linear operators are applied to tangents. For all others, the gradient is linear in the gradient of
the result, and its gradient is the tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.errors import ShapeError, TransformError

from .._generated import functions
from ..autograd.conjugate import COMPLEX, for_key
from ..autograd.derivative import RESULT, SHAPE
from ..dispatch.call import call
from ..dispatch.registry import OPERATORS
from ..execute.inplace import InPlace
from ..execute.matmul import MatMul
from ..execute.pointwise import Pointwise
from ..execute.views import View
from .aliasing import shown, written
from .reverse import pull_back

F = TypeVar("F", bound=Callable[..., Any])

#: ``rule(operator, args, tangents, result) -> tangent`` by operator name. ``tangents`` has the structure of ``args``,
#: with None for what has none; at least one is there.
RULES: Final[dict[str, Callable[..., Any]]] = {}


def register_forward_rule(operator: Any, rule: Callable[..., Any]) -> None:
    """Say what the tangent of an operator's result is.

    Args:
        operator: An operator or its name.
        rule: ``rule(operator, args, tangents, result) -> tangent``, or a tuple for several results; None is zero.
    """
    RULES[operator if isinstance(operator, str) else operator.name] = rule


def forward_rule(*names: str) -> Callable[[F], F]:
    """Register the decorated function for operators of these names."""

    def register(rule: F) -> F:
        for name in names:
            RULES[name] = rule
        return rule

    return register


def tangent_of(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """The tangent of a result; None for zeros, or where the operator is declared not differentiable."""
    rule = RULES.get(operator.name)
    if rule is not None:
        return rule(operator, args, tangents, result)
    if operator.derivative is None:
        return None
    if isinstance(operator, View):
        return None if tangents[0] is None else call(operator, tangents[0], *args[1:])
    if isinstance(operator, MatMul):
        return matmul(operator, args, tangents)
    if isinstance(operator, Pointwise) and operator.derivative.joint is None and _multiplies(operator, args, result):
        return pointwise(operator, args, tangents, result)
    return transposed_twice(operator, args, tangents)


def _multiplies(operator: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Whether a reverse rule multiplies with the derivative: not where a complex one is no holomorphic function's."""
    given = any(hasattr(x, "_key") and x.is_complex() for x in (*args, result))
    return not given or for_key(operator.derivative, COMPLEX) is not operator.derivative


def pointwise(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """The sum over the arguments of their reverse rules, each given the argument's tangent."""
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


def matmul(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Linear in each factor."""
    left = None if tangents[0] is None else call(operator, tangents[0], args[1])
    right = None if tangents[1] is None else call(operator, args[0], tangents[1])
    return right if left is None else left if right is None else left + right


# Functions of the module, for one that refers to itself in a closure would be a cycle that keeps the tensors.
def _moving(value: Any, tangent: Any) -> Iterator[tuple[Any, Any]]:
    """Tensors that have a tangent, and their tangents."""
    if isinstance(value, (tuple, list)) and tangent is not None:
        for item, direction in zip(value, tangent, strict=True):
            yield from _moving(item, direction)
    elif tangent is not None and hasattr(tangent, "_key"):
        yield value, tangent


def _rebuilt(value: Any, tangent: Any, new: Iterator[Any]) -> Any:
    """The value with new tensors where there is a tangent."""
    if isinstance(value, (tuple, list)) and tangent is not None:
        return type(value)([_rebuilt(x, t, new) for x, t in zip(value, tangent, strict=True)])
    return next(new) if tangent is not None and hasattr(tangent, "_key") else value


def transposed_twice(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The gradient of the gradient with respect to the gradient of the result."""
    pairs = list(_moving(args, tangents))
    points, directions = [x for x, _ in pairs], [t.to(x.dtype) for x, t in pairs]

    places: list[int] = []
    several, count = False, 1

    def function(*values: Any) -> Any:
        nonlocal several, count
        given = iter(values)
        found = call(operator, *[_rebuilt(x, t, given) for x, t in zip(args, tangents, strict=True)])
        results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        several, count = isinstance(found, (tuple, list)), len(results)
        # Those of discrete dtypes have no tangents.
        places.extend(k for k, x in enumerate(results) if x.dtype.kind in ("float", "complex"))
        return tuple([results[k] for k in places])

    smooth, pull, _ = pull_back(operator.name, function, tuple(points), None, False)
    zeros = tuple([x.new_zeros(tuple(x.shape)) for x in smooth])
    _, push, _ = pull_back(operator.name, lambda *cotangents: pull(cotangents), zeros, None, False)
    made = dict(zip(places, push(tuple(directions)), strict=True))
    return tuple([made.get(k) for k in range(count)]) if several else made.get(0)


# ------------------------------------------------------------------------------------------------- linear operators


@forward_rule("view")
def _view(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if tangents[0] is None or result.dtype is not args[0].dtype:
        return None
    try:
        return tangents[0].view(tuple(result.shape))
    except ShapeError:  # a tangent need not lie in memory as its primal does
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
              "reverse", "border", "fft_c2c", "fft_r2c", "fft_c2r")
def _linear(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    if tangents[0] is None or result.dtype.kind not in ("float", "complex"):
        return None
    return call(operator, tangents[0], *args[1:])


@forward_rule("drawn_from")
def _samples(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    return result.new_zeros(tuple(result.shape))


@forward_rule("div")
def _quotient(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    """(t - u * result) / other: one division, which is infinite, not NaN, where other is 0."""
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


@forward_rule("scatter_valid")
def _scatter(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    input, axis, index, src, add = args
    filled = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in ((input, tangents[0]), (src, tangents[3]))]
    return call(operator, filled[0], axis, index, filled[1], add)


@forward_rule("softmax_rows")
def _softmax(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    scaled = tangents[0] * result
    return scaled - result * scaled.sum(args[1], True)


@forward_rule("log_softmax_rows")
def _log_softmax(operator: Any, args: Any, tangents: Any, result: Any) -> Any:
    return tangents[0] - (tangents[0] * result.exp()).sum(args[1], True)


# ------------------------------------------------------------------------------------------------- changes in place


def inplace_tangent(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The tangent of a tensor after an in-place operator, computed before it runs; None for zeros.

    Raises:
        TransformError: There is no rule for it.
    """
    target = args[0]
    if target.dtype.kind not in ("float", "complex"):
        return None
    shape = tuple(target.shape)
    if isinstance(operator, InPlace):
        made = tangent_of(operator.origin, args, tangents, call(operator.origin, *args))
        return None if made is None else made.to(target.dtype)
    if operator.name in ("copy_", "fill_"):
        return None if tangents[1] is None else tangents[1].to(target.dtype).expand(shape)
    if operator.name == "basic_put_":
        whole = DeviceArray(None, target.dtype, shape, contiguous_strides(shape), 0)
        room = target.new_zeros(shape) if tangents[0] is None else tangents[0]
        part = target.new_zeros(()) if tangents[2] is None else tangents[2]
        return written(room, whole, whole[tuple(args[1])], part)
    raise TransformError(operator.name, f"a tensor of shape {list(shape)} with a tangent",
                         "the operator has no rule for tangents of what it modifies", "use its out-of-place form")

