"""How a tensor lies on the devices along one dimension of a mesh."""

from __future__ import annotations

from dataclasses import dataclass


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

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size of a rank's part and its first index, of ``num_chunks`` parts of equal size but the last.

        A rank beyond the last part has an empty one, which begins at the end.
        """
        size = -(-curr_local_size // num_chunks)
        first = min(size * rank, curr_local_size)
        return min(size, curr_local_size - first), first


@dataclass(frozen=True)
class _StridedShard(Shard):
    """The placement in which every device has the same part of each of several groups.

    Attributes:
        split_factor: The number of groups.
    """

    split_factor: int = 1


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


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
