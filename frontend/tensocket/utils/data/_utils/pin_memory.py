"""Pinning: moving the parts of a batch to memory from which devices copy fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensocket_operators import Tensor

from .collate import like_mapping, like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return ``data`` with all tensors in it, and all objects that have a method ``pin_memory``, pinned.

    Args:
        data: A tensor, an object with that method, or mappings and sequences of them.
        device: The device that copies; all devices if not given.
    """
    if isinstance(data, Tensor):
        return data.pin_memory(device)
    if hasattr(data, "pin_memory"):
        return data.pin_memory() if device is None else data.pin_memory(device)
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple):
        parts = [pin_memory(value, device) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    if isinstance(data, Sequence):
        return like_sequence(data, [pin_memory(value, device) for value in data])
    return data


__all__ = ["pin_memory"]
