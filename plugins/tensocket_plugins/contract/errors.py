"""The error hierarchy. Every message has one form: ``[operator] what was given — the rule — what to do``.

    TensocketError
    ├── DeviceError (RuntimeError)
    │   ├── UnknownDevice, InvalidDeviceIndex, DeviceMismatch
    │   └── BackendError: BackendUnavailable, BackendBroken, BackendIncompatible, BackendDisabled
    ├── ShapeError (RuntimeError, ValueError)      shapes that do not fit together
    ├── DimensionError (IndexError)                an axis that the tensor does not have
    ├── IndexOutOfRange (IndexError, RuntimeError) an index beyond a dimension
    ├── ArgumentError (ValueError, RuntimeError)   a value outside of an argument's domain
    ├── ArgumentTypeError (TypeError)              an argument of the wrong type
    ├── DtypeError (RuntimeError, TypeError)       dtypes that do not fit the operator's rule
    │   ├── IndexDtypeError (IndexError)           an index of a dtype that does not index
    │   └── UndefinedDtype (NotImplementedError)   a dtype for which the operator is undefined, on any device
    ├── AutogradError (RuntimeError)               gradients that cannot be computed as requested
    ├── TransformError (RuntimeError)              a call that a function transform (grad, vmap, ...) cannot carry out
    ├── UnsupportedOperator (NotImplementedError)
    │   └── UnsupportedDtype
    ├── MissingDataError (NotImplementedError)     values of a tensor that has none, on the device meta
    ├── ExchangeError (BufferError, RuntimeError)  memory that cannot be shared through DLPack
    ├── OutOfMemoryError (RuntimeError)
    ├── LinAlgError (RuntimeError)         a matrix without the requested inverse or decomposition
    ├── MissingPackage (ModuleNotFoundError)       an optional package that is not installed
    ├── KernelError (RuntimeError)         a kernel that failed to compile or to run
    ├── SerializationError (RuntimeError)  a file that cannot be read or written
    └── LibraryError (OSError)             a library of operators in C++ that cannot be loaded

The other bases are PyTorch's errors in the same situations (not always the same class for one kind of mistake), so
existing ``except`` clauses work.
"""

from __future__ import annotations


class TensocketError(Exception):
    """Base of all errors raised by tensocket.

    Args:
        operator: The operator or function that the user called, for example ``matmul``.
        given: Description of the given value, with shape, dtype and device if they matter.
        rule: The rule that it breaks.
        advice: The next step for the user.
    """

    def __init__(self, operator: str, given: str, rule: str, advice: str) -> None:
        super().__init__(f"[{operator}] {given} — {rule} — {advice}")
        self.operator = operator
        self.given = given
        self.rule = rule
        self.advice = advice

    def __reduce__(self) -> tuple[type[TensocketError], tuple[str, str, str, str]]:
        return type(self), (self.operator, self.given, self.rule, self.advice)


class DeviceError(TensocketError, RuntimeError):
    """A problem with a device."""


class UnknownDevice(DeviceError):
    """A name that no installed backend has."""


class InvalidDeviceIndex(DeviceError):
    """An index beyond the backend's number of devices."""


class DeviceMismatch(DeviceError):
    """Tensors of several devices in one operator call."""


class BackendError(DeviceError):
    """A backend that is installed but unusable."""


class BackendUnavailable(BackendError):
    """A missing library, driver or device that the backend needs."""


class BackendBroken(BackendError):
    """A failure of the backend's own code while it was loaded or probed."""


class BackendIncompatible(BackendError):
    """A backend for another version of the contract."""


class BackendDisabled(BackendError):
    """A backend that the environment excludes."""


class ShapeError(TensocketError, RuntimeError, ValueError):
    """Shapes that do not fit together."""


class DimensionError(TensocketError, IndexError):
    """An axis that the tensor does not have."""


class IndexOutOfRange(TensocketError, IndexError, RuntimeError):
    """An index beyond the size of a dimension."""


class ArgumentError(TensocketError, ValueError, RuntimeError):
    """A value outside of an argument's domain."""


class ArgumentTypeError(TensocketError, TypeError):
    """An argument of the wrong type."""


class DtypeError(TensocketError, RuntimeError, TypeError):
    """Dtypes that do not fit the operator's rule."""


class IndexDtypeError(DtypeError, IndexError):
    """An index whose dtype cannot index."""


class UndefinedDtype(DtypeError, NotImplementedError):
    """A dtype for which the operator is undefined, whatever the device."""


class AutogradError(TensocketError, RuntimeError):
    """A gradient that cannot be computed as requested."""


class TransformError(TensocketError, RuntimeError):
    """A call that a function transform cannot carry out, or a tensor outside of the transform it belongs to."""


class UnsupportedOperator(TensocketError, NotImplementedError):
    """An operator that the device cannot run."""


class UnsupportedDtype(UnsupportedOperator):
    """A dtype that the device or the operator does not support."""


class MissingDataError(TensocketError, NotImplementedError):
    """A request for values of a tensor on the device ``meta``, which has none."""


class ExchangeError(TensocketError, BufferError, RuntimeError):
    """Memory that cannot be shared with another library."""


class OutOfMemoryError(TensocketError, RuntimeError):
    """An allocation for which the device has too little memory."""


class LinAlgError(TensocketError, RuntimeError):
    """A matrix without the requested inverse or decomposition."""


class MissingPackage(TensocketError, ModuleNotFoundError):
    """A missing optional package that an operator needs."""


class CompileError(TensocketError, RuntimeError):
    """A function of which the compiler cannot make one graph."""


class KernelError(TensocketError, RuntimeError):
    """A kernel that failed to compile or to run."""


class SerializationError(TensocketError, RuntimeError):
    """A file that cannot be read or written."""


class LibraryError(TensocketError, OSError):
    """A library of operators in C++ that cannot be loaded."""
