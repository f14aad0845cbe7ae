"""Data parallelism over processes; here, there is only one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tensocket.distributed import distributed_c10d
from tensocket.distributed.algorithms.join import Joinable, JoinHook
from tensocket.nn.modules import Module


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over the processes of a group of one.

    Args:
        module: The module to call; its parameters are ``module.…`` here, as in PyTorch.
        device_ids: The process's device.
        output_device: Accepted as in PyTorch, as are ``bucket_cap_mb`` and the others that are not named here.
        dim: The dimension of the batch.
        broadcast_buffers: Whether buffers follow those of rank 0; they always do.
        process_group: The group; all processes by default.
        find_unused_parameters: Whether parameters may get no gradient; they always may.

    Raises:
        ProcessGroupError: No group is initialised.
    """

    module: Module

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                 broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
                 bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
                 check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 **options: Any) -> None:
        super().__init__()
        self.process_group = distributed_c10d._member(process_group, "DistributedDataParallel")
        self.dim = dim
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients in the block without an exchange, which one process never does anyway."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Iterator[None]:
        """Run a block in which processes may have unequal numbers of batches."""
        yield

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return a hook that does nothing for processes that still have batches."""
        return JoinHook()

    @property
    def join_device(self) -> Any:
        """The first parameter's device."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """The group."""
        return self.process_group

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Accept a hook for the exchange of gradients; there is no exchange."""

    def _set_static_graph(self) -> None:
        self.static_graph = True


__all__ = ["DistributedDataParallel"]
