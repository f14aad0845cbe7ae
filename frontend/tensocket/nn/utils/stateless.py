"""Calls of modules with other parameters, under PyTorch's former name."""

from __future__ import annotations

import warnings
from typing import Any

# As a module: it imports the modules of this package, and may be the one that began.
import tensocket.func.modules as _modules
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """``tensocket.func.functional_call``, which is to be used instead."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
                  "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in "
                  "replacement.", FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Return the same without a warning, as programs for PyTorch import it."""
    return _modules.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
