"""The errors of compiled functions under PyTorch's names."""

from __future__ import annotations

from tensocket_compiler.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InternalTorchDynamoError,
    InvalidBackend,
    RecompileError,
    ResetRequired,
    TorchDynamoException,
    TorchRuntimeError,
    Unsupported,
    UserError,
)

__all__ = ["BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend",
           "RecompileError", "ResetRequired", "TorchDynamoException", "TorchRuntimeError", "Unsupported", "UserError"]
