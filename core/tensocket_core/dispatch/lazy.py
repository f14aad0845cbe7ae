"""Lazily conjugated and negated tensors: views whose memory holds the conjugates or negatives of their elements.

Two bits of the key mark them. The handle is a ``Lazy`` object, which has only the layout of the memory. It is not an
array, so code that reads elements before it resolves them raises an error instead of computing wrong values.
``dispatch.conjugation`` resolves the operands of all operators.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from ..geometry import as_strided, element_strides, memory_of, memory_offset
from ..keys import AUTOGRAD, CONJ, LAZY, NEG, WRAPPER
from ..tensor import Tensor
from .call import call
from .registry import OPERATORS

_new = object.__new__


class Lazy:
    """A handle on memory that holds the conjugates or negatives of the elements.

    Attributes:
        plain: The handle of the memory.
    """

    # Machine code reads the first word of an object as the address of an array's elements: here it is 0.
    __slots__ = ("_address", "plain")

    #: NumPy's functions reject it.
    __array_ufunc__: Final = None

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise TypeError("elements of a lazily conjugated or negated tensor are read before they were resolved")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self.plain.shape  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.plain.size)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.plain.shape)

    @property
    def dtype(self) -> Any:
        """The plain handle's dtype."""
        return self.plain.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, like those of handles on devices."""
        return element_strides(self.plain)

    @property
    def offset(self) -> int:
        """Number of elements between the start of the memory and the first element."""
        return memory_offset(self.plain)

    @property
    def storage(self) -> Any:
        """Owner of the memory."""
        return memory_of(self.plain)

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Lazy:
        """Return a handle with another layout; the offset counts from the start of the memory."""
        return Lazy(as_strided(self.plain, shape, strides, offset - memory_offset(self.plain)))


def plain_handle(array: Any) -> Any:
    """Return the handle of the memory, of a lazy or any other tensor's handle."""
    return array.plain if type(array) is Lazy else array


def handle_with_bits(array: Any, before: int, after: int) -> Any:
    """Return a handle on the memory of ``array``, with key bits ``before``, for a tensor with key bits ``after``."""
    plain = plain_handle(array) if before & LAZY else array
    return Lazy(plain) if after & LAZY and type(plain) is not Lazy else plain


def in_memory(tensor: Any) -> Any:
    """Return the memory of a lazy tensor as a plain tensor without history; in-place changes count for both."""
    alias = _new(Tensor)
    alias._array = plain_handle(tensor._array)
    alias._key = tensor._key & ~(AUTOGRAD | WRAPPER | LAZY)
    alias._grad = alias._grad_fn = alias._base = None
    if tensor._version_counter is None:
        tensor._version_counter = [0]
    alias._version_counter = tensor._version_counter
    return alias


def with_lazy_bits(tensor: Any, bits: int) -> Any:
    """Return a plain tensor, conjugated and negated according to bits of a key; itself if neither bit is set."""
    if bits & CONJ:
        tensor = call(OPERATORS["conj_physical"], tensor)
    return call(OPERATORS["neg"], tensor) if bits & NEG else tensor


def resolved(tensor: Any) -> Any:
    """Return the elements of a lazy tensor as a new tensor without history."""
    return with_lazy_bits(in_memory(tensor), tensor._key)


def write_elements(tensor: Any, values: Any) -> None:
    """Write ``values`` to the elements of a lazy tensor, unrecorded."""
    call(OPERATORS["copy_"], in_memory(tensor), with_lazy_bits(values, tensor._key))


__all__ = ["Lazy", "handle_with_bits", "in_memory", "plain_handle", "resolved", "with_lazy_bits", "write_elements"]
