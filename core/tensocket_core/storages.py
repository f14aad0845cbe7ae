"""Storages: the memory that a tensor and its views share, as objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DeviceMismatch, DtypeError

from . import tensors
from .creation import empty
from .device import DeviceEntry
from .dispatch.keys import DIM0, dtype_bit
from .execute.geometry import memory_nbytes, memory_of
from .execute.inplace import bump
from .execute.layout import reach
from .interop.numpy import from_numpy

#: Storage objects by the memory's identity: while one is alive, all views of its memory give the same object.
_KNOWN: Final[weakref.WeakValueDictionary[int, UntypedStorage]] = weakref.WeakValueDictionary()


class UntypedStorage:
    """The bytes of the memory that one or more tensors lie in.

    Args:
        size: Number of bytes of a new storage.
        device: Where a new storage is.
    """

    __slots__ = ("__weakref__", "_bytes", "_memory")
    #: Makes a storage on the memory of a file; filled by the module of files, which stands on this one.
    from_file: ClassVar[Callable[..., UntypedStorage]]

    def __init__(self, size: int = 0, *, device: Any = None) -> None:
        self._bytes = empty(size, dtype=dtypes.uint8, device=device)
        self._memory = memory_of(self._bytes._array)
        _KNOWN[id(self._memory)] = self

    @property
    def device(self) -> Device:
        """Where it is."""
        return self._bytes.device  # type: ignore[no-any-return]

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a device called ``cuda``."""
        return self.device.type == "cuda"

    def data_ptr(self) -> int:
        """A number that identifies the place of the first byte in memory."""
        return self._bytes.data_ptr()  # type: ignore[no-any-return]

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self._bytes.numel())

    size = nbytes
    __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self

    def element_size(self) -> int:
        """1: elements are bytes."""
        return 1

    def resize_(self, size: int) -> UntypedStorage:
        """Keep the size; memory that tensors share does not move.

        Raises:
            ArgumentError: The size is another one.
        """
        if size != self.nbytes():
            raise ArgumentError("resize_", f"{size} bytes for a storage of {self.nbytes()}",
                                "a storage keeps its size, because tensors share its memory",
                                "use Tensor.resize_, which makes a new storage where needed")
        return self

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise ArgumentError("storage", f"a slice with step {index.step}", "a part of a storage has all bytes "
                                    "from one place to another", "slice a tensor on it")
            part = self._bytes[index]
            host = self._bytes._entry.runtime.profile.host_resident
            return storage_of(from_numpy(part.numpy()) if host else part.clone())
        return int(self._bytes[index].item())

    def __setitem__(self, index: Any, value: int) -> None:
        self._bytes[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """All bytes."""
        return self._bytes.tolist()  # type: ignore[no-any-return]

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        self._bytes.fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Copy the bytes of another storage of the same size."""
        self._bytes.copy_(source._bytes)
        return self

    def clone(self) -> UntypedStorage:
        """A storage with the same bytes."""
        return storage_of(self._bytes.clone())

    def cpu(self) -> UntypedStorage:
        """This storage, or a copy of it in host memory."""
        moved = self._bytes.cpu()
        return self if moved is self._bytes else storage_of(moved)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """This storage, or a copy of it on a device called ``cuda``, by number."""
        return self.to(device=f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """This storage, or a copy of it on another device."""
        moved = self._bytes.to(device)
        return self if moved is self._bytes else storage_of(moved)

    def is_shared(self) -> bool:
        """Whether the memory is shared with the processes that the storage is sent to."""
        return self._bytes.is_shared()  # type: ignore[no-any-return]

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes, with all tensors on them, to where other processes see them, too."""
        self._bytes.share_memory_()
        return self

    def is_pinned(self) -> bool:
        """False: host memory is pageable."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._memory is other._memory

    def __hash__(self) -> int:
        return id(self._memory)

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist()) if self._bytes._entry.holds_data else "...\n"
        return f"{lines}[tensocket.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class TypedStorage:
    """A storage seen as elements of one dtype.

    Attributes:
        dtype: The dtype.
    """

    __slots__ = ("_untyped", "dtype")

    def __init__(self, untyped: UntypedStorage, dtype: DType) -> None:
        self._untyped = untyped
        self.dtype = dtype

    @property
    def device(self) -> Device:
        """Where it is."""
        return self._untyped.device

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped

    def data_ptr(self) -> int:
        """A number that identifies the place of the first element in memory."""
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """Number of bytes."""
        return self._untyped.nbytes()

    def size(self) -> int:
        """Number of elements."""
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def _elements(self) -> Any:
        whole = self.size() * self.dtype.itemsize
        return self._untyped._bytes[:whole].view(self.dtype)

    def __getitem__(self, index: int) -> Any:
        return self._elements()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """All elements."""
        return self._elements().tolist()  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._elements().fill_(value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped == other._untyped and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash((self._untyped, self.dtype))

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        return (f"{lines}[tensocket.storage.TypedStorage(dtype={self.dtype!r}, device={self.device}) "
                f"of size {self.size()}]")


def storage_of(tensor: Any) -> UntypedStorage:
    """The storage of a tensor; the same object for all tensors on its memory, as long as somebody has it."""
    memory = memory_of(tensor._array)
    known = _KNOWN.get(id(memory))
    if known is not None:
        return known
    storage = object.__new__(UntypedStorage)
    storage._memory = memory
    storage._bytes = tensors.wrap(bytes_of(tensor._array), tensor._entry.key | dtype_bit(dtypes.uint8))
    _KNOWN[id(memory)] = storage
    return storage


def renew(memory: Any, moved: Any) -> None:
    """Note that all tensors on ``memory`` are on ``moved`` now."""
    storage = _KNOWN.pop(id(memory), None)
    if storage is not None:
        storage._memory = moved
        _KNOWN[id(moved)] = storage


def bytes_of(array: Any) -> Any:
    """The whole memory of a handle as bytes."""
    memory, count = memory_of(array), memory_nbytes(array)
    if type(memory) is not np.ndarray:
        return DeviceArray(memory, dtypes.uint8, (count,), (1,), 0)
    if not memory.flags.forc:
        return np.lib.stride_tricks.as_strided(memory.view(np.uint8), (count,), (1,))
    return np.ndarray((count,), np.uint8, memory if memory.flags.c_contiguous else memory.T)


def array_in(storage: UntypedStorage, dtype: DType, offset: int, size: tuple[int, ...],
             stride: tuple[int, ...]) -> Any:
    """A handle on a storage; offset and strides in elements of ``dtype``.

    Raises:
        ArgumentError: It reaches beyond the storage.
    """
    held = storage.nbytes() // dtype.itemsize
    if offset < 0 or (0 not in size and offset + reach(size, stride) > held):
        raise ArgumentError("set_", f"size {list(size)}, stride {list(stride)}, offset {offset} on {held} elements",
                            "a tensor stays within its storage", "choose a smaller size, stride or offset")
    whole = storage._bytes._array
    if type(whole) is not np.ndarray:
        return DeviceArray(storage._memory, dtype, size, stride, offset)
    steps = tuple(s * dtype.itemsize for s in stride)
    return np.ndarray(size, dtype.numpy, whole, 0 if 0 in size else offset * dtype.itemsize, steps)


def placed(tensor: Any, source: Any, offset: int, size: Any, stride: Any) -> Any:
    """``Tensor.set_``."""
    dtype = tensor.dtype
    if source is None:
        source = empty(0, dtype=dtype, device=tensor.device)
    if hasattr(source, "_key"):
        if source.dtype is not dtype:
            raise DtypeError("set_", f"a source of {source.dtype.name} for a tensor of {dtype.name}",
                             "the source has the tensor's dtype", "use source.view(dtype)")
        if size is None:
            offset, size, stride = source.storage_offset(), tuple(source.shape), source.stride()
        source = storage_of(source)
    source = untyped(source)
    if entry_of(source) is not tensor._entry:
        raise DeviceMismatch("set_", f"a storage on {source.device} for a tensor on {tensor.device}",
                             "the storage is on the tensor's device", "move it with .to(device=...)")
    shape = (source.nbytes() // dtype.itemsize - offset,) if size is None else tuple(size)
    steps = contiguous_strides(shape) if stride is None or len(stride) != len(shape) else tuple(stride)
    tensor._array = array_in(source, dtype, offset, shape, steps)
    tensor._key = tensor._key & ~DIM0 | (0 if shape else DIM0)
    tensor._base = None
    bump(tensor)
    return tensor


def entry_of(storage: UntypedStorage) -> DeviceEntry:
    """The device of a storage."""
    return storage._bytes._entry  # type: ignore[no-any-return]


def is_storage(obj: object) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def untyped(source: Any) -> UntypedStorage:
    """The bytes of either kind of storage.

    Raises:
        ArgumentTypeError: It is no storage.
    """
    if isinstance(source, TypedStorage):
        return source.untyped()
    if isinstance(source, UntypedStorage):
        return source
    raise ArgumentTypeError("set_", f"a source of type {type(source).__name__}", "the source is a tensor or a storage",
                            "pass tensor.untyped_storage()")


__all__ = ["TypedStorage", "UntypedStorage", "is_storage", "storage_of"]
