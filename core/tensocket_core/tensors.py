"""The tensor: an array handle, a dispatch key and what autograd needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    ShapeError,
)
from tensocket_plugins.contract.naming import package_name

from ._generated.methods import Operators
from .autograd.detached import detached_counter
from .autograd.inference import check_outside, detached
from .autograd.methods import Recorded, check_grad, check_untransformed, warn_of_no_leaf
from .autograd.rebase import require_with_views
from .complex_attributes import ComplexAttributes, real_number, warn_of_number
from .device import BY_KEY, PENDING, DeviceEntry, wait_for_values
from .dispatch.call import call
from .dispatch.keys import AUTOGRAD, DEVICE_MASK, DIM0, DTYPE_MASK, DTYPE_OF, LAZY, WRAPPER
from .dispatch.modes import ACTIVE, STATE, untransformed
from .dispatch.overrides import handle, overridden
from .dispatch.subclasses import Subclassed
from .execute import queues as _queues  # noqa: F401  lets streams of the host queue operators
from .execute.geometry import normalize_axis
from .execute.lazy import resolved
from .execute.math import arithmetic_dtype
from .execute.usage import copy_arrays
from .execute.views import Custom
from .interop.methods import Exchange
from .printing import format_tensor
from .surface import Surface

_new = object.__new__
#: Makes a shape of what is known to be integers.
_tuple = tuple.__new__
#: References to a tensor that one variable holds where ``requires_grad`` looks for its views.
_HOLDERS: Final = 5


class Size(tuple[int, ...]):
    """A shape.

    Args:
        sizes: Integers, or what converts to an index.

    Raises:
        ArgumentTypeError: One of them does not.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """A shape of checked sizes."""
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
        """Number of elements of a tensor of this shape."""
        count = 1
        for n in self:
            count *= n
        return count


class Tensor(Subclassed, Operators, ComplexAttributes, Surface, Exchange, Recorded):
    """A multi-dimensional array on a device, with gradients.

    Attributes:
        _array: The handle that kernels take.
        _key: Dispatch key; holds dtype, device and whether a gradient is required.
        _grad: Accumulated gradient of a leaf.
        _grad_fn: The node that made this tensor; None for leaves.
        _version_counter: ``[count]`` of in-place changes, shared by all views; None until somebody needs it.
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
    #: Weak references to recorded views; an instance attribute once there are any.
    _views: Any = ()
    #: The class that says so in its own body is printed as ``tensor(...)``, without its name.
    _plain_repr: bool = True

    # ------------------------------------------------------------------------------------------ metadata

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return _tuple(Size, self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if self._key & WRAPPER and overridden(self):
            return handle("size", Tensor.size, (self,), (self,) if dim is None else (self, dim), {})
        return self.shape if dim is None else self._array.shape[normalize_axis("size", dim, self.ndim)]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._array.shape)

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._array.shape)

    def numel(self) -> int:
        """Number of elements."""
        return int(self._array.size)

    nelement = numel

    @property
    def dtype(self) -> DType:
        """Element type."""
        return DTYPE_OF[self._key & DTYPE_MASK]

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return BY_KEY[self._key & DEVICE_MASK].device

    @property
    def _entry(self) -> DeviceEntry:
        return BY_KEY[self._key & DEVICE_MASK]

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point type."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self.dtype.is_complex

    def get_device(self) -> int:
        """Index of the device, -1 on the host."""
        return -1 if self.device.index is None else self.device.index

    def __len__(self) -> int:
        if not self._array.shape:
            raise ArgumentTypeError("len", "a 0-dimensional tensor", "only tensors with dimensions have a length",
                                    "use .item() or .numel()")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.shape:
            raise ArgumentTypeError("iter", "a 0-dimensional tensor", "only tensors with dimensions can be iterated",
                                    "use .item()")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, bool, int, float, complex, np.generic)):
            raise ArgumentError("contains", f"an element of type {type(element).__name__}",
                                "elements are numbers or tensors", "pass a number")
        same: Any = self == element
        return bool(same.any())

    def __hash__(self) -> int:
        return id(self)

    # Names of division from Python 2, which PyTorch has still.

    def __div__(self, other: Any) -> Any:
        return self / other

    def __rdiv__(self, other: Any) -> Any:
        return other / self

    def __idiv__(self, other: Any) -> Any:
        self /= other
        return self

    def __pos__(self) -> Tensor:
        return self

    def __format__(self, form: str) -> str:
        plain = not self._array.shape and "_plain_repr" in type(self).__dict__ and self._entry.holds_data
        return format(self.item(), form) if plain else object.__format__(self, form)

    @property
    def T(self) -> Any:  # noqa: N802  PyTorch's name
        """Dimensions reversed."""
        if not self._array.shape:
            warn_of_number("T")
        return self.permute(tuple(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self) -> Any:  # noqa: N802  PyTorch's name
        """The last two dimensions exchanged; a number is itself, with a warning."""
        if not self._array.shape:
            warn_of_number("mT")
            return self.transpose(0, 0)
        if self.ndim < 2:
            raise ShapeError("mT", f"a {self.ndim}-dimensional tensor", "matrices have at least 2 dimensions",
                             "unsqueeze it first")
        return self.transpose(-2, -1)

    # ------------------------------------------------------------------------------------------ autograd

    @property
    def requires_grad(self) -> bool:
        """Whether operators on this tensor record gradients."""
        return bool(self._key & AUTOGRAD)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._grad_fn is not None:
            raise AutogradError("requires_grad", f"{bool(value)} for a tensor made by an operator",
                                "you can only change requires_grad flags of leaf variables", "use .detach()")
        if value and self.dtype.kind not in ("float", "complex"):
            raise AutogradError("requires_grad", f"True for a tensor of dtype {self.dtype.name}",
                                "only floating-point and complex tensors have gradients", "convert it with .to(dtype)")
        if value and self._version_counter is not None:
            check_outside(self)
            if self._base is None and not self._key & AUTOGRAD:
                require_with_views(self, _HOLDERS)
        self._key = self._key | AUTOGRAD if value else self._key & ~AUTOGRAD

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` in place; refused while a function transform runs."""
        if ACTIVE:
            check_untransformed("Tensor.requires_grad_()")
        if requires_grad and self._grad_fn is not None:
            return self
        Tensor.requires_grad.fset(self, requires_grad)  # type: ignore[attr-defined]
        return self

    @property
    def grad(self) -> Tensor | None:
        """Accumulated gradient of a leaf; None before the first backward. Warns where none will be accumulated."""
        grad = self._grad
        if grad is None and self._grad_fn is not None:
            warn_of_no_leaf(self)
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def _version(self) -> int:
        return 0 if self._version_counter is None else int(self._version_counter[-1])

    def detach_(self) -> Tensor:
        """Cut this tensor off from the graph, in place.

        Raises:
            AutogradError: It is a view.
        """
        if STATE.inference is not None:
            return self
        if self._base is not None:
            raise AutogradError("detach_", "a view", "Can't detach views in-place: a view has the history of its base",
                                "use detach()")
        if self._grad_fn is not None:
            self._version_counter = detached_counter(self._version_counter)
        self._grad_fn = None
        self._key &= ~AUTOGRAD
        return self

    def detach(self) -> Tensor:
        """A tensor on the same memory that is cut off from the graph."""
        if ACTIVE or self._key & WRAPPER:
            return call(_DETACH, self)  # type: ignore[no-any-return]
        alias = self._cut()
        return alias if type(alias._version_counter) is list else detached(alias)

    def _cut(self) -> Tensor:
        """``detach`` as recording needs it: of a tensor of a transform, it cuts that transform's graph only."""
        alias = _new(Tensor)
        alias._array = self._array
        alias._key = self._key & ~(AUTOGRAD | WRAPPER)
        alias._grad = alias._grad_fn = None
        if self._version_counter is None:
            self._version_counter = [0]
        alias._version_counter = self._version_counter
        alias._base = None
        return alias

    @property
    def data(self) -> Tensor:
        """The same memory without autograd, which does not notice what is written there."""
        alias = self.detach()
        if type(alias) is Tensor and type(alias._version_counter) is list:
            alias._version_counter = None
        return alias

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentTypeError("data", type(value).__name__, "data is a tensor", "assign a tensor")
        if value.is_sparse is not self.is_sparse:
            raise AutogradError("data", "a sparse and a strided tensor", "data keeps its layout",
                                "convert it with to_dense() or to_sparse()")
        if self._key & AUTOGRAD and value.dtype.category < 2:
            raise AutogradError("data", f"values of dtype {value.dtype.name} for a tensor that requires grad",
                                "only floating-point and complex tensors have gradients", "convert them first")
        self._array = value._array
        self._key = value._key & ~(AUTOGRAD | WRAPPER) | self._key & (AUTOGRAD | WRAPPER)

    # ------------------------------------------------------------------------------------------ host values

    def _host(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array on the host; shares memory on a host-resident device, unless they are lazy."""
        entry = self._entry
        if self._key & LAZY:
            with untransformed():
                return resolved(self)._host()  # type: ignore[no-any-return]
        if entry.runtime.profile.host_resident:
            if PENDING:
                wait_for_values()
            return self._array  # type: ignore[no-any-return]
        with untransformed():
            source = self._cut().contiguous()
        host = np.empty(source._array.shape, self.dtype.numpy)
        copy_arrays(entry, host, source._array)
        return host

    def _values(self) -> np.ndarray[Any, Any]:
        """Element values as NumPy has them: dtypes that NumPy lacks are widened to float32, or complex64."""
        if self.dtype.native:
            return self._host()
        with untransformed():
            values: np.ndarray[Any, Any] = self._cut().to(arithmetic_dtype(self.dtype))._host()
            return values

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            ShapeError: The tensor has another number of elements than one.
        """
        if self._array.size != 1:
            raise ShapeError(
                "item",
                f"a tensor of shape {list(self.shape)}",
                "only one element converts to a Python number",
                "use .tolist()",
            )
        return self._values().item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._values().tolist()

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise ShapeError("bool", f"a tensor of shape {list(self.shape)}", "only one element has a truth value",
                             "use .any() or .all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(real_number("int", self.item()))

    def __float__(self) -> float:
        return float(real_number("float", self.item()))

    def __index__(self) -> int:
        if self.dtype.kind not in ("bool", "int", "uint") or self._array.size != 1:
            raise ArgumentTypeError("index", f"a tensor of shape {list(self.shape)} and dtype {self.dtype.name}",
                                    "only one integer converts to an index", "convert it with int(...)")
        return int(self.item())

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return format_tensor(self, tensor_contents)


def wrap(array: Any, key: int) -> Tensor:
    """A tensor on a handle. ``key`` holds device and dtype; ``DIM0`` is set from the shape."""
    tensor = _new(Tensor)
    tensor._array = array
    tensor._key = key if array.shape else key | DIM0
    tensor._grad = tensor._grad_fn = tensor._version_counter = tensor._base = None
    return tensor


_DETACH: Final = Custom(
    "detach(Tensor input) -> Tensor~", "The same memory, cut off from the graph.",
    lambda entry, input: detached(Tensor._cut(input)), function=False, method=False,
)
_DETACH.public = Tensor.detach
_ITEM: Final = Custom(
    "_local_scalar_dense(Tensor input) -> Scalar", "The only element as a Python number.",
    lambda entry, input: Tensor.item(input), function=False, method=False,
)
_ITEM.public = Tensor.item
