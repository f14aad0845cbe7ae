"""Spectral normalization by a hook before each call, PyTorch's older API; see also ``parametrizations``."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from tensocket import linalg
from tensocket.errors import ArgumentError, StateDictError, UninitializedOperator
from tensocket.nn.functional import normalize
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter, is_lazy
from tensocket_operators import Tensor, mv, no_grad, vdot

M = TypeVar("M", bound=Module)
#: Suffixes of the state entries of a normalized weight.
_PARTS: Final = ("_orig", "_u", "_v")


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return the weight as a matrix whose rows are dimension ``dim``."""
    moved: Tensor = weight.movedim(dim, 0) if dim else weight
    return moved.reshape(moved.shape[0], -1)


def iterate(matrix: Tensor, left: Tensor, right: Tensor, steps: int, eps: float) -> None:
    """Bring two vectors closer to the first singular ones, in place, by the power method."""
    with no_grad():
        for _ in range(steps):
            right.copy_(normalize(mv(matrix.mH, left), dim=0, eps=eps))
            left.copy_(normalize(mv(matrix, right), dim=0, eps=eps))


class SpectralNorm:
    """A hook that divides the weight by its largest singular value, which the power method finds.

    Args:
        name: The weight's name.
        n_power_iterations: Steps of the method before each call while training.
        dim: The dimension of the outputs.
        eps: Keeps norms from being zero.

    Raises:
        ArgumentError: There is not at least one step.
    """

    _version: int = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ArgumentError("spectral_norm", f"n_power_iterations={n_power_iterations}", "Expected "
                                "n_power_iterations to be positive", "pass 1 or more")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight divided by the estimate of its norm, after more iterations on request."""
        weight = getattr(module, self.name + "_orig")
        left, right = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            iterate(matrix, left, right, self.n_power_iterations, self.eps)
            # The graph holds the vectors of this call; the next call changes them in place.
            left, right = left.clone(), right.clone()
        result: Tensor = weight / vdot(left, mv(matrix, right))
        return result

    def remove(self, module: Module) -> None:
        """Turn the weight into a parameter again, with its current value."""
        with no_grad():
            weight = self.compute_weight(module, False)
        delattr(module, self.name)
        for ending in ("_u", "_v", "_orig"):
            delattr(module, self.name + ending)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the weight before a call."""
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace a weight by the original and two vectors.

        Raises:
            ArgumentError: The weight has a hook of this kind already.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise ArgumentError("spectral_norm", f"{name!r} of {type(module).__name__}",
                                    "a parameter has one spectral_norm hook", "remove the other one first")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ArgumentError("spectral_norm", f"{name!r}, which is None", "the parameter has a value",
                                "choose another one")
        if is_lazy(weight):
            raise UninitializedOperator(
                "spectral_norm", f"{name!r} of {type(module).__name__}", "The module passed to `SpectralNorm` can't "
                "have uninitialized parameters.", "call forward() of the module with a dummy batch first")
        with no_grad():
            matrix = as_matrix(weight, dim)
            vectors = [normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in matrix.shape]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute for the computed weight: the original is the parameter.
        setattr(module, name, weight.data)
        for ending, vector in zip(("_u", "_v"), vectors, strict=True):
            module.register_buffer(name + ending, vector)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
        return made


class SpectralNormStateDictHook:
    """A hook that adds the version of a normalized weight's entries to a state.

    Args:
        fn: The normalization.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        """Add the version to the metadata.

        Raises:
            StateDictError: The metadata has a version already.
        """
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise StateDictError("spectral_norm", f"{key} in the metadata", "a state has one version of each weight",
                                 "remove one of the hooks")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """A hook that computes the right vector for states without a version, which held the normalized weight instead.

    Args:
        fn: The normalization.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
                 missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:
        """Upgrade a state of an older version in place."""
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        key = prefix + self.fn.name
        if version is not None or (key not in state_dict and all(key + s in state_dict for s in _PARTS)):
            return
        missing = [key + ending for ending in ("_orig", "", "_u") if key + ending not in state_dict]
        if strict:
            missing_keys.extend(missing)
        if missing:
            return
        with no_grad():
            original, weight, left = (state_dict[key + "_orig"], state_dict.pop(key), state_dict[key + "_u"])
            norm = (original / weight).mean()
            state_dict[key + "_v"] = right_vector(as_matrix(original, self.fn.dim), left, norm)


def right_vector(matrix: Tensor, left: Tensor, norm: Tensor) -> Tensor:
    """Return the vector v for which ``matrix @ v`` points to ``left`` and ``left @ matrix @ v`` is ``norm``."""
    vector = mv(linalg.pinv(matrix.mH @ matrix), mv(matrix.mH, left))
    result: Tensor = vector * (norm / vdot(left, mv(matrix, vector)))
    return result


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Keep the largest singular value of a weight at one.

    Args:
        module: The module of the weight.
        name: Its name.
        n_power_iterations: Steps of the power method before each call while training.
        eps: Keeps norms from being zero.
        dim: The dimension of the outputs: 1 for transposed convolutions, else 0.

    Raises:
        ArgumentError: The weight is normalized already, or there is not at least one step.
        UninitializedOperator: The weight has no values yet.
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def output_dim(module: Module) -> int:
    """Return the dimension of a layer's weight that belongs to its outputs."""
    return int(any(kind.__name__.startswith("ConvTranspose") for kind in type(module).__mro__))


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Remove the normalization of a weight.

    Raises:
        ArgumentError: The module has no such normalization.
    """
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
                for key, other in list(hooks.items()):
                    inner = getattr(other, "hook", other)  # hooks on loading are wrapped
                    if getattr(inner, "fn", None) is hook:
                        del hooks[key]
            return module
    raise ArgumentError("remove_spectral_norm", f"{name!r} of {type(module).__name__}", "the parameter has a "
                        "spectral_norm hook", "apply spectral_norm first")


__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "as_matrix",
    "iterate",
    "output_dim",
    "remove_spectral_norm",
    "spectral_norm",
]
