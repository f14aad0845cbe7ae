"""The deprecated functions of ``gradcheck`` that return Jacobians as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tensocket_core.autograd.differentiate import grad as gradients
from tensocket_plugins.contract.errors import ArgumentError

from .jacobians import Vector, analytical, numerical, shaped_like


def _begin(name: str, grad_out: float, tensors: tuple[Any, ...]) -> None:
    warnings.warn(f"`{name}` was part of PyTorch's private API and not meant to be exposed; use func.jacrev or "
                  "autograd.functional.jacobian", FutureWarning, stacklevel=3)
    if grad_out != 1.0:
        raise ArgumentError(name, f"grad_out {grad_out}", "the Jacobian is taken with grad_out 1", "scale the result")
    if any(hasattr(x, "_key") and x.is_complex() for x in tensors):
        raise ArgumentError(name, "a complex tensor", "these Jacobians are of real numbers",
                            "use autograd.functional.jacobian")


def _as_tensor(like: Any, matrix: Vector) -> Any:
    """Return a matrix as a tensor whose rows are elements of the input, as in PyTorch."""
    return like.detach().new_tensor(np.ascontiguousarray(matrix.T).tolist()).reshape(matrix.T.shape)


def get_numerical_jacobian(fn: Callable[[Any], Any], inputs: Any, target: Any = None, eps: float = 1e-3,
                           grad_out: float = 1.0) -> tuple[Any, ...]:
    """Return the Jacobians of a function's first result by differences; deprecated.

    Args:
        fn: Takes the tuple of inputs.
        inputs: The inputs.
        target: One of the inputs, or several; by default all that require grad.
        eps: Step of the differences.
        grad_out: 1.0.

    Returns:
        For each target a tensor of shape ``(elements of the target, elements of the result)``.

    Raises:
        ArgumentError: ``grad_out`` is another number, or an input is complex.
    """
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    _begin("get_numerical_jacobian", grad_out, given)
    targets = given if target is None else target if isinstance(target, (tuple, list)) else (target,)
    chosen = [x for x in targets if hasattr(x, "_key") and x.requires_grad]
    return tuple([_as_tensor(x, numerical(lambda *values: fn(values), given, x, eps)[0]) for x in chosen])


def get_analytical_jacobian(inputs: Any, output: Any, nondet_tol: float = 0.0,
                            grad_out: float = 1.0) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """Return the Jacobians of a result by backward passes; deprecated.

    Args:
        inputs: Tensors that require grad.
        output: The result.
        nondet_tol: How much two backward passes may differ.
        grad_out: 1.0.

    Returns:
        For each input a tensor of shape ``(elements of the input, elements of the result)``, whether two passes agree,
        and whether gradients have the shapes and the dtypes of the inputs.

    Raises:
        ArgumentError: ``grad_out`` is another number, or a tensor is complex.
    """
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    _begin("get_analytical_jacobian", grad_out, (*given, output))
    wanted = [x for x in given if hasattr(x, "_key") and x.requires_grad]
    first, second = analytical(output, wanted), analytical(output, wanted)
    same = all(not a.size or bool(np.max(np.abs(a - b)) <= nondet_tol) for a, b in zip(first, second, strict=True))
    seed = shaped_like(output, np.ones(output.numel()))
    found = gradients(output, wanted, seed, retain_graph=True, allow_unused=True)
    pairs = [(x, g) for x, g in zip(wanted, found, strict=True) if g is not None]
    return (tuple([_as_tensor(x, matrix) for x, matrix in zip(wanted, first, strict=True)]), same,
            all(g.shape == x.shape for x, g in pairs), all(g.dtype is x.dtype for x, g in pairs))
