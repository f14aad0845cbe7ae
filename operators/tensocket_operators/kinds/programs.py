"""Declarations of operators that have one program for processors and another one for all other devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from tensocket_core.device import DeviceState
from tensocket_core.keys import AUTOGRAD

T = TypeVar("T")

#: Every declaration by name; see ``Programs``.
DECLARED: Final[dict[str, Programs[Any]]] = {}


@dataclass(frozen=True)
class Programs(Generic[T]):
    """The choice between a program for processors with a code generator and one for all other devices.

    Both values have the type that the operator needs for its choice: a function or class that builds the program, or a
    bool.

    Attributes:
        name: The operator and, if it chooses more than once, the subject of this choice; unique per declaration.
        cpu: The value for processors with a code generator.
        simt: The value for devices that run groups of lanes, and for devices without a code generator.
    """

    name: str
    cpu: T
    simt: T

    def __post_init__(self) -> None:
        if self.name in DECLARED:
            raise ValueError(f"two declarations of programs are called {self.name}")
        DECLARED[self.name] = self

    def of(self, state: DeviceState) -> T:
        """Return the value for a device."""
        target = state.runtime.target
        return self.cpu if target is not None and target.kind == "cpu" else self.simt


Shortcut = Callable[[int, DeviceState, Callable[..., Any]], Callable[..., Any] | None]


def processors_only(name: str) -> Callable[[Shortcut], Shortcut]:
    """Declare a record's ``host_path`` as a shortcut for processors with a code generator, for unrecorded calls."""

    def declare(build: Shortcut) -> Shortcut:
        programs: Programs[Shortcut | None] = Programs(name, cpu=build, simt=None)

        def shortcut(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
            chosen = programs.of(state)
            return None if chosen is None or key & AUTOGRAD else chosen(key, state, next_path)

        return shortcut

    return declare
