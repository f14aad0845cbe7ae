"""Functions of PyTorch that are built in: as attributes of a class they take no ``self``.

``activation = torch.tanh`` in the body of a class is common. PyTorch's ``tanh`` is a function of C, which a class does
not turn into a method; tensocket's is one of Python, which it does. Classes of modules therefore hold them as static
methods.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Final

from tensocket_operators import functions

#: Names of ``nn.functional`` that PyTorch takes from its C extension; those of other modules are functions of Python.
_OF_NN: Final = frozenset({
    "bilinear", "celu_", "channel_shuffle", "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "logsigmoid",
    "native_channel_shuffle", "one_hot", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "selu_", "softplus", "softshrink", "threshold_"})


@cache
def _in_python() -> frozenset[str]:
    """Return the names of functions that PyTorch writes in Python; their module imports those of ``nn``."""
    return frozenset(import_module("tensocket.functional").__all__)


def is_built_in(value: object) -> bool:
    """Whether a value is one of our functions whose counterpart in PyTorch is built in."""
    if type(value) is not FunctionType:
        return False
    name, module = value.__name__, value.__module__
    if module == functions.__name__:
        return name not in _in_python() and getattr(functions, name, None) is value
    return str(module).startswith("tensocket.nn.") and name in _OF_NN


def hold_statically(cls: type) -> None:
    """Replace built-in functions among a class's own attributes by static methods."""
    for name, value in tuple(vars(cls).items()):
        if is_built_in(value):
            setattr(cls, name, staticmethod(value))


__all__ = ["hold_statically", "is_built_in"]
