"""The memory of tensors, and old names of its kinds: ``FloatStorage`` and the others."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensocket
from tensocket_core import TypedStorage, UntypedStorage
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError


class _Kind(type):
    """Classes of which storages of one dtype are instances, although none is made of them."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *data: Any) -> TypedStorage:
        """A storage of a number of elements, or with a copy of values."""
        given = data[0] if data else 0
        made: Any = (tensocket.empty(given, dtype=cls.dtype, device="cpu") if isinstance(given, int)
                     else tensocket.tensor(given, dtype=cls.dtype, device="cpu"))
        return TypedStorage(made.untyped_storage(), cls.dtype)

    def from_buffer(cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0) -> TypedStorage:
        """A storage with a copy of the elements that bytes hold.

        Args:
            buffer: Bytes.
            byte_order: ``native``, ``little`` or ``big``.
            count: Number of elements; all by default.
            offset: Bytes before the first one.

        Raises:
            ArgumentError: The order is none of these.
        """
        if byte_order not in ("native", "little", "big"):
            raise ArgumentError("from_buffer", f"byte_order={byte_order!r}",
                                "the order of bytes is 'native', 'little' or 'big'", "pass one of these")
        order = {"native": "=", "little": "<", "big": ">"}[byte_order]
        kind = np.dtype(order + cls.dtype.numpy.str[1:])
        values = np.frombuffer(buffer, kind, count, offset).astype(cls.dtype.numpy)
        return TypedStorage(tensocket.from_numpy(values).untyped_storage(), cls.dtype)


def _kind(name: str, dtype: DType) -> Any:
    return _Kind(name, (), {"dtype": dtype, "__doc__": f"Memory of {dtype.name} elements.", "__module__": __name__})


FloatStorage = _kind("FloatStorage", dtypes.float32)
DoubleStorage = _kind("DoubleStorage", dtypes.float64)
HalfStorage = _kind("HalfStorage", dtypes.float16)
LongStorage = _kind("LongStorage", dtypes.int64)
IntStorage = _kind("IntStorage", dtypes.int32)
ShortStorage = _kind("ShortStorage", dtypes.int16)
CharStorage = _kind("CharStorage", dtypes.int8)
ByteStorage = _kind("ByteStorage", dtypes.uint8)
BoolStorage = _kind("BoolStorage", dtypes.bool_)

__all__ = ["BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
           "LongStorage", "ShortStorage", "TypedStorage", "UntypedStorage"]
