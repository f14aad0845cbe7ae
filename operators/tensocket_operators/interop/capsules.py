"""DLPack capsules: reading them, and making them for any device, without a line of C.

A capsule is a ``PyCapsule`` that points to a ``DLManagedTensor`` (named ``dltensor``; from version 1.0 on
``dltensor_versioned``). The consumer renames the capsule to ``used_...`` and later calls the structure's deleter;
a capsule without a consumer calls it when it is destroyed. Both may happen in any thread, and while an exception
propagates, so neither can be Python code behind a ctypes callback. NumPy, which core needs anyway, has both in C:

- To export, a NumPy array of the wanted geometry makes the capsule. For memory off the host, NumPy never reads
  this array. This module writes into the structure the values that NumPy does not know
  (the device, bfloat16 and float8).
- To import, values that NumPy accepts replace these fields while NumPy takes the capsule. The resulting
  array owns the memory: when it is destroyed, NumPy calls the producer's deleter.

The layout of the structures is that of ``dlpack.h``, version 1; it is fixed within a major version.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ExchangeError

#: ``kDLCPU``, and ``kDLCUDAHost``: pinned memory, which is also host memory.
CPU: Final = 1
HOST_TYPES: Final = frozenset({CPU, 3})
_READ_ONLY: Final = 1
_COPIED: Final = 2
#: ``DLDataTypeCode`` by kind, and of the types that are stored as bits.
_UINT: Final = 1
_CODES: Final = {"int": 0, "uint": _UINT, "float": 2, "complex": 5, "bool": 6}
_SPECIAL: Final = {dtypes.bfloat16: 4, dtypes.complex32: 5, dtypes.float8_e4m3fn: 10, dtypes.float8_e5m2: 12}


class _Tensor(ctypes.Structure):
    """The structure ``DLTensor``, with ``DLDevice`` and ``DLDataType`` inlined."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """The structure ``DLManagedTensor``."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """The structure ``DLManagedTensorVersioned``."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor))


_LAYOUTS: Final[dict[bytes, type[_Managed] | type[_Versioned]]] = {
    b"dltensor": _Managed, b"dltensor_versioned": _Versioned}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def is_capsule(value: object) -> bool:
    """Whether ``value`` is a PyCapsule with any content."""
    return type(value).__name__ == "PyCapsule"


def _managed(capsule: Any) -> Any:
    """Return the structure of a capsule that no consumer has taken.

    Raises:
        ExchangeError: ``capsule`` is not such a capsule.
    """
    name = _name_of(capsule) if is_capsule(capsule) else None
    if name not in _LAYOUTS:
        given = f"a capsule named '{name.decode()}'" if name else f"a {type(capsule).__name__}"
        raise ExchangeError("from_dlpack", given, "a DLPack capsule is taken once",
                            "pass the object that makes capsules, or a new capsule")
    return _LAYOUTS[name].from_address(_pointer_of(capsule, name))


def device_of(capsule: Any) -> tuple[int, int]:
    """Return DLPack's type and number of the device with a capsule's memory.

    Raises:
        ExchangeError: ``capsule`` is not a capsule, or a consumer has taken it.
    """
    tensor = _managed(capsule).tensor
    return int(tensor.device_type), int(tensor.device_id)


class _Foreign:
    """An object that NumPy accepts as an array: an address on a device, and the owner of its memory.

    Args:
        address: Address of the first element.
        bits: NumPy's dtype of the stored bits.
        shape: Sizes.
        strides: In elements.
        owner: An object that lives as long as the array.
    """

    def __init__(self, address: int, bits: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...],
                 owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3, "typestr": bits.str, "shape": shape, "data": (address, False),
            "strides": tuple(s * bits.itemsize for s in strides),
        }


def foreign_array(address: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any) -> Any:
    """Return a NumPy array at an address. Off the host, it only carries the geometry and is never read."""
    return np.asarray(_Foreign(address, dtype.numpy, shape, strides, owner))


def export(array: np.ndarray[Any, Any], dtype: DType, device: tuple[int, int], *, versioned: bool, copied: bool) -> Any:
    """Return a capsule with the memory of a NumPy array.

    Args:
        array: Stored bits.
        dtype: Their element type.
        device: DLPack's type and number of the device.
        versioned: Whether the consumer supports version 1, which can mark memory as read-only or as a copy.
        copied: Whether nothing else uses the memory.

    Raises:
        ExchangeError: The memory is read-only and the capsule cannot express that.
    """
    try:
        capsule = array.__dlpack__(max_version=(1, 0) if versioned else None)
    except BufferError as error:
        raise ExchangeError("__dlpack__", f"a {'read-only ' * (not array.flags.writeable)}tensor of shape "
                            f"{list(array.shape)}", str(error), "clone() it first") from None
    managed = _managed(capsule)
    managed.tensor.device_type, managed.tensor.device_id = device
    managed.tensor.code = _SPECIAL.get(dtype, managed.tensor.code)
    if versioned and copied:
        managed.flags |= _COPIED
    return capsule


def _dtype_of(tensor: _Tensor) -> DType:
    """Return the element type of a structure.

    Raises:
        ExchangeError: No dtype matches.
    """
    for dtype in dtypes.ALL:
        code = _SPECIAL.get(dtype, _CODES[dtype.kind])
        if (tensor.code, tensor.bits, tensor.lanes) == (code, 8 * dtype.itemsize, 1):
            return dtype
    raise ExchangeError("from_dlpack", f"type code {tensor.code} with {tensor.bits} bits and {tensor.lanes} lanes",
                        "elements are of tensocket's dtypes", "convert it before the exchange")


class _Once:
    """A producer that hands one capsule to NumPy."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


def take(capsule: Any) -> tuple[np.ndarray[Any, Any], DType, tuple[int, int]]:
    """Return the memory of a capsule, as an array of stored bits that owns it, its element type and its device.

    If the device is not the host, the array only carries address, shape and strides, and owns the memory.

    Raises:
        ExchangeError: The capsule was taken already, or tensors cannot hold its content.
    """
    managed = _managed(capsule)
    tensor = managed.tensor
    if isinstance(managed, _Versioned) and managed.major > 1:
        raise ExchangeError("from_dlpack", f"a capsule of DLPack {managed.major}.{managed.minor}",
                            "version 1 and earlier ones are known", "ask the producer for max_version=(1, 0)")
    dtype = _dtype_of(tensor)
    device, code = (int(tensor.device_type), int(tensor.device_id)), tensor.code
    tensor.device_type, tensor.device_id = CPU, 0
    if not dtype.native:
        tensor.code = _UINT
    try:
        array: np.ndarray[Any, Any] = np.from_dlpack(_Once(capsule))
    except (BufferError, RuntimeError, ValueError) as error:
        raise ExchangeError("from_dlpack", f"a capsule of {tensor.ndim} dimensions", str(error),
                            "copy it before the exchange") from None
    finally:
        tensor.device_type, tensor.device_id = device
        tensor.code = code
    if isinstance(managed, _Managed):
        # This structure has no flags, so NumPy assumes read-only memory; the protocol allows writes.
        steps = tuple(s // dtype.itemsize for s in array.strides)
        array = foreign_array(int(array.__array_interface__["data"][0]), dtype, array.shape, steps, array)
    return array, dtype, device
