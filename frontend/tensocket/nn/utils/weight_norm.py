"""Weight normalization by a hook before each call, PyTorch's older API; see ``parametrizations.weight_norm``."""

from __future__ import annotations

from typing import Any, TypeVar

from tensocket.errors import ArgumentError
from tensocket.linalg import vector_norm
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor

M = TypeVar("M", bound=Module)


def norm_except(value: Tensor, dim: int) -> Tensor:
    """Return the norms over all dimensions but ``dim``, with the others kept at size 1; over all dimensions for -1."""
    if dim == -1:
        whole: Tensor = vector_norm(value)
        return whole
    kept = dim % value.dim()
    axes = tuple(axis for axis in range(value.dim()) if axis != kept)
    norms: Tensor = vector_norm(value, dim=axes, keepdim=True) if axes else value.abs()
    return norms


class WeightNorm:
    """A hook that computes the weight ``g · v / ‖v‖`` from its magnitude and direction.

    Args:
        name: The weight's name.
        dim: The dimension whose entries have a magnitude each; -1 for one magnitude.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight."""
        magnitude, direction = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        result: Tensor = direction * (magnitude / norm_except(direction, self.dim))
        return result

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a weight by its magnitude and direction.

        Raises:
            ArgumentError: The weight has a hook of this kind already.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise ArgumentError("weight_norm", f"{name!r} of {type(module).__name__}",
                                    "a parameter has one weight_norm hook", "remove the other one first")
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except(weight, made.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Turn the weight into a parameter again, with its current value."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the weight before a call."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the magnitude (``<name>_g``) and direction (``<name>_v``) of a weight separately.

    Args:
        module: The module of the weight.
        name: Its name.
        dim: The dimension whose entries have a magnitude each; None for one magnitude.

    Raises:
        ArgumentError: The weight is normalized already.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Remove the normalization of a weight.

    Raises:
        ArgumentError: The module has no such normalization.
    """
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ArgumentError("remove_weight_norm", f"{name!r} of {type(module).__name__}", "the parameter has a weight_norm "
                        "hook", "apply weight_norm first")


__all__ = ["WeightNorm", "norm_except", "remove_weight_norm", "weight_norm"]
