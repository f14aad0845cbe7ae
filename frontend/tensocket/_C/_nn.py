"""How modules and tensors read the arguments of ``to``."""

from __future__ import annotations

from typing import Any

from tensocket.nn.modules.base.conversion import parse_to


def _parse_to(*args: Any, memory_format: Any = None, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return the device, dtype, ``non_blocking`` and memory format in the arguments of ``to``.

    Raises:
        ArgumentTypeError: They are not a device, a dtype, both in this order, or a tensor.
    """
    return (*parse_to(*args, **kwargs), memory_format)


__all__: list[str] = []
