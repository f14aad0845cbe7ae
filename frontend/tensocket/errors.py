"""The error hierarchy of tensocket, with the few classes that only the front end needs."""

from __future__ import annotations

from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    BackendBroken,
    BackendDisabled,
    BackendError,
    BackendIncompatible,
    BackendUnavailable,
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
    TransformError,
    UnknownDevice,
    UnsupportedDtype,
    UnsupportedOperator,
)


class MemberNameError(TensocketError, KeyError):
    """A name that a module's parameter, buffer or submodule cannot have."""

    # KeyError would print the repr of the message.
    __str__ = Exception.__str__


class ModuleAttributeError(TensocketError, AttributeError):
    """An attribute that a module does not have, or not yet."""


class UninitializedError(TensocketError, RuntimeError):
    """Something is asked of a parameter that has no shape yet."""


class UninitializedOperator(TensocketError, ValueError):
    """An operator was given a parameter that has no values yet."""


class ScalerError(TensocketError, RuntimeError, AssertionError):
    """Methods of a ``GradScaler`` in the wrong order, or settings that it cannot have."""


class StateDictError(TensocketError, RuntimeError, ValueError):
    """A state dict that does not fit the module or optimizer it is loaded into."""


__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "AutogradError",
    "BackendBroken",
    "BackendDisabled",
    "BackendError",
    "BackendIncompatible",
    "BackendUnavailable",
    "DeviceError",
    "DeviceMismatch",
    "DimensionError",
    "DtypeError",
    "ExchangeError",
    "IndexDtypeError",
    "IndexOutOfRange",
    "InvalidDeviceIndex",
    "KernelError",
    "MemberNameError",
    "MissingDataError",
    "MissingPackage",
    "ModuleAttributeError",
    "OutOfMemoryError",
    "ScalerError",
    "SerializationError",
    "ShapeError",
    "StateDictError",
    "TensocketError",
    "TransformError",
    "UninitializedError",
    "UninitializedOperator",
    "UnknownDevice",
    "UnsupportedDtype",
    "UnsupportedOperator",
]
