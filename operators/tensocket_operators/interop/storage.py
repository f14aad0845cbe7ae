"""Storages: objects for the memory that a tensor and its views share."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.lazy import Lazy, handle_with_bits, plain_handle
from tensocket_core.dispatch.versions import bump
from tensocket_core.geometry import memory_nbytes, memory_of, memory_offset
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.promotion import get_default_dtype
from tensocket_core.strides import reach
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.devices import HOST_DEVICE, Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceMismatch,
    DtypeError,
    MissingDataError,
)
from tensocket_plugins.contract.naming import package_name

from ..creation import empty, tensor
from . import sharing
from .exported import file_of, has_fixed_size
from .numpy import from_numpy

#: Storage objects by the memory's identity: while one lives, all views of its memory return the same object.
_KNOWN: Final[weakref.WeakValueDictionary[int, UntypedStorage]] = weakref.WeakValueDictionary()


class UntypedStorage:
    """The bytes of the memory of one or more tensors.

    Args:
        size: Number of bytes of a new storage, or their values.
        device: The device of a new storage; the host by default.

    Raises:
        ArgumentTypeError: ``size`` is neither a number nor a sequence.
    """

    is_sparse: ClassVar[bool] = False
    #: Makes a storage on the memory of a file; set by ``files``, which imports this module.
    from_file: ClassVar[Callable[..., UntypedStorage]]
    _bytes: Any
    _memory: Any

    def __init__(self, size: Any = 0, *, device: Any = None) -> None:
        where = HOST_DEVICE if device is None else device
        if isinstance(size, (int, np.integer)):
            self._bytes = empty(int(size), dtype=dtypes.uint8, device=where)
        elif isinstance(size, Sequence):
            self._bytes = tensor(size, dtype=dtypes.uint8, device=where)
        else:
            raise ArgumentTypeError("UntypedStorage", f"a {type(size).__name__}", "a storage is made of a number of "
                                    "bytes, or of their values", "pass an integer or a sequence")
        self._memory = memory_of(self._bytes._array)
        _KNOWN[id(self._memory)] = self

    # ------------------------------------------------------------------------------------------ geometry

    @property
    def device(self) -> Device:
        """The device."""
        return self._bytes.device  # type: ignore[no-any-return]

    def get_device(self) -> int:
        """Return the index of the device, -1 on the host."""
        return -1 if self.device.index is None else self.device.index

    @property
    def is_cuda(self) -> bool:
        """Whether the storage is on a device called ``cuda``."""
        return self.device.type == "cuda"

    @property
    def holds_data(self) -> bool:
        """Whether the storage has memory: not on the device ``meta``."""
        return self._bytes._device_state.holds_data  # type: ignore[no-any-return]

    @property
    def filename(self) -> str | None:
        """The file that is mapped to the memory and that receives writes; None for other memory."""
        return file_of(self._memory)

    @property
    def _cdata(self) -> int:
        return id(self._memory)

    def data_ptr(self) -> int:
        """Return a number that identifies the memory address of the first byte."""
        return self._bytes.data_ptr()  # type: ignore[no-any-return]

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return int(self._bytes.numel())

    size = nbytes
    __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        """Return this storage."""
        return self

    def element_size(self) -> int:
        """Return 1: elements are bytes."""
        return 1

    def resizable(self) -> bool:
        """Whether ``resize_`` can change the size: no other object, process or file shares the memory."""
        return not has_fixed_size(self._memory) and not self.is_shared()

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes, for all tensors on the storage; new bytes are uninitialised.

        Raises:
            ArgumentError: A tensor reaches beyond the new size, or other objects hold the memory.
        """
        return sharing.resize(self, int(size))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------------ bytes

    def __getitem__(self, index: Any) -> Any:
        self._check_data()
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise ArgumentError("storage", f"a slice with step {index.step}", "a part of a storage has all bytes "
                                    "from one place to another", "slice a tensor on it")
            part = self._bytes[index]
            host = self._bytes._device_state.runtime.profile.host_resident
            return storage_of(from_numpy(part.numpy()) if host else part.clone())
        return int(self._bytes[index].item())

    def __setitem__(self, index: Any, value: int) -> None:
        self._bytes[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """Return all bytes."""
        self._check_data()
        return self._bytes.tolist()  # type: ignore[no-any-return]

    def _check_data(self) -> None:
        if not self.holds_data:
            raise MissingDataError("storage", "a storage on meta", "Not available for 'meta' device type",
                                   "use a storage of a device that holds data")

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        self._bytes.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Copy the bytes of another storage of the same size."""
        self._bytes.copy_(untyped(source)._bytes)
        return self

    def byteswap(self, dtype: DType) -> None:
        """Reverse the bytes of every element of ``dtype``; for complex numbers, those of each part."""
        unit = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        whole = self._bytes[:self.nbytes() // unit * unit].view(-1, unit)
        whole.copy_(whole.flip(1))

    # ------------------------------------------------------------------------------------------ other storages

    def clone(self) -> UntypedStorage:
        """Return a storage with the same bytes."""
        return storage_of(self._bytes.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return storage_of(copy.deepcopy(self._bytes, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return storage_of, (self._bytes,)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def cpu(self) -> UntypedStorage:
        """Return this storage, or a copy of it in host memory."""
        moved = self._bytes.cpu()
        return self if moved is self._bytes else storage_of(moved)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Return this storage, or a copy of it on a device called ``cuda``, by number."""
        return self.to(device=f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Return this storage, or a copy of it on another device."""
        moved = self._bytes.to(device)
        return self if moved is self._bytes else storage_of(moved)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of this class; with another storage class, a copy of that class."""
        if dtype is None:
            return f"{package_name()}.storage.{type(self).__name__}"
        if dtype is type(self):
            return self
        return dtype(self.nbytes()).copy_(self, non_blocking)

    def is_shared(self) -> bool:
        """Whether the memory is shared with the processes that receive the storage."""
        return self._bytes.is_shared()  # type: ignore[no-any-return]

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes, with all tensors on them, to memory that other processes share.

        Raises:
            ArgumentError: The storage is on the device ``meta``.
        """
        if not self.holds_data:
            raise ArgumentError("share_memory_", "a storage on meta", "sharing is only available on CPU",
                                "make it on a device that holds data")
        self._bytes.share_memory_()
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = None) -> UntypedStorage:
        """Return a storage of ``size`` bytes in memory that processes share; workers of loaders collate into one."""
        return cls(size, device=device).share_memory_()

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: host memory is pageable."""
        return False

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """Return the storage itself; copies to devices need no pinned memory."""
        return self

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: Any = None, count: Any = -1, offset: Any = 0, *, dtype: Any = None,
                    ) -> UntypedStorage:
        """Return a storage with a copy of the elements in a buffer.

        Args:
            buffer: Bytes.
            byte_order: ``native``, ``little`` or ``big``; required for elements of several bytes.
            count: Number of elements; all by default.
            offset: Bytes before the first one.
            dtype: The dtype of the elements; the default dtype if not given.

        Raises:
            ArgumentError: The byte order is unknown, or the number of bytes is not a multiple of the elements' size.
            ArgumentTypeError: ``buffer`` has no bytes.
        """
        return bytes_in(buffer, byte_order, count, offset, get_default_dtype() if dtype is None else dtype)

    def __eq__(self, other: object) -> Any:
        return isinstance(other, UntypedStorage) and self._memory is other._memory

    def __hash__(self) -> Any:
        return id(self._memory)

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist()) if self.holds_data else "...\n"
        return f"{lines}[{self.type()}(device={self.device}) of size {self.nbytes()}]"


def bytes_in(buffer: Any, byte_order: Any, count: int, offset: int, dtype: DType) -> UntypedStorage:
    """Return a storage with a copy of elements in a buffer, converted to the machine's byte order.

    Raises:
        ArgumentError: The byte order is unknown, or offset or count do not fit the buffer.
        ArgumentTypeError: ``buffer`` has no bytes.
    """
    if byte_order not in ("native", "little", "big") and (byte_order is not None or dtype.itemsize > 1):
        raise ArgumentError("from_buffer", f"byte_order={byte_order!r}", "the order of bytes is 'native', 'little' or "
                            "'big'", "pass one of these")
    try:
        data = np.frombuffer(buffer, np.uint8)
    except (TypeError, BufferError):
        raise ArgumentTypeError("from_buffer", f"a {type(buffer).__name__}", "a buffer has bytes that lie side by side",
                                "pass bytes, a bytearray or a contiguous array") from None
    rest, size = data.size - offset, dtype.itemsize
    if not 0 <= offset <= data.size or (count < 0 and rest % size) or count * size > rest:
        raise ArgumentError("from_buffer", f"{data.size} bytes, count={count}, offset={offset} for {dtype.name}",
                            f"the bytes after the offset are a multiple of the elements' size, {size}",
                            "pass a fitting count and offset")
    chosen = data[offset:offset + (rest if count < 0 else count * size)]
    storage = UntypedStorage(chosen.size)
    storage._bytes._host()[...] = chosen != 0 if dtype is dtypes.bool_ else chosen
    if byte_order not in (None, "native", sys.byteorder):
        storage.byteswap(dtype)
    return storage


def storage_of(tensor: Any) -> UntypedStorage:
    """Return the storage of a tensor; the same object for all tensors on its memory, as long as it lives."""
    memory = memory_of(tensor._array)
    known = _KNOWN.get(id(memory))
    if known is not None:
        return known
    storage = object.__new__(UntypedStorage)
    storage._memory = memory
    storage._bytes = wrap(bytes_of(tensor._array), tensor._device_state.key | dtype_bit(dtypes.uint8))
    _KNOWN[id(memory)] = storage
    return storage


def renew(memory: Any, moved: Any) -> None:
    """Record that all tensors on ``memory`` have moved to ``moved``."""
    storage = _KNOWN.pop(id(memory), None)
    if storage is not None:
        storage._memory = moved
        _KNOWN[id(moved)] = storage


def moved(array: Any, target: Any) -> Any:
    """Return a handle with the same geometry on other memory, of bytes."""
    if type(array) is Lazy:
        return Lazy(moved(array.plain, target))
    offset = memory_offset(array) if 0 not in array.shape else 0
    if type(array) is np.ndarray:
        return np.ndarray(array.shape, array.dtype, target, offset * array.itemsize, array.strides)
    return DeviceArray(target.storage, array.dtype, array.shape, array.strides, offset)


def bytes_of(array: Any) -> Any:
    """Return the whole memory of a handle as bytes."""
    array = plain_handle(array)
    memory, count = memory_of(array), memory_nbytes(array)
    if type(memory) is not np.ndarray:
        return DeviceArray(memory, dtypes.uint8, (count,), (1,), 0)
    if not memory.flags.forc:
        size = memory.itemsize
        return np.lib.stride_tricks.as_strided(memory, (count // size,), (size,)).view(np.uint8)
    return np.ndarray((count,), np.uint8, memory if memory.flags.c_contiguous else memory.T)


def array_in(storage: UntypedStorage, dtype: DType, offset: int, size: tuple[int, ...],
             stride: tuple[int, ...]) -> Any:
    """Return a handle on a storage; offset and strides in elements of ``dtype``.

    Raises:
        ArgumentError: The handle reaches beyond the storage.
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
    """Apply ``Tensor.set_``."""
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
    check_kind("set_", source, dtype)
    source = untyped(source, "set_")
    if entry_of(source) is not tensor._device_state:
        raise DeviceMismatch("set_", f"a storage on {source.device} for a tensor on {tensor.device}",
                             "the storage is on the tensor's device", "move it with .to(device=...)")
    shape = (source.nbytes() // dtype.itemsize - offset,) if size is None else tuple(size)
    steps = contiguous_strides(shape) if stride is None or len(stride) != len(shape) else tuple(stride)
    tensor._array = handle_with_bits(array_in(source, dtype, offset, shape, steps), 0, tensor._key)
    tensor._key = tensor._key & ~DIM0 | (0 if shape else DIM0)
    tensor._base = None
    bump(tensor)
    return tensor


def check_kind(operator: str, storage: Any, dtype: DType) -> None:
    """Reject a typed storage of another dtype.

    Raises:
        ArgumentError: The storage has another dtype.
    """
    kind = getattr(storage, "dtype", dtype)
    if kind is not dtype:
        raise ArgumentError(operator, f"a storage of {kind.name} for {dtype.name}", f"Expected a Storage of type "
                            f"{dtype.name} or an UntypedStorage", "pass storage.untyped()")


def entry_of(storage: UntypedStorage) -> DeviceState:
    """Return the device of a storage."""
    return storage._bytes._device_state  # type: ignore[no-any-return]


def is_storage(obj: object) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage) or isinstance(getattr(obj, "_untyped_storage", None), UntypedStorage)


def untyped(source: Any, operator: str = "storage") -> UntypedStorage:
    """Return the bytes of either kind of storage; errors name ``operator``.

    Raises:
        ArgumentTypeError: ``source`` is not a storage.
    """
    if not is_storage(source):
        raise ArgumentTypeError(operator, f"a {type(source).__name__}", "the source is a tensor or a storage",
                                "pass tensor.untyped_storage()")
    return source if isinstance(source, UntypedStorage) else source._untyped_storage


__all__ = ["UntypedStorage", "is_storage", "storage_of"]
