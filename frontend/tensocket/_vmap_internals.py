"""The former module of ``vmap``, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tensocket_operators.transforms import vmap as _vmap

__all__ = ["vmap"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Return the result of ``func.vmap``, after a warning.

    Args:
        func: A function of examples.
        in_dims: The dimensions of arguments that index examples.
        out_dims: The dimensions of results that index examples.
    """
    warnings.warn("Please use torch.vmap instead of torch._vmap_internals.vmap.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)
