"""Storages viewed as elements of one dtype; PyTorch deprecates them, so their use warns once per process."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tensocket_core.promotion import get_default_dtype
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.devices import HOST_DEVICE, Device, parse_device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange, MissingDataError
from tensocket_plugins.contract.naming import package_name

from .. import creation
from .storage import UntypedStorage, bytes_in, storage_of

#: Names of the storage classes by dtype, as in files. Newer dtypes have no name.
NAME_OF: Final[dict[DType, str]] = {
    dtypes.float64: "DoubleStorage", dtypes.float32: "FloatStorage", dtypes.float16: "HalfStorage",
    dtypes.int64: "LongStorage", dtypes.int32: "IntStorage", dtypes.int16: "ShortStorage", dtypes.int8: "CharStorage",
    dtypes.uint8: "ByteStorage", dtypes.bool_: "BoolStorage", dtypes.bfloat16: "BFloat16Storage",
    dtypes.complex128: "ComplexDoubleStorage", dtypes.complex64: "ComplexFloatStorage",
}


class Deprecation:
    """The state of the warning for typed storages.

    Attributes:
        warned: Whether the process was warned.
        always: Whether every use warns.
    """

    warned = False
    always = False


def warn_deprecated(stacklevel: int = 2) -> None:
    """Warn that typed storages are deprecated, once per process."""
    if Deprecation.always or not Deprecation.warned:
        Deprecation.warned = True
        warnings.warn("TypedStorage is deprecated in PyTorch: use Tensor.untyped_storage() instead of Tensor.storage()",
                      UserWarning, stacklevel=stacklevel + 1)


class TypedStorage:
    """A storage viewed as elements of one dtype.

    Args:
        data: Nothing, a number of elements, or a sequence of values.
        wrap_storage: The storage; excludes ``data`` and ``device``.
        dtype: The dtype of the elements; the default dtype unless ``wrap_storage`` is given.
        device: The device of a new storage; the host by default.

    Attributes:
        dtype: The dtype.

    Raises:
        ArgumentError: Arguments exclude each other.
        ArgumentTypeError: An argument is of another type.
    """

    is_sparse = False
    dtype: Any
    _untyped_storage: UntypedStorage

    def __init__(self, *data: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None,
                 _internal: bool = False) -> None:
        if not _internal:
            warn_deprecated()
        if wrap_storage is not None:
            check_wrapping(data, wrap_storage, dtype, device)
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        self.dtype = get_default_dtype() if dtype is None else dtype
        self._untyped_storage = _new_storage(data, self.dtype, HOST_DEVICE if device is None else device)

    # ------------------------------------------------------------------------------------------ geometry

    @property
    def device(self) -> Device:
        """The device."""
        warn_deprecated()
        return self._untyped_storage.device

    def get_device(self) -> int:
        """Return the index of the device, -1 on the host."""
        warn_deprecated()
        return self._untyped_storage.get_device()

    @property
    def is_cuda(self) -> bool:
        """Whether the storage is on a device called ``cuda``."""
        warn_deprecated()
        return self._untyped_storage.is_cuda

    @property
    def filename(self) -> str | None:
        """The file that is mapped to the memory and that receives writes; None for other memory."""
        return self._untyped_storage.filename

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        warn_deprecated()
        return self._untyped_storage

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def data_ptr(self) -> int:
        """Return a number that identifies the memory address of the first element."""
        warn_deprecated()
        return self._data_ptr()

    def _data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        warn_deprecated()
        return self._nbytes()

    def _nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def size(self) -> int:
        """Return the number of elements."""
        warn_deprecated()
        return self._size()

    __len__ = size

    def _size(self) -> int:
        return int(self._untyped_storage.nbytes() // self.dtype.itemsize)

    def element_size(self) -> int:
        """Return the number of bytes of one element."""
        warn_deprecated()
        return self._element_size()

    def _element_size(self) -> int:
        return int(self.dtype.itemsize)

    def __sizeof__(self) -> int:
        warn_deprecated()
        return super().__sizeof__() + self._nbytes()

    # ------------------------------------------------------------------------------------------ elements

    def _elements(self) -> Any:
        return self._untyped_storage._bytes[:self._size() * self.dtype.itemsize].view(self.dtype)

    def __getitem__(self, index: Any) -> Any:
        warn_deprecated()
        if not self._untyped_storage.holds_data:
            raise _no_values()
        if isinstance(index, slice) or not hasattr(index, "__index__"):
            raise ArgumentError("storage", f"an index of type {type(index).__name__}", "an element of a typed storage "
                                "has an integer index", "slice untyped(), or a tensor on it")
        size = self._size()
        if not -size <= index < size:
            raise IndexOutOfRange("storage", f"index {index}", f"the storage has {size} elements", "pass another index")
        return self._elements()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        warn_deprecated()
        self._setitem(index, value)

    def _setitem(self, index: Any, value: Any) -> None:
        if not isinstance(index, (int, slice)):
            raise ArgumentError("storage", f"an index of type {type(index).__name__}", "an index is an integer or a "
                                "slice", "pass one of these")
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise ArgumentError("storage", f"a {type(value).__name__} as the value", "cannot set item with a storage",
                                "use copy_, or pass tolist()")
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        warn_deprecated()
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return all elements."""
        warn_deprecated()
        if not self._untyped_storage.holds_data:
            raise _no_values()
        return self._elements().tolist()  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        warn_deprecated()
        self._setitem(slice(None), value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Copy the bytes of another storage of the same size."""
        warn_deprecated()
        self._untyped_storage.copy_(getattr(source, "_untyped_storage", source), non_blocking)
        return self

    def resize_(self, size: int) -> None:
        """Change the number of elements; see ``UntypedStorage.resize_``."""
        warn_deprecated()
        self._resize_(size)

    def _resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self._element_size())

    def resizable(self) -> bool:
        """Whether ``resize_`` can change the size."""
        warn_deprecated()
        return self._untyped_storage.resizable()

    # ------------------------------------------------------------------------------------------ other storages

    def _wrap(self, storage: UntypedStorage) -> TypedStorage:
        return typed(storage, self.dtype)

    def clone(self) -> TypedStorage:
        """Return a storage with the same elements."""
        warn_deprecated()
        return self._wrap(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        warn_deprecated()
        return self._deepcopy(memo)

    def _deepcopy(self, memo: dict[int, Any]) -> TypedStorage:
        return self._wrap(copy.deepcopy(self._untyped_storage, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return typed, (self._untyped_storage, self.dtype)

    def cpu(self) -> TypedStorage:
        """Return this storage, or a copy of it in host memory."""
        warn_deprecated()
        return self._wrap(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Return this storage, or a copy of it on a device called ``cuda``, by number."""
        warn_deprecated()
        return self._wrap(self._untyped_storage.cuda(device, non_blocking))

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """Return this storage, or a copy of it on another device."""
        warn_deprecated()
        return self._wrap(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def is_shared(self) -> bool:
        """Whether the memory is shared with the processes that receive the storage."""
        warn_deprecated()
        return self._is_shared()

    def _is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the memory, with all tensors on it, to memory that other processes share."""
        warn_deprecated()
        return self._share_memory_()

    def _share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    def _new_shared(self, size: int, *, device: Any = None) -> TypedStorage:
        """Return a storage of ``size`` elements of this dtype in memory that processes share."""
        made = UntypedStorage._new_shared(size * self.dtype.itemsize, device=device)
        return TypedStorage(wrap_storage=made, dtype=self.dtype, _internal=True)

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: host memory is pageable."""
        warn_deprecated()
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """Return the storage itself; copies to devices need no pinned memory."""
        warn_deprecated()
        return self._wrap(self._untyped_storage.pin_memory(device))

    # ------------------------------------------------------------------------------------------ kinds

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the storage's type name, ``tensocket.FloatStorage``; with a class, a copy of that class."""
        warn_deprecated()
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        name, place = NAME_OF.get(self.dtype), self._untyped_storage.device.type
        if name is None:
            return f"{package_name()}.storage.TypedStorage"
        return f"{package_name()}.{'' if place == HOST_DEVICE else place + '.'}{name}"

    def pickle_storage_type(self) -> str:
        """Return the name of the class for this dtype in files.

        Raises:
            KeyError: The dtype has no name.
        """
        warn_deprecated()
        return self._pickle_storage_type()

    def _pickle_storage_type(self) -> str:
        if self.dtype not in NAME_OF:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return NAME_OF[self.dtype]

    def _to(self, dtype: Any) -> TypedStorage:
        warn_deprecated(3)
        return typed(storage_of(self._elements().to(dtype, copy=True)), dtype)

    def double(self) -> TypedStorage:
        """Return a copy with elements of float64."""
        return self._to(dtypes.float64)

    def float(self) -> TypedStorage:
        """Return a copy with elements of float32."""
        return self._to(dtypes.float32)

    def half(self) -> TypedStorage:
        """Return a copy with elements of float16."""
        return self._to(dtypes.float16)

    def bfloat16(self) -> TypedStorage:
        """Return a copy with elements of bfloat16."""
        return self._to(dtypes.bfloat16)

    def long(self) -> TypedStorage:
        """Return a copy with elements of int64."""
        return self._to(dtypes.int64)

    def int(self) -> TypedStorage:
        """Return a copy with elements of int32."""
        return self._to(dtypes.int32)

    def short(self) -> TypedStorage:
        """Return a copy with elements of int16."""
        return self._to(dtypes.int16)

    def char(self) -> TypedStorage:
        """Return a copy with elements of int8."""
        return self._to(dtypes.int8)

    def byte(self) -> TypedStorage:
        """Return a copy with elements of uint8."""
        return self._to(dtypes.uint8)

    def bool(self) -> TypedStorage:
        """Return a copy with elements of bool."""
        return self._to(dtypes.bool_)

    def complex_float(self) -> TypedStorage:
        """Return a copy with elements of complex64."""
        return self._to(dtypes.complex64)

    def complex_double(self) -> TypedStorage:
        """Return a copy with elements of complex128."""
        return self._to(dtypes.complex128)

    def float8_e5m2(self) -> TypedStorage:
        """Return a copy with elements of float8_e5m2."""
        return self._to(dtypes.float8_e5m2)

    def float8_e4m3fn(self) -> TypedStorage:
        """Return a copy with elements of float8_e4m3fn."""
        return self._to(dtypes.float8_e4m3fn)

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: Any = None, count: Any = -1, offset: Any = 0, *, dtype: Any = None,
                    device: Any = None) -> TypedStorage:
        """Return a storage with a copy of the elements in a buffer; see ``UntypedStorage.from_buffer``."""
        warn_deprecated()
        if device is not None and parse_device(device).type != HOST_DEVICE:
            raise ArgumentError("from_buffer", f"device {device}", "buffers are copied to the host",
                                "leave device out, then call to(device=...)")
        chosen = get_default_dtype() if dtype is None else dtype
        return typed(bytes_in(buffer, byte_order, count, offset, chosen), chosen)

    @classmethod
    def from_file(cls, filename: Any, shared: Any = False, size: Any = 0) -> TypedStorage:
        """Return a storage on the memory of a file; for the classes of one dtype.

        Raises:
            ArgumentError: The class has no dtype.
        """
        raise ArgumentError("from_file", "TypedStorage", "from_file can only be called on derived classes",
                            "use for example FloatStorage.from_file, or from_file of the package")

    def __eq__(self, other: object) -> Any:
        return (isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage
                and self.dtype is other.dtype)

    def __hash__(self) -> Any:
        return hash((self._untyped_storage, self.dtype))

    def __repr__(self) -> str:
        warn_deprecated()
        kept = self._untyped_storage
        lines = "".join(f" {value}\n" for value in self._elements().tolist()) if kept.holds_data else "...\n"
        return (f"{lines}[{package_name()}.storage.TypedStorage(dtype={self.dtype!r}, device={kept.device}) "
                f"of size {self._size()}]")


def typed(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    """Return a storage viewed as elements of ``dtype``, without a warning."""
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _no_values() -> MissingDataError:
    return MissingDataError("storage", "a storage on meta", "Not available for 'meta' device type",
                            "use a storage of a device that holds data")


def check_wrapping(data: tuple[Any, ...], storage: Any, dtype: Any, device: Any) -> None:
    """Reject arguments that ``wrap_storage`` excludes.

    Raises:
        ArgumentError: There are such arguments, or the dtype is missing.
        ArgumentTypeError: The dtype is not a dtype, or the storage is not a storage.
    """
    given = None
    if data:
        given = "No positional arguments should be given with wrap_storage"
    elif dtype is None:
        given = "Argument 'dtype' must be specified with wrap_storage"
    elif device is not None:
        given = "Argument 'device' should not be specified with wrap_storage"
    if given is not None:
        raise ArgumentError("TypedStorage", given, "a storage takes a size, values, or wrap_storage and dtype",
                            "leave out what does not belong there")
    if not isinstance(dtype, DType):
        raise ArgumentTypeError("TypedStorage", f"a dtype of type {type(dtype).__name__}", f"Argument 'dtype' must be "
                                f"{package_name()}.dtype", f"pass for example {package_name()}.float32")
    if not isinstance(storage, UntypedStorage):
        raise ArgumentTypeError("TypedStorage", f"a {type(storage).__name__}", "Argument 'wrap_storage' must be "
                                "UntypedStorage", "pass storage.untyped()")


def _new_storage(data: tuple[Any, ...], dtype: DType, device: Any) -> UntypedStorage:
    """Return a new storage with a number of elements, or with values."""
    if len(data) > 1:
        raise ArgumentError("TypedStorage", "Too many positional arguments",
                            "a storage takes a size, values, or wrap_storage and dtype", "pass a number or a sequence")
    given = data[0] if data else 0
    if isinstance(given, (int, np.integer)):
        return UntypedStorage(int(given) * dtype.itemsize, device=device)
    if not isinstance(given, Sequence):
        raise ArgumentTypeError("TypedStorage", f"a {type(given).__name__}", "Argument type not recognized",
                                "pass a number or a sequence")
    return storage_of(creation.tensor(given, dtype=dtype, device=device))


def typed_storage_of(tensor: Any) -> TypedStorage:
    """Return the storage of a tensor as elements of its dtype."""
    return typed(storage_of(tensor), tensor.dtype)


__all__ = ["TypedStorage"]
