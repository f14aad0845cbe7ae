"""Calls of modules with other parameters, under PyTorch's old name."""

from __future__ import annotations

import warnings
from typing import Any

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
    from tensocket.func import functional_call as call  # imports modules that few programs need

    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
