"""The memory of tensors, and old names of its types: ``FloatStorage`` and others."""

from __future__ import annotations

from tensocket_operators import TypedStorage, UntypedStorage
from tensocket_operators.interop.storage_kinds import _LegacyStorage, storage_kind
from tensocket_operators.interop.typed_storages import NAME_OF, Deprecation
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import DType

FloatStorage = storage_kind(dtypes.float32, HOST_DEVICE)
DoubleStorage = storage_kind(dtypes.float64, HOST_DEVICE)
HalfStorage = storage_kind(dtypes.float16, HOST_DEVICE)
BFloat16Storage = storage_kind(dtypes.bfloat16, HOST_DEVICE)
LongStorage = storage_kind(dtypes.int64, HOST_DEVICE)
IntStorage = storage_kind(dtypes.int32, HOST_DEVICE)
ShortStorage = storage_kind(dtypes.int16, HOST_DEVICE)
CharStorage = storage_kind(dtypes.int8, HOST_DEVICE)
ByteStorage = storage_kind(dtypes.uint8, HOST_DEVICE)
BoolStorage = storage_kind(dtypes.bool_, HOST_DEVICE)
ComplexFloatStorage = storage_kind(dtypes.complex64, HOST_DEVICE)
ComplexDoubleStorage = storage_kind(dtypes.complex128, HOST_DEVICE)
#: PyTorch's base of untyped storages, of which typed ones are no instances.
StorageBase = UntypedStorage
#: All classes of storages.
_storage_classes = {
    UntypedStorage, TypedStorage, FloatStorage, DoubleStorage, HalfStorage, BFloat16Storage, LongStorage, IntStorage,
    ShortStorage, CharStorage, ByteStorage, BoolStorage, ComplexFloatStorage, ComplexDoubleStorage,
}


def _dtype_to_storage_type_map() -> dict[DType, str]:
    """Return the names of the classes by dtype."""
    return NAME_OF


def _get_always_warn_typed_storage_removal() -> bool:
    """Whether every use of a typed storage warns, instead of only the first one of a process."""
    return Deprecation.always


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    """Set whether every use of a typed storage warns."""
    Deprecation.always = always_warn


def _reset_warn_typed_storage_removal() -> None:
    """Make the next use of a typed storage warn."""
    Deprecation.warned = False


__all__ = ["BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
           "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
           "ShortStorage", "TypedStorage", "UntypedStorage", "_LegacyStorage"]
