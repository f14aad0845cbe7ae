"""Methods of tensors that tell how and where their elements are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .execute.geometry import contiguous_strides, element_strides, memory_of, memory_offset, normalize_axis
from .execute.layout import in_format
from .formats import check_format, contiguous_format, layout, strided

if TYPE_CHECKING:
    from tensocket_plugins.contract.dtypes import DType

    from .device import DeviceEntry


def public_strides(array: Any) -> tuple[int, ...]:
    """Strides of a handle as PyTorch has them, in elements: a dimension of size 1 has a stride, too."""
    shape, strides = array.shape, element_strides(array)
    if 0 in shape and not any(strides):
        return contiguous_strides(shape)
    if 0 not in strides:
        return strides
    result, after = list(strides), 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1 and result[axis] == 0:
            result[axis] = after
        after = shape[axis] * result[axis]
    return tuple(result)


class Surface:
    """Geometry and memory of a tensor."""

    __slots__ = ()

    _array: Any
    _base: Any
    if TYPE_CHECKING:

        @property
        def _entry(self) -> DeviceEntry: ...

        @property
        def dtype(self) -> DType: ...  # noqa: D102  the tensor documents it

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements, or the stride of one dimension."""
        strides = public_strides(self._array)
        return strides if dim is None else strides[normalize_axis("stride", dim, len(strides))]

    def storage_offset(self) -> int:
        """Elements between the start of the storage and the first element."""
        return memory_offset(self._array)

    def element_size(self) -> int:
        """Bytes of one element."""
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
        """A number that identifies the first element's place in memory."""
        return self._entry.runtime.data_ptr(self._array)

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether elements lie as a memory format says: by default in row-major order without gaps."""
        return in_format(self._array, check_format("is_contiguous", memory_format) or contiguous_format)

    @property
    def layout(self) -> layout:
        """``strided``: every element has an offset that strides tell."""
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
        return self._base is not None
