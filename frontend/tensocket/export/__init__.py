"""Export of programs as graphs, ahead of time: not implemented."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError


class Dim:
    """A name for a size that may change.

    Args:
        name: The name.
        min: Smallest size.
        max: Largest size.
    """

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__ = name
        self.min, self.max = min, max


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """Refuse to capture a module.

    Raises:
        ExportError: Always.
    """
    raise ExportError("export", f"a {type(mod).__name__}", "modules are not captured ahead of time yet",
                      "call the module")


__all__ = ["Dim", "export"]
