"""Which part of a distributed tensor a process has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .placement_types import Placement, Shard


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part, and where it begins in the whole tensor.

    Args:
        global_shape: The shape of the whole tensor.
        mesh: The mesh of devices.
        placements: How the tensor lies along each dimension of the mesh.
    """
    shape, offset = list(global_shape), [0] * len(global_shape)
    for k, placement in enumerate(placements):
        if isinstance(placement, Shard):
            shape[placement.dim], first = placement.local_shard_size_and_offset(
                shape[placement.dim], mesh.size(k), mesh.get_local_rank(k))
            offset[placement.dim] += first
    return tuple(shape), tuple(offset)


__all__ = ["compute_local_shape_and_global_offset"]
