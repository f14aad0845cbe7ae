"""Modules whose flags programs set. The values are stored and have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tensocket_plugins.contract.errors import ArgumentTypeError


class Flags(ModuleType):
    """A module with flags of a fixed type; other attributes are as in every module."""

    _switches: tuple[str, ...] = ()

    @classmethod
    def module(cls, module: ModuleType, **switches: Any) -> ModuleType:
        """Add flags with these values to a module."""
        vars(module).update(switches, _switches=tuple(switches))
        module.__class__ = cls
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a flag, or any other attribute.

        Raises:
            ArgumentTypeError: A boolean flag gets a value that is not a bool.
        """
        if name in self._switches and isinstance(vars(self)[name], bool) and not isinstance(value, (bool, int)):
            raise ArgumentTypeError(f"{self.__name__}.{name}", repr(value), "the switch is on or off",
                                    "pass True or False")
        super().__setattr__(name, value)

    def set_flags(self, **values: Any) -> tuple[Any, ...]:
        """Set the given flags, with or without ``_``; None leaves a flag unchanged. Return the old values.

        Raises:
            ArgumentTypeError: The flag does not exist.
        """
        given = {name.removeprefix("_"): value for name, value in values.items()}
        unknown = sorted(given.keys() - set(self._switches))
        if unknown:
            raise ArgumentTypeError(f"{self.__name__}.set_flags", ", ".join(unknown), "the module has no such switch",
                                    f"it has {', '.join(self._switches)}")
        before = tuple(getattr(self, name) for name in self._switches)
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """Set flags for a block."""
        before = self.set_flags(**values)
        try:
            yield
        finally:
            for name, value in zip(self._switches, before, strict=True):
                setattr(self, name, value)

    @contextmanager
    def patch(self, *named: Any, **values: Any) -> Iterator[None]:
        """Set attributes of the module for a block or a function: ``patch(name=value)``, ``patch("name", value)``."""
        given = {**(named[0] if len(named) == 1 else {named[0]: named[1]} if named else {}), **values}
        before = {name: getattr(self, name) for name in given}
        vars(self).update(given)
        try:
            yield
        finally:
            vars(self).update(before)
