"""Pickling and copying tensors, including the memory that they share.

A tensor is split into its place (dtype, shape, strides, offset) and its memory. All tensors on one storage refer to
one ``Memory`` object while anything holds it, as the memos of ``pickle`` and ``copy.deepcopy`` do. Views that are
pickled or copied together therefore share memory again. The whole storage is stored, as in PyTorch: ``clone()`` a
small view of a large tensor first.
"""

from __future__ import annotations

import copy
import copyreg
import threading
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from tensocket_core.device import DeviceState, open_device, wait_for_values
from tensocket_core.dispatch.lazy import handle_with_bits, plain_handle
from tensocket_core.geometry import element_strides, memory_of
from tensocket_core.keys import AUTOGRAD, DIM0, LAZY, dtype_bit
from tensocket_core.launch.stream_use import copy_arrays
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType, uint8
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError
from tensocket_plugins.contract.forks import Rank, held_over_forks

from ..tensor_methods.subclasses import SubclassHooks, without_memory

#: Attributes of tensors that belong to a graph and are not copied.
_TRANSIENT: Final = frozenset({"_accumulator", "_extras", "_fixed_view", "_views"})
_LOCK: Final = held_over_forks(threading.Lock(), Rank.LEAVES)
_KNOWN: Final[WeakValueDictionary[Any, Memory]] = WeakValueDictionary()


class Memory:
    """The bytes of one storage.

    Attributes:
        state: The device of the bytes.
        handle: A vector of uint8.
        version: Counter of in-place changes for all tensors that share the memory.
    """

    __slots__ = ("__weakref__", "handle", "state", "version")

    def __init__(self, state: DeviceState, handle: Any) -> None:
        self.state = state
        self.handle = handle
        self.version = [0]

    def __reduce__(self) -> tuple[Any, ...]:
        host: Any = self.handle
        if not self.state.holds_data:
            host = self.handle.size
        elif not self.state.runtime.profile.host_resident:
            host = np.empty(self.handle.shape, np.uint8)
            if host.size:
                copy_arrays(self.state, host, self.handle)
        else:
            wait_for_values()
        return _load_memory, (str(self.state.device), host)

    def __deepcopy__(self, memo: dict[int, Any]) -> Memory:
        made = self.state.runtime.empty(self.handle.shape, uint8, self.state.stream)
        if 0 not in made.shape:
            if type(made) is np.ndarray:
                made[...] = self.handle
            else:
                copy_arrays(self.state, made, self.handle)
        return Memory(self.state, made)


def _load_memory(device: str, data: Any) -> Memory:
    """Return pickled memory on its device."""
    state = open_device(device)
    if not state.holds_data:
        return Memory(state, state.runtime.empty((data,), uint8, state.stream))
    made = state.runtime.empty(data.shape, uint8, state.stream)
    if data.size:
        copy_arrays(state, made, data)
    return Memory(state, made)


def place_of(tensor: Any) -> tuple[Memory, int]:
    """Return the memory of a tensor, and the byte offset of the tensor in it."""
    array, state = plain_handle(tensor._array), tensor._device_state
    if type(array) is DeviceArray:
        storage = array.storage
        whole = DeviceArray(storage, uint8, (storage.nbytes,), (1,), 0)
        return _known((state.key, id(storage)), state, whole), array.offset * array.dtype.itemsize
    root = memory_of(array)
    low, high = np.lib.array_utils.byte_bounds(root)
    start = int(array.__array_interface__["data"][0])
    if not low <= start <= high:  # an empty array may start anywhere
        start = low
    return _known((state.key, low, high), state, _bytes_of(root, low, high)), start - low


def _bytes_of(root: np.ndarray[Any, Any], low: int, high: int) -> np.ndarray[Any, Any]:
    """Return all bytes between the first and the last element of an array."""
    if root.flags.c_contiguous or root.flags.f_contiguous:
        return root.reshape(-1, order="A").view(np.uint8)
    first = np.lib.stride_tricks.as_strided(root, (), ()) if 0 not in root.shape else root.reshape(-1)
    return np.lib.stride_tricks.as_strided(first.view(np.dtype((np.uint8, (first.itemsize,)))), (high - low,), (1,))


def _known(key: Any, state: DeviceState, handle: Any) -> Memory:
    with _LOCK:
        memory = _KNOWN.get(key)
        if memory is None:
            memory = _KNOWN[key] = Memory(state, handle)
        return memory


def build(cls: Any, memory: Memory, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], start: int,
           requires_grad: bool, lazy: int = 0) -> Any:
    """Return a leaf at a place in memory; ``lazy`` holds the key bits for conjugates or negatives."""
    handle: Any
    if type(memory.handle) is np.ndarray:
        steps = tuple(s * dtype.itemsize for s in strides)
        handle = np.ndarray(shape, dtype.numpy, memory.handle, start, steps)
    else:
        handle = DeviceArray(memory.handle.storage, dtype, shape, strides, start // dtype.itemsize)
    tensor = object.__new__(cls)
    tensor._array = handle_with_bits(handle, 0, lazy)
    tensor._key = memory.state.key | dtype_bit(dtype) | (0 if shape else DIM0) | cls._class_key | lazy
    if requires_grad:
        tensor._key |= AUTOGRAD
    tensor._grad = tensor._grad_fn = tensor._base = None
    tensor._version_counter = memory.version
    return tensor


def _parts(operator: str, tensor: Any) -> tuple[Any, ...]:
    """Return the arguments of ``build`` for a tensor like this one.

    Raises:
        ArgumentTypeError: The tensor has no memory: it belongs to a transform, or its class holds its elements.
    """
    if tensor._level or not hasattr(tensor, "_array") or without_memory(tensor):
        raise ArgumentTypeError(operator, f"a {type(tensor).__name__} without memory of its own",
                                "tensors of transforms live within their call, and other classes know their elements",
                                "take it outside of the transform, or define the method in its class")
    memory, start = place_of(tensor)
    array = tensor._array
    place = type(tensor), memory, tensor.dtype, tuple(array.shape), tuple(element_strides(array)), start, \
        tensor.requires_grad
    return (*place, tensor._key & LAZY) if tensor._key & LAZY else place


def attributes(tensor: Any) -> dict[str, Any]:
    """Return the attributes that programs set on a tensor."""
    return {name: value for name, value in tensor.__dict__.items() if name not in _TRANSIENT}


def is_wrapper(tensor: Any) -> bool:
    """Whether the tensor has no memory of its own because its class holds the values."""
    return not tensor._level and hasattr(tensor, "_array") and without_memory(tensor)


def build_wrapper(cls: Any, dtype: Any, size: Any, stride: Any, storage_offset: int, layout: Any, device: Any,
                  requires_grad: bool) -> Any:
    """Return a tensor without memory; its state holds the values."""
    return SubclassHooks._make_wrapper_subclass(cls, size, stride, storage_offset, dtype=dtype, layout=layout,
                                                 device=device, requires_grad=requires_grad)


def wrapper_parts(tensor: Any) -> tuple[Any, ...]:
    """Return the arguments of ``build_wrapper``."""
    array = tensor._array
    return (type(tensor), tensor.dtype, tuple(array.shape), tuple(array.strides), array.offset, tensor.layout,
            str(tensor.device), tensor.requires_grad)


def slots_of(tensor: Any) -> dict[str, Any]:
    """Return the values of the slots that the tensor's class adds."""
    return {name: getattr(tensor, name) for name in own_slots(type(tensor)) if hasattr(tensor, name)}


def own_slots(cls: type) -> set[str]:
    """Return the slots that a class adds to those of tensors."""
    return set(copyreg._slotnames(cls)) - set(copyreg._slotnames(Tensor))  # type: ignore[attr-defined]


def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """Return ``Tensor.__reduce_ex__``: memory, place, requires_grad, class and attributes, but not the gradient."""
    if is_wrapper(tensor):
        made: tuple[Any, ...] = (build_wrapper, wrapper_parts(tensor))
    else:
        made = (build, _parts("pickle", tensor))
    slots = slots_of(tensor)
    return *made, ((attributes(tensor), slots) if slots else attributes(tensor) or None)


def copy_tensor(tensor: Any) -> Any:
    """Return ``copy.copy`` of a tensor: a leaf on the same memory, with the same attributes."""
    alias = Tensor._make_subclass.__func__(type(tensor), tensor.detach(), tensor.requires_grad)  # type: ignore[attr-defined]
    alias.__dict__.update(attributes(tensor))
    return alias


def deepcopy_tensor(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return ``copy.deepcopy`` of a tensor, with copies of its gradient and attributes.

    Raises:
        AutogradError: An operator made the tensor.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if tensor.grad_fn is not None:
        raise AutogradError("deepcopy", "a tensor made by an operator", "only leaf tensors can be deep-copied",
                            "detach() it first")
    if is_wrapper(tensor):
        return _copy_wrapper(tensor, memo)
    cls, memory, *place = _parts("deepcopy", tensor)
    copied = memo[id(tensor)] = build(cls, copy.deepcopy(memory, memo), *place)
    _copy_attributes(tensor, copied, memo)
    copied._grad = copy.deepcopy(tensor._grad, memo)
    return copied


def _copy_attributes(tensor: Any, copied: Any, memo: dict[int, Any]) -> None:
    copied.__dict__.update(copy.deepcopy(attributes(tensor), memo))
    for name, value in slots_of(tensor).items():
        setattr(copied, name, copy.deepcopy(value, memo))


def _copy_wrapper(tensor: Any, memo: dict[int, Any]) -> Any:
    copied = tensor.clone()
    if type(copied) is not type(tensor):
        name = type(tensor).__name__
        raise AutogradError(
            "deepcopy", f"a {name}, whose clone() returned a {type(copied).__name__}", "The default implementation of "
            "__deepcopy__() for wrapper subclasses only works for subclass types that properly implement clone() and "
            "for which cloning returns another instance of the same subclass",
            "correct clone(), or define __deepcopy__() in the class")
    copied = memo[id(tensor)] = copied.detach() if copied._grad_fn is not None else copied
    copied.requires_grad_(tensor.requires_grad)
    _copy_attributes(tensor, copied, memo)
    return copied
