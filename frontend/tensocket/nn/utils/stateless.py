"""Calls of modules with other parameters, under PyTorch's former name."""

from __future__ import annotations

import warnings
from typing import Any

# As a module: it imports the modules of this package, and may be the one that began.
import tensocket.func.modules as _modules
from tensocket.nn.modules.module import Module
from tensocket_core import Tensor


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """``tensocket.func.functional_call``, which is to be used instead."""
    warnings.warn("This API is deprecated as of PyTorch 2.0. Please use tensocket.func.functional_call instead.",
                  FutureWarning, stacklevel=2)
    return _modules.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
