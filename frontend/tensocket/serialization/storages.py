"""Tensors by storage: tensors that share memory are written once and share memory again when they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tensocket.nn.parameter import Parameter
from tensocket_core import Tensor
from tensocket_plugins.contract.dtypes import BY_NAME

from .bits import from_bytes


class Storage(NamedTuple):
    """One block of memory in a file: a contiguous tensor and its address."""

    tensor: Tensor
    start: int


class Pool:
    """Collects tensors while a structure is encoded, and finds out which of them lie in the memory of others."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self._tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._by_memory: dict[Any, list[int]] = {}

    def place(self, tensor: Tensor) -> int:
        """The number of a tensor in the file."""
        number = self._numbers.setdefault(id(tensor), len(self._tensors))
        if number == len(self._tensors):
            self._tensors.append(tensor)
        return number

    def describe(self) -> dict[str, Any]:
        """What a file says about its tensors and storages. Afterwards ``storages`` hold what it contains."""
        places: dict[int, dict[str, Any]] = {}
        # The largest first, so that views find their base whatever the order in the structure.
        for number in sorted(range(len(self._tensors)), key=lambda number: -self._tensors[number].numel()):
            tensor = self._tensors[number]
            values = tensor.detach()
            storage, stride, offset = self._find(values) or self._add(values)
            places[number] = {
                "storage": storage, "shape": list(values.shape), "stride": stride, "offset": offset,
                "requires_grad": tensor.requires_grad and tensor.is_leaf, "parameter": isinstance(tensor, Parameter),
            }
        storages = [{"dtype": s.tensor.dtype.name, "count": s.tensor.numel(), "device": str(s.tensor.device)}
                    for s in self.storages]
        return {"storages": storages, "tensors": [places[number] for number in range(len(places))]}

    def _find(self, values: Tensor) -> tuple[int, list[int], int] | None:
        """Number, strides and offset in a storage that holds all elements already."""
        if not values.numel() or min(values.stride(), default=0) < 0:
            return None
        size, address = values.element_size(), values.data_ptr()
        for number in self._by_memory.get(_memory(values), ()):
            storage = self.storages[number]
            offset, rest = divmod(address - storage.start, size)
            last = offset + _reach(values.shape, values.stride())
            if rest == 0 and offset >= 0 and last < storage.tensor.numel():
                return number, list(values.stride()), offset
        return None

    def _add(self, values: Tensor) -> tuple[int, list[int], int]:
        """A new storage. Gaps are not written; what fills its memory keeps its order: a transposed matrix stays one."""
        dense = values.permute(sorted(range(values.dim()), key=lambda axis: -values.stride(axis)))
        stride = list(values.stride())
        if not dense.is_contiguous():
            dense = values.contiguous()
            stride = list(dense.stride())
        self.storages.append(Storage(dense, dense.data_ptr()))
        self._by_memory.setdefault(_memory(dense), []).append(len(self.storages) - 1)
        return len(self.storages) - 1, stride, 0


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements between the first and the last one."""
    return sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


def _memory(values: Tensor) -> Any:
    """What tensors need in common for their addresses to be compared: dtype and, off the host, the storage."""
    array = values._array
    return values.dtype.name, None if isinstance(array, np.ndarray) else id(array.storage)


class Shelf:
    """Storages and tensors of a file while its structure is decoded.

    Args:
        described: What ``Pool.describe`` said.

    Raises:
        ValueError: A tensor reaches out of its storage, or something is not as ``Pool`` writes it.
    """

    def __init__(self, described: Any) -> None:
        self._storages = [(BY_NAME[entry["dtype"]], _natural(entry["count"]), str(entry["device"]))
                          for entry in described["storages"]]
        self._places = [Place.read(entry) for entry in described["tensors"]]
        for place in self._places:
            last = place.offset + _reach(place.shape, place.stride)
            if math.prod(place.shape) and last >= self._storages[place.storage][1]:
                raise ValueError("a tensor reaches out of its storage")
        self._flat: list[Tensor] = []
        self._taken: dict[int, Tensor] = {}

    @property
    def sizes(self) -> list[int]:
        """Bytes of every storage."""
        return [count * dtype.itemsize for dtype, count, _ in self._storages]

    def fill(self, data: Any, map_location: Any) -> None:
        """Take the bytes of the next storage to its device: where it came from, or where ``map_location`` says."""
        dtype, _, device = self._storages[len(self._flat)]
        flat = from_bytes(data, dtype)
        if callable(map_location):
            moved = map_location(flat, device)
            self._flat.append(flat.to(device) if moved is None else moved)
        elif isinstance(map_location, dict):
            self._flat.append(flat.to(map_location.get(device, device)))
        else:
            self._flat.append(flat.to(device if map_location is None else map_location))

    def take(self, number: Any) -> Tensor:
        """The tensor with this number in the file; the same object every time."""
        if number not in self._taken:
            place = self._places[_natural(number)]
            values = self._flat[place.storage].as_strided(place.shape, place.stride, place.offset).detach()
            if place.parameter:
                values = Parameter(values, requires_grad=place.requires_grad)
            elif place.requires_grad:
                values.requires_grad_()
            self._taken[number] = values
        return self._taken[number]


class Place(NamedTuple):
    """Where a tensor lies, and what it is."""

    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    parameter: bool

    @classmethod
    def read(cls, entry: Any) -> Place:
        """Check one entry of a file."""
        shape, stride = (tuple(_natural(n) for n in entry[name]) for name in ("shape", "stride"))
        if len(shape) != len(stride):
            raise ValueError("shape and stride differ in length")
        return cls(_natural(entry["storage"]), shape, stride, _natural(entry["offset"]),
                   entry["requires_grad"] is True, entry["parameter"] is True)


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a size")
    return value
