"""Functions that divide inputs over devices and collect results."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensocket
from tensocket.nn.modules import Module
from tensocket_operators import Tensor


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Divide the tensors of ``inputs`` along ``dim``, one part on each device; all devices get the other values.

    Args:
        inputs: Tensors, in lists, tuples and dicts.
        target_gpus: Devices.
        dim: The dimension of the batch.

    Returns:
        A list with one structure for each part.
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return [part.to(device) for part, device in zip(parts, target_gpus, strict=False)]
    if isinstance(inputs, (list, tuple)) and inputs:
        columns = [scatter(value, target_gpus, dim) for value in inputs]
        kind = type(inputs)
        return [kind(*row) if hasattr(inputs, "_fields") else kind(row) for row in zip(*columns, strict=False)]
    if isinstance(inputs, dict) and inputs:
        divided = [scatter(value, target_gpus, dim) for value in inputs.values()]
        return [type(inputs)(zip(inputs, row, strict=True)) for row in zip(*divided, strict=False)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> tuple[Any, Any]:
    """Apply ``scatter`` to positional and named arguments; pad the shorter of both lists of parts.

    Args:
        inputs: A tuple.
        kwargs: A dict.
        target_gpus: Devices.
        dim: The dimension of the batch.
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    return (tuple(positional + [()] * (count - len(positional))),
            tuple(named + [{} for _ in range(count - len(named))]))


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Concatenate the results of all devices along ``dim`` on one device.

    Args:
        outputs: One structure of tensors for each device.
        target_device: Where the result goes.
        dim: The dimension of the batch.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [output.to(target_device) for output in outputs]
        if not first.ndim:
            return tensocket.stack(moved)
        return moved[0] if len(moved) == 1 else tensocket.cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    rows = [gather(row, target_device, dim) for row in zip(*outputs, strict=True)]
    return type(first)(*rows) if hasattr(first, "_fields") else type(first)(rows)


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Copy a module to several devices; the first copy is the module itself if it is already on that device.

    Args:
        network: The module.
        devices: The devices.
        detach: Accepted as in PyTorch: gradients of copies stay with the copies.
    """
    return [network, *(copy.deepcopy(network).to(device) for device in devices[1:])]


def parallel_apply(modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[Any] | None = None,
                   devices: Sequence[Any] | None = None) -> list[Any]:
    """Call each module with its inputs, in sequence."""
    named = kwargs_tup or [{}] * len(modules)
    return [module(*(given if isinstance(given, (list, tuple)) else (given,)), **options)
            for module, given, options in zip(modules, inputs, named, strict=True)]


__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
