"""The fallback ledger: every use of the host by an operator of another device, with the bytes that it moved.

Nothing runs on the host silently. ``set_fallback`` opts in; declared host kernels of a profile count too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator
from tensocket_plugins.contract.forks import Rank, by_thread, held_over_forks
from tensocket_plugins.contract.launch_recorder import is_recording

from ..device import open_device
from .call import call
from .registry import clear_tables

if TYPE_CHECKING:
    from .operator import Operator


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """Use of the host by one operator, dtype and device.

    Attributes:
        operator: The operator's name.
        dtype: Name of the first tensor's dtype.
        device: The device of the tensors.
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


_LOCK: Final = held_over_forks(threading.Lock(), Rank.LEAVES)
_LEDGER: Final[dict[tuple[str, str, str, str], list[int]]] = {}
#: Threads whose uses do not count.
_UNCOUNTED: Final[set[int]] = by_thread(set())
_TARGET: Final[list[str | None]] = [None]
#: Boxed fallbacks ``fallback(operator, *args)`` by layer or device name. One of a layer serves all operators, one of a
#: device serves those that the device does not run.
FALLBACKS: Final[dict[str, Callable[..., Any]]] = {}
#: By operator, a function over other operators for devices that do not run it; same arguments as the closure.
DECOMPOSITIONS: Final[dict[str, Callable[..., Any]]] = {}


def set_fallback(device: str | None) -> None:
    """Allow operators that a device lacks to run on another device, with copies; None forbids it (the default).

    Args:
        device: ``cpu``, or another host-resident device.

    Raises:
        ArgumentError: The device is not host-resident.
    """
    if device is not None and not open_device(device).runtime.profile.host_resident:
        raise ArgumentError("set_fallback", f"device {device!r}", "operators fall back to a host-resident device",
                            "pass 'cpu'")
    _TARGET[0] = device
    clear_tables()


@contextmanager
def uncounted() -> Iterator[None]:
    """Run a block whose uses of the host do not count: they are not part of the program."""
    _UNCOUNTED.add(get_ident())
    try:
        yield
    finally:
        _UNCOUNTED.discard(get_ident())


def note(operator: str, dtype: str, device: str, kind: str, nbytes: int) -> None:
    """Count one use of the host; a call that is recorded runs again."""
    if is_recording() or (_UNCOUNTED and get_ident() in _UNCOUNTED):
        return
    with _LOCK:
        row = _LEDGER.setdefault((operator, dtype, device, kind), [0, 0])
        row[0] += 1
        row[1] += nbytes


def note_host_operator(operator: str, tensor: Any) -> None:
    """Count a host operator that the device's profile declares.

    Raises:
        UnsupportedOperator: The profile does not declare it, and no fallback is allowed.
    """
    declared = operator in tensor._device_state.runtime.profile.host_kernels
    if not declared and _TARGET[0] is None:
        raise UnsupportedOperator(operator, f"{tensor.dtype.name} on {tensor.device}",
                                  "the backend neither runs this operator nor declares it as a host kernel",
                                  "allow copies to the host with tensocket.set_fallback('cpu')")
    note(operator, tensor.dtype.name, str(tensor.device), "host_kernel" if declared else "fallback", tensor.nbytes)


def fallback_ledger() -> list[LedgerRecord]:
    """Return all uses of the host since the last reset."""
    with _LOCK:
        return [LedgerRecord(*key, count=row[0], bytes=row[1]) for key, row in sorted(_LEDGER.items())]


def reset_fallback_ledger() -> None:
    """Clear the ledger."""
    with _LOCK:
        _LEDGER.clear()


def with_alternatives(operator: Operator, device: str, build: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return an operator's closure on a device, with alternatives for UnsupportedOperator.

    In this order: the operator's decomposition, the device's boxed fallback, the fallback device.

    Args:
        operator: The operator.
        device: Name of the device.
        build: Makes the device's own closure.
    """
    others = _alternatives(operator, device)
    if not others:
        return build()
    try:
        return _attempts([build(), *others], None)
    except UnsupportedOperator as error:
        return _attempts(others, error)


def _attempts(runs: list[Callable[..., Any]], reason: UnsupportedOperator | None) -> Callable[..., Any]:
    def attempt(*args: Any, **keywords: Any) -> Any:
        error = reason
        for run in runs:
            try:
                return run(*args, **keywords)
            except UnsupportedOperator as unable:
                error = error or unable
        assert error is not None, "there is at least one way to run"
        raise error

    return attempt


def _alternatives(operator: Operator, device: str) -> list[Callable[..., Any]]:
    found: list[Callable[..., Any]] = []
    decomposition = DECOMPOSITIONS.get(operator.name)
    if decomposition is not None:
        found.append(decomposition)
    boxed = FALLBACKS.get(device)
    if boxed is not None:
        found.append(partial(boxed, operator))
    if _TARGET[0] is not None:
        found.append(partial(_on_host, operator, _TARGET[0]))
    return found


def _on_host(operator: Operator, target: str, *args: Any) -> Any:
    """Run an operator on the fallback device, with copies.

    Raises:
        UnsupportedOperator: No tensor is on another device.
    """
    given = [x for x in args if hasattr(x, "_key")]
    if not given or given[0]._device_state is open_device(target):
        raise UnsupportedOperator(operator.name, f"a call on {target}", "the fallback device has no further fallback",
                                  "use another device")
    result = call(operator, *[x.detach().to(target) if hasattr(x, "_key") else x for x in args])
    first = given[0]
    moved = sum(x.nbytes for x in given) + result.nbytes
    note(operator.name, first.dtype.name, str(first.device), "fallback", moved)
    return first.copy_(result) if operator.kind == "inplace" else result.to(first.device)
