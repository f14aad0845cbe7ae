"""Derivatives of complex operators, by PyTorch's convention: gradients are those of the conjugate (Wirtinger calculus).

For a holomorphic function w = f(z) the gradient of z is grad * conj(f'(z)). A rule for real numbers computes
rule(grad) = grad * f'(z), linear in grad, so the complex gradient is conj(rule(conj(grad))). This module derives that
for every operator, and only for keys with a complex dtype: real tensors do not pay for it. Operators that are not
holomorphic (abs, angle, real ...) state rules that hold for complex arguments, and declare so with ``wirtinger``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.dtypes import complex32, complex64, complex128

from ..dispatch.derivative import Derivative
from ..keys import SCALAR, SCALAR_LEFT, dtype_bit

#: A key with one of these bits has a complex operand.
COMPLEX: Final = (dtype_bit(complex32) | dtype_bit(complex64) | dtype_bit(complex128) | SCALAR[complex]
                  | SCALAR_LEFT[complex])
_TWINS: Final[dict[Derivative, Derivative]] = {}


def wirtinger(derivative: Derivative) -> Derivative:
    """Mark a derivative whose rules hold for complex arguments unchanged."""
    _TWINS[derivative] = derivative
    return derivative


def for_key(derivative: Derivative, key: int) -> Derivative:
    """Return the derivative for a key: the rules themselves, or their conjugates for complex operands."""
    if not key & COMPLEX:
        return derivative
    twin = _TWINS.get(derivative)
    if twin is None:
        twin = _TWINS[derivative] = copy.copy(derivative)
        twin.functions = tuple(None if f is None else _conjugated(f) for f in derivative.functions)
        twin.arrays, twin.quick = (), None
        twin.joint = None if derivative.joint is None else twin.functions[0]
        _TWINS[twin] = twin
    return twin


def conjugate(value: Any) -> Any:
    """Return the conjugate of a complex tensor or of each in a tuple or list; any other value unchanged."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(conjugate, value))
    return value.conj_physical() if value is not None and value.dtype.kind == "complex" else value


def _conjugated(rule: Callable[..., Any]) -> Callable[..., Any]:
    def run(grad: Any, *saved: Any) -> Any:
        return conjugate(rule(conjugate(grad), *saved))

    return run
