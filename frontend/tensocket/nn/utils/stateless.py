"""Calls of modules with other parameters, under PyTorch's old name."""

from __future__ import annotations

import warnings
from typing import Any

# Import the module, not a name: it imports the modules of this package and may be the one that started the import.
import tensocket.func.modules as _modules
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Call ``tensocket.func.functional_call``. Deprecated."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
                  "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in "
                  "replacement.", FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Do the same without a warning, for programs that import PyTorch's private name."""
    return _modules.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
