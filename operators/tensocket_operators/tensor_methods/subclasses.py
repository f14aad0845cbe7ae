"""Subclasses of Tensor: their preparation, the construction of their tensors, and the methods that they intercept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.overrides import (
    call_torch_function,
    default_torch_function,
    disabled_torch_dispatch,
    disabled_torch_function,
    overridden,
    version_counter,
)
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.formats import check_format, contiguous_format, strided
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import AUTOGRAD, DIM0, WRAPPER, dtype_bit
from tensocket_core.promotion import get_default_dtype
from tensocket_core.strides import format_strides
from tensocket_core.tensor import Size, Tensor, tensor_methods
from tensocket_plugins.contract.arrays import Block, DeviceArray, Storage
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError, MissingDataError, UnsupportedOperator

from .. import creation

_new = object.__new__
_tuple = tuple.__new__

#: Methods that are not operators but that ``__torch_function__`` intercepts. Properties are read directly.
METHODS: Final = (
    "__array__", "__bool__", "__contains__", "__deepcopy__", "__float__", "__format__", "__getitem__", "__index__",
    "__int__", "__len__", "__repr__", "__setitem__", "backward", "data_ptr", "detach_", "dim", "element_size",
    "get_device", "is_complex", "is_contiguous", "is_floating_point", "item", "nelement", "normal_", "numel", "numpy",
    "register_hook", "requires_grad_", "retain_grad", "storage_offset", "tolist", "uniform_",
)
#: Methods that test for overrides themselves: classes check that they override none of these.
SELF_CHECKING_METHODS: Final = ("size", "stride")
_INTERCEPTING: Final[dict[str, Callable[..., Any]]] = {}


@tensor_methods
class SubclassHooks:
    """Methods of tensors for subclasses of their class."""

    __slots__ = ()

    def __new__(cls, *given: Any, device: Any = None, **named: Any) -> Any:
        """Return a default-dtype tensor with given sizes, values or memory, as PyTorch's old constructor does."""
        return legacy_tensor(cls, given, named, device)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super(Tensor, cls).__init_subclass__(**keywords)  # type: ignore[misc]
        prepare_class(cls)

    def as_subclass(self: Any, cls: Any) -> Any:
        """Return this tensor as one of class ``cls``: on the same memory, with the same history.

        Raises:
            ArgumentTypeError: ``cls`` is not a class of tensors.
        """
        if not isinstance(cls, type) or not issubclass(cls, Tensor):
            raise ArgumentTypeError("as_subclass", f"cls {cls!r}", "cls is a subclass of Tensor",
                                    "derive it from Tensor")
        with thread_state(overrides_off=True, function_modes=()):
            return retyped(self.alias(), cls)

    def size(self: Any, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        if self._key & WRAPPER and overridden(self):
            return call_torch_function("size", SubclassHooks.size, (self,), (self,) if dim is None else (self, dim), {})
        shape = self._array.shape
        if dim is None:
            return _tuple(Size, shape)
        return shape[dim if type(dim) is int and 0 <= dim < len(shape) else normalize_axis("size", dim, len(shape))]

    @classmethod
    def _make_subclass(cls, *given: Any, **policies: Any) -> Any:
        """Return a leaf of class ``cls`` on the memory of a tensor: ``cls._make_subclass(data, requires_grad=False)``.

        PyTorch's form ``Tensor._make_subclass(cls, data, requires_grad)`` does the same.
        """
        if policies:
            check_policies("_make_subclass", policies)
        return make_subclass(*(given if isinstance(given[0], type) else (cls, *given)))

    @staticmethod
    def _make_wrapper_subclass(cls: Any, size: Any, *given: Any, **options: Any) -> Any:
        """Return a tensor without memory; see ``make_wrapper``."""
        return make_wrapper(cls, size, *given, **options)


def prepare_class(cls: Any) -> None:
    """Record which methods a new subclass of Tensor overrides, and set the key bits of its tensors."""
    base: Any = Tensor
    dispatches = cls._dispatches = cls.__torch_dispatch__ is not disabled_torch_dispatch
    default = getattr(cls.__torch_function__, "__func__", None) is default_torch_function
    if default and "__torch_dispatch__" in cls.__dict__ and dispatches:
        # A class that handles calls below autograd sets the class of its results itself.
        cls.__torch_function__ = disabled_torch_function
    cls._overrides = cls.__torch_function__ is not disabled_torch_function
    cls._class_key = WRAPPER if cls._overrides or dispatches else 0
    if cls._overrides:
        for name in METHODS:
            # During the generation of operators, their methods do not exist yet.
            if hasattr(base, name) and getattr(cls, name) is getattr(base, name):
                setattr(cls, name, _intercepting_method(name))
    if dispatches:
        cls._cut = _dispatched_cut
        cls._host = _host
        if cls.item is base.item:
            cls.item = _dispatched_item


def _intercepting_method(name: str) -> Callable[..., Any]:
    """Return a method of Tensor that first offers the call to ``__torch_function__``."""
    if name not in _INTERCEPTING:
        plain = getattr(Tensor, name)

        @wraps(plain)
        def method(self: Any, *args: Any, **keywords: Any) -> Any:
            if overridden(self, *args):
                return call_torch_function(name, plain, (self, *args), (self, *args), keywords)
            return plain(self, *args, **keywords)

        _INTERCEPTING[name] = method
    return _INTERCEPTING[name]


def retyped(tensor: Any, cls: Any) -> Any:
    """Return a tensor that nothing else holds, as a tensor of another class."""
    try:
        tensor.__class__ = cls
    except TypeError:  # the class adds slots
        other = _new(cls)
        for name in ("_array", "_key", "_grad", "_grad_fn", "_version_counter", "_base"):
            setattr(other, name, getattr(tensor, name))
        tensor = other
    tensor._key = tensor._key & ~WRAPPER | cls._class_key
    return tensor


def make_subclass(cls: Any, data: Any, requires_grad: bool = False) -> Any:
    """Return a leaf of class ``cls`` on the memory of ``data``."""
    alias = _new(cls)
    alias._array = data._array
    alias._key = data._key & ~(AUTOGRAD | WRAPPER) | cls._class_key
    alias._grad = alias._grad_fn = alias._base = None
    if data._version_counter is None:
        data._version_counter = [0]
    alias._version_counter = data._version_counter
    if requires_grad:
        alias.requires_grad = True
    return alias


def legacy_tensor(cls: Any, given: tuple[Any, ...], named: dict[str, Any], device: Any) -> Any:
    """Return ``cls(2, 3)``, ``cls([1, 2])`` or ``cls(tensor)``: from sizes, values of the default dtype, or memory.

    Raises:
        ArgumentTypeError: The only argument is a number that is not a size.
    """
    if len(given) == 1 and not named and hasattr(given[0], "_key"):
        return SubclassHooks.as_subclass(given[0], cls)
    made = creation.make_legacy("Tensor", given, named, get_default_dtype(), device)
    return made if cls is Tensor else retyped(made, cls)


def make_wrapper(cls: Any, size: Any, strides: Any = None, storage_offset: Any = None, memory_format: Any = None,
                 dtype: Any = None, layout: Any = strided, device: Any = None, pin_memory: bool = False,
                 requires_grad: bool = False, **policies: Any) -> Any:
    """Return a tensor of class ``cls`` with geometry, dtype and device, but no memory: its class holds the values.

    Args:
        size: Shape.
        strides: In elements; those of ``memory_format`` if not given.
        storage_offset: Elements before the first one.
        memory_format: Row-major if not given.
        dtype: The default dtype if not given.
        layout: Value of the tensor's ``layout``.
        device: The default device if not given.
        pin_memory: Accepted as in PyTorch, without effect: the tensor has no memory.
        requires_grad: Whether it is a leaf that requires grad.
        policies: PyTorch's ``dispatch_device``, ``dispatch_layout``, ``dispatch_sizes_strides_policy``,
            ``_extra_dispatch_keys`` and ``storage_size``; only false values are supported.

    Raises:
        ArgumentTypeError: The class defines no ``__torch_dispatch__``, or ``dtype`` is not a dtype.
        UnsupportedOperator: A policy requests device, layout or sizes from ``__torch_dispatch__``.
    """
    if not cls._dispatches:
        raise ArgumentTypeError("_make_wrapper_subclass", f"class {cls.__name__}",
                                "tensors without memory belong to a class with __torch_dispatch__",
                                "define __torch_dispatch__, or use _make_subclass")
    dtype = get_default_dtype() if dtype is None else dtype
    if not isinstance(dtype, DType):
        raise ArgumentTypeError("_make_wrapper_subclass", f"dtype {dtype!r}", "dtype is a tensocket dtype",
                                "pass for example tensocket.float32")
    check_policies("_make_wrapper_subclass", policies)
    state = open_device(device)
    shape = creation.shape_of("_make_wrapper_subclass", (tuple(size),))
    format = check_format("_make_wrapper_subclass", memory_format) or contiguous_format
    steps = format_strides("_make_wrapper_subclass", shape, format) if strides is None else tuple(strides)
    tensor = _new(cls)
    tensor._array = DeviceArray(Storage(Block(None, 0, None), None), dtype, shape, steps, storage_offset or 0)
    tensor._key = state.key | dtype_bit(dtype) | cls._class_key | (0 if shape else DIM0)
    tensor._grad = tensor._grad_fn = tensor._version_counter = tensor._base = None
    if layout is not None and layout is not strided:
        tensor._layout = layout
        if cls.layout is vars(Tensor)["layout"]:
            cls.layout = property(_layout)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


#: Keywords of PyTorch's subclass constructors that request more than values from ``__torch_dispatch__``.
_POLICIES: Final = frozenset(("dispatch_device", "dispatch_layout", "dispatch_sizes_strides_policy",
                              "_extra_dispatch_keys", "storage_size", "device_for_backend_keys"))


def check_policies(operator: str, policies: dict[str, Any]) -> None:
    """Reject keywords with true values, and unknown keywords.

    Raises:
        ArgumentTypeError: A keyword is unknown.
        UnsupportedOperator: A policy requests device, layout or sizes from ``__torch_dispatch__``.
    """
    unknown = sorted(policies.keys() - _POLICIES)
    if unknown:
        raise ArgumentTypeError(operator, f"keywords {unknown}", "there are no such keywords", "leave them out")
    wanted = {name: value for name, value in policies.items() if value}
    if wanted:
        raise UnsupportedOperator(operator, ", ".join(f"{name}={value!r}" for name, value in wanted.items()),
                                  "device, layout and sizes of a tensor are those that it was made with",
                                  "define the property in the class")


def _layout(self: Any) -> Any:
    return self.__dict__.get("_layout", strided)


def without_memory(tensor: Any) -> bool:
    """Whether ``make_wrapper`` made the tensor."""
    return isinstance(tensor._array, DeviceArray) and tensor._array.storage.allocator is None


def _dispatched_cut(self: Any) -> Any:
    """Return the result of the class's own ``detach``."""
    with thread_state(overrides_off=True, exclude=STATE.exclude | AUTOGRAD):
        made = call(OPERATORS["detach"], self)
    # Autograd compares the versions of the tensor and of the values that it saved.
    made._version_counter = version_counter(self)
    return made


def _dispatched_item(self: Any) -> Any:
    """Return the only element as the class itself reads it."""
    return call(OPERATORS["_local_scalar_dense"], self)


def _host(self: Any) -> Any:
    """Return the elements of a tensor that has memory.

    Raises:
        MissingDataError: Only the tensor's class knows them.
    """
    if not without_memory(self):
        return vars(Tensor)["_host"](self)
    raise MissingDataError("numpy", f"a tensor of class {type(self).__name__}",
                           "a class with __torch_dispatch__ holds its values itself",
                           "convert it to a plain tensor first")
