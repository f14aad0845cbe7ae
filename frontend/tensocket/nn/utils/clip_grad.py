"""Functions that limit the size of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from tensocket.errors import AutogradError
from tensocket.linalg import vector_norm
from tensocket.namespace import foreach as _foreach
from tensocket_compiler.calls.settings import is_compiling
from tensocket_operators import Tensor, functions, no_grad
from tensocket_operators import tensor as make_tensor

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _unrecorded(tensors: Iterable[Any]) -> Any:
    """Return a block without recording; most gradients have no history, and their operators run faster in no mode."""
    return no_grad() if any(tensor.requires_grad for tensor in tensors) else nullcontext()


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all elements of the tensors, as if they were one vector.

    Args:
        tensors: A tensor, or several.
        norm_type: p of the p-norm; ``inf`` for the largest magnitude.
        error_if_nonfinite: Whether a norm that is not finite is an error.
        foreach: Ignored; there is one implementation.

    Raises:
        AutogradError: The norm is not finite, with ``error_if_nonfinite``.
    """
    given = _listed(tensors)
    if not given:
        zero: Tensor = make_tensor(0.0)
        return zero
    order = float(norm_type)
    first = given[0].device
    norms = _foreach.norms(given, order)
    if norms is None:
        norms = functions.stack([vector_norm(tensor, order).to(first) for tensor in given])
    total: Tensor = vector_norm(norms, order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise AutogradError("get_total_norm", f"a norm of order {order} that is {total.item()}",
                            "The total norm for gradients is finite", "pass error_if_nonfinite=False to scale anyway")
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place so that their norm is at most ``max_norm``, given the norm that they have.

    Args:
        parameters: A tensor, or several; those without a gradient are skipped.
        max_norm: The largest norm allowed.
        total_norm: The norm of all gradients.
        foreach: Ignored; there is one implementation.
    """
    gradients = [gradient for parameter in _listed(parameters) if (gradient := parameter.grad) is not None]
    with _unrecorded((total_norm, *gradients)):
        # If the norm is small enough, the factor is one; waiting for a comparison on a device would cost more. The host
        # need not wait, and multiplies by a number, except in compiled functions: no graph contains it.
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        if not is_compiling() and all(x.device.type == "cpu" for x in (factor, *gradients)):
            _foreach.mul_(gradients, factor.item())
        else:
            for gradient in gradients:
                gradient.mul_(factor.to(gradient.device))


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that the norm of all of them together is at most ``max_norm``.

    Args:
        parameters: A tensor, or several; those without a gradient are skipped.
        max_norm: The largest norm allowed.
        norm_type: p of the p-norm; ``inf`` for the largest magnitude.
        error_if_nonfinite: Whether a norm that is not finite is an error.
        foreach: Ignored; there is one implementation.

    Returns:
        The norm before.
    """
    given = _listed(parameters)
    gradients = [gradient for parameter in given if (gradient := parameter.grad) is not None]
    with _unrecorded(gradients):
        total = get_total_norm(gradients, norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(given, max_norm, total, foreach)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp all elements of gradients to [-clip_value, clip_value], in place.

    Args:
        parameters: A tensor, or several; those without a gradient are skipped.
        clip_value: The largest magnitude.
        foreach: Ignored; there is one implementation.
    """
    bound = float(clip_value)
    gradients = [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]
    with no_grad():
        _foreach.clamp_(gradients, -bound, bound)


__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
