"""Streams and events of the CPU: queues of operators that run in order, asynchronously to the calling thread."""

from __future__ import annotations

from typing import Any

from tensocket_core.device import open_device
from tensocket_operators import device_api as api
from tensocket_plugins.contract.devices import HOST_DEVICE


class Event(api.Event):
    """A mark in a stream's queue.

    Args:
        enable_timing: Whether the event supports ``elapsed_time``.
    """

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(HOST_DEVICE, enable_timing)


class Stream(api.Stream):
    """A queue of work that runs in order, on its own thread.

    Args:
        priority: Accepted as in PyTorch; threads have no priorities.
    """

    def __init__(self, priority: int = -1) -> None:
        super().__init__(HOST_DEVICE, priority)


class StreamContext:
    """``with stream(s):`` — this thread's work goes to ``s``; None changes nothing."""

    def __init__(self, stream: api.Stream | None) -> None:
        self.cur_stream = stream

    def __enter__(self) -> None:
        if self.cur_stream is not None:
            self.cur_stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.cur_stream is not None:
            self.cur_stream.__exit__(*error)


def stream(stream: api.Stream | None) -> StreamContext:
    """Return a context manager in which this thread's work goes to ``stream``; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the stream on which this thread queues work.

    Args:
        device: Accepted as in PyTorch; there is only one CPU device.
    """
    state = open_device(HOST_DEVICE)
    return Stream._of(state, state.chosen_stream)
