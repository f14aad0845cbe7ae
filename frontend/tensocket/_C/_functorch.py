"""Tensors of function transforms: which kind one is, and what it wraps."""

from __future__ import annotations

from typing import Any

from tensocket_core.dispatch.modes import STATE
from tensocket_core.transforms.aliasing import AliasTensor
from tensocket_core.transforms.batching import Batching, BatchTensor
from tensocket_core.transforms.levels import LevelTensor
from tensocket_core.transforms.reverse import GradTensor
from tensocket_plugins.contract.errors import TransformError


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is one example of a running ``vmap``."""
    return isinstance(tensor, BatchTensor)


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Return False: there is one kind of batched tensors."""
    return False


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor belongs to a running ``grad``, ``vjp`` or ``jvp``."""
    return isinstance(tensor, (GradTensor, AliasTensor))


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor belongs to any running transform."""
    return isinstance(tensor, LevelTensor)


def get_unwrapped(tensor: Any) -> Any:
    """Return the tensor one level below.

    Raises:
        TransformError: The tensor belongs to no transform.
    """
    if not isinstance(tensor, LevelTensor):
        raise TransformError("get_unwrapped", f"a {type(tensor).__name__}", "No wrappers present: only tensors of a "
                             "running transform wrap others", "ask is_functorch_wrapped_tensor first")
    return tensor._value


def maybe_get_bdim(tensor: Any) -> int:
    """Return the dimension of the batch in what a tensor wraps, which is the first one; -1 for other tensors."""
    return 0 if isinstance(tensor, BatchTensor) else -1


def maybe_get_level(tensor: Any) -> int | None:
    """Return the level of the transform that a tensor belongs to, from 1; None for other tensors."""
    return tensor._transform.level if isinstance(tensor, LevelTensor) else None


def _batching(operator: str, level: int) -> Batching:
    found = next((x for x in STATE.transforms if x.level == level and isinstance(x, Batching)), None)
    if found is None:
        raise TransformError(operator, f"level {level}", "a batch has the level of a running vmap",
                             "call it within a function that vmap runs")
    return found


def _add_batch_dim(tensor: Any, batch_dim: int, level: int) -> Any:
    """Return a batch as one example of the ``vmap`` at a level.

    Raises:
        TransformError: No ``vmap`` runs at that level.
    """
    return _batching("_add_batch_dim", level).wrap(tensor.movedim(batch_dim, 0))


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """Return the batch of an example, with its dimension at ``out_dim``; a tensor of no batch is repeated.

    Raises:
        TransformError: No ``vmap`` runs at that level.
    """
    if _batching("_remove_batch_dim", level).owns(tensor):
        return tensor._value.movedim(0, out_dim)
    return tensor.expand(batch_size, *tensor.shape).movedim(0, out_dim)


__all__ = ["get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor",
           "is_legacy_batchedtensor", "maybe_get_bdim", "maybe_get_level"]
