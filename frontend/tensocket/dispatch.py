"""Inspection of the dispatcher: keys, registrations, and a trace of calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from tensocket_core.dispatch.layers import LAYERS
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.trace import Call, Tracer
from tensocket_core.keys import DEVICE_MASK
from tensocket_core.recording import SlowPathReason
from tensocket_operators import Tensor
from tensocket_operators.explain import Explanation, Explanations, Rung, explain
from tensocket_operators.listing import Registration
from tensocket_operators.listing import detailed_registrations as registrations

from .errors import ArgumentError


def priorities() -> tuple[str, ...]:
    """Return the layers in the order in which a call passes them; the device comes last."""
    return (*(layer.name for layer in LAYERS), "device")


def _names(key: int) -> tuple[str, ...]:
    return tuple(layer.name for layer in LAYERS if key & layer.bit)


def keys_of(tensor: Tensor) -> tuple[str, ...]:
    """Return the keys of a tensor, in the order in which a call passes them: layers, then its device.

    >>> import tensocket as torch
    >>> keys_of(torch.ones(1, requires_grad=True))
    ('Autograd', 'cpu')
    """
    return (*_names(tensor._key), *([tensor.device.type] if tensor._key & DEVICE_MASK else []))


def included_keys() -> tuple[str, ...]:
    """Return the layers that every call of this thread passes."""
    return _names(STATE.include)


def excluded_keys() -> tuple[str, ...]:
    """Return the layers that no call of this thread passes."""
    return _names(STATE.exclude)


def _bits(operator: str, names: Iterable[str]) -> int:
    known = {layer.name: layer.bit for layer in LAYERS}
    bits = 0
    for name in names:
        if name not in known:
            raise ArgumentError(operator, f"key {name!r}", f"layers are {', '.join(known)}", "pass some of these")
        bits |= known[name]
    return bits


class _Keys(thread_state):
    """A context that includes or excludes keys, in addition to those of enclosing contexts."""

    __slots__ = ("_attribute", "_bits")

    def __init__(self, operator: str, attribute: str, names: Iterable[str]) -> None:
        super().__init__()
        self._attribute = attribute
        self._bits = _bits(operator, names)

    def __enter__(self) -> None:
        self._values = {self._attribute: getattr(STATE, self._attribute) | self._bits}
        super().__enter__()


class include_keys(_Keys):
    """``with include_keys("Autograd"):`` — all calls of this thread pass these layers.

    Args:
        names: Names of layers.

    Raises:
        ArgumentError: The layer does not exist.
    """

    __slots__ = ()

    def __init__(self, *names: str) -> None:
        super().__init__("include_keys", "include", names)


class exclude_keys(_Keys):
    """``with exclude_keys("Autograd"):`` — no call of this thread passes these layers.

    Args:
        names: Names of layers.

    Raises:
        ArgumentError: The layer does not exist.
    """

    __slots__ = ()

    def __init__(self, *names: str) -> None:
        super().__init__("exclude_keys", "exclude", names)


class trace:
    """``with trace():`` — print every call of this thread, nested as they happen.

    ``with trace(collect=True) as calls:`` collects them in a list instead.

    Args:
        file: File to print to; standard error if not given.
        collect: Whether to collect calls in a list, and print only if a file is given.
    """

    def __init__(self, file: TextIO | None = None, *, collect: bool = False) -> None:
        self.calls: list[Call] = []
        self._tracer = Tracer(file if collect or file is not None else "stderr", self.calls)
        self._state = thread_state(tracer=self._tracer)
        self._reason: SlowPathReason | None = None

    def __enter__(self) -> list[Call]:
        self._reason = SlowPathReason()
        self._state.__enter__()
        return self.calls

    def __exit__(self, *error: Any) -> None:
        self._state.__exit__(*error)
        self._reason = None


__all__ = [
    "Call",
    "Explanation",
    "Explanations",
    "Registration",
    "Rung",
    "exclude_keys",
    "excluded_keys",
    "explain",
    "include_keys",
    "included_keys",
    "keys_of",
    "priorities",
    "registrations",
    "trace",
]
