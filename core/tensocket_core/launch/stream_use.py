"""Notes for allocators about the streams that use a block, so that they do not reuse it while queued work needs it.

All code that hands arrays to a backend calls these functions.
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
        TypeError: One of them is a lazy handle, which machine code would read as an array.
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
    """Copy between contiguous arrays with the backend's ``copy`` on this thread's stream."""
    forbid_replay()
    stream = state.stream
    note_use((target, source), stream)
    state.runtime.copy(target, source, stream)
