"""The former names of ``func``, which PyTorch has in its own package ``functorch``.

Functions warn that they moved. ``tensocket.as_torch`` makes ``import functorch`` mean this package.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import wraps
from typing import Any

from tensocket import func, version

from . import stateless as _modules
from .stateless import FunctionalModule, FunctionalModuleWithBuffers

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


def _warn(name: str, new: str) -> None:
    warnings.warn(f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` "
                  f"is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please "
                  f"use `{new}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for "
                  "more details https://pytorch.org/docs/main/func.migrating.html", FutureWarning, stacklevel=3)


def _moved(name: str, new: str) -> Any:
    """Return a function of ``func`` that warns of its former name."""
    function = getattr(func, name)

    @wraps(function)
    def former(*args: Any, **kwargs: Any) -> Any:
        _warn(name, new)
        return function(*args, **kwargs)

    return former


vmap = _moved("vmap", "torch.vmap")
grad, grad_and_value = _moved("grad", "torch.func.grad"), _moved("grad_and_value", "torch.func.grad_and_value")
vjp, jvp = _moved("vjp", "torch.func.vjp"), _moved("jvp", "torch.func.jvp")
jacrev, jacfwd = _moved("jacrev", "torch.func.jacrev"), _moved("jacfwd", "torch.func.jacfwd")
hessian, functionalize = _moved("hessian", "torch.func.hessian"), _moved("functionalize", "torch.func.functionalize")


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """Return a function of the parameters of a module and its arguments, and the parameters.

    Args:
        model: A module without buffers; it stays unchanged.
        disable_autograd_tracking: Whether the parameters require no gradients.

    Raises:
        AutogradError: The module has buffers.
    """
    _warn("make_functional", "torch.func.functional_call")
    return _modules.make_functional(model, disable_autograd_tracking)


def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """Return a function of the parameters and buffers of a module and its arguments, the parameters and the buffers.

    Args:
        model: The module, which stays unchanged.
        disable_autograd_tracking: Whether the parameters require no gradients.
    """
    _warn("make_functional_with_buffers", "torch.func.functional_call")
    return _modules.make_functional_with_buffers(model, disable_autograd_tracking)


def combine_state_for_ensemble(models: Sequence[Any]) -> Any:
    """Return a function of one of several modules of a class, their stacked parameters and their stacked buffers.

    Args:
        models: The modules; with ``vmap``, the function runs them all.

    Raises:
        AutogradError: The list is empty, the modules have several classes, or only some are in training mode.
    """
    _warn("combine_state_for_ensemble", "torch.func.stack_module_state")
    return _modules.combine_state_for_ensemble(models)


def __getattr__(name: str) -> Any:
    """Return the version."""
    if name == "__version__":
        return version.current()
    raise AttributeError(f"module 'functorch' has no attribute {name!r}")
