"""Settings of modules whose parameters are divided among processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import tensocket as torch


class ShardingStrategy(Enum):
    """The parts that processes divide among themselves: parameters, gradients, state of the optimizer, or fewer."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the parameters of the next module are gathered in a backward pass."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """The form of saved parameters: whole, those of this process, or distributed tensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """The key of a parameter's state: its name, or its number."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


def _norms() -> Sequence[type[Any]]:
    return (torch.nn.modules.batchnorm._BatchNorm,)


@dataclass
class MixedPrecision:
    """Dtypes of parameters, of sums of gradients, and of buffers; None leaves them as they are."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Any]] = field(default_factory=_norms)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of parameters, of sums of gradients, and of results; None leaves them as they are."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters wait on the host."""

    offload_params: bool = False


@dataclass
class OffloadPolicy:
    """Where parameters wait: on their device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait on the host."""

    pin_memory: bool = True


@dataclass
class StateDictConfig:
    """Settings of saved parameters."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Settings of parameters that are saved whole."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Settings of parameters that each process saves as it has them."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Settings of parameters that are saved as distributed tensors."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Settings of the saved state of optimizers."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Settings of state that is saved whole."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Settings of state that each process saves as it has it."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Settings of state that is saved as distributed tensors."""

    _use_dtensor: bool = False


__all__ = ["BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FullOptimStateDictConfig", "FullStateDictConfig",
           "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
           "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictType"]
