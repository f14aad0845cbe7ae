"""The former name of ``distributed.tensor``."""

from __future__ import annotations

from .tensor import DeviceMesh, DTensor, Partial, Placement, Replicate, Shard, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "init_device_mesh"]
