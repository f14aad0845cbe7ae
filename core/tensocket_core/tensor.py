"""The tensor: an array handle, a dispatch key and the data of autograd. Its methods come from the layers above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.contract.naming import package_name

from .device import BY_KEY, DeviceState
from .keys import AUTOGRAD, DEVICE_MASK, DIM0, DTYPE_MASK, DTYPE_OF, WRAPPER

M = TypeVar("M", bound=type)

_new = object.__new__
#: Makes a ``Size`` of integers without a check.
_tuple = tuple.__new__
#: Members of every class, which ``tensor_methods`` does not copy.
_OF_CLASSES: Final = frozenset({"__module__", "__doc__", "__slots__", "__annotations__", "__dict__", "__weakref__",
                               "__hash__", "__firstlineno__", "__static_attributes__"})


class Size(tuple[int, ...]):
    """A shape.

    Args:
        sizes: Integers, or objects that convert to an index.

    Raises:
        ArgumentTypeError: A size does not convert.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """Return a shape after checking the sizes."""
        items = tuple(sizes)
        for position, item in enumerate(items):
            if not hasattr(item, "__index__"):
                raise ArgumentTypeError("Size", f"{type(item).__name__} at position {position}",
                                        "sizes are integers", "pass integers")
        return _tuple(cls, [item.__index__() for item in items])

    def __repr__(self) -> str:
        return f"{package_name()}.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        chosen = super().__getitem__(index)
        return _tuple(Size, chosen) if type(chosen) is tuple else chosen

    def __add__(self, other: Any) -> Any:
        return Size(super().__add__(tuple(other))) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(other + tuple(self)) if type(other) is tuple else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Size(super().__mul__(count))

    __rmul__ = __mul__

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        count = 1
        for n in self:
            count *= n
        return count


class Tensor:
    """A multi-dimensional array on a device, with gradients.

    Attributes:
        _array: The handle that kernels take.
        _key: Dispatch key; holds dtype, device and whether the tensor requires a gradient.
        _grad: Accumulated gradient of a leaf.
        _grad_fn: The node that made this tensor; None for leaves.
        _version_counter: ``[count]`` of in-place changes, shared by all views; None until it is first needed.
        _base: The tensor that this one is a view of.
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_base", "_grad", "_grad_fn", "_key", "_version_counter")

    _array: Any
    _key: int
    _grad: Tensor | None
    _grad_fn: Any
    _version_counter: list[int] | None
    _base: Tensor | None
    #: Nesting level of the transform that the tensor belongs to; 0 for real tensors.
    _level = 0
    #: Whether the class overrides functions (``__torch_function__``); set when a subclass is defined.
    _overrides = False
    #: Whether the class intercepts calls below autograd (``__torch_dispatch__``); set when a subclass is defined.
    _dispatches = False
    #: Bits in the key of all tensors of the class: ``WRAPPER`` for overriding and dispatching classes.
    _class_key = 0
    #: Weak references to recorded views; an instance attribute from the first one on.
    _views: Any = ()
    #: Whether tensors of the class print as ``tensor(...)``, without the class name; not inherited.
    _plain_repr: bool = True

    if TYPE_CHECKING:
        requires_grad: Any
        _fixed_view: Any

        def __getattr__(self, name: str) -> Any: ...

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return _tuple(Size, self._array.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim  # type: ignore[no-any-return]

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim  # type: ignore[no-any-return]

    def numel(self) -> int:
        """Return the number of elements."""
        return int(self._array.size)

    nelement = numel

    @property
    def dtype(self) -> DType:
        """Element type."""
        return DTYPE_OF[self._key & DTYPE_MASK]

    @property
    def device(self) -> Device:
        """Device of the elements."""
        return BY_KEY[self._key & DEVICE_MASK].device

    @property
    def _device_state(self) -> DeviceState:
        return BY_KEY[self._key & DEVICE_MASK]

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point type."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self.dtype.is_complex

    def get_device(self) -> int:
        """Return the index of the device, -1 on the host."""
        return -1 if self.device.index is None else self.device.index

    def __len__(self) -> int:
        if not self._array.shape:
            raise ArgumentTypeError("len", "a 0-dimensional tensor", "only tensors with dimensions have a length",
                                    "use .item() or .numel()")
        return int(self._array.shape[0])

    def __iter__(self: Any) -> Iterator[Tensor]:
        if not self._array.shape:
            raise ArgumentTypeError("iter", "a 0-dimensional tensor", "only tensors with dimensions can be iterated",
                                    "use .item()")
        return iter(self.unbind(0))

    def __contains__(self: Any, element: Any) -> bool:
        if not isinstance(element, (Tensor, bool, int, float, complex, np.generic)):
            raise ArgumentError("contains", f"an element of type {type(element).__name__}",
                                "elements are numbers or tensors", "pass a number")
        same: Any = self == element
        return bool(same.any())

    def __hash__(self) -> int:
        return id(self)

    # Python 2's names of division, which PyTorch still has.

    def __div__(self: Any, other: Any) -> Any:
        return self / other

    def __rdiv__(self: Any, other: Any) -> Any:
        return other / self

    def __idiv__(self: Any, other: Any) -> Any:
        self /= other
        return self

    def __pos__(self) -> Tensor:
        return self

    def __format__(self: Any, form: str) -> str:
        plain = not self._array.shape and "_plain_repr" in type(self).__dict__ and self._device_state.holds_data
        return format(self.item(), form) if plain else object.__format__(self, form)

    def _cut(self) -> Tensor:
        """Return ``detach()`` for recording: of a tensor of a transform, it cuts only that transform's graph."""
        alias = _new(Tensor)
        alias._array = self._array
        alias._key = self._key & ~(AUTOGRAD | WRAPPER)
        alias._grad = alias._grad_fn = None
        if self._version_counter is None:
            self._version_counter = [0]
        alias._version_counter = self._version_counter
        alias._base = None
        return alias


def tensor_methods(methods: M) -> M:
    """Add the members of a class to tensors: a layer above adds methods, and no layer below imports it.

    Raises:
        TypeError: Tensors already have a member of that name.
    """
    for name, member in vars(methods).items():
        if name not in _OF_CLASSES:
            if name in vars(Tensor):
                raise TypeError(f"tensors have {name!r} already, {methods.__name__} defines it again")
            setattr(Tensor, name, member)
    return methods


def wrap(array: Any, key: int) -> Tensor:
    """Return a tensor on a handle. ``key`` holds device and dtype; the shape sets ``DIM0``."""
    tensor = _new(Tensor)
    tensor._array = array
    tensor._key = key if array.shape else key | DIM0
    tensor._grad = tensor._grad_fn = tensor._version_counter = tensor._base = None
    return tensor
