"""Telling allocators which streams use a block, so that its memory is not given away while queued work needs it.

Every way to hand arrays to a backend goes through here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.launch_recorder import forbid_replay

from ..device import DeviceState


def note_use(arrays: Iterable[Any], stream: Stream) -> None:
    """Record that work queued on ``stream`` uses these arrays; host arrays need no record.

    Raises:
        TypeError: One is no array but a lazy handle, which machine code would read as one.
    """
    for array in arrays:
        kind = type(array)
        if kind is DeviceArray:
            block = array.storage.block
            if block.stream is not stream:
                if block.streams is None:
                    block.streams = {stream}
                else:
                    block.streams.add(stream)
        elif kind is not np.ndarray and array is not None:
            raise TypeError(f"a kernel is given a {kind.__name__} in place of an array")


def copy_arrays(state: DeviceState, target: Any, source: Any) -> None:
    """Copy between contiguous arrays by the backend's ``copy``, on this thread's stream."""
    forbid_replay()
    stream = state.stream
    note_use((target, source), stream)
    state.runtime.copy(target, source, stream)
