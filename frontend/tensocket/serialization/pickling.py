"""Pickles in files: tensors become calls of functions that PyTorch has, storages become entries of the archive."""

from __future__ import annotations

import pickle
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, Final

from tensocket import _utils
from tensocket.errors import SerializationError, UnpicklableError
from tensocket.nn.parameter import Parameter
from tensocket_core import device
from tensocket_core.formats import layout
from tensocket_operators import Size, Tensor, TypedStorage, UntypedStorage, sparse_coo
from tensocket_operators.interop.pickling import is_wrapper, slots_of, wrapper_parts
from tensocket_operators.interop.typed_storages import typed
from tensocket_operators.sparse.tensor import PARTS, SparseTensor
from tensocket_plugins.contract.dtypes import DType, uint8

from . import names
from .locations import location_tag
from .names import STORAGE_OF, StorageType


class Shelf:
    """A collector of the storages of a pickle.

    Args:
        legacy: Whether to use the format before archives, whose storage entries have one more component.
    """

    def __init__(self, legacy: bool = False) -> None:
        self.storages: dict[str, UntypedStorage] = {}
        self.kinds: dict[str, DType] = {}
        self._keys: dict[Any, tuple[str, DType]] = {}
        self._extra = (None,) if legacy else ()

    def persistent_id(self, value: Any) -> tuple[Any, ...] | None:
        """Return the pickle's description of a storage; None for other objects.

        Raises:
            SerializationError: The storage has two dtypes.
        """
        if type(value) is TypedStorage:
            storage, kind = value._untyped_storage, value.dtype
        elif type(value) is UntypedStorage:
            storage, kind = value, uint8
        else:
            return None
        shared = storage if storage.nbytes() else (storage, kind)  # empty storages share nothing
        key, first = self._keys.setdefault(shared, (str(len(self._keys)), kind))
        if first is not kind:
            raise SerializationError("save", f"one storage as {first.name} and as {kind.name}", "Cannot save multiple "
                                     "tensors or storages that view the same data as different types",
                                     "clone() one of the tensors")
        self.storages[key], self.kinds[key] = storage, kind
        label = TABLE_OF_KINDS[kind] if type(value) is TypedStorage else UntypedStorage
        return "storage", label, key, location_tag(storage), storage.nbytes() // kind.itemsize, *self._extra


TABLE_OF_KINDS: Final = {kind: names.TABLE[f"torch.{name}"] for kind, name in STORAGE_OF.items()}


#: Attributes of tensors that are internal.
_OWN: Final = _utils.TRANSIENT | PARTS


def _attributes(tensor: Any) -> dict[str, Any]:
    return {name: value for name, value in tensor.__dict__.items() if name not in _OWN}


def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """Return the call that rebuilds a tensor."""
    state = _attributes(tensor)
    if isinstance(tensor, Parameter) and type(tensor) is Parameter:
        plain = tensor.detach()
        arguments: tuple[Any, ...] = (plain.as_subclass(Tensor), tensor.requires_grad, OrderedDict())
        if state:
            return _utils._rebuild_parameter_with_state, (*arguments, state)
        return _utils._rebuild_parameter, arguments
    function, arguments = _plain(tensor)
    kind, slots = type(tensor), {} if isinstance(tensor, SparseTensor) else slots_of(tensor)
    if slots:
        return _utils._rebuild_from_type_v2, (function, kind, arguments, (state, slots))
    if state or kind not in (Tensor, SparseTensor):
        return _utils._rebuild_from_type_v2, (function, kind, arguments, state)
    return function, arguments


def _plain(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return function and arguments for a tensor without attributes.

    Raises:
        UnpicklableError: The tensor belongs to a transform.
    """
    if isinstance(tensor, SparseTensor):
        size = Size(tensor.shape)
        if tensor.layout is sparse_coo:
            data: tuple[Any, ...] = (tensor._indices(), tensor._values().detach(), size, tensor.is_coalesced())
        else:
            data = (*tensor.positions, tensor.values().detach(), size)
        return _utils._rebuild_sparse_tensor, (tensor.layout, data)
    if is_wrapper(tensor):
        return _utils._rebuild_wrapper_subclass, wrapper_parts(tensor)
    if tensor._level:
        raise UnpicklableError("save", f"a {type(tensor).__name__} without memory of its own", "tensors of transforms "
                               "live within their call", "take it outside of the transform")
    shape, stride, dtype = tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
    if tensor.device.type == "meta":
        return _utils._rebuild_meta_tensor_no_storage, (dtype, shape, stride, tensor.requires_grad)
    values = tensor.detach()
    if min(stride, default=0) < 0 or values.storage_offset() < 0:
        # The format does not support negative strides.
        values = values.contiguous()
        stride = tuple(values.stride())
    storage = values.untyped_storage()
    place: tuple[Any, ...] = (values.storage_offset(), shape, stride, tensor.requires_grad, OrderedDict())
    bits = {name: True for name, holds in (("conj", values.is_conj()), ("neg", values.is_neg())) if holds}
    metadata = (bits,) if bits else ()
    if dtype in STORAGE_OF:
        return _utils._rebuild_tensor_v2, (typed(storage, dtype), *place, *metadata)
    return _utils._rebuild_tensor_v3, (storage, *place, dtype, *metadata)


_PLAIN_REDUCE: Final[tuple[Any, ...]] = (Tensor.__reduce_ex__, SparseTensor.__reduce_ex__)


def reduce(value: Any) -> Any:
    """Return how files describe an object of this library, in the form of ``Pickler.reducer_override``."""
    kind = type(value)
    if kind is DType or kind is StorageType:
        return _written(value)
    if kind is Size:
        return Size, (tuple(value),)
    if kind is device:
        return device, ((value.type,) if value.index is None else (value.type, value.index))
    if kind is layout:
        return names._get_layout, (f"torch.{value.name}",)
    if isinstance(value, Tensor) and kind.__reduce_ex__ in _PLAIN_REDUCE:
        return reduce_tensor(value)
    return NotImplemented


def _written(value: Any) -> str:
    found = names.written_name(value)
    return found[1] if found is not None else ""


def pickler(module: Any, stream: Any, protocol: int, shelf: Shelf) -> Any:
    """Return an object with ``dump`` that uses the pickler of ``module``."""
    if module is pickle:
        made: Any = _Pickler(stream, protocol)
        made.shelf = shelf
        return made

    def reducer_override(self: Any, value: Any) -> Any:
        ours = _importable(value)
        theirs = getattr(module.Pickler, "reducer_override", None)
        return theirs(self, value) if ours is NotImplemented and theirs is not None else ours

    kind = type("Pickler", (module.Pickler,), {"persistent_id": lambda self, value: shelf.persistent_id(value),
                                               "reducer_override": reducer_override})
    return kind(stream, protocol)


def _importable(value: Any) -> Any:
    """Do the same as ``reduce``, for picklers that write the import names of objects."""
    if type(value) is DType:
        return NotImplemented
    if type(value) is StorageType:
        return StorageType, (STORAGE_OF[value.dtype],)
    return reduce(value)


_STORAGES: Final = frozenset({TypedStorage, UntypedStorage})
_PLAIN_TYPES: Final = frozenset({int, float, bool, str, bytes, list, tuple, dict, set, type, types.FunctionType,
                                 type(None), OrderedDict, UntypedStorage, TypedStorage})
#: The pickler in Python, which lets the names in the output be chosen.
_Base: Final[Any] = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc]  # the class is not typed
    shelf: Shelf
    dispatch: ClassVar[dict[Any, Any]] = dict(_Base.dispatch)

    # Both are called for every object, and most objects need no treatment.
    def persistent_id(self, value: Any) -> Any:
        return self.shelf.persistent_id(value) if type(value) in _STORAGES else None

    def reducer_override(self, value: Any) -> Any:
        return NotImplemented if type(value) in _PLAIN_TYPES else reduce(value)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        found = names.written_name(obj, name)
        if found is None:
            super().save_global(obj, name)
            return
        module, name = found
        if names.find(module, name) is not obj:
            raise pickle.PicklingError(f"{name} in {module} is not the same object")
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def save_type(self, obj: Any) -> None:
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    # The base class calls these through this table, not by name.
    dispatch[types.FunctionType], dispatch[type] = save_global, save_type


def unpickler(module: Any, stream: Any, persistent_load: Callable[[Any], Any], options: dict[str, Any]) -> Any:
    """Return an object with ``load`` that uses the unpickler of ``module``, for trusted files."""

    def find_class(self: Any, name: str, attribute: str) -> Any:
        if names.is_ours(name):
            return names.find(name, attribute)
        return module.Unpickler.find_class(self, name, attribute)

    kind = type("Unpickler", (module.Unpickler,), {
        "find_class": find_class, "persistent_load": lambda self, saved: persistent_load(saved)})
    return kind(stream, **options)
