"""A module whose parameters are divided among processes; a single process has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensocket.distributed import distributed_c10d
from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket.nn.utils import clip_grad_norm_

from .api import BackwardPrefetch, CPUOffload, MixedPrecision, OptimStateKeyType, ShardingStrategy, StateDictType

__all__ = ["BackwardPrefetch", "CPUOffload", "FullyShardedDataParallel", "MixedPrecision", "OptimStateKeyType",
           "ShardingStrategy", "StateDictType"]


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided among the processes of a group of one.

    Args:
        module: The module to call.
        process_group: The group; all processes by default.
        mixed_precision: None: the module computes in its own dtypes.
        options: Accepted as in PyTorch; they control the exchange of parameters.

    Raises:
        ArgumentError: ``mixed_precision`` is given.
        ProcessGroupError: No group is initialised.
    """

    module: Module

    def __init__(self, module: Module, process_group: Any = None, *, mixed_precision: Any = None,
                 **options: Any) -> None:
        if mixed_precision is not None:
            raise ArgumentError("FullyShardedDataParallel", "mixed_precision", "the module computes in its own dtypes",
                                "use tensocket.autocast")
        super().__init__()
        self.process_group = distributed_c10d._member(process_group, "FullyShardedDataParallel")
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients in the block without an exchange, which one process never does anyway."""
        yield

    @staticmethod
    @contextmanager
    def summon_full_params(module: Module, **options: Any) -> Iterator[None]:
        """Run a block with complete parameters, which they always are.

        Args:
            module: The module of the parameters.
            options: Accepted as in PyTorch.
        """
        yield

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients to a norm of at most ``max_norm``.

        Args:
            max_norm: The limit.
            norm_type: Order of the norm.

        Returns:
            The norm before scaling.
        """
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)
