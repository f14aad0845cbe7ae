"""Groups of tensors for operators over lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket_operators import Tensor

__all__ = ["_device_has_foreach_support", "_get_foreach_kernels_supported_devices",
           "_get_fused_kernels_supported_devices", "_group_tensors_by_device_and_dtype", "_has_foreach_support"]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the types of devices other than the host with kernels for lists."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the types of devices that run an optimizer's step as one kernel."""
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
                                       ) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Return lists of tensors divided by device and dtype of those in the first list.

    Args:
        tensorlistlist: Lists of one length; all but the first may have None instead of tensors, or be empty.
        with_indices: Whether the positions of a group's tensors in the lists are returned beside it.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for group, given in zip(lists, tensorlistlist, strict=True):
            if given:
                group.append(given[place])
        if with_indices:
            places.append(place)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    """Whether a device has kernels for lists."""
    return device.type in ("cpu", *_get_foreach_kernels_supported_devices())


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Whether a device has kernels for lists, and the tensors have no classes of their own."""
    return _device_has_foreach_support(device) and all(x is None or type(x) is Tensor for x in tensors)
