"""Helpers for programs with their own checkpoints: random states of devices, and tensors detached from their
graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.pytree import tree_leaves
from tensocket_operators import Tensor, errors
from tensocket_operators.random.generator import generator_of

#: Devices whose random states are not saved together with those of accelerators.
_HOSTS: Final = frozenset({"cpu", "meta"})


class DefaultDeviceType:
    """The device type for functions whose arguments do not determine it."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type.

        Args:
            device: A device type.
        """
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type; ``cuda`` by default."""
        return DefaultDeviceType._default_device_type


def _on_accelerators(args: Sequence[Any]) -> list[Any]:
    return [x for x in tree_leaves(list(args)) if isinstance(x, Tensor) and x.device.type not in _HOSTS]


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the states of the random generators of the arguments' devices; nothing for tensors on the host.

    Args:
        args: Tensors, collections of them, or anything else.

    Returns:
        For every tensor on an accelerator, the index of its device and the state of its generator, uint8.
    """
    found = _on_accelerators(args)
    kinds = sorted({x.device.type for x in found})
    if len(kinds) > 1:
        warnings.warn(f"checkpoint: arguments on devices of kinds {', '.join(kinds)}; only the states of the first "
                      "kind are kept", stacklevel=2)
        found = [x for x in found if x.device.type == kinds[0]]
    return [x.get_device() for x in found], [generator_of(open_device(x.device)).get_state() for x in found]


def set_device_states(devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None) -> None:
    """Restore the states of the random generators of devices.

    Args:
        devices: Indices, as ``get_device_states`` returned them.
        states: The states.
        device_type: The devices' kind; ``DefaultDeviceType``'s by default.
    """
    kind = DefaultDeviceType.get_device_type() if device_type is None else device_type
    if kind == "meta":
        return
    for index, state in zip(devices, states, strict=False):
        generator_of(open_device(f"{kind}:{index}")).set_state(state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with every tensor detached from its graph; ``requires_grad`` stays as it was.

    Args:
        inputs: Arguments of a function.

    Raises:
        AutogradError: The arguments are not a tuple.
    """
    if not isinstance(inputs, tuple):
        raise errors.AutogradError("detach_variable", f"arguments of type {type(inputs).__name__}",
                                   "the arguments are a tuple", "pass tuple(arguments)")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no argument requires grad, so that a result will have no gradient.

    Args:
        inputs: Arguments of a function.
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("checkpoint: no input requires grad, so that the result has no gradient", stacklevel=2)
