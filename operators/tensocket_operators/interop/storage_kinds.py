"""Classes of typed storages by dtype, for old programs: ``FloatStorage`` and the others."""

from __future__ import annotations

import functools
from typing import Any

from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

from .storage import UntypedStorage, bytes_in
from .typed_storages import NAME_OF, TypedStorage, check_wrapping, typed, warn_deprecated


class StorageKind(type):
    """The metaclass of classes whose instances are typed storages of one dtype and device type, by instance check only.

    Attributes:
        place: The kind of device.
    """

    place: str
    _dtype: DType

    @property
    def dtype(cls) -> DType:
        """The dtype of the elements."""
        warn_deprecated()
        return cls._dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return (type(instance) is TypedStorage and instance.dtype is cls._dtype
                and instance._untyped_storage.device.type == cls.place)

    def __call__(cls, *data: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None,
                 _internal: bool = False) -> TypedStorage:
        """Return a storage with a number of elements, with values, or on ``wrap_storage``.

        Raises:
            ArgumentError: Arguments exclude each other, or the class has no dtype.
            ArgumentTypeError: An argument is of another type.
        """
        if not _internal:
            warn_deprecated()
        if not hasattr(cls, "_dtype"):
            raise ArgumentError(cls.__name__, "the class itself", "Only child classes of _LegacyStorage can be "
                                "instantiated", "use FloatStorage or another of its classes")
        for name, given in (("device", device), ("dtype", dtype)):
            if given is not None:
                raise ArgumentError(cls.__name__, f"{name} {given}", f"Keyword argument {name!r} cannot be specified",
                                    "leave it out, or use TypedStorage")
        if wrap_storage is None:
            return TypedStorage(*data, dtype=cls._dtype, device=cls.place, _internal=True)
        check_wrapping(data, wrap_storage, cls._dtype, None)
        if wrap_storage.device.type != cls.place:
            raise ArgumentError(cls.__name__, f"a storage on {wrap_storage.device}",
                                f"Device of 'wrap_storage' must be {cls.place}", "move it with to(device=...)")
        return typed(wrap_storage, cls._dtype)


class _LegacyStorage(TypedStorage, metaclass=StorageKind):
    """Base of the classes of storages of one dtype."""

    place = HOST_DEVICE
    _dtype: DType

    @classmethod
    def from_buffer(cls, buffer: Any = None, byte_order: Any = None, count: Any = -1, offset: Any = 0,
                    **rest: Any) -> TypedStorage:
        """Return a storage with a copy of the elements in a buffer.

        Args:
            buffer: Bytes.
            byte_order: ``native``, ``little`` or ``big``; required for elements of several bytes.
            count: Number of elements; all by default.
            offset: Bytes before the first one.
            **rest: Not supported: the class determines dtype and device.

        Raises:
            ArgumentError: The byte order is unknown, or the class is of another device.
            IndexOutOfRange: Offset or count are outside the buffer.
        """
        warn_deprecated()
        if cls.place != HOST_DEVICE:
            raise ArgumentError("from_buffer", f"{cls.__module__}.{cls.__name__}",
                                f"Not available for {cls.place.upper()} storage",
                                "use the class of the host, then to(device=...)")
        if rest:
            raise ArgumentError("from_buffer", f"argument {next(iter(rest))!r}", "'dtype' and 'device' can only be "
                                "specified in TypedStorage.from_buffer", "leave it out")
        return typed(bytes_in(buffer, byte_order, count, offset, cls._dtype), cls._dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: Any = False, size: Any = 0) -> TypedStorage:
        """Return a storage on the memory of a file.

        Args:
            filename: The file.
            shared: Whether changes are written to the file, which is created or extended as needed.
            size: Number of elements.

        Raises:
            ArgumentError: The file does not exist or is smaller, and is not shared.
        """
        warn_deprecated()
        return typed(UntypedStorage.from_file(filename, shared, size * cls._dtype.itemsize), cls._dtype)


@functools.cache
def storage_kind(dtype: DType, place: str) -> Any:
    """Return the class of a dtype and a kind of device, such as ``FloatStorage``."""
    module = "tensocket" if place == HOST_DEVICE else f"tensocket.{place}"
    return StorageKind(NAME_OF[dtype], (_LegacyStorage,), {
        "_dtype": dtype, "place": place, "__module__": module,
        "__doc__": f"Memory of {dtype.name} elements on devices of the kind {place}."})
