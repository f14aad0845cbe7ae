"""Modules whose activations are computed again for the backward, or wait on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from tensocket.autograd.graph import save_on_cpu
from tensocket.nn import Module
from tensocket.utils.checkpoint import checkpoint

__all__ = ["ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
           "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper"]

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """The form of ``utils.checkpoint``."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """A module around another one, whose parameters and attributes it has under their own names.

    Args:
        mod: The module.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of this module, or else of the wrapped one."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the wrapped module."""
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Iterate over the parameters, with the names that they have without the wrapper."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), parameter


def _without_prefix(module: Module, state_dict: dict[str, Any], prefix: str, metadata: Any) -> None:
    for key in [key for key in state_dict if key.startswith(prefix + _PREFIX)]:
        state_dict[prefix + key.removeprefix(prefix + _PREFIX)] = state_dict.pop(key)


def _with_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(prefix + _PREFIX)]:
        state_dict[prefix + _PREFIX + key.removeprefix(prefix)] = state_dict.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are computed again for the backward.

    Args:
        mod: The module.
        checkpoint_impl: The form of ``utils.checkpoint``.
        checkpoint_fn: Another function of a module and its arguments; that of ``utils.checkpoint`` by default.
        checkpoint_fn_kwargs: Options of that function.
    """

    def __init__(self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
                 checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose activations wait for the backward on the host.

    Args:
        mod: The module.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """Return a module whose activations wait for the backward on the host."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
                       checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any) -> Module:
    """Return a module whose activations are computed again for the backward; see ``CheckpointWrapper``."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True, auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wrap modules of a model in place.

    Args:
        model: The model, which stays itself.
        checkpoint_wrapper_fn: Returns the wrapper of a module.
        check_fn: Whether a module is wrapped.
        auto_wrap_policy: The same as a policy of ``distributed.fsdp.wrap``; then ``check_fn`` is not asked.
    """
    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        if auto_wrap_policy is None:
            wrapped = check_fn(child)
        else:
            wrapped = auto_wrap_policy(module=child, recurse=False,
                                       nonwrapped_numel=sum(p.numel() for p in child.parameters()))
        if wrapped:
            setattr(model, name, checkpoint_wrapper_fn(child))
