"""Function transforms: gradients, tangents, batches, without mutation, traced; they nest in any order."""

from __future__ import annotations

from . import batching_rules, batching_windows, dual_levels, functions  # noqa: F401  they fill tables
from .batching import register_batching_rule
from .forward import jvp
from .forward_rules import register_forward_rule
from .functionalize import functionalize
from .jacobians import hessian, jacfwd, jacrev, linearize
from .reverse import grad, grad_and_value, vjp
from .trace import Call, Graph, Value, trace
from .vmap import chunk_vmap, restore_vmap, vmap

__all__ = [
    "Call",
    "Graph",
    "Value",
    "chunk_vmap",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "register_batching_rule",
    "register_forward_rule",
    "restore_vmap",
    "trace",
    "vjp",
    "vmap",
]
