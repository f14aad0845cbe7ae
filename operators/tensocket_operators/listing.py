"""Listing of how each operator runs on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensocket_core.device import DeviceState, open_device
from tensocket_core.dispatch.fallback import DECOMPOSITIONS, FALLBACKS
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType


@dataclass(frozen=True, slots=True)
class Registration:
    """The form in which one operator runs on a device.

    Attributes:
        operator: Name of the operator.
        how: The fastest path: ``entry``, ``host kernel``, ``replay``, ``plan``, or how ``compose`` computes:
            ``registered``, ``generated``, ``composite``, ``view``, ``host``; ``override`` for a kernel that was
            registered from outside; ``none`` if the operator of a library has no kernel.
        layers: Layers with a kernel that was registered from outside: ``Autograd``, or ``Autograd:cpu`` for one device.
        decomposition: Whether a function over other operators is registered for devices that do not run the operator.
        differentiable: Whether autograd records its calls.
        classes: Classes and modes with a function that runs in place of their ``__torch_dispatch__``.
    """

    operator: str
    how: str
    layers: tuple[str, ...]
    decomposition: bool
    differentiable: bool
    classes: tuple[str, ...]

    def __str__(self) -> str:
        notes = [*(f"{layer} registered" for layer in self.layers), *(["decomposition"] if self.decomposition else []),
                 *self.classes]
        return f"{self.operator}: {self.how}" + (f" ({', '.join(notes)})" if notes else "")


def _how(operator: Operator, state: DeviceState, dtype: DType) -> str:
    device = state.device.type
    if operator.kind != "library" and device in operator.overrides:
        return "override"
    how = operator.how(state, dtype)
    if how == "none":
        return "decomposition" if operator.name in DECOMPOSITIONS else "fallback" if device in FALLBACKS else how
    return how


def registrations(device: Any, dtype: DType = dtypes.float32) -> dict[str, str]:
    """Return by operator how it runs on a device.

    The values are those of ``Registration.how``: the fastest path of the ladder for operands of ``dtype``.
    """
    state = open_device(device)
    return {name: _how(operator, state, dtype) for name, operator in sorted(OPERATORS.items())}


def detailed_registrations(device: Any, dtype: DType = dtypes.float32) -> dict[str, Registration]:
    """Return by operator, including composites, how it runs on a device, with registrations from outside."""
    state = open_device(device)
    device = state.device.type
    found = {**COMPOSITES, **OPERATORS}
    return {name: Registration(
        name, _how(operator, state, dtype),
        tuple(sorted(place for place in operator.overrides
                     if place[0].isupper() and place.partition(":")[2] in ("", device))),
        name in DECOMPOSITIONS, operator.derivative is not None or operator.body is not None,
        tuple(kind.__name__ for kind in operator.dispatch_rules),
    ) for name, operator in sorted(found.items())}
