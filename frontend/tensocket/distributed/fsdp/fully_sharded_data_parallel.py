"""A module whose parameters are divided among processes; a single process has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensocket.distributed import distributed_c10d
from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket.nn.utils import clip_grad_norm_
from tensocket.optim import Optimizer

from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)

__all__ = ["BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
           "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
           "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy",
           "StateDictType"]


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

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers in a module, itself included; with ``root_only``, those that are in no other one."""
        found = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        inner = {id(part) for each in found for part in each.module.modules()} if root_only else set()
        return [each for each in found if id(each) not in inner]

    @staticmethod
    @contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                        optim_state_dict_config: Any = None) -> Iterator[None]:
        """Run a block in which states have a form; with one process, all forms are the whole state."""
        yield

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                            optim_state_dict_config: Any = None) -> None:
        """Set the form of states; with one process, all forms are the whole state."""

    @staticmethod
    def optim_state_dict(model: Module, optim: Optimizer, optim_state_dict: dict[str, Any] | None = None,
                         group: Any = None) -> dict[str, Any]:
        """Return an optimizer's state by names of parameters.

        Args:
            model: The model whose parameters it optimizes.
            optim: The optimizer.
            optim_state_dict: Its state; what ``optim.state_dict()`` returns by default.
            group: The group; all processes by default.
        """
        from tensocket.distributed.checkpoint.state_dict import _names

        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        names = [name for inside in _names(model, optim) for name in inside]
        return {"state": {names[place]: value for place, value in given["state"].items()},
                "param_groups": [{**each, "params": [names[place] for place in each["params"]]}
                                 for each in given["param_groups"]]}

    @staticmethod
    def optim_state_dict_to_load(model: Module, optim: Optimizer, optim_state_dict: dict[str, Any],
                                 is_named_optimizer: bool = False, load_directly: bool = False, group: Any = None
                                 ) -> dict[str, Any]:
        """Return a state that ``optim.load_state_dict`` takes, from one by names of parameters.

        Args:
            model: The model whose parameters it optimizes.
            optim: The optimizer.
            optim_state_dict: A result of the method ``optim_state_dict``.
            is_named_optimizer: Whether the optimizer itself has names instead of numbers.
            load_directly: Whether to load the state, too.
            group: The group; all processes by default.
        """
        from tensocket.distributed.checkpoint.state_dict import _names

        names = [name for inside in _names(model, optim) for name in inside]
        places: dict[Any, Any] = {name: name if is_named_optimizer else k for k, name in enumerate(names)}
        made = {"state": {places[name]: value for name, value in optim_state_dict["state"].items()},
                "param_groups": [{**each, "params": [places[name] for name in each["params"]]}
                                 for each in optim_state_dict["param_groups"]]}
        if load_directly:
            optim.load_state_dict(made)
        return made

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients to a norm of at most ``max_norm``.

        Args:
            max_norm: The limit.
            norm_type: Order of the norm.

        Returns:
            The norm before scaling.
        """
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)
