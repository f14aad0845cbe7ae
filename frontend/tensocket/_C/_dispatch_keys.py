"""Keys of PyTorch's dispatcher, and the guard that excludes some of them in a block."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from tensocket.amp.autocast_mode import autocast
from tensocket.errors import UnsupportedOperator
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.keys import AUTOGRAD, WRAPPER

DispatchKey = enum.Enum("DispatchKey", [
    "Undefined", "CPU", "CUDA", "XPU", "MPS", "Meta", "SparseCPU", "SparseCUDA", "QuantizedCPU", "PrivateUse1",
    "BackendSelect", "Python", "Functionalize", "ADInplaceOrView", "AutogradOther", "AutogradCPU", "AutogradCUDA",
    "AutogradXPU", "AutogradMeta", "AutogradPrivateUse1", "AutogradFunctionality", "Autograd", "AutocastCPU",
    "AutocastCUDA", "AutocastXPU", "FuncTorchBatched", "FuncTorchGradWrapper", "CompositeImplicitAutograd",
    "CompositeExplicitAutograd"])
DispatchKey.__doc__ = "The layers of PyTorch's dispatcher, by name."


class DispatchKeySet:
    """A set of keys.

    Args:
        key: Its first key.
    """

    __slots__ = ("_keys",)

    def __init__(self, key: Any) -> None:
        self._keys: frozenset[Any] = frozenset([key])

    @classmethod
    def _of(cls, keys: frozenset[Any]) -> DispatchKeySet:
        made = cls.__new__(cls)
        made._keys = keys
        return made

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def add(self, key: Any) -> DispatchKeySet:
        """Return the set with one more key."""
        return self._of(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """Return the set without a key."""
        return self._of(self._keys - {key})

    def has(self, key: Any) -> bool:
        """Whether a key is in the set."""
        return key in self._keys


class _ExcludeDispatchKeyGuard:
    """A block without some layers of dispatch: automatic precision, the recording of gradients, or modes.

    Args:
        keys: The layers.

    Raises:
        UnsupportedOperator: A layer is none of these.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        self._stack = ExitStack()
        self._excluded, self._precisions = 0, []
        for key in keys:
            if key.name.startswith("Autocast"):
                self._precisions.append(key.name.removeprefix("Autocast").lower())
            elif key.name.startswith("Autograd") or key.name == "ADInplaceOrView":
                self._excluded |= AUTOGRAD
            elif key.name == "Python":
                self._excluded |= WRAPPER
            else:
                raise UnsupportedOperator("_ExcludeDispatchKeyGuard", f"the key {key.name}", "Autocast, Autograd and "
                                          "Python are layers that a block can leave out", "call the operator's kernel")

    def __enter__(self) -> None:
        for kind in self._precisions:
            self._stack.enter_context(autocast(kind, enabled=False))
        if self._excluded:
            self._stack.enter_context(thread_state(exclude=STATE.exclude | self._excluded))

    def __exit__(self, *error: object) -> None:
        self._stack.close()


__all__ = ["DispatchKey", "DispatchKeySet"]
