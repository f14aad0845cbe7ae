"""The layers above devices, in the order in which ``resolve`` peels a key, and registrations for them from outside.

A layer is a bit of the key and a function that makes an operator's closure for keys with that bit. A function
registered for a layer (or a device) replaces it: for one operator in ``Operator.overrides``, for all operators as a
boxed fallback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..keys import AUTOCAST, AUTOGRAD, LAZY, WRAPPER
from . import autocast, conjugation, protocol
from .fallback import FALLBACKS

if TYPE_CHECKING:
    from .derivative import Derivative
    from .operator import Operator


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    Attributes:
        name: The name in registrations: ``Python``, ``Autocast``, ``Autograd``, ``Conjugate``.
        bit: Its bits of the key.
        build: Makes an operator's closure for a key with that bit.
    """

    name: str
    bit: int
    build: Callable[[Operator, int], Callable[..., Any]]


#: ``recorder(derivative, below, key) -> closure``, which records a call for gradients; autograd, a package above,
#: registers it here.
RECORDERS: Final[list[Callable[[Derivative, Callable[..., Any], int], Callable[..., Any]]]] = []


def record(derivative: Derivative | None, below: Callable[..., Any], key: int) -> Callable[..., Any]:
    """Return ``below``, the closure for a key, with recording, or unchanged if nothing is recorded."""
    return below if derivative is None else RECORDERS[-1](derivative, below, key)


def FALLTHROUGH(*args: Any) -> Any:  # noqa: N802  a marker, though callable
    """Mark a layer as skipped in registrations: calls go on to the layer below. Never called.

    Raises:
        RuntimeError: It was called.
    """
    raise RuntimeError("the fallthrough marker is no kernel")


LAYERS: Final = (
    Layer("Python", WRAPPER, lambda operator, key: partial(protocol.run_wrapped, operator)),
    Layer("Autocast", AUTOCAST, autocast.layer),
    Layer("Autograd", AUTOGRAD, lambda operator, key: operator.recorded(key)),
    Layer("Conjugate", LAZY, conjugation.layer),
)
_BITS: Final = WRAPPER | AUTOCAST | AUTOGRAD | LAZY


def highest(key: int) -> Layer | None:
    """Return the first layer of a key; None if only the device is left."""
    if not key & _BITS:
        return None
    return next(layer for layer in LAYERS if key & layer.bit)


def fallback_for(operator: Operator, name: str) -> Callable[..., Any] | None:
    """Return the boxed fallback of a layer, bound to an operator; None without one."""
    boxed = FALLBACKS.get(name)
    return boxed if boxed is None or boxed is FALLTHROUGH else partial(boxed, operator)
