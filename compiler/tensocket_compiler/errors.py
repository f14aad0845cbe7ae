"""Errors of compiled functions, under the names that PyTorch's programs catch."""

from __future__ import annotations

from tensocket_plugins.contract.errors import ArgumentError, CompileError, TensocketError


class TorchDynamoException(RuntimeError):
    """Base of the errors of ``tensocket.compile``."""


class Unsupported(CompileError, TorchDynamoException):
    """A function of which the compiler cannot make one graph, although it must."""


class BackendCompilerFailed(TensocketError, TorchDynamoException):
    """A backend that raised, or returned something that cannot be called. The cause is the backend's error."""

    @property
    def inner_exception(self) -> BaseException | None:
        """The backend's error."""
        return self.__cause__


class InvalidBackend(ArgumentError, TorchDynamoException):
    """A name that no backend has."""


class OptionError(ArgumentError, TorchDynamoException):
    """A mode or an option that does not exist."""


class RecompileError(TensocketError, TorchDynamoException):
    """A function that needs another graph although the settings allow one only."""


class FailOnRecompileLimitHit(TensocketError, TorchDynamoException):
    """A function that needs more graphs than the settings allow, although calls must not run eagerly."""


class InternalTorchDynamoError(TorchDynamoException):
    """Never raised here: a failure of the compiler is a warning, and the call runs eagerly."""


class TorchRuntimeError(TorchDynamoException):
    """Never raised here: errors of operators are those of the plain function."""


class ResetRequired(TorchDynamoException):
    """Never raised here: functions may be compiled again at any time."""


class UserError(TorchDynamoException):
    """Never raised here: errors of programs are those of the plain function."""


__all__ = ["BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend",
           "OptionError", "RecompileError", "ResetRequired", "TorchDynamoException", "TorchRuntimeError", "Unsupported",
           "UserError"]
