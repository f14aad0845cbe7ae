"""Derivatives of complex operators, by PyTorch's convention: gradients are those of the conjugate (Wirtinger calculus).

For a holomorphic function w = f(z) the gradient of z is grad * conj(f'(z)). A rule that was written for real numbers
computes rule(grad) = grad * f'(z), linear in grad, so that the complex gradient is conj(rule(conj(grad))). That is made
here for every operator at once, and only for keys with a complex dtype: real tensors never meet it. Operators that are
not holomorphic (abs, angle, real ...) state rules that hold for complex arguments, and say so with ``wirtinger``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.dtypes import complex32, complex64, complex128

from ..dispatch.derivative import Derivative
from ..keys import SCALAR, SCALAR_LEFT, dtype_bit

#: Keys with one of these bits have a complex operand.
COMPLEX: Final = (dtype_bit(complex32) | dtype_bit(complex64) | dtype_bit(complex128) | SCALAR[complex]
                  | SCALAR_LEFT[complex])
_TWINS: Final[dict[Derivative, Derivative]] = {}


def wirtinger(derivative: Derivative) -> Derivative:
    """Mark a derivative whose rules hold for complex arguments as they are."""
    _TWINS[derivative] = derivative
    return derivative


def for_key(derivative: Derivative, key: int) -> Derivative:
    """Return the derivative for a key: the rules themselves, or for complex operands their conjugates."""
    if not key & COMPLEX:
        return derivative
    twin = _TWINS.get(derivative)
    if twin is None:
        twin = _TWINS[derivative] = copy.copy(derivative)
        twin.functions = tuple(None if f is None else _conjugated(f) for f in derivative.functions)
        twin.arrays = ()
        twin.joint = None if derivative.joint is None else twin.functions[0]
        _TWINS[twin] = twin
    return twin


def conjugate(value: Any) -> Any:
    """Return the conjugate of a complex tensor; anything else as it is, gradients in a tuple or list one by one."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(conjugate, value))
    return value.conj_physical() if value is not None and value.dtype.kind == "complex" else value


def _conjugated(rule: Callable[..., Any]) -> Callable[..., Any]:
    def run(grad: Any, *saved: Any) -> Any:
        return conjugate(rule(conjugate(grad), *saved))

    return run
