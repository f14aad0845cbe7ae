"""Optimizers whose state is divided over processes; a single process has all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.namespace.refusals import refused
from tensocket.optim import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer for the parameters of this process, which are all parameters.

    Args:
        params: Parameters or groups of them.
        optimizer_class: The class of the actual optimizer.
        process_group: Accepted as in PyTorch, like the next two.
        parameters_as_bucket_view: The layout for exchanges of gradients.
        overlap_with_ddp: The time of exchanges.
        defaults: Arguments of ``optimizer_class``.
    """

    def __init__(self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
                 parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any) -> None:
        self.optim = optimizer_class(params, **defaults)
        super().__init__(self.optim.param_groups, self.optim.defaults)
        self.param_groups = self.optim.param_groups
        self.state = self.optim.state

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Run a step of the optimizer."""
        return self.optim.step(closure) if closure is not None else self.optim.step()

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Do nothing: this process has all of the state."""

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the optimizer's state."""
        self.optim.load_state_dict(state_dict)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state


globals().update(refused("distributed.optim", "DistributedOptimizer PostLocalSGDOptimizer",
                         "programs run as 1 process", "use the optimizer itself"))

__all__ = ["ZeroRedundancyOptimizer"]
