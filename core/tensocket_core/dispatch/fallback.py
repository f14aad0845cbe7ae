"""The fallback ledger: every use of the host by an operator of another device, with what it moved.

Nothing runs on the host silently. ``set_fallback`` opts in; a profile's declared host kernels are counted too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

from ..device import open_entry
from .call import call
from .registry import clear_tables

if TYPE_CHECKING:
    from .operator import Operator


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """Uses of the host.

    Attributes:
        operator: Name.
        dtype: Name of the first tensor's dtype.
        device: The device that the tensors are on.
        kind: ``fallback``: allowed by ``set_fallback``. ``host_kernel``: declared by the backend's profile.
        count: Number of calls.
        bytes: Bytes copied from and to the device.
    """

    operator: str
    dtype: str
    device: str
    kind: str
    count: int
    bytes: int


_LOCK: Final = threading.Lock()
_LEDGER: Final[dict[tuple[str, str, str, str], list[int]]] = {}
_TARGET: Final[list[str | None]] = [None]


def set_fallback(device: str | None) -> None:
    """Allow operators that a device lacks to run on another one, with copies; None forbids it (the default).

    Args:
        device: ``cpu``, or another host-resident device.

    Raises:
        ArgumentError: The device's memory is not the host's.
    """
    if device is not None and not open_entry(device).runtime.profile.host_resident:
        raise ArgumentError(
            "set_fallback", f"device {device!r}", "operators fall back to a host-resident device", "pass 'cpu'"
        )
    _TARGET[0] = device
    clear_tables()


def fallback_device() -> str | None:
    """Where operators fall back to; None where they do not."""
    return _TARGET[0]


def note(operator: str, dtype: str, device: str, kind: str, nbytes: int) -> None:
    """Count one use of the host."""
    with _LOCK:
        row = _LEDGER.setdefault((operator, dtype, device, kind), [0, 0])
        row[0] += 1
        row[1] += nbytes


def note_host_operator(operator: str, tensor: Any) -> None:
    """Count a host operator that the device's profile declares.

    Raises:
        UnsupportedOperator: The profile does not declare it and no fallback is allowed.
    """
    declared = operator in tensor._entry.runtime.profile.host_kernels
    if not declared and _TARGET[0] is None:
        raise UnsupportedOperator(
            operator,
            f"{tensor.dtype.name} on {tensor.device}",
            "the backend neither runs this operator nor declares it as a host kernel",
            "allow copies to the host with tensocket.set_fallback('cpu')",
        )
    note(operator, tensor.dtype.name, str(tensor.device), "host_kernel" if declared else "fallback", tensor.nbytes)


def fallback_ledger() -> list[LedgerRecord]:
    """All uses of the host since the last reset."""
    with _LOCK:
        return [LedgerRecord(*key, count=row[0], bytes=row[1]) for key, row in sorted(_LEDGER.items())]


def reset_fallback_ledger() -> None:
    """Forget all uses."""
    with _LOCK:
        _LEDGER.clear()


def with_fallback(operator: Operator, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run``, repeated on the fallback device where it raises UnsupportedOperator and a fallback is allowed.

    Args:
        operator: What ``run`` runs.
        run: Its closure on a device; tensors among its arguments are on that device.
    """
    target = _TARGET[0]
    if target is None:
        return run

    def attempt(*args: Any) -> Any:
        try:
            return run(*args)
        except UnsupportedOperator:
            given = [x for x in args if hasattr(x, "_key")]
            if not given or given[0]._entry is open_entry(target):
                raise
        result = call(operator, *[x.detach().to(target) if hasattr(x, "_key") else x for x in args])
        first = given[0]
        moved = sum(x.nbytes for x in given) + result.nbytes
        note(operator.name, first.dtype.name, str(first.device), "fallback", moved)
        return first.copy_(result) if operator.kind == "inplace" else result.to(first.device)

    return attempt
