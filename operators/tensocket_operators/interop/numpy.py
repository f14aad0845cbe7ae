"""NumPy arrays and buffers as tensors, and tensors as NumPy arrays."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, of_data
from tensocket_core.geometry import memory_of
from tensocket_core.keys import CONJ, LAZY, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.dtypes import FROM_NUMPY, DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ExchangeError

from ..creation.record import dispatch_factory, is_intercepted
from .exported import FIXED, fix_size

_READ_ONLY: Final = (
    "the {} is not writable: the tensor shares its memory, and in-place operators on it raise an error; "
    "copy it first if the tensor is to be written to"
)
#: Dtypes by the identity of NumPy's object, of which there is one for the life of the process; hashing one is slow.
_BY_IDENTITY: Final = {id(np.dtype(numpy.type)): dtype for numpy, dtype in FROM_NUMPY.items()}

#: Keys of host tensors by the same identity, from the first array of each dtype on.
_HOST_KEYS: Final[dict[int, int]] = {}


def array_dtype(operator: str, array: np.ndarray[Any, Any]) -> DType:
    """Return the element type of a NumPy array.

    Raises:
        ArgumentTypeError: NumPy's dtype has no counterpart.
        ArgumentError: The bytes of its elements are not in the machine's order.
    """
    dtype = _BY_IDENTITY.get(id(array.dtype)) or FROM_NUMPY.get(array.dtype)
    if dtype is not None:
        return dtype
    if not array.dtype.isnative and array.dtype.newbyteorder("=") in FROM_NUMPY:
        raise ArgumentError(operator, f"an array of dtype {array.dtype.str}", "elements are in the machine's byte "
                            "order", "convert it with .astype(array.dtype.newbyteorder('='))")
    raise ArgumentTypeError(operator, f"an array of dtype {array.dtype}", "elements are bools, integers, floats or "
                            "complex numbers of NumPy's basic dtypes", "convert it with .astype(...)")


def from_numpy(array: Any) -> Any:
    """Return a host tensor that shares memory with a NumPy array; a read-only array causes a warning.

    Raises:
        ArgumentTypeError: ``array`` is not an array, or its dtype has no counterpart.
        ArgumentError: The strides are negative or not multiples of the element size, or the byte order is foreign.
    """
    if ACTIVE and is_intercepted():
        return dispatch_factory(from_numpy, array)
    if type(array) is np.ndarray and array.base is None and not ACTIVE:
        # Guard: a writable array with memory of its own, without gaps. Work: one tensor. Others need checks.
        key = _HOST_KEYS.get(id(array.dtype))
        if key is not None and array.flags.carray:
            if id(array) not in FIXED:
                fix_size(array)
            return wrap(array, key)
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError("from_numpy", f"{type(array).__name__}", "a NumPy array is needed",
                                "convert it with np.asarray(...)")
    tensor = _shared("from_numpy", array)
    if not array.flags.writeable:
        warnings.warn(_READ_ONLY.format("NumPy array"), UserWarning, stacklevel=2)
    return tensor


def _shared(operator: str, array: np.ndarray[Any, Any]) -> Any:
    dtype = array_dtype(operator, array)
    strides = array.strides
    if strides and min(strides) < 0:
        raise ArgumentError(operator, "an array with negative strides", "strides are not negative",
                            "pass array.copy()")
    size = dtype.itemsize
    if any(s % size for s in strides):
        raise ArgumentError(operator, f"an array of {dtype.name} with strides of {strides} bytes",
                            "strides are multiples of the element size", "pass array.copy()")
    # Handles are plain arrays: subclasses (np.matrix, np.memmap) override operators.
    plain = array if type(array) is np.ndarray else array.view(np.ndarray)
    if plain.base is not None and type(plain.base) is np.ndarray and plain.size != memory_of(plain).size:
        plain = _alone(plain)
    fix_size(plain)
    key = open_device(HOST_DEVICE).key | dtype_bit(dtype)
    if id(array.dtype) in _BY_IDENTITY:
        _HOST_KEYS[id(array.dtype)] = key
    made = wrap(plain, key)
    return of_data(made) if ACTIVE else made


class _Elements:
    """The memory between the first and the last element of an array, as NumPy's array interface describes it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        reach = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize + 1
        self.array = array
        self.__array_interface__ = {
            "version": 3, "typestr": array.dtype.str, "shape": (reach if array.size else 0,),
            "data": (array.ctypes.data, not array.flags.writeable),
        }


def _alone(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that views only its own part of the memory, so that the storage starts at the first element."""
    memory = np.asarray(_Elements(array))
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """Return a vector on the host that shares memory with an object of Python's buffer protocol.

    Args:
        buffer: bytearray, memoryview, array.array, mmap ...; a read-only buffer (bytes) causes a warning.
        dtype: The dtype of the elements.
        count: Elements to take; -1 takes all.
        offset: Bytes to skip.
        requires_grad: Whether gradients are recorded.

    Raises:
        ArgumentError: The buffer has no elements or too few, or ``buffer`` does not support the buffer protocol.
        ArgumentTypeError: ``dtype`` is not a dtype.
    """
    if not isinstance(dtype, DType):
        raise ArgumentTypeError("frombuffer", f"dtype {dtype!r}", "dtype is a tensocket dtype",
                                "pass for example tensocket.uint8")
    try:
        view = memoryview(buffer).cast("B")
    except TypeError as error:
        raise ArgumentError("frombuffer", f"a {type(buffer).__name__}", f"a contiguous buffer is needed ({error})",
                            "pass a bytearray, memoryview or array") from None
    taken = _elements(view.nbytes, dtype.itemsize, count, offset)
    array = np.frombuffer(view, dtype.numpy, taken, offset)
    fix_size(array)
    tensor = of_data(wrap(array, open_device(HOST_DEVICE).key | dtype_bit(dtype)))
    if requires_grad:
        tensor.requires_grad = True
    if view.readonly:
        warnings.warn(_READ_ONLY.format("buffer"), UserWarning, stacklevel=2)
    return tensor


def _elements(length: int, size: int, count: int, offset: int) -> int:
    """Return the number of elements to take of a buffer of ``length`` bytes."""
    rest = length - offset
    if length == 0 or count == 0:
        fault = "a buffer and a count are not empty"
    elif not 0 <= offset < length:
        fault = "the offset lies within the buffer"
    elif count < 0 and rest % size:
        fault = f"the bytes after the offset are a multiple of the element size, {size}"
    elif count * size > rest:
        fault = f"the buffer has {rest} bytes after the offset"
    else:
        return count if count > 0 else rest // size
    raise ArgumentError("frombuffer", f"a buffer of {length} bytes, count={count}, offset={offset}", fault,
                        "pass a fitting count and offset")


# ------------------------------------------------------------------------------------------------ tensors to arrays


def check_resolved(tensor: Any) -> None:
    """Reject conjugated and negated views, whose elements are not in memory.

    Raises:
        ExchangeError: The tensor is such a view.
    """
    kind, method = ("conjugate", "resolve_conj") if tensor._key & CONJ else ("negative", "resolve_neg")
    if tensor._key & LAZY:
        raise ExchangeError("numpy", "a view whose elements are not in memory", "Can't call numpy() on Tensor that "
                            f"has {kind} bit set", f"Use tensor.{method}().numpy() instead.")


def to_array(tensor: Any, dtype: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """Return the array of ``Tensor.__array__``, with NumPy 2's meaning of ``copy``.

    Raises:
        ArgumentError: ``copy`` is False and ``dtype`` needs a conversion.
    """
    array: np.ndarray[Any, Any] = tensor.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ArgumentError("__array__", f"copy=False and dtype {np.dtype(dtype)} for a tensor of "
                                f"{tensor.dtype.name}", "a conversion needs a copy", "pass copy=None")
        return array.astype(dtype)
    return array.copy() if copy else array


def from_ufunc(array: Any) -> Any:
    """Return the result of a NumPy function on a tensor as a host tensor: ``Tensor.__array_wrap__``.

    Unlike in PyTorch, comparisons return bools here as well, as in every other notation.
    """
    return _shared("__array_wrap__", np.ascontiguousarray(array) if min(array.strides, default=0) < 0 else array)
