"""The public interface of function transforms: core's transforms, and those composed of operators."""

from __future__ import annotations

from tensocket_core.transforms import *
from tensocket_core.transforms import __all__ as _of_core

from .differentiation import dual_levels as _dual_levels  # noqa: F401  forward mode across functions
from .differentiation import transform_functions as _functions  # noqa: F401  transforms of custom functions
from .differentiation.transform_jacobians import hessian, jacfwd, jacrev, linearize
from .rules import batching_rules, batching_windows, forward_rules  # noqa: F401  they fill tables
from .rules.functionalize import functionalize
from .rules.trace import Call, Graph, Value, trace

__all__ = ["Call", "Graph", "Value", *_of_core, "functionalize", "hessian", "jacfwd", "jacrev", "linearize", "trace"]
