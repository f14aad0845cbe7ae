"""Storages in files: their descriptions in pickles, their bytes, and their devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket.errors import SerializationError
from tensocket_core.device import open_device
from tensocket_operators import UntypedStorage
from tensocket_operators.creation import finish
from tensocket_operators.interop.storage import is_storage, storage_of, untyped
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType, uint8

from .locations import Restore
from .names import StorageType
from .options import LOCAL


def content(storage: UntypedStorage) -> memoryview:
    """Return the bytes of a storage, from its device; zeros in ``with skip_data():``."""
    if LOCAL.skip:
        return memoryview(bytes(storage.nbytes()))
    host: np.ndarray[Any, Any] = storage.cpu()._bytes._host()
    return np.ascontiguousarray(host).data


def saved_storage(saved: Any) -> tuple[DType, str, str, int]:
    """Return the description of a storage in a pickle: dtype, key, place and number of elements.

    Raises:
        ValueError: It is not a description of a storage.
    """
    if not isinstance(saved, tuple) or len(saved) < 5:
        raise ValueError("a persistent object is no storage")
    kind_of, label, key, location, count = (part.decode("ascii") if isinstance(part, bytes) else part
                                            for part in saved[:5])
    if kind_of != "storage" or type(key) is not str or type(location) is not str or type(count) is not int or count < 0:
        raise ValueError("a storage has a key, a place and a number of elements")
    return _dtype_of(label), key, location, count


def _dtype_of(label: Any) -> DType:
    """Return the dtype of a kind of storage that a pickle names.

    Raises:
        ValueError: The name is not one of a storage.
    """
    if isinstance(label, StorageType):
        return label.dtype
    if label is UntypedStorage:
        return uint8
    raise ValueError("a storage has a kind")


def host_storage(data: np.ndarray[Any, Any]) -> UntypedStorage:
    """Return a storage on memory of bytes."""
    return storage_of(finish(data, uint8, open_device(HOST_DEVICE), requires_grad=False))


def normalise(data: np.ndarray[Any, Any], kind: DType, swapped: bool) -> None:
    """Convert elements to this machine's byte order, and booleans to 0 or 1."""
    if kind.name == "bool":
        np.not_equal(data, 0, out=data.view(np.bool_))
    unit = kind.itemsize // 2 if kind.kind == "complex" else kind.itemsize
    if swapped and unit > 1:
        whole = data[:data.size // unit * unit].reshape(-1, unit)
        whole[:] = whole[:, ::-1].copy()


def restored(restore: Restore, storage: UntypedStorage, location: str) -> UntypedStorage:
    """Return the storage on its device.

    Raises:
        SerializationError: ``map_location`` did not return a storage.
    """
    result = restore(storage, location)
    if not is_storage(result):
        raise SerializationError("load", f"a {type(result).__name__} from map_location", "map_location returns a "
                                 "storage or None", "return the storage that it is given, or storage.to(device=...)")
    return untyped(result)
