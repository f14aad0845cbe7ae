"""Modules whose flags programs set: what they are set to is kept, and has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tensocket_plugins.contract.errors import ArgumentTypeError


class Flags(ModuleType):
    """A module with switches of a fixed type; other names are as in every module."""

    _switches: tuple[str, ...] = ()

    @classmethod
    def module(cls, module: ModuleType, **switches: Any) -> ModuleType:
        """Give a module switches with these values."""
        vars(module).update(switches, _switches=tuple(switches))
        module.__class__ = cls
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a switch, or any other name.

        Raises:
            ArgumentTypeError: A switch that is on or off is given something else.
        """
        if name in self._switches and isinstance(vars(self)[name], bool) and not isinstance(value, (bool, int)):
            raise ArgumentTypeError(f"{self.__name__}.{name}", repr(value), "the switch is on or off",
                                    "pass True or False")
        super().__setattr__(name, value)

    def set_flags(self, **values: Any) -> tuple[Any, ...]:
        """Set the switches that are given without ``_`` or with it; None leaves one as it is. Returns what they were.

        Raises:
            ArgumentTypeError: There is no such switch.
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
        """Set switches for a block."""
        before = self.set_flags(**values)
        try:
            yield
        finally:
            for name, value in zip(self._switches, before, strict=True):
                setattr(self, name, value)

    @contextmanager
    def patch(self, *named: Any, **values: Any) -> Iterator[None]:
        """Set names of the module for a block or a function: ``patch(name=value)``, ``patch("name", value)``."""
        given = {**(named[0] if len(named) == 1 else {named[0]: named[1]} if named else {}), **values}
        before = {name: getattr(self, name) for name in given}
        vars(self).update(given)
        try:
            yield
        finally:
            vars(self).update(before)
