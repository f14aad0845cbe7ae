"""Elements of memory as numbers: read at once on the host, by one copy from a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket_core.geometry import as_strided
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.stream_use import note_use

from ..memory.regions import Array, Region
from .tensors import tensor, tensor_key

#: From handles of regions, in order, to their elements.
Reader = Callable[[Sequence[Array]], list[float]]


def elements_reader(regions: Sequence[Region]) -> Reader:
    """Return a function that reads regions of one element each.

    An eager program waits for a device once for each element that it reads. This function gathers the elements on the
    device, so that it waits once for each device and dtype.
    """
    if all(region.buffer.device.runtime.profile.host_resident for region in regions):
        return lambda arrays: [float(array) for array in arrays]
    places: dict[tuple[Any, Any], list[int]] = {}
    for k, region in enumerate(regions):
        places.setdefault((region.buffer.device, region.dtype), []).append(k)
    parts = [(found, _gathering([regions[k] for k in found])) for found in places.values()]

    def read(arrays: Sequence[Array]) -> list[float]:
        values = [0.0] * len(arrays)
        for found, gather in parts:
            for k, value in zip(found, gather([arrays[k] for k in found]), strict=True):
                values[k] = value
        return values

    return read


def _gathering(regions: Sequence[Region]) -> Reader:
    """Return a function that reads elements of one device and dtype."""
    state, dtype = regions[0].buffer.device, regions[0].dtype
    if len(regions) == 1 or state.runtime.profile.host_resident:
        keys = [tensor_key(region) for region in regions]
        return lambda arrays: [float(tensor(x, key).item()) for x, key in zip(arrays, keys, strict=True)]
    key, count = int(state.key | dtype_bit(dtype)), len(regions)

    def gather(arrays: Sequence[Array]) -> list[float]:
        stream, copy = state.stream, state.runtime.copy
        side_by_side = state.runtime.empty((count,), dtype, stream)
        note_use((side_by_side, *arrays), stream)
        for k, array in enumerate(arrays):
            copy(as_strided(side_by_side, array.shape, array.strides, k), array, stream)
        return [float(x) for x in tensor(side_by_side, key).tolist()]

    return gather
