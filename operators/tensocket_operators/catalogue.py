"""The public functions that can be overridden, and their names."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.tensor import Tensor

from . import creation, random
from .interop import asarray, numpy
from .tensor_methods.subclasses import METHODS, SELF_CHECKING_METHODS

#: Factories that are methods of tensors; modes see these and the factories in the modules' ``__all__``.
_FACTORIES: Final = ("new_zeros", "new_ones", "new_empty", "new_empty_strided", "new_full", "new_tensor")
_DRAWS: Final = ("rand", "rand_like", "randint", "randn", "randn_like", "randperm")


@cache
def names_of_functions() -> dict[Any, str]:
    """Return every overridable function with its name, such as ``torch.add`` or ``torch.Tensor.add_``."""
    found: dict[Any, str] = {}
    for operator in (*OPERATORS.values(), *COMPOSITES.values()):
        if operator.public is None:
            continue
        method = operator.method if isinstance(operator.method, str) else operator.name
        space = "torch.nn.functional" if operator.public_namespace == "nn.functional" else "torch"
        found[operator.public] = f"{space}.{operator.name}" if operator.function else f"torch.Tensor.{method}"
    for name in creation.__all__:
        found[getattr(creation, name)] = f"torch.{name}"
    for function in (asarray.as_tensor, asarray.asarray, numpy.from_numpy):
        found[function] = f"torch.{function.__name__}"
    for name in _DRAWS:
        found[getattr(random, name)] = f"torch.{name}"
    for name in _FACTORIES:
        found[getattr(creation, name)] = f"torch.Tensor.{name}"
    for name in (*METHODS, *SELF_CHECKING_METHODS, "detach"):
        found[getattr(Tensor, name)] = f"torch.Tensor.{name}"
    return found
