"""Batches of examples; see ``func``.

Libraries with containers of their own build on the functions for one tensor, and replace the three steps of a call:
``_process_batched_inputs``, ``_create_batched_inputs`` and ``_unwrap_batched``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from tensocket._C._functorch import _add_batch_dim, _remove_batch_dim, is_batchedtensor
from tensocket.errors import ArgumentError
from tensocket_core.pytree import broadcast_to_and_flatten as _broadcast_to_and_flatten
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_core.transforms.batching import Batching
from tensocket_core.transforms.vmap import _batched, _out_dims
from tensocket_core.transforms.vmap import named as _get_name
from tensocket_core.transforms.vmap import vmap as _vmap
from tensocket_operators import Tensor
from tensocket_operators.transforms import chunk_vmap, restore_vmap


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return the batch of a result, with its dimension at ``out_dim``; None for results that all examples share.

    Raises:
        ArgumentError: The result is not a tensor, or is one of a batch although ``out_dim`` is None.
    """
    if out_dim is None:
        if isinstance(batched_output, Tensor) and is_batchedtensor(batched_output):
            raise ArgumentError("vmap", f"out_dim None for a result of {name}", "can not return a BatchedTensor when "
                                "out_dim is None", "pass a dimension")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ArgumentError("vmap", f"a {type(batched_output).__name__} returned by {name}", "vmap must only return "
                            "Tensors", "return tensors")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _process_batched_inputs(in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
                            ) -> tuple[int, list[int | None], list[Any], Any]:
    """Return the number of examples, the dimension that counts them and the value of every leaf, and the structure.

    Raises:
        ArgumentError: The dimensions do not fit the arguments, or none is a batch.
    """
    batch = _batched(func, in_dims, args, 0)
    return batch.size, [None if dim is None else 0 for dim in batch.dims], batch.leaves, batch.spec


def _create_batched_inputs(flat_in_dims: list[int | None], flat_args: list[Any], vmap_level: int, args_spec: Any
                           ) -> Any:
    """Return the arguments of the function of one example."""
    return tree_unflatten([value if dim is None else _add_batch_dim(value, dim, vmap_level)
                           for value, dim in zip(flat_args, flat_in_dims, strict=True)], args_spec)


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable[..., Any]
                    ) -> Any:
    """Return the results of all examples."""
    leaves, spec = tree_flatten(batched_outputs)
    return tree_unflatten([_maybe_remove_batch_dim(_get_name(func), value, vmap_level, batch_size, dim)
                           for value, dim in zip(leaves, _out_dims(func, out_dims, spec), strict=True)], spec)


#: The steps as they are here; while a library has replaced none, core's function does them in one.
_STEPS: Final = (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)


def _in_steps(func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, args: tuple[Any, ...],
              kwargs: dict[str, Any]) -> Any:
    """Run a batch by this module's three steps."""
    size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
    with Batching("vmap", size, randomness) as transform:
        results = func(*_create_batched_inputs(dims, leaves, transform.level, spec), **kwargs)
        return _unwrap_batched(results, out_dims, transform.level, size, func)


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """Return what ``func.vmap`` returns, but by this module's steps if a library has replaced one of them."""
    mapped = _vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)

    @wraps(func, updated=())
    def batched(*args: Any, **kwargs: Any) -> Any:
        steps = (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)
        if steps == _STEPS or chunk_size is not None:
            return mapped(*args, **kwargs)
        return _in_steps(func, in_dims, out_dims, randomness, args, kwargs)

    return batched


__all__ = ["Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_get_name", "_maybe_remove_batch_dim",
           "_remove_batch_dim", "chunk_vmap", "restore_vmap", "tree_flatten", "tree_unflatten", "vmap"]
