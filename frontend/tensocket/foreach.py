"""Operators over lists of tensors: ``torch._foreach_mul_`` and its relatives.

Every function takes lists and gives a list; those whose name ends in ``_`` change the tensors of their first list. The
second operand is a list of as many tensors or numbers, or one number or tensor for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

from tensocket_core import Tensor, maximum, minimum
from tensocket_core._generated.functions import amax, linalg_vector_norm

from .errors import ArgumentError

Tensors = Sequence[Tensor]
Operand = Sequence[Any] | Tensor | float | complex


def _each(name: str, tensors: Tensors, other: Any) -> Iterable[Any]:
    """The operand of every tensor."""
    if not isinstance(other, (list, tuple)):
        return repeat(other, len(tensors))
    if len(other) != len(tensors):
        raise ArgumentError(f"_foreach_{name}", f"{len(tensors)} tensors and {len(other)} operands",
                            "the lists are equally long", "pass one operand for each tensor, or one for all")
    return other


def _unary(name: str) -> Callable[[Tensors], list[Tensor]]:
    method = getattr(Tensor, name)

    def apply(tensors: Tensors) -> list[Tensor]:
        return [method(tensor) for tensor in tensors]

    return apply


def _binary(name: str) -> Callable[[Tensors, Operand], list[Tensor]]:
    method = getattr(Tensor, name)

    def apply(tensors: Tensors, other: Operand) -> list[Tensor]:
        return [method(x, y) for x, y in zip(tensors, _each(name, tensors, other), strict=True)]

    return apply


def add(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """``x + alpha * y``."""
    return [x.add(y, alpha=alpha) for x, y in zip(tensors, _each("add", tensors, other), strict=True)]


def add_(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """``x += alpha * y``."""
    return [x.add_(y, alpha=alpha) for x, y in zip(tensors, _each("add_", tensors, other), strict=True)]


def sub(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """``x - alpha * y``."""
    return [x.sub(y, alpha=alpha) for x, y in zip(tensors, _each("sub", tensors, other), strict=True)]


def sub_(tensors: Tensors, other: Operand, alpha: float = 1) -> list[Tensor]:
    """``x -= alpha * y``."""
    return [x.sub_(y, alpha=alpha) for x, y in zip(tensors, _each("sub_", tensors, other), strict=True)]


def clamp_min(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The larger of ``x`` and the bound."""
    return [x.clamp(min=y) for x, y in zip(tensors, _each("clamp_min", tensors, other), strict=True)]


def clamp_min_(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The larger of ``x`` and the bound, in place."""
    return [x.clamp_(min=y) for x, y in zip(tensors, _each("clamp_min_", tensors, other), strict=True)]


def clamp_max(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The smaller of ``x`` and the bound."""
    return [x.clamp(max=y) for x, y in zip(tensors, _each("clamp_max", tensors, other), strict=True)]


def clamp_max_(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The smaller of ``x`` and the bound, in place."""
    return [x.clamp_(max=y) for x, y in zip(tensors, _each("clamp_max_", tensors, other), strict=True)]


def larger(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The larger of ``x`` and ``y``, which may be a number."""
    return [maximum(x, y) if isinstance(y, Tensor) else x.clamp(min=y)
            for x, y in zip(tensors, _each("maximum", tensors, other), strict=True)]


def larger_(tensors: Tensors, other: Operand) -> list[Tensor]:
    """``larger`` in place; no gradients are recorded for it."""
    return [maximum(x, y, out=x) if isinstance(y, Tensor) else x.clamp_(min=y)
            for x, y in zip(tensors, _each("maximum_", tensors, other), strict=True)]


def smaller(tensors: Tensors, other: Operand) -> list[Tensor]:
    """The smaller of ``x`` and ``y``, which may be a number."""
    return [minimum(x, y) if isinstance(y, Tensor) else x.clamp(max=y)
            for x, y in zip(tensors, _each("minimum", tensors, other), strict=True)]


def smaller_(tensors: Tensors, other: Operand) -> list[Tensor]:
    """``smaller`` in place; no gradients are recorded for it."""
    return [minimum(x, y, out=x) if isinstance(y, Tensor) else x.clamp_(max=y)
            for x, y in zip(tensors, _each("minimum_", tensors, other), strict=True)]


def power(tensors: Tensors | float, exponent: Any) -> list[Tensor]:
    """``x ** y``; ``x`` may be one number for all exponents."""
    if isinstance(tensors, (list, tuple)):
        return [x.pow(y) for x, y in zip(tensors, _each("pow", tensors, exponent), strict=True)]
    base: Any = tensors
    return [base**y for y in exponent]


def lerp(tensors: Tensors, ends: Tensors, weight: Operand) -> list[Tensor]:
    """``x + weight * (y - x)``."""
    return [x.lerp(y, w) for x, y, w in zip(tensors, _each("lerp", tensors, ends), _each("lerp", tensors, weight),
                                            strict=True)]


def lerp_(tensors: Tensors, ends: Tensors, weight: Operand) -> list[Tensor]:
    """``x += weight * (y - x)``."""
    return [x.lerp_(y, w) for x, y, w in zip(tensors, _each("lerp_", tensors, ends), _each("lerp_", tensors, weight),
                                             strict=True)]


def _ternary(name: str) -> Callable[..., list[Tensor]]:
    method = getattr(Tensor, name)

    def apply(tensors: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Operand = 1, *,
              value: Operand | None = None) -> list[Tensor]:
        factors: Any = scalars if value is None else value
        if isinstance(factors, Tensor):
            factors = factors.tolist() if factors.ndim else factors.item()
        rows = zip(tensors, _each(name, tensors, tensor1), _each(name, tensors, tensor2),
                   _each(name, tensors, factors), strict=True)
        return [method(x, y, z, value=factor) for x, y, z, factor in rows]

    return apply


addcmul, addcmul_ = _ternary("addcmul"), _ternary("addcmul_")
addcdiv, addcdiv_ = _ternary("addcdiv"), _ternary("addcdiv_")
mul, mul_, div, div_ = (_binary(name) for name in ("mul", "mul_", "div", "div_"))
sqrt, neg, absolute, sign = (_unary(name) for name in ("sqrt", "neg", "abs", "sign"))
clone, zero_ = _unary("clone"), _unary("zero_")


def norm(tensors: Tensors, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The vector norm of every tensor."""
    return [linalg_vector_norm(tensor, ord, dtype=dtype) for tensor in tensors]


def powsum(tensors: Tensors, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The sum of ``abs(x) ** ord`` of every tensor."""
    return [tensor.abs().pow(ord).sum(dtype=dtype) for tensor in tensors]


def largest(tensors: Tensors) -> list[Tensor]:
    """The largest element of every tensor."""
    return [amax(tensor) for tensor in tensors]


def copy_(tensors: Tensors, sources: Tensors, non_blocking: bool = False) -> list[Tensor]:
    """Write the values of the second list into the first."""
    return [x.copy_(y, non_blocking) for x, y in zip(tensors, _each("copy_", tensors, sources), strict=True)]


def product(tensors: Tensors, others: Tensors) -> list[Tensor]:
    """The matrix product of every pair."""
    return [x.mm(y) for x, y in zip(tensors, _each("mm", tensors, others), strict=True)]


#: Pointwise functions of one tensor that exist in both forms.
UNARY: Final = ("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
                "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
                "sin", "sinh", "sqrt", "tan", "tanh", "trunc")

#: By name without the prefix ``_foreach_``; a function that tensors don't have is absent here, too.
FUNCTIONS: Final[dict[str, Callable[..., list[Tensor]]]] = {
    **{name: _unary(name) for base in UNARY for name in (base, f"{base}_")
       if hasattr(Tensor, name)},
    "add": add, "add_": add_, "addcdiv": addcdiv, "addcdiv_": addcdiv_, "addcmul": addcmul, "addcmul_": addcmul_,
    "clamp_max": clamp_max, "clamp_max_": clamp_max_, "clamp_min": clamp_min, "clamp_min_": clamp_min_,
    "clone": clone, "copy_": copy_, "div": div, "div_": div_, "lerp": lerp, "lerp_": lerp_, "max": largest,
    "maximum": larger, "maximum_": larger_, "minimum": smaller, "minimum_": smaller_, "mm": product,
    "mul": mul, "mul_": mul_, "norm": norm, "pow": power, "pow_": _binary("pow_"), "powsum": powsum,
    "sub": sub, "sub_": sub_, "zero_": zero_,
}
