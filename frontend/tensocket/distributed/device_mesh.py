"""Meshes of devices: one process, with one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket.errors import ProcessGroupError

from .distributed_c10d import GroupMember, init_process_group, is_initialized


class DeviceMesh:
    """A mesh in which every dimension has size 1.

    Args:
        device_type: Kind of devices.
        mesh_shape: Sizes of the dimensions.
        mesh_dim_names: Their names.

    Raises:
        ProcessGroupError: A size is not 1.
    """

    def __init__(self, device_type: str, mesh_shape: Sequence[int], mesh_dim_names: Sequence[str] | None = None
                 ) -> None:
        if any(size != 1 for size in mesh_shape):
            raise ProcessGroupError("init_device_mesh", f"a mesh of shape {tuple(mesh_shape)}",
                                    "a mesh has one element for each of the 1 processes", "pass sizes of 1")
        self.device_type = device_type
        self.shape = tuple(mesh_shape)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of devices."""
        return 1

    def get_group(self, mesh_dim: Any = None) -> Any:
        """Return the group of a dimension."""
        return GroupMember.WORLD

    def get_rank(self) -> int:
        """Return 0."""
        return 0

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """Return 0."""
        return 0

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        chosen = (names,) if isinstance(names, str) else names
        return DeviceMesh(self.device_type, (1,) * len(chosen), chosen)


def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
                     backend_override: Any = None) -> DeviceMesh:
    """Return a mesh; make the group of all processes first if it does not exist."""
    mesh = DeviceMesh(device_type, mesh_shape, mesh_dim_names)
    if not is_initialized():
        init_process_group()
    return mesh


__all__ = ["DeviceMesh", "init_device_mesh"]
