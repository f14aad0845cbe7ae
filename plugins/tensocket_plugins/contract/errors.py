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
    │   └── UndefinedDtype (NotImplementedError)   a dtype that the operator has no meaning for, on any device
    ├── AutogradError (RuntimeError)               gradients that cannot be computed as asked
    ├── TransformError (RuntimeError)              a call that a function transform (grad, vmap, ...) cannot carry out
    ├── UnsupportedOperator (NotImplementedError)
    │   └── UnsupportedDtype
    ├── MissingDataError (NotImplementedError)     values of a tensor that has none, on the device meta
    ├── ExchangeError (BufferError, RuntimeError)  memory that cannot be shared through DLPack
    ├── OutOfMemoryError (RuntimeError)
    ├── LinAlgError (RuntimeError)         a matrix without the inverse or decomposition that was asked for
    ├── MissingPackage (ModuleNotFoundError)       an optional package that is not installed
    ├── KernelError (RuntimeError)         a kernel that failed to compile or to run
    └── SerializationError (RuntimeError)  a file that cannot be read or written

The other bases are what PyTorch raises in the same places (it is not always the same class for one kind of mistake), so
that existing ``except`` clauses work.
"""

from __future__ import annotations


class TensocketError(Exception):
    """Base of all errors raised by tensocket.

    Args:
        operator: The operator or function at the public boundary, for example ``matmul``.
        given: Description of the given value, with shape, dtype and device where they matter.
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
    """Something is wrong with a device."""


class UnknownDevice(DeviceError):
    """No installed backend has this name."""


class InvalidDeviceIndex(DeviceError):
    """The backend has fewer devices than the index asks for."""


class DeviceMismatch(DeviceError):
    """One operator was given tensors of several devices."""


class BackendError(DeviceError):
    """A backend is installed but cannot be used."""


class BackendUnavailable(BackendError):
    """A library, driver or device that the backend needs is missing."""


class BackendBroken(BackendError):
    """The backend's own code failed while it was loaded or probed."""


class BackendIncompatible(BackendError):
    """The backend was written for another version of the contract."""


class BackendDisabled(BackendError):
    """The environment excludes this backend."""


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
    """An index of a dtype that does not index."""


class UndefinedDtype(DtypeError, NotImplementedError):
    """A dtype for which the operator is not defined, whatever the device."""


class AutogradError(TensocketError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class TransformError(TensocketError, RuntimeError):
    """A call that a function transform cannot carry out, or a tensor outside of the transform it belongs to."""


class UnsupportedOperator(TensocketError, NotImplementedError):
    """The device has no way to run this operator."""


class UnsupportedDtype(UnsupportedOperator):
    """The device or the operator does not support this dtype."""


class MissingDataError(TensocketError, NotImplementedError):
    """Values are asked of a tensor on the device ``meta``, which has none."""


class ExchangeError(TensocketError, BufferError, RuntimeError):
    """Memory that cannot be handed to, or taken from, another library."""


class OutOfMemoryError(TensocketError, RuntimeError):
    """The device has no memory left for an allocation."""


class LinAlgError(TensocketError, RuntimeError):
    """A matrix without the inverse or decomposition that was asked for."""


class MissingPackage(TensocketError, ModuleNotFoundError):
    """An operator needs an optional package that is not installed."""


class KernelError(TensocketError, RuntimeError):
    """A kernel failed to compile or to run."""


class SerializationError(TensocketError, RuntimeError):
    """A file that cannot be read or written."""
