"""The error hierarchy of tensocket, with the few classes that only the front end needs."""

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


class MissingOptionError(ArgumentError, KeyError):
    """An option that the groups of an optimizer do not have."""

    # KeyError would print the repr of the message.
    __str__ = Exception.__str__


class DatasetError(ArgumentError, AssertionError):
    """Data sets that do not fit what is made of them."""


class AttentionShapeError(ShapeError, AssertionError):
    """Queries, keys, values or masks of attention that do not fit together."""


class ArgumentCombinationError(ArgumentError, AssertionError):
    """Arguments that exclude each other."""


class MemberTypeError(ArgumentTypeError, AssertionError):
    """A value that is not a module where a container takes one."""


class PaddingIndexError(ArgumentError, AssertionError):
    """A row of padding that a table does not have."""


class WorkerError(TensocketError, RuntimeError):
    """A worker of a loader, or a started process, ended without being asked, or did not answer in time."""


class CallbackError(TensocketError, RuntimeError):
    """A function that was to continue a future raised an exception, which is this one's cause."""


class UninitializedError(TensocketError, RuntimeError):
    """Something is asked of a parameter that has no shape yet."""


class UninitializedOperator(TensocketError, ValueError):
    """An operator was given a parameter that has no values yet."""


class NoClosedForm(TensocketError, NotImplementedError):
    """A property of a distribution, or a pair of distributions, that is not known as a formula."""


class ScalerError(TensocketError, RuntimeError, AssertionError):
    """Methods of a ``GradScaler`` in the wrong order, or settings that it cannot have."""


class ExportError(TensocketError, NotImplementedError):
    """A form of programs that cannot be written, or not yet."""


class ProcessGroupError(TensocketError, ValueError, RuntimeError):
    """Something is asked of a group of processes that is not there."""


class StateDictError(TensocketError, RuntimeError, ValueError):
    """A state dict that does not fit the module or optimizer it is loaded into."""


class UnsafeGlobalError(SerializationError, pickle.UnpicklingError):
    """A file that is read in restricted mode names a class or function that is not allowed."""


class DamagedFileError(SerializationError, pickle.UnpicklingError, EOFError):
    """A file that is truncated, damaged or of another kind."""


class FileObjectError(SerializationError, AttributeError):
    """A file object that cannot do what is needed."""


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
