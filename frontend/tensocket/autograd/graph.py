"""The recorded graph: nodes, gradient edges, hooks on several tensors and on saved tensors."""

from __future__ import annotations

from tensocket_core.autograd.graph import (
    GradientEdge,
    Node,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from tensocket_operators.differentiation.mutation import allow_mutation_on_saved_tensors

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
