"""The functions that rebuild tensors from files, under PyTorch's names, which files contain.

Every function checks its arguments, because a file may contain anything: sizes are natural numbers, elements are within
their storage, and the memory does not exceed that of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from tensocket.nn.parameter import Parameter
from tensocket_compiler.calls.settings import is_compiling as is_compiling  # by this name, programs of PyTorch ask, too
from tensocket_core.dispatch.modes import as_leaf
from tensocket_core.launch.fill import finish
from tensocket_operators import (
    Tensor,
    _neg_view,
    cat,
    dtype,
    empty_strided,
    layout,
    sparse_compressed_tensor,
    sparse_coo,
    sparse_coo_tensor,
)
from tensocket_operators import device as as_device
from tensocket_operators.interop.pickling import build_wrapper, own_slots
from tensocket_operators.interop.storage import array_in, entry_of, untyped
from tensocket_operators.interop.typed_storages import TypedStorage
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedDtype

#: Attributes of tensors that belong to a graph; files must not set them.
TRANSIENT: Final = frozenset({"_accumulator", "_fixed_view", "_extras", "_views"})


def _sizes(operator: str, *groups: Any) -> list[tuple[int, ...]]:
    """Check shapes and strides of a file.

    Raises:
        ArgumentTypeError: One is not a sequence of natural numbers.
    """
    for group in groups:
        if not isinstance(group, (tuple, list)) or len(group) > 64 or not all(
                type(n) is int and 0 <= n < 1 << 63 for n in group):
            raise ArgumentTypeError(operator, f"sizes of type {type(group).__name__}", "shape, strides and offset are "
                                    "at most 64 natural numbers of 63 bits", "the file is damaged; get it again")
    return [tuple(group) for group in groups]


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Return a tensor on a typed storage; offset and strides in elements."""
    if not isinstance(storage, TypedStorage):
        raise ArgumentTypeError("_rebuild_tensor", f"a {type(storage).__name__}", "a tensor lies in a typed storage",
                                "the file is damaged; get it again")
    return _placed(storage, storage.dtype, storage_offset, size, stride)


def _placed(storage: Any, kind: dtype, offset: Any, size: Any, stride: Any) -> Tensor:
    shape, steps, (start,) = _sizes("_rebuild_tensor", size, stride, (offset,))
    if len(shape) != len(steps):
        raise ArgumentError("_rebuild_tensor", f"{len(shape)} sizes and {len(steps)} strides",
                            "every dimension has a size and a stride", "the file is damaged; get it again")
    memory = untyped(storage)
    made: Tensor = finish(array_in(memory, kind, start, shape, steps), kind, entry_of(memory), requires_grad=False)
    return made


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int], requires_grad: bool,
    backward_hooks: Any, metadata: Any = None,
) -> Tensor:
    """Rebuild a tensor as ``_rebuild_tensor`` does, and set ``requires_grad``. Hooks of the saver are dropped."""
    return _finished(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int], requires_grad: bool,
    backward_hooks: Any, dtype: Any, metadata: Any = None,
) -> Tensor:
    """Rebuild a tensor as ``_rebuild_tensor_v2`` does, of a dtype without a typed storage."""
    return _finished(_placed(storage, _dtype(dtype), storage_offset, size, stride), requires_grad, metadata)


def _dtype(value: Any) -> dtype:
    if not isinstance(value, dtype):
        raise ArgumentTypeError("_rebuild_tensor", f"a {type(value).__name__}", "a dtype is an element type",
                                "the file is damaged; get it again")
    return value


def _finished(tensor: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    """Set whether the memory holds conjugates or negatives, and whether the tensor requires grad."""
    if metadata:
        _check_memory(tensor)
        tensor = tensor.conj().detach() if metadata.get("conj") else tensor
        tensor = _neg_view(tensor).detach() if metadata.get("neg") else tensor
    return as_leaf(tensor) if requires_grad else tensor


def _check_memory(tensor: Tensor) -> None:
    """Refuse to compute with more elements than the storage has: strides of 0 allow any number.

    Raises:
        ArgumentError: The tensor has more elements.
    """
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ArgumentError("_rebuild_tensor", f"shape {list(tensor.shape)} in {tensor.untyped_storage().nbytes()} "
                            "bytes", "such a tensor has memory for all its elements", "the file is damaged; get it "
                            "again")


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Return a parameter on the memory of ``data``."""
    return Parameter(data, requires_grad=bool(requires_grad))


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    """Return a parameter with attributes."""
    return _with_attributes(_rebuild_parameter(data, requires_grad, backward_hooks), state)  # type: ignore[no-any-return]


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """Return a tensor of a subclass, or with attributes."""
    made = func(*args)
    if new_type is not type(made):
        made = made.as_subclass(new_type)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return made
    return _with_attributes(made, state)


def _with_attributes(tensor: Any, state: Any) -> Any:
    """Set attributes from ``state``: a dict, or a pair of that and the dict of slots."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    unknown = sorted((slots or {}).keys() - own_slots(type(tensor)))
    if unknown:
        raise ArgumentError("_rebuild_from_type_v2", f"values of {unknown}", "slots are those of the tensor's class",
                            "the file is damaged; get it again")
    for name, value in (slots or {}).items():
        setattr(tensor, name, value)
    for name, value in (attributes or {}).items():
        if name not in TRANSIENT:
            tensor.__dict__[name] = value
    return tensor


def _rebuild_wrapper_subclass(
    cls: Any, dtype: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int, layout: Any, device: Any,
    requires_grad: bool,
) -> Any:
    """Return a tensor without memory, whose class holds the values."""
    shape, steps = _sizes("_rebuild_wrapper_subclass", size, stride)
    return build_wrapper(cls, _dtype(dtype), shape, steps, storage_offset, layout, device, requires_grad)


def _rebuild_sparse_tensor(layout: layout, data: Any) -> Any:
    """Return a sparse tensor, after checking that its parts fit."""
    compressed = layout is not sparse_coo
    *parts, size = data if compressed else data[:3]
    for part in parts:
        _check_memory(part)
    shape, = _sizes("_rebuild_sparse_tensor", size)
    if compressed:
        starts, others, values = parts
        return sparse_compressed_tensor(starts, others, values, shape, layout=layout, check_invariants=True)
    positions, values = parts
    return sparse_coo_tensor(positions, values, shape, check_invariants=True, is_coalesced=data[3:] == (True,) or None)


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    """Return a tensor on the device ``meta``."""
    shape, steps = _sizes("_rebuild_tensor", size, stride)
    made = empty_strided(shape, steps, dtype=_dtype(dtype), device="meta")
    return _finished(made, requires_grad, None)


def _rebuild_device_tensor_from_cpu_tensor(data: Tensor, dtype: Any, device: str, requires_grad: bool) -> Tensor:
    """Return a device's tensor that was saved as one on the host; it stays there, as the device may not exist here."""
    _check_memory(data)
    return _finished(data.to(_dtype(dtype)), requires_grad, None)


def _rebuild_qtensor(*args: Any) -> Any:
    """Refuse: quantized tensors are not supported.

    Raises:
        UnsupportedDtype: Always.
    """
    raise UnsupportedDtype("load", "a quantized tensor", "quantized dtypes cannot be read",
                           "dequantize() it before it is saved")


def _get_available_device_type() -> str | None:
    """Return the type of devices other than the host that this machine has; None if there are none."""
    return next((kind for kind in ("cuda", "xpu", "mps") if import_module(f"tensocket.{kind}").is_available()), None)


def _get_device_module(device_type: str) -> Any:
    """Return the module of a type of devices, ``tensocket.cuda`` for ``cuda``.

    Raises:
        ArgumentError: There is no such module.
    """
    try:
        return import_module(f"tensocket.{device_type}")
    except ModuleNotFoundError:
        raise ArgumentError("_get_device_module", f"the device type {device_type!r}", f"Device '{device_type}' does "
                            "not have a corresponding module registered as 'torch.<device type>'",
                            "pass cpu or cuda") from None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device.

    Args:
        device: A device, its name, its index, or None for the current one.
        optional: Whether a device without index stands for the current one.
        allow_cpu: Whether the host is allowed, whose index is -1.

    Raises:
        ArgumentError: The device is the host, or has no index, and that is not allowed.
    """
    if isinstance(device, int):
        return device
    found = None if device is None else as_device(device)
    if found is not None and found.type == "cpu":
        if allow_cpu:
            return -1
        raise ArgumentError("_get_device_index", f"the device {device}", "Expected a non cpu device", "pass another")
    if found is None or found.index is None:
        if not optional:
            raise ArgumentError("_get_device_index", f"the device {device}", "Expected a torch.device with a specified "
                                "index or an integer", "name the index")
        return int(import_module("tensocket.cuda").current_device())
    return int(found.index)


def _element_size(dtype: dtype) -> int:
    """Return the number of bytes of one element."""
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Concatenate the elements of all tensors, shape ``(n,)``."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return consecutive views of ``flat`` in the shapes of ``tensors``."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set the attributes of an object from a pickled state: a dict, or a pair with the values of slots.

    Raises:
        ArgumentError: The state is another tuple.
    """
    parts = state if isinstance(state, tuple) else (state,)
    if isinstance(state, tuple) and len(state) != 2:
        raise ArgumentError("_set_obj_state", f"a tuple of {len(state)}", "a state is a dict, or a pair of dicts",
                            "the file is damaged; get it again")
    for part in parts:
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj
