"""Which programs an operator has: one for processors beside the one for all devices, declared in one place."""

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

    Both values are of the type that the operator chooses by: a class or function that builds the program, or a bool.

    Attributes:
        name: The operator and, where it chooses more than once, the subject of this choice; unique per declaration.
        cpu: For processors with a code generator.
        simt: For devices that run groups of lanes, and for those without a code generator.
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
    """Declare a record's ``host_path``: a shortcut of processors with a code generator, for calls without gradients."""

    def declare(build: Shortcut) -> Shortcut:
        programs: Programs[Shortcut | None] = Programs(name, cpu=build, simt=None)

        def shortcut(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
            chosen = programs.of(state)
            return None if chosen is None or key & AUTOGRAD else chosen(key, state, next_path)

        return shortcut

    return declare
