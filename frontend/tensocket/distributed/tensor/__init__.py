"""Tensors that are distributed over the devices of a mesh. With one process, every tensor is whole, so none exists."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ProcessGroupError
from tensocket_operators import Tensor

from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor",
           "init_device_mesh"]


class _Spread(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return False


class DTensor(Tensor, metaclass=_Spread):
    """A tensor that is distributed over several processes; none can be made.

    Raises:
        ProcessGroupError: Always.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> DTensor:
        """Refuse to make one."""
        raise ProcessGroupError("DTensor", "a tensor that is spread", "one process has its tensors whole",
                                "use the tensor itself")

    @staticmethod
    def from_local(local_tensor: Any, *args: Any, **kwargs: Any) -> DTensor:
        """Refuse to make one of this process's part.

        Raises:
            ProcessGroupError: Always.
        """
        return DTensor(local_tensor)


def distribute_tensor(tensor: Any, device_mesh: DeviceMesh | None = None, placements: Any = None, *,
                      src_data_rank: int | None = 0) -> DTensor:
    """Refuse to divide a tensor among processes.

    Raises:
        ProcessGroupError: Always: there is one process.
    """
    return DTensor(tensor)
