"""Normalised rows of reshaped inputs, for groups and batches, as one operator with one node."""

from __future__ import annotations

from typing import Any

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES

from ...kinds.composite import composite
from .row_norms import SAVED, WANTED, joint_gradients, normalize_rows, sum_present


def _viewed(x: Any, shape: Any) -> Any:
    return x if x is None or shape is None else x.reshape(shape)


def _parts_joint(grads: Any, input: Any, weight: Any, bias: Any, result1: Any, result2: Any, eps: Any, form: Any,
                 wanted: Any) -> tuple[Any, Any, Any]:
    rows, dims, _ = form
    found: tuple[Any, Any, Any] = (None, None, None)
    if grads[0] is not None:
        made = iter(call(COMPOSITES["normalize_parts_gradients"], grads[0], input, weight, bias, result1, result2, eps,
                         form, WANTED[wanted]))
        found = tuple([next(made) if there else None for there in wanted])  # type: ignore[assignment]  # three
    if grads[1] is None and grads[2] is None:
        return found
    more = joint_gradients((None, grads[1], grads[2]), _viewed(input, rows), None, None, result1, result2, eps, dims,
                  (wanted[0], False, False))[0]
    return sum_present(found[0], None if more is None else more.reshape(tuple(input.shape))), found[1], found[2]


@composite(
    "normalize_parts(Tensor input, Tensor? weight, Tensor? bias, float eps, any form) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, replayable=True, derivative=Derivative(_parts_joint))
def normalize_parts(input: Any, weight: Any, bias: Any, eps: float, form: Any) -> tuple[Any, Any, Any]:
    """Apply normalize_rows to an input in another shape.

    Args:
        input: A floating-point tensor.
        weight: Factors, or None.
        bias: Summands, or None.
        eps: Added to the variance.
        form: The shape of the input for the rows (None: its own), the dims of a row in it, and the shape of weight and
            bias (None: their own).

    Returns:
        A result of the input's shape, and mean and variance in the other shape.
    """
    rows, dims, each = form
    weight, bias = _viewed(weight, each), _viewed(bias, each)
    result, mean, var = call(normalize_rows, _viewed(input, rows), weight, bias, eps, dims)
    return _viewed(result, None if rows is None else tuple(input.shape)), mean, var


@composite(
    f"normalize_parts_gradients(Tensor upstream, Tensor input, Tensor? weight, Tensor? bias, {SAVED}, any form, "
    "any wanted) -> Tensor[]", method=False, function=False, replayable=True)
def normalize_parts_gradients(upstream: Any, input: Any, weight: Any, bias: Any, mean: Any, square: Any, eps: float,
                              form: Any, wanted: tuple[bool, bool, bool]) -> tuple[Any, ...]:
    """Return the wanted gradients of input, weight and bias of ``normalize_parts``."""
    rows, dims, each = form
    made = call(COMPOSITES["normalize_gradients"], _viewed(upstream, rows), _viewed(input, rows), _viewed(weight, each),
                _viewed(bias, each), mean, square, eps, dims, wanted)
    like = [x for x, there in zip((input, weight, bias), wanted, strict=True) if there]
    return tuple([x.reshape(tuple(y.shape)) for x, y in zip(made, like, strict=True)])
