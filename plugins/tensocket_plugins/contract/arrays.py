"""Array handles, the arguments of kernels. On the host a handle is a ``numpy.ndarray``; elsewhere a ``DeviceArray``.

Both support the same few view operations (``transpose``, ``reshape(copy=False)``, basic indexing, ``as_strided``), so
views are metadata of the runtime and never a call into a backend.
"""

from __future__ import annotations

import operator
from typing import Any

from .dtypes import DType


class Block:
    """A block of device memory from an allocator.

    Attributes:
        buffer: The argument that the backend's kernels take: an opaque object, never an interior pointer.
        nbytes: Usable bytes.
        stream: The stream it was allocated for.
        streams: Other streams that used it, recorded by the runtime; None if there are none.
    """

    __slots__ = ("buffer", "nbytes", "stream", "streams")

    def __init__(self, buffer: Any, nbytes: int, stream: Any) -> None:
        self.buffer = buffer
        self.nbytes = nbytes
        self.stream = stream
        self.streams: set[Any] | None = None


class Storage:
    """Owner of one block, which it returns to its allocator when the last array on it is gone.

    Attributes:
        block: The block.
        allocator: The block's allocator.
        nbytes: Bytes that were requested; the block may have more.
    """

    __slots__ = ("__weakref__", "allocator", "block", "nbytes")

    def __init__(self, block: Block, allocator: Any, nbytes: int | None = None) -> None:
        self.block = block
        self.allocator = allocator
        self.nbytes = block.nbytes if nbytes is None else nbytes

    def __del__(self) -> None:
        # During interpreter exit the allocator may already be gone; then the block need not be freed.
        free = getattr(getattr(self, "allocator", None), "free", None)
        if free is not None:
            free(self.block)

    @property
    def buffer(self) -> Any:
        """The opaque buffer of the block."""
        return self.block.buffer


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return row-major strides in elements.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements are in row-major order without gaps; strides of dimensions of size 1 do not count."""
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def view_strides(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides, in elements, of an array reshaped to ``new`` without a copy; None if that needs a copy."""
    if is_contiguous(shape, strides):
        return contiguous_strides(new)
    result = [0] * len(new)
    axis, k = len(new) - 1, len(shape) - 1
    while k >= 0:
        # The longest run of old dimensions that one stride describes.
        size, step = shape[k], strides[k]
        while k > 0 and (shape[k - 1] == 1 or size == 1 or strides[k - 1] == step * size):
            if size == 1:
                step = strides[k - 1]
            size *= shape[k - 1]
            k -= 1
        k -= 1
        covered = 1
        while axis >= 0 and (covered < size or new[axis] == 1):
            result[axis] = step * covered
            covered *= new[axis]
            axis -= 1
        if covered != size:
            return None
    return tuple(result) if axis < 0 else None


class DeviceArray:
    """A strided view of a storage. Strides and offset count elements."""

    __slots__ = ("dtype", "offset", "shape", "storage", "strides")

    def __init__(self, storage: Any, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
                 offset: int) -> None:
        self.storage = storage
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, strides={self.strides}, offset={self.offset}, {self.dtype.name})"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether the elements are in row-major order without gaps."""
        return is_contiguous(self.shape, self.strides)

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> DeviceArray:
        """Return a view with the given layout; ``offset`` counts from the start of the storage."""
        return DeviceArray(self.storage, self.dtype, shape, strides, offset)

    def transpose(self, axes: tuple[int, ...]) -> DeviceArray:
        """Return a view with permuted dimensions; ``axes`` are non-negative."""
        shape, strides = self.shape, self.strides
        return DeviceArray(self.storage, self.dtype, tuple(shape[i] for i in axes), tuple(strides[i] for i in axes),
                           self.offset)

    def reshape(self, shape: tuple[int, ...], *, copy: bool | None = None) -> DeviceArray:
        """Return a view of the given shape (without -1).

        Raises:
            ValueError: The strides do not allow a view; the runtime is responsible for copying.
        """
        strides = view_strides(self.shape, self.strides, shape)
        if strides is None:
            raise ValueError("a copy is needed to reshape")
        return DeviceArray(self.storage, self.dtype, shape, strides, self.offset)

    def __getitem__(self, index: Any) -> DeviceArray:
        """Index with ints, slices, None and Ellipsis by NumPy's rules; the caller checks bounds."""
        items: tuple[Any, ...] = index if type(index) is tuple else (index,)
        taken = sum(item is not None and item is not Ellipsis for item in items)
        rest = (slice(None),) * (self.ndim - taken)
        at = items.index(Ellipsis) if Ellipsis in items else len(items)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for item in (*items[:at], *rest, *items[at + 1 :]):
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = self.shape[axis], self.strides[axis]
            axis += 1
            if isinstance(item, slice):
                start, stop, step = item.indices(size)
                shape.append(len(range(start, stop, step)))
                strides.append(stride * step)
                offset += start * stride if shape[-1] else 0
            else:
                position = operator.index(item)
                offset += (position + size if position < 0 else position) * stride
        return DeviceArray(self.storage, self.dtype, tuple(shape), tuple(strides), offset)


#: Either kind of handle; the runtime treats both alike.
Array = Any
