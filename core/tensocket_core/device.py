"""Opened devices as the runtime uses them: key bit, program cache, current stream, and lookup by name."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from tensocket_plugins.contract.backend import HostQueue, OpenDevice, Stream
from tensocket_plugins.contract.devices import (
    BEFORE_NUMBERED,
    HOST_DEVICE,
    MEANT,
    NUMBERED,
    SELECTION,
    Device,
    Selection,
    parse_device,
    stand_in,
)
from tensocket_plugins.contract.errors import ArgumentTypeError, DeviceMismatch, TensocketError
from tensocket_plugins.contract.forks import Rank, by_thread, held_over_forks
from tensocket_plugins.contract.naming import package_name
from tensocket_plugins.contract.registry import registry

from .keys import DEVICE_SHIFT
from .meta import META, MetaDevice, NoPrograms
from .recording import SlowPathReason


class DeviceState:
    """An opened device.

    Attributes:
        device: Name and index as tensors report them; host-resident devices have no index, as in PyTorch.
        runtime: The backend's opened device.
        key: Its bit in dispatch keys.
        programs: Compiled programs by structure (``launch.programs``).
        native_entries: Native entries of kernels (``launch.device_states``).
        factories: Data of factories for small tensors, by dtype (``creation``).
        holds_data: Whether tensors have values; False for ``meta`` alone.
    """

    __slots__ = ("device", "factories", "holds_data", "key", "native_entries", "programs", "runtime")

    def __init__(self, runtime: OpenDevice, device: Device, key: int) -> None:
        self.runtime = runtime
        self.device = device
        self.key = key
        self.holds_data = device.type != META
        self.programs: dict[Any, Any] = {} if self.holds_data else NoPrograms()
        self.native_entries: dict[Any, Any] = {}
        self.factories: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"DeviceState({self.device})"

    @property
    def chosen_stream(self) -> Stream:
        """The stream that this thread selected."""
        return _THREAD.streams.get(self.key, self.runtime.default_stream)

    @property
    def stream(self) -> Stream:
        """The stream that receives work now.

        A host-resident device always returns its default stream. Its other streams queue whole operators
        (the operators' ``host_streams``), and other work on arrays runs once their queues are empty.
        """
        streams = _THREAD.streams
        if not streams:
            return self.runtime.default_stream
        stream = streams.get(self.key, self.runtime.default_stream)
        if isinstance(stream, HostQueue):
            stream.synchronize()
            return self.runtime.default_stream
        return stream


class _ThreadStreams(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.default: DeviceState | None = None
        self.reason: SlowPathReason | None = None
        self.outer: list[DeviceState | None] = []
        self.runs_host_queue = False


_THREAD: Final = _ThreadStreams()
_LOCK: Final = held_over_forks(threading.RLock(), Rank.DEVICES)


def _no_queues(used: bool) -> None:
    """Do nothing; the operators' ``host_streams`` replaces this function."""


#: Host queues that may hold pending functions, by identity. The references are weak: a stream ends with its last user.
PENDING: Final[dict[int, weakref.ref[HostQueue]]] = {}
#: Called with True if this thread uses a host queue, else False; the operators' ``host_streams`` sets the function.
ON_HOST_QUEUES: Final[list[Callable[[bool], None]]] = [_no_queues]
_ENTRIES: Final[list[DeviceState]] = []
#: Entries by the values that users pass as ``device=``; filled on first use of each spelling.
_BY_NAME: Final[dict[Any, DeviceState]] = {}
PROCESS_DEFAULT: Final[list[DeviceState]] = []
#: By thread that selected one, its default device.
SELECTING: Final[dict[int, DeviceState]] = by_thread({})
#: The device from the environment, if it answers for ``cuda``.
_ANSWERING: Final[list[str]] = []
#: Key bit to entry.
BY_KEY: Final[dict[int, DeviceState]] = {}


def open_device(device: Any) -> DeviceState:
    """Return the opened device called ``device``; None is the default device.

    Raises:
        UnknownDevice, InvalidDeviceIndex, BackendUnavailable, BackendBroken, BackendIncompatible: See the registry.
    """
    try:
        return _BY_NAME[device]
    except (KeyError, TypeError):
        pass
    return default_state() if device is None else _open(parse_device(device), device)


def _open(parsed: Device, spelling: Any) -> DeviceState:
    with _LOCK:
        runtime = _meta_device() if parsed.type == META else registry().open(parsed)
        state = next((e for e in _ENTRIES if e.runtime is runtime), None)
        if state is None:
            indexed = not runtime.profile.host_resident and parsed.type != META
            name = Device(parsed.type, runtime.index if indexed else None)
            state = DeviceState(runtime, name, 1 << (DEVICE_SHIFT + len(_ENTRIES)))
            BY_KEY[state.key] = state
            _ENTRIES.append(state)
        for alias in (spelling, parsed, state.device):
            _BY_NAME[alias] = state
        return state


@cache
def _meta_device() -> MetaDevice:
    return MetaDevice()


def default_state() -> DeviceState:
    """Return the device that factories use without ``device=``: the thread's default, or else the process's."""
    return _THREAD.default or (PROCESS_DEFAULT[0] if PROCESS_DEFAULT else _first_default())


def _first_default() -> DeviceState:
    """Return the process's default device, from the environment at the time of the first tensor.

    A program that imports this package as ``torch`` expects PyTorch's default: for it the environment says which device
    answers for ``cuda``. If that device is unusable, this function raises.
    """
    if package_name() == "torch":
        _answer_from_environment()
        PROCESS_DEFAULT.append(open_device(HOST_DEVICE))
    else:
        PROCESS_DEFAULT.append(open_device(os.environ.get("TENSOCKET_DEVICE") or HOST_DEVICE))
    return PROCESS_DEFAULT[0]


def selected_state() -> DeviceState | None:
    """Return the device that this thread selected with ``set_default_device`` or ``with device(...)``, or None."""
    return _THREAD.default


def use_state(state: DeviceState | None) -> None:
    """Set this thread's default device to a result of ``selected_state``, possibly from another thread."""
    _THREAD.default = state
    SELECTING.pop(threading.get_ident(), None)
    if state is not None:
        SELECTING[threading.get_ident()] = state


def set_default_device(device: Any) -> None:
    """Set the device of this thread's factories, a name or a ``device``; None returns to the process's default."""
    use_state(None if device is None else open_device(device))


class _ThreadSelection(Selection):
    """A block ``with device:``, in which a device is this thread's default."""

    def enter(self, device: Device) -> None:
        """Make ``device`` the default."""
        state = open_device(device)
        _THREAD.outer.append(_THREAD.default)
        use_state(state)

    def leave(self) -> None:
        """Restore the previous default."""
        use_state(_THREAD.outer.pop())


SELECTION[0] = _ThreadSelection()


def get_default_device() -> Device:
    """Return the device that factories use without ``device=``."""
    return default_state().device


def answer_for(name: str, backend: str | None) -> None:
    """Call the devices of a backend ``name`` from now on, also on existing tensors (``contract.stand_in``).

    Args:
        name: Name of the devices in programs, for example ``cuda``.
        backend: The backend whose devices answer; None ends it.
    """
    with _LOCK:
        own = [MEANT.get(state.device.type, state.device.type) for state in _ENTRIES]
        stand_in(backend, name)
        _BY_NAME.clear()
        for state, kind in zip(_ENTRIES, own, strict=True):
            state.device = Device(kind, state.device.index)


def answer_with(device: str) -> None:
    """Let a device, for example ``opencl:1``, answer for ``cuda``; raise at once if it is unusable.

    Raises:
        UnknownDevice, InvalidDeviceIndex, BackendError: As ``open_device``.
    """
    wanted = Device(device)
    registry().backend(wanted.type)
    answer_for(NUMBERED, wanted.type)
    if wanted.index is not None and wanted.type != HOST_DEVICE:
        set_current(Device(NUMBERED, wanted.index))


def _answer_from_environment() -> None:
    """Let the device from the environment answer for ``cuda``, once, if a program imports this package as ``torch``."""
    device = os.environ.get("TENSOCKET_DEVICE")
    if not device or _ANSWERING or package_name() != "torch":
        return
    _ANSWERING.append(device)
    try:
        answer_with(device)
    except TensocketError:
        _ANSWERING.clear()
        raise


BEFORE_NUMBERED.append(_answer_from_environment)


def set_current(device: Any) -> None:
    """Make a device the meaning of its name without an index, in all threads; initially that is number 0.

    Raises:
        UnknownDevice, InvalidDeviceIndex, BackendError: As ``open_device``.
    """
    state = open_device(device)
    name = state.device.type
    with _LOCK:
        for alias in (name, Device(name)):
            _BY_NAME[alias] = state


def state_of_key(operator: str, key: int) -> DeviceState:
    """Return the only device in a key.

    Raises:
        ArgumentTypeError: The key has no device, because no argument is a tensor.
        DeviceMismatch: The key has several devices.
    """
    bits = key >> DEVICE_SHIFT << DEVICE_SHIFT
    state = BY_KEY.get(bits)
    if not bits:
        raise ArgumentTypeError(operator, "no tensors", "at least one tensor is needed", "pass a tensor")
    if state is None:
        names = " and ".join(str(e.device) for e in _ENTRIES if e.key & bits)
        raise DeviceMismatch(operator, f"tensors on {names}", "all tensors of one operator are on one device",
                             "move them with .to(device) first")
    return state


def device_states() -> list[DeviceState]:
    """Return all opened devices."""
    return list(_ENTRIES)


def current_stream(device: Any = None) -> Stream:
    """Return the stream on which this thread queues work for ``device``."""
    return open_device(device).chosen_stream


def set_stream(device: Any, stream: Stream) -> None:
    """Queue this thread's work for ``device`` on ``stream`` from now on."""
    state = open_device(device)
    streams = _THREAD.streams
    if stream is state.runtime.default_stream:
        streams.pop(state.key, None)
    else:
        streams[state.key] = stream
    _note_streams()


def _note_streams() -> None:
    """Tell recording and dispatch whether this thread uses streams other than the default ones."""
    streams = _THREAD.streams
    if not streams:
        _THREAD.reason = None
    elif _THREAD.reason is None:
        _THREAD.reason = SlowPathReason()
    ON_HOST_QUEUES[0](any(isinstance(stream, HostQueue) for stream in streams.values()))


def thread_streams() -> dict[int, Stream] | None:
    """Return the streams other than the default that this thread uses, by device key; None if there are none."""
    return dict(_THREAD.streams) or None


def use_streams(streams: dict[int, Stream] | None) -> None:
    """Use the streams of an earlier ``thread_streams``; each stream first waits for the work queued so far."""
    before, after = _THREAD.streams, streams or {}
    for key in before.keys() | after.keys():
        runtime = BY_KEY[key].runtime
        old, new = before.get(key, runtime.default_stream), after.get(key, runtime.default_stream)
        if old is not new:
            event = runtime.create_event()
            old.record(event)
            new.wait(event)
    _THREAD.streams = dict(after)
    _note_streams()


# ------------------------------------------------------------------------------------- queues of host-resident devices


def host_queue(state: DeviceState) -> HostQueue | None:
    """Return the queue that this thread selected for a host-resident device; None means the default stream."""
    stream = _THREAD.streams.get(state.key)
    return stream if isinstance(stream, HostQueue) else None


def wait_for_queue() -> None:
    """Wait until the host queues that this thread selected are empty."""
    for stream in list(_THREAD.streams.values()):
        if isinstance(stream, HostQueue):
            stream.synchronize()


def wait_for_values() -> None:
    """Wait until all host queues are empty, before host memory is read.

    A queued function does not wait: its reads are in order already, and two queues would wait for each other.
    """
    if _THREAD.runs_host_queue:
        return
    for identity, reference in list(PENDING.items()):
        PENDING.pop(identity, None)
        queue = reference()
        if queue is not None:
            queue.synchronize()


@contextmanager
def runs_host_queue() -> Iterator[None]:
    """Mark a block as work that a host queue runs."""
    _THREAD.runs_host_queue = True
    try:
        yield
    finally:
        _THREAD.runs_host_queue = False


@contextmanager
def on_default_streams() -> Iterator[None]:
    """Use the default streams within a block, which must not touch memory of queued work."""
    streams, _THREAD.streams = _THREAD.streams, {}
    try:
        yield
    finally:
        _THREAD.streams = streams
