"""Names of calls between processes, which need a transport that this package does not have."""

from __future__ import annotations

from typing import Any, NoReturn

from tensocket.errors import UnsupportedOperator
from tensocket.namespace.refusals import refused


def is_available() -> bool:
    """Whether processes can call each other; no."""
    return False


def _refuse(name: str) -> NoReturn:
    raise UnsupportedOperator(f"distributed.rpc.{name}", "a call between processes", "a program is one process",
                              "call the function, or exchange data through multiprocessing.Queue")


def init_rpc(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to start; ``is_available`` says so.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("init_rpc")


def rpc_sync(to: Any, func: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to call a function in another process.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("rpc_sync")


def rpc_async(to: Any, func: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to call a function in another process.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("rpc_async")


def remote(to: Any, func: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to call a function in another process.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("remote")


def shutdown(graceful: bool = True, timeout: float = 0) -> NoReturn:
    """Refuse to end; nothing was started.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("shutdown")


globals().update(refused(
    "distributed.rpc",
    "BackendType PyRRef RRef RpcBackendOptions TensorPipeRpcBackendOptions WorkerInfo get_worker_info",
    "a program is one process", "call the function, or exchange data through multiprocessing.Queue"))
