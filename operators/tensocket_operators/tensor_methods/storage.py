"""Methods of tensors that describe how and where their elements are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensocket_core.autograd.inference import is_inference
from tensocket_core.autograd.inplace import check_no_leaf
from tensocket_core.dispatch.lazy import plain_handle
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.overrides import call_torch_function, overridden
from tensocket_core.formats import check_format, contiguous_format, layout, strided
from tensocket_core.geometry import memory_of, memory_offset, normalize_axis
from tensocket_core.keys import AUTOGRAD, WRAPPER
from tensocket_core.strides import in_format, memory_order, public_strides
from tensocket_core.tensor import tensor_methods
from tensocket_plugins.contract.devices import HOST_DEVICE, Device

from .. import creation
from ..interop import sharing, storage_kinds, typed_storages, typenames
from ..interop import storage as storages

if TYPE_CHECKING:
    from tensocket_core.device import DeviceState
    from tensocket_plugins.contract.dtypes import DType


@tensor_methods
class StorageMethods:
    """Geometry and memory of a tensor."""

    __slots__ = ()

    _array: Any
    _base: Any
    _key: int
    if TYPE_CHECKING:

        @property
        def _device_state(self) -> DeviceState: ...

        @property
        def dtype(self) -> DType: ...  # noqa: D102  the tensor documents it

        @property
        def device(self) -> Device: ...  # noqa: D102  the tensor documents it

        def flip(self, *dims: int) -> Any: ...  # noqa: D102  an operator

        def new_tensor(self, data: Any) -> Any: ...  # noqa: D102  a factory

        def new_empty(self, *size: Any) -> Any: ...  # noqa: D102  a factory

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or the stride of one dimension."""
        if self._key & WRAPPER and overridden(self):
            return call_torch_function("stride", StorageMethods.stride, (self,), (self,) if dim is None else (self,
                                                                                                              dim), {})
        strides = public_strides(self._array)
        return strides if dim is None else strides[normalize_axis("stride", dim, len(strides))]

    def storage_offset(self) -> int:
        """Return the number of elements between the start of the storage and the first element."""
        return memory_offset(self._array)

    def element_size(self) -> int:
        """Return the number of bytes of one element."""
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._array.size) * self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return a number that identifies the memory address of the first element; 0 for a tensor without elements."""
        return self._device_state.runtime.data_ptr(plain_handle(self._array)) if self._array.size else 0

    @property
    def _cdata(self) -> int:
        """Return a number that identifies the tensor itself while it lives; libraries compare parameters by it."""
        return id(self)

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether the tensor has a memory format: by default row-major order without gaps."""
        return in_format(self._array, check_format("is_contiguous", memory_format) or contiguous_format)

    @property
    def layout(self) -> layout:
        """The layout ``strided``: strides give the offset of every element."""
        return strided

    def is_set_to(self, tensor: Any) -> bool:
        """Whether another tensor has the same storage, offset, sizes and strides."""
        mine, other = self._array, tensor._array
        return (
            memory_of(mine) is memory_of(other)
            and memory_offset(mine) == memory_offset(other)
            and mine.shape == other.shape
            and public_strides(mine) == public_strides(other)
        )

    def _is_view(self) -> bool:
        """Whether the tensor is a view of another one."""
        return self._base is not None and not is_inference(self)

    # ------------------------------------------------------------------------------------------ memory

    def untyped_storage(self) -> Any:
        """Return the bytes of the memory that the tensor shares with its views."""
        return storages.storage_of(self)

    def storage(self) -> Any:
        """Return the memory that the tensor shares with its views, as elements of its dtype; deprecated, warns once."""
        typed_storages.warn_deprecated()
        return typed_storages.typed_storage_of(self)

    def _typed_storage(self) -> Any:
        return typed_storages.typed_storage_of(self)

    def storage_type(self) -> Any:
        """Return the class of storages of this dtype, such as ``FloatStorage``."""
        return storage_kinds.storage_kind(self.dtype, self.device.type)

    def set_(self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Any:
        """Use the memory of a tensor or a storage, in place; without a source, become empty.

        Args:
            source: A tensor, which also supplies the geometry unless ``size`` is given, or a storage.
            storage_offset: Elements before the first one.
            size: Shape; by default all elements of the storage.
            stride: Strides in elements; row-major by default.

        Raises:
            ArgumentTypeError: The source is neither a tensor nor a storage.
            DtypeError: The source tensor has another dtype.
            DeviceMismatch: The source is on another device.
            AutogradError: The tensor is a view that cannot change in place while gradients are recorded.
        """
        if self._key & AUTOGRAD and STATE.grad_enabled and STATE.inference is None and self._base is not None:
            check_no_leaf("set_", self)
        return storages.placed(self, source, storage_offset, size, stride)

    def is_shared(self) -> bool:
        """Whether the tensor's memory is shared with the processes that receive it."""
        return sharing.place_in_segment(plain_handle(getattr(self, "_array", None))) is not None

    def share_memory_(self) -> Any:
        """Move the memory, with all tensors on it, to memory that other processes share, unless it is there already.

        Raises:
            ArgumentTypeError: The tensor has no memory of its own.
            OutOfMemoryError: The system has no shared memory left.
        """
        return sharing.share_memory(self)

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: host memory is pageable."""
        return False

    def pin_memory(self, device: Any = None) -> Any:
        """Return the tensor itself; copies to devices need no pinned memory."""
        return self

    def record_stream(self, stream: Any) -> None:
        """Do nothing: memory lives until all streams that use it are done."""

    def new(self, *data: Any, device: Any = None, **named: Any) -> Any:
        """Return a tensor of this dtype and device: of given sizes or values, or on the memory of a tensor or storage.

        Raises:
            ArgumentTypeError: A tensor has another dtype.
            ArgumentError: A storage has another dtype.
        """
        return creation.make_legacy("new", data, named, self.dtype, self.device if device is None else device)

    # ------------------------------------------------------------------------------------------ kinds of tensors

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is in host memory."""
        return self.device.type == HOST_DEVICE

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a device called ``cuda``."""
        return self.device.type == "cuda"

    is_sparse = is_quantized = is_nested = is_mkldnn = is_xpu = is_mps = is_sparse_csr = False
    #: Only graphs give names to their tensors.
    name = None

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.kind not in ("uint", "bool")

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero."""
        return bool(self)

    def is_same_size(self, other: Any) -> bool:
        """Whether another tensor has the same shape."""
        return bool(self._array.shape == other._array.shape)

    def ndimension(self) -> int:
        """Return the number of dimensions."""
        return len(self._array.shape)

    def dim_order(self) -> tuple[int, ...]:
        """Return the dimensions from the slowest to the fastest in memory."""
        return tuple(memory_order(self._array.shape, [public_strides(self._array)]))

    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.shape else self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the tensor's type name, ``tensocket.FloatTensor``; with a dtype or name, the converted tensor."""
        return typenames.type_name(self) if dtype is None else typenames.converted(self, dtype)
