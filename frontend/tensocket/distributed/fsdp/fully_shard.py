"""``fully_shard``: divides the parameters of a module among processes; one process has all of them."""

from __future__ import annotations

from typing import Any, TypeVar

from tensocket.distributed import distributed_c10d
from tensocket.errors import ArgumentError
from tensocket.nn import Module

M = TypeVar("M", bound=Module)


class FSDPModule:
    """The class that ``fully_shard`` adds to a module; in one process, its methods have nothing to do."""

    def reshard(self) -> None:
        """Do nothing: parameters are whole."""

    def unshard(self, async_op: bool = False) -> None:
        """Do nothing: parameters are whole."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Do nothing: there is no other process with gradients."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing: there is no exchange that could wait."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Do nothing: parameters are whole."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Do nothing: no parameters are gathered."""

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Do nothing: no parameters are gathered."""


def fully_shard(module: M, *, mesh: Any = None, reshard_after_forward: Any = None, shard_placement_fn: Any = None,
                mp_policy: Any = None, offload_policy: Any = None, ignored_params: Any = None) -> M:
    """Divide the parameters of a module among the processes of a group of one, and return the module.

    Args:
        module: The module; its class becomes a subclass that is an ``FSDPModule``, too.
        mesh: Accepted as in PyTorch, like the next two, ``offload_policy`` and ``ignored_params``: they control the
            exchange of parameters.
        reshard_after_forward: See above.
        shard_placement_fn: See above.
        mp_policy: None, or a policy without dtypes: the module computes in its own.
        offload_policy: See above.
        ignored_params: See above.

    Raises:
        ArgumentError: ``mp_policy`` names a dtype.
        ProcessGroupError: No group is initialised.
    """
    if mp_policy is not None and any((mp_policy.param_dtype, mp_policy.reduce_dtype, mp_policy.output_dtype)):
        raise ArgumentError("fully_shard", f"{mp_policy}", "the module computes in its own dtypes",
                            "use tensocket.autocast")
    distributed_c10d._member(None, "fully_shard")
    kind = type(module)
    if not issubclass(kind, FSDPModule):
        module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return module


__all__ = ["FSDPModule", "fully_shard"]


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Do nothing: the parameters that a method uses are complete, also when it is not ``forward``."""
