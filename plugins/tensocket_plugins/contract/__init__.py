"""The contract between the runtime and a backend, versioned and slow to change.

A backend author needs these names, the element types in ``contract.dtypes`` and the primitives in
``contract.primitives``. The backends of the process are in ``contract.registry.registry()``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensocket_plugins.later import later

from .arrays import Array, Block, DeviceArray, Storage, contiguous_strides, is_contiguous, view_strides
from .backend import Allocator, Backend, Event, Executable, MemoryStats, OpenDevice, Stream, Unavailable
from .descriptor import Descriptor, DeviceInfo, Limits, Profile
from .devices import Device, parse_device
from .dtypes import DType, dtype_from_name
from .entrypoints import ENTRY_POINT_GROUP
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    BackendBroken,
    BackendDisabled,
    BackendError,
    BackendIncompatible,
    BackendUnavailable,
    CompileError,
    DeviceError,
    DeviceMismatch,
    DimensionError,
    DtypeError,
    ExchangeError,
    IndexDtypeError,
    IndexOutOfRange,
    InvalidDeviceIndex,
    KernelError,
    MissingDataError,
    MissingPackage,
    OutOfMemoryError,
    SerializationError,
    ShapeError,
    TensocketError,
    UnknownDevice,
    UnsupportedDtype,
    UnsupportedOperator,
)
from .exchange import Exchange
from .kernels import Kernel, KernelTable
from .registry import Registry
from .states import BackendRecord, State
from .version import CONTRACT_VERSION

if TYPE_CHECKING:
    from .hooks import hookimpl, hookspec

_module = later(__name__, "plans")


def __getattr__(name: str) -> Any:
    """Return a marker of hooks, which needs pluggy, or a module that loads at its first use."""
    if name in ("hookimpl", "hookspec"):
        return getattr(import_module(f"{__name__}.hooks"), name)
    return _module(name)


__all__ = [
    "CONTRACT_VERSION",
    "ENTRY_POINT_GROUP",
    "Allocator",
    "ArgumentError",
    "ArgumentTypeError",
    "Array",
    "AutogradError",
    "Backend",
    "BackendBroken",
    "BackendDisabled",
    "BackendError",
    "BackendIncompatible",
    "BackendRecord",
    "BackendUnavailable",
    "Block",
    "CompileError",
    "DType",
    "Descriptor",
    "Device",
    "DeviceArray",
    "DeviceError",
    "DeviceInfo",
    "DeviceMismatch",
    "DimensionError",
    "DtypeError",
    "Event",
    "Exchange",
    "ExchangeError",
    "Executable",
    "IndexDtypeError",
    "IndexOutOfRange",
    "InvalidDeviceIndex",
    "Kernel",
    "KernelError",
    "KernelTable",
    "Limits",
    "MemoryStats",
    "MissingDataError",
    "MissingPackage",
    "OpenDevice",
    "OutOfMemoryError",
    "Profile",
    "Registry",
    "SerializationError",
    "ShapeError",
    "State",
    "Storage",
    "Stream",
    "TensocketError",
    "Unavailable",
    "UnknownDevice",
    "UnsupportedDtype",
    "UnsupportedOperator",
    "contiguous_strides",
    "dtype_from_name",
    "hookimpl",
    "hookspec",
    "is_contiguous",
    "parse_device",
    "view_strides",
]
