"""Inspection: the capabilities of this namespace."""

from __future__ import annotations

from typing import Any

import tensocket_operators as core
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType

from ..namespace.devices import available_devices
from .promotion import DTYPES, KINDS


class NamespaceInfo:
    """The result of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Return the optional features: all are supported, and only NumPy limits the number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Return the device of factories."""
        return core.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the dtypes of factories."""
        real = core.get_default_dtype()
        return {"real floating": real, "complex floating": core.complex128 if real is core.float64 else core.complex64,
                "integral": core.int64, "indexing": core.int64}

    def devices(self) -> list[Any]:
        """Return the devices that can be used."""
        names = [name.partition(":")[0] if name.startswith(f"{HOST_DEVICE}:") else name for name in available_devices()]
        return [core.device(name) for name in names]

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the standard's dtypes that a device has, by name.

        Args:
            device: The device, by default the one of factories.
            kind: Kinds as in ``isdtype``; None for all.
        """
        had = core.profile(core.get_default_device() if device is None else device).dtypes
        kinds = tuple(KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        wanted = {k for one in kinds for k in KINDS[one]}
        return {name: dtype for name, dtype in DTYPES.items() if dtype.kind in wanted and name in had}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  the standard's name
    """Return the capabilities of this namespace."""
    return NamespaceInfo()
