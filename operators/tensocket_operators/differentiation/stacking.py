"""``stack`` for autograd, which is imported before the generated functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS


def stack(tensors: Sequence[Any]) -> Any:
    """Stack tensors of one shape along a new first dimension."""
    return call(OPERATORS["cat"], [tensor.unsqueeze(0) for tensor in tensors], 0)
