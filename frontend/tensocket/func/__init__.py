"""Transforms of functions: gradients, tangents, batches; they nest in any order."""

from __future__ import annotations

from tensocket._functorch.vmap import vmap
from tensocket_operators.transforms import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)

from .modules import functional_call, stack_module_state

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
