"""Tensors that are distributed over the devices of a mesh. With one process, every tensor is whole, so none exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensocket.errors import ProcessGroupError
from tensocket_operators import Tensor

from ..device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "init_device_mesh"]


class Placement:
    """The placement of a tensor on the devices along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether every device has a part, along the dimension ``dim`` if given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every device has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether every device has a partial result, of the reduction ``reduce_op`` if given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """The placement in which every device has a part.

    Attributes:
        dim: The tensor's dimension that is divided.
    """

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """The placement in which every device has the whole tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """The placement in which every device has a tensor of the full shape; a reduction of them is the value.

    Attributes:
        reduce_op: The reduction.
    """

    reduce_op: str = "sum"


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
