"""Operators on tensors and their memory: resizing in place, comparison of whole tensors, in-place forms."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.autograd.view_history import reattach_view
from tensocket_core.dispatch.lazy import handle_with_bits, in_memory, plain_handle
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.versions import bump
from tensocket_core.formats import check_format, contiguous_format, preserve_format
from tensocket_core.geometry import as_strided, memory_nbytes, memory_of, memory_offset
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, LAZY
from tensocket_core.promotion import get_default_dtype
from tensocket_core.strides import format_strides, reach, suggested_format
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, DtypeError, ShapeError

from ..creation.base import uninitialized
from ..interop.exported import has_fixed_size
from ..kinds.composite import composite
from .views import sizes


def _move_to_handle(input: Any, array: Any) -> None:
    """Move a tensor to another handle."""
    input._array = handle_with_bits(array, 0, input._key)
    input._key = input._key & ~DIM0 | (0 if array.shape else DIM0)


def _plain(input: Any) -> Any:
    """Return the tensor as it is stored in memory, without history."""
    return in_memory(input) if input._key & LAZY else input.detach()


_INTEGERS: Final = {int}


def _resize_path(key: int, state: Any, next_path: Any) -> Any:
    """Return a shortcut for calls that change nothing; the function serves all others, and raises all errors."""
    if key & AUTOGRAD:
        return None

    def keep_sizes(input: Any, *size: Any, memory_format: Any = None) -> Any:
        shape = size[0] if len(size) == 1 else size
        if memory_format is None and shape == input._array.shape and {*map(type, shape)} == _INTEGERS:
            return input
        return next_path(input, *size, memory_format=memory_format)

    return keep_sizes


@composite("resize_(Tensor! input, int... size, *, any memory_format=None) -> Tensor", function=False, lazy=True,
           host_path=_resize_path)
def resize_(input: Any, *size: Any, memory_format: Any = None) -> Any:
    """Resize in place: elements in memory stay, and elements that the storage had no room for are uninitialised.

    If the storage is too small, the tensor moves to a new one. Other tensors stay on the old storage, which PyTorch
    would enlarge for all of them.

    Raises:
        AutogradError: The tensor requires grad.
        ShapeError: A size is negative.
    """
    if input._key & AUTOGRAD and STATE.inference is None:
        raise AutogradError("resize_", "a tensor that requires grad", "a resized tensor has no history",
                            "detach() it first")
    before = input._array
    resize_unrecorded(input, sizes(size), memory_format)
    if input._array is not before:
        bump(input)
        if input._grad_fn is not None and input._base is not None and input._fixed_view is None:
            reattach_view(input)
    return input


def resize_unrecorded(input: Any, shape: tuple[int, ...], memory_format: Any = None) -> None:
    """Resize as ``resize_`` does, but ignore gradients and leave the version as it is."""
    if any(n < 0 for n in shape):
        raise ShapeError("resize_", f"size {list(shape)}", "sizes are not negative", "pass non-negative sizes")
    if math.prod(max(n, 1) for n in shape) * input.dtype.itemsize >= 1 << 63:
        raise ShapeError("resize_", f"size {list(shape)}: overflow", "bytes and strides fit 63 bits",
                         "pass smaller sizes")
    format = check_format("resize_", memory_format) or contiguous_format
    if shape == input._array.shape and format is contiguous_format:
        return
    strides = contiguous_strides(shape) if format is preserve_format else format_strides("resize_", shape, format)
    array, state = plain_handle(input._array), input._device_state
    first = memory_offset(array)
    held = memory_nbytes(array) // input.dtype.itemsize
    if first + reach(shape, strides) > held:
        if has_fixed_size(memory_of(array)):
            raise ArgumentError("resize_", f"size {list(shape)} for memory of {held} elements that others have, too",
                                "Trying to resize storage that is not resizable", "clone() it first")
        grown = uninitialized((first + reach(shape, strides),), input.dtype, state)
        kept = _plain(input).as_strided((held,), (1,), 0)
        target = _plain(input)
        target._array = grown[0:held]
        target._version_counter = None  # resizing counts as one change
        target._key &= ~DIM0
        target.copy_(kept)
        _move_to_handle(input, as_strided(grown, shape, strides, first))
        return
    _move_to_handle(input, as_strided(array, shape, strides, 0))


def _resize_as_path(key: int, state: Any, next_path: Any) -> Any:
    """Return a shortcut for calls that change nothing; the function serves all others, and raises all errors."""

    def keep_sizes(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
        if memory_format is None and input._array.shape == the_template._array.shape and not input._key & AUTOGRAD:
            return input
        return next_path(input, the_template, memory_format=memory_format)

    return keep_sizes


@composite("resize_as_(Tensor! input, Tensor the_template, *, any memory_format=None) -> Tensor", lazy=True,
           host_path=_resize_as_path)
def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """Apply ``resize_`` with another tensor's shape; ``preserve_format`` also takes its memory format."""
    if memory_format is preserve_format:
        memory_format = suggested_format(tuple(the_template.shape), the_template.stride())
    return input.resize_(tuple(the_template.shape), memory_format=memory_format)


def _equal_path(key: int, state: Any, next_path: Any) -> Any:
    """Return a closure that compares few elements of one dtype by NumPy."""
    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    if dtype is None or not dtype.native:
        return None
    # Views of memory compare elements as C does; they know these dtypes.
    few = _FEW if dtype.kind in ("bool", "int", "uint") or dtype.name in ("float32", "float64") else -1

    def host_equal(input: Any, other: Any) -> bool:
        x, y = input._array, other._array
        if x.shape != y.shape:
            return False
        if x.size <= few:
            return x.data == y.data  # type: ignore[no-any-return]
        # All truth values of a comparison are bytes of 1: that takes a fifth of the time of ``all``.
        return b"\0" not in (x == y).tobytes() if x.size <= _SMALL else next_path(input, other)

    return host_equal


#: Most elements that views of memory compare; NumPy takes as long for 256 (``timeit`` of both).
_FEW: Final = 128
#: Most elements that NumPy compares.
_SMALL: Final = 1 << 12


@composite("equal(Tensor input, Tensor other) -> any", host_path=_equal_path)
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements."""
    if input.shape != other.shape:
        return False
    return bool((input.detach() == other.detach()).all().item()) if input.numel() else True


@composite("isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor")
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Return |input - other| <= atol + rtol * |other| for each element; infinities are close only to themselves.

    Raises:
        DtypeError: The tensors have different dtypes.
        ShapeError: A tolerance is negative.
    """
    if input.dtype is not other.dtype:
        raise DtypeError("isclose", f"{input.dtype.name} and {other.dtype.name}", "both tensors have one dtype",
                         "convert one of them with .to(dtype)")
    if rtol < 0 or atol < 0:
        raise ShapeError("isclose", f"rtol={rtol}, atol={atol}", "tolerances are not negative", "pass positive ones")
    a, b = input.detach(), other.detach()
    close = a == b
    if equal_nan and a.dtype.category > 1:
        close = close | (a.isnan() & b.isnan())
    if rtol == 0 and atol == 0:
        return close
    if a.dtype.category < 2:
        wide = get_default_dtype()
        a, b = a.to(wide), b.to(wide)
    distance = (a - b).abs()
    return close | (distance.isfinite() & (distance <= atol + rtol * b.abs()))


@composite("allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> any")
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as defined by ``isclose``."""
    return bool(functions.isclose(input, other, rtol, atol, equal_nan).all().item())


@composite("narrow_copy(Tensor input, int dim, int start, int length) -> Tensor", replayable=True)
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """Return ``narrow`` as a copy.

    Raises:
        ShapeError: The dimension does not exist.
    """
    if dim >= input.ndim:
        raise ShapeError("narrow_copy", f"dim {dim} of a {input.ndim}-dimensional tensor", "there is such a dimension",
                         "pass a smaller dim")
    return input.narrow(dim, start, length).clone()



@composite("tril_(Tensor! input, int diagonal=0) -> Tensor", function=False)
def tril_(input: Any, diagonal: int = 0) -> Any:
    """Apply ``tril`` in place."""
    return input.copy_(input.tril(diagonal))


@composite("triu_(Tensor! input, int diagonal=0) -> Tensor", function=False)
def triu_(input: Any, diagonal: int = 0) -> Any:
    """Apply ``triu`` in place."""
    return input.copy_(input.triu(diagonal))


@composite("cumsum_(Tensor! input, int dim, *, any dtype=None) -> Tensor", function=False)
def cumsum_(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Apply ``cumsum`` in place."""
    return input.copy_(input.cumsum(dim, dtype=dtype))


@composite("cumprod_(Tensor! input, int dim, *, any dtype=None) -> Tensor", function=False)
def cumprod_(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Apply ``cumprod`` in place."""
    before = input.clone() if input._key & AUTOGRAD else input
    return input.copy_(before.cumprod(dim, dtype=dtype))
