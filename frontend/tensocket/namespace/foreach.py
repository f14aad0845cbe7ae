"""Operators over lists of tensors: ``torch._foreach_mul_`` and its relatives.

Every function takes lists and returns a list; functions whose name ends in ``_`` change the tensors of their first
list. The second operand is a list of as many tensors or numbers, or one number or tensor for all. Pointwise functions
run one kernel for all tensors with equal dtype and device, others run tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_core.launch.numbers import check_range
from tensocket_operators import Tensor, float32, float64, maximum, minimum, result_type
from tensocket_operators.functions import amax, linalg_vector_norm
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_operators.kinds.foreach_reductions import NORMS
from tensocket_plugins.ir.element_types import arithmetic_dtype

Tensors = Sequence[Tensor]
Operand = Sequence[Any] | Tensor | float | complex


def _each(name: str, tensors: Tensors, other: Any) -> Iterable[Any]:
    """Return the operand of every tensor."""
    if not isinstance(other, (list, tuple)):
        return repeat(other, len(tensors))
    if len(other) != len(tensors):
        raise ArgumentError(f"_foreach_{name}", f"{len(tensors)} tensors and {len(other)} operands",
                            "the lists are equally long", "pass one operand for each tensor, or one for all")
    return other


#: Largest finite number that is representable in all dtypes in which the functions here compute.
_HELD: Final = 65504.0


def _check_numbers(name: str, tensors: Tensors, numbers: Any, dtype: Callable[[Any], Any] = lambda x: x.dtype) -> None:
    """Refuse finite numbers that a tensor's floating-point dtype cannot represent, as operators of one tensor do.

    Args:
        name: The function.
        tensors: The tensors.
        numbers: One number for all tensors, or one for each.
        dtype: The dtype of a tensor's number.

    Raises:
        ArgumentError: Such a number is given.
    """
    given = numbers if isinstance(numbers, (list, tuple)) else (numbers,)
    if all(type(n) not in (int, float) or -_HELD <= n <= _HELD for n in given):
        return
    for x, n in zip(tensors, _each(name, tensors, numbers), strict=False):
        if type(n) in (int, float) and x.is_floating_point():
            check_range(f"_foreach_{name}", n, dtype(x))


def _checked(name: str, function: Callable[..., list[Tensor]],
             dtype: Callable[[Any], Any] = lambda x: x.dtype) -> Callable[[Tensors, Operand], list[Tensor]]:
    """Return a function that converts its second operand to the dtype of the first, or to another one."""

    def apply(tensors: Tensors, other: Operand) -> list[Tensor]:
        _check_numbers(name, tensors, other, dtype)
        return function(tensors, other)

    return apply


def _function(name: str, rule: Callable[..., Any], row: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    """Return a function of a list of tensors and further operands.

    Args:
        name: The name; with ``_`` at its end, the function changes the first list.
        rule: A function from a tensor and its operands, tensors first, to the result, in the form of ``ListFunction``.
        row: The same as a method of tensors.
    """
    in_place = name.endswith("_")

    def on_row(*args: Any) -> tuple[Any, ...]:
        result = row(*args)
        return () if in_place else (result,)

    function = ListFunction(f"foreach_{name}", lambda *args: (rule(*args),), (0,) if in_place else (),
                            0 if in_place else 1, on_row)

    def apply(tensors: Tensors, *operands: Any) -> list[Tensor]:
        lists: list[Any] = [tensors]
        numbers: list[Any] = []
        for operand in operands:
            if _each(name, tensors, operand) is not operand:
                numbers.append(operand)
            elif all(isinstance(x, Tensor) for x in operand):
                lists.append(operand)
            else:
                numbers.append(list(operand))
        try:
            results = function(lists, numbers)
        except AttributeError:
            given: Sequence[Any] = tensors
            wrong = next((x for x in given if not isinstance(x, Tensor)), None)
            if wrong is None:
                raise
            raise ArgumentTypeError(f"_foreach_{name}", f"an element of type {type(wrong).__name__}",
                                    "the list holds tensors", "convert it with tensocket.tensor(...)") from None
        return list(tensors) if in_place else results[0]

    return apply


def _method(name: str) -> Callable[..., list[Tensor]]:
    """Return a function that calls a pointwise method of tensors, or its in-place form."""
    base = name.removesuffix("_")
    return _function(name, lambda x, *operands: getattr(x, base)(*operands), getattr(Tensor, name))


def _by_tensor(name: str) -> Callable[[Tensors], list[Tensor]]:
    """Return a function that calls a function of one tensor for each."""
    method = getattr(Tensor, name)

    def apply(tensors: Tensors) -> list[Tensor]:
        return [method(tensor) for tensor in tensors]

    return apply


def _with_alpha(name: str, rule: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    method = getattr(Tensor, name)
    function = _function(name, rule, lambda x, y, alpha: method(x, y, alpha=alpha))

    def apply(tensors: Tensors, other: Any, alpha: Any) -> list[Tensor]:
        if not -_HELD <= alpha <= _HELD:
            for x, y in zip(tensors, _each(name, tensors, other), strict=False):
                if (common := result_type(x, y)).is_floating_point:
                    check_range(f"_foreach_{name}", alpha, common)
        return function(tensors, other, alpha)

    return apply


_scaled_sum, _scaled_sum_ = (_with_alpha(name, lambda x, y, alpha: x + y * alpha) for name in ("add", "add_"))
_scaled_difference, _scaled_difference_ = (_with_alpha(name, lambda x, y, alpha: x - y * alpha)
                                           for name in ("sub", "sub_"))
_add, _add_, _sub, _sub_ = (_method(name) for name in ("add", "add_", "sub", "sub_"))
mul, mul_, div, div_ = (_method(name) for name in ("mul", "mul_", "div", "div_"))
sqrt, neg, absolute, sign = (_method(name) for name in ("sqrt", "neg", "abs", "sign"))


def _interpolation(name: str) -> Callable[..., list[Tensor]]:
    function = _method(name)

    def apply(tensors: Tensors, tensors1: Tensors, weights: Any = None, *, weight: Any = None) -> list[Tensor]:
        return function(tensors, tensors1, weights if weight is None else weight)

    return apply


lerp, lerp_ = _interpolation("lerp"), _interpolation("lerp_")
clone = _function("clone", lambda x: x, Tensor.clone)
_fill_ = _function("fill_", lambda x, value: value, Tensor.fill_)


def zero_(tensors: Tensors) -> list[Tensor]:
    """Set all elements to zero."""
    return _fill_(tensors, 0.0)


def add(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """Return ``x + alpha * y``."""
    return _add(tensors, other) if alpha == 1 else _scaled_sum(tensors, other, alpha)


def add_(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """Add ``alpha * y`` to ``x`` in place."""
    return _add_(tensors, other) if alpha == 1 else _scaled_sum_(tensors, other, alpha)


def sub(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """Return ``x - alpha * y``."""
    return _sub(tensors, other) if alpha == 1 else _scaled_difference(tensors, other, alpha)


def sub_(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """Subtract ``alpha * y`` from ``x`` in place."""
    return _sub_(tensors, other) if alpha == 1 else _scaled_difference_(tensors, other, alpha)


#: ``clamp_`` with both bounds as numbers.
clamp_ = _function("clamp_", lambda x, low, high: x.maximum(low).minimum(high), Tensor.clamp_)


def _limit(name: str, rule: str, row: Callable[..., Any]) -> Callable[[Tensors, Operand], list[Tensor]]:
    return _checked(name, _function(name, lambda x, y: getattr(x, rule)(y), row))


clamp_min = _limit("clamp_min", "maximum", lambda x, y: x.clamp(min=y))
clamp_min_ = _limit("clamp_min_", "maximum", lambda x, y: x.clamp_(min=y))
clamp_max = _limit("clamp_max", "minimum", lambda x, y: x.clamp(max=y))
clamp_max_ = _limit("clamp_max_", "minimum", lambda x, y: x.clamp_(max=y))
larger = _limit("maximum", "maximum", lambda x, y: maximum(x, y) if isinstance(y, Tensor) else x.clamp(min=y))
smaller = _limit("minimum", "minimum", lambda x, y: minimum(x, y) if isinstance(y, Tensor) else x.clamp(max=y))
# These two do not record gradients.
larger_ = _limit("maximum_", "maximum",
                 lambda x, y: maximum(x, y, out=x) if isinstance(y, Tensor) else x.clamp_(min=y))
smaller_ = _limit("minimum_", "minimum",
                  lambda x, y: minimum(x, y, out=x) if isinstance(y, Tensor) else x.clamp_(max=y))


def power(tensors: Tensors | float, exponent: Any) -> list[Tensor]:
    """Return ``x ** y``; ``x`` may be one number for all exponents."""
    if isinstance(tensors, (list, tuple)):
        return _power(tensors, exponent)
    base: Any = tensors
    return [base**y for y in exponent]


# For float32 tensors, exponents are float64, as for one tensor.
_power, _power_ = (_checked(name, _method(name), lambda x: float64 if x.dtype is float32 else x.dtype)
                   for name in ("pow", "pow_"))


def _ternary(name: str) -> Callable[..., list[Tensor]]:
    method, base = getattr(Tensor, name), name.removesuffix("_")
    function = _function(name, lambda x, y, z, factor: getattr(x, base)(y, z, value=factor),
                         lambda x, y, z, factor: method(x, y, z, value=factor))

    def apply(tensors: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Operand = 1, *,
              value: Operand | None = None) -> list[Tensor]:
        factors: Any = scalars if value is None else value
        if isinstance(factors, Tensor):
            factors = factors.tolist() if factors.ndim else factors.item()
        _check_numbers(name, tensors, factors, lambda x: arithmetic_dtype(x.dtype))
        return function(tensors, tensor1, tensor2, factors)

    return apply


addcmul, addcmul_ = _ternary("addcmul"), _ternary("addcmul_")
addcdiv, addcdiv_ = _ternary("addcdiv"), _ternary("addcdiv_")


def norms(tensors: Tensors, order: float) -> Tensor | None:
    """Return the vector norms of tensors as a vector; None if each needs its own computation."""
    function = NORMS.get(order)
    found: Tensor | None = None if function is None else function(tensors)
    return found


def norm(tensors: Tensors, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """Return the vector norm of every tensor."""
    together = norms(tensors, ord) if dtype is None else None
    return [linalg_vector_norm(tensor, ord, dtype=dtype) for tensor in tensors] if together is None else list(
        together.unbind())


def powsum(tensors: Tensors, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """Return the sum of ``abs(x) ** ord`` of every tensor."""
    return [tensor.abs().pow(ord).sum(dtype=dtype) for tensor in tensors]


def largest(tensors: Tensors) -> list[Tensor]:
    """Return the largest element of every tensor."""
    return [amax(tensor) for tensor in tensors]


def copy_(tensors: Tensors, sources: Tensors, non_blocking: bool = False) -> list[Tensor]:
    """Copy the values of the second list into the first."""
    return _copy_(tensors, sources) if not non_blocking else [
        x.copy_(y, True) for x, y in zip(tensors, _each("copy_", tensors, sources), strict=True)]


_copy_ = _function("copy_", lambda x, y: y, Tensor.copy_)


def product(tensors: Tensors, others: Tensors) -> list[Tensor]:
    """Return the matrix product of every pair."""
    return [x.mm(y) for x, y in zip(tensors, _each("mm", tensors, others), strict=True)]


#: Pointwise functions of one tensor that exist in both forms.
UNARY: Final = ("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
                "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
                "sin", "sinh", "sqrt", "tan", "tanh", "trunc")

#: Functions whose formulas are more than one expression.
_WITH_LOOPS: Final = ("lgamma",)

#: Functions by name without the prefix ``_foreach_``; functions that tensors lack are absent here, too.
FUNCTIONS: Final[dict[str, Callable[..., list[Tensor]]]] = {
    **{name: _by_tensor(name) if base in _WITH_LOOPS else _method(name)
       for base in UNARY for name in (base, f"{base}_") if hasattr(Tensor, name)},
    "add": add, "add_": add_, "addcdiv": addcdiv, "addcdiv_": addcdiv_, "addcmul": addcmul, "addcmul_": addcmul_,
    "clamp_max": clamp_max, "clamp_max_": clamp_max_, "clamp_min": clamp_min, "clamp_min_": clamp_min_,
    "clone": clone, "copy_": copy_, "div": div, "div_": div_, "lerp": lerp, "lerp_": lerp_, "max": largest,
    "maximum": larger, "maximum_": larger_, "minimum": smaller, "minimum_": smaller_, "mm": product,
    "mul": mul, "mul_": mul_, "norm": norm, "pow": power, "pow_": _power_, "powsum": powsum,
    "sub": sub, "sub_": sub_, "zero_": zero_,
}
