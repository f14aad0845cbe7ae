"""The sampler of one of several processes that train together."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

from tensocket.errors import ArgumentError
from tensocket_operators import Generator, randperm

from .dataset import Dataset
from .sampler import Sampler

T_co = TypeVar("T_co", covariant=True)


class DistributedSampler(Sampler[T_co]):
    """The share of one process: every ``num_replicas``-th index, from ``rank`` on.

    Shares have equal lengths: the first indices are appended again, or the last ones are dropped. Call ``set_epoch``
    before every pass; otherwise all passes have the same order.

    Args:
        dataset: A data set with a length.
        num_replicas: Number of processes; that of the process group if not given.
        rank: Number of this process, from 0; its rank in the process group if not given.
        shuffle: Whether the order is random, the same one in all processes.
        seed: Seed of the order, the same one in all processes.
        drop_last: Whether indices are dropped, rather than appended, to make shares equally long.

    Raises:
        ArgumentError: ``rank`` is out of range, or it is not given and no process group exists.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        group = _process_group() if num_replicas is None or rank is None else (0, 1)
        rank = group[0] if rank is None else rank
        num_replicas = group[1] if num_replicas is None else num_replicas
        if not 0 <= rank < num_replicas:
            raise ArgumentError("DistributedSampler", f"Invalid rank {rank} of {num_replicas}",
                                "rank should be in the interval from 0 to num_replicas - 1",
                                "pass the number of this process, from 0")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        size = len(dataset)  # type: ignore[arg-type]  # needs __len__, as documented
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        size = len(self.dataset)  # type: ignore[arg-type]  # needs __len__, as documented
        indices = list(range(size))
        if self.shuffle:
            indices = randperm(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        if self.total_size > size:
            indices = (indices * math.ceil(self.total_size / size))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next pass: shuffled orders differ from pass to pass."""
        self.epoch = epoch


def _process_group() -> tuple[int, int]:
    """Return the rank and size of the default process group.

    Raises:
        ArgumentError: No process group exists.
    """
    group = sys.modules.get("tensocket.distributed")  # a program with a group has imported it
    if group is None or not group.is_available() or not group.is_initialized():
        raise ArgumentError("DistributedSampler", "neither num_replicas and rank nor a process group",
                            "a share has a number and a count; the default process group has not been initialized",
                            "pass both, or call distributed.init_process_group first")
    return group.get_rank(), group.get_world_size()


__all__ = ["DistributedSampler"]
