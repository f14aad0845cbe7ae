"""The error hierarchy of tensocket, and the few classes that only the front end needs."""

from __future__ import annotations

import pickle

from tensocket_plugins.contract.errors import (
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
    LibraryError,
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
    """An attribute that a module does not have, or does not have yet."""


class MissingOptionError(ArgumentError, KeyError):
    """An option that the groups of an optimizer do not have."""

    # KeyError would print the repr of the message.
    __str__ = Exception.__str__


class DatasetError(ArgumentError, AssertionError):
    """Data sets that cannot be combined."""


class AttentionShapeError(ShapeError, AssertionError):
    """Queries, keys, values or masks of attention that do not fit together."""


class ArgumentCombinationError(ArgumentError, AssertionError):
    """Arguments that contradict each other."""


class MemberTypeError(ArgumentTypeError, AssertionError):
    """A value that is not a module, given to a container of modules."""


class PaddingIndexError(ArgumentError, AssertionError):
    """A padding index outside of the table."""


class WorkerError(TensocketError, RuntimeError):
    """A worker of a loader, or a started process, ended unexpectedly or did not answer in time."""


class CallbackError(TensocketError, RuntimeError):
    """An exception of a future's callback, which is the cause of this one."""


class UninitializedError(TensocketError, RuntimeError):
    """Use of a parameter that has no shape yet."""


class UninitializedOperator(TensocketError, ValueError):
    """An operator on a parameter that has no values yet."""


class NoClosedForm(TensocketError, NotImplementedError):
    """A property of a distribution, or of a pair of distributions, without a known formula."""


class ScalerError(TensocketError, RuntimeError, AssertionError):
    """Methods of a ``GradScaler`` in the wrong order, or invalid settings."""


class ExportError(TensocketError, NotImplementedError):
    """An export format that is not supported, or not yet."""


class ProcessGroupError(TensocketError, ValueError, RuntimeError):
    """Use of a group of processes that does not exist."""


class StateDictError(TensocketError, RuntimeError, ValueError):
    """A state dict that does not fit the module or optimizer it is loaded into."""


class UnsafeGlobalError(SerializationError, pickle.UnpicklingError):
    """A class or function that a file names, but that restricted mode does not allow."""


class DamagedFileError(SerializationError, pickle.UnpicklingError, EOFError):
    """A file that is truncated, damaged or has another format."""


class FileObjectError(SerializationError, AttributeError):
    """A file object that lacks a required method."""


class UnpicklableError(SerializationError, pickle.PicklingError, AttributeError, TypeError):
    """An object that cannot be written to a file."""


__all__ = [
    "ArgumentCombinationError",
    "ArgumentError",
    "ArgumentTypeError",
    "AttentionShapeError",
    "AutogradError",
    "BackendBroken",
    "BackendDisabled",
    "BackendError",
    "BackendIncompatible",
    "BackendUnavailable",
    "CallbackError",
    "CompileError",
    "DamagedFileError",
    "DatasetError",
    "DeviceError",
    "DeviceMismatch",
    "DimensionError",
    "DtypeError",
    "ExchangeError",
    "ExportError",
    "FileObjectError",
    "IndexDtypeError",
    "IndexOutOfRange",
    "InvalidDeviceIndex",
    "KernelError",
    "LibraryError",
    "MemberNameError",
    "MemberTypeError",
    "MissingDataError",
    "MissingOptionError",
    "MissingPackage",
    "ModuleAttributeError",
    "NoClosedForm",
    "OutOfMemoryError",
    "PaddingIndexError",
    "ProcessGroupError",
    "ScalerError",
    "SerializationError",
    "ShapeError",
    "StateDictError",
    "TensocketError",
    "TransformError",
    "UninitializedError",
    "UninitializedOperator",
    "UnknownDevice",
    "UnpicklableError",
    "UnsafeGlobalError",
    "UnsupportedDtype",
    "UnsupportedOperator",
    "WorkerError",
]
