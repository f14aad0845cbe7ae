"""Dispatch keys: everything that decides how an operator runs, in one int.

A tensor's key holds a one-hot dtype, ``DIM0`` for zero-dimensional tensors, ``AUTOGRAD`` if it requires a gradient,
and one bit per opened device. The keys of an operator's arguments are or-ed; a Python number adds a bit for its kind,
on the left or the right. One dict lookup of the result settles dtype, promotion, device and autograd.

    bits 0-17   dtype (``DType.bit``)
    bit  18     autocast is on in this thread
    bit  19     an argument is a zero-dimensional tensor
    bit  20     an argument requires a gradient
    bit  21     an argument leaves the fast path: a tensor of an overriding subclass or of a transform
    bits 22-25  a Python bool, int, float or complex on the right; 26-29 on the left
    bit  30     an argument is a lazily conjugated tensor; bit 31: a lazily negated one
    bits 32-    opened devices
"""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType

DTYPE_MASK: Final = (1 << 18) - 1
AUTOCAST: Final = 1 << 18
DIM0: Final = 1 << 19
AUTOGRAD: Final = 1 << 20
WRAPPER: Final = 1 << 21

SCALAR_SHIFT: Final = 22
#: Python type of a number to its key bit, as the right operand.
SCALAR: Final[dict[type, int]] = {bool: 1 << 22, int: 1 << 23, float: 1 << 24, complex: 1 << 25}
#: The same for optional operands: None is the absence of one.
OPTIONAL: Final[dict[type, int]] = {**SCALAR, type(None): 0}
#: The same as the left operand.
SCALAR_LEFT: Final[dict[type, int]] = {kind: bit << 4 for kind, bit in SCALAR.items()}
SCALAR_MASK: Final = 0xFF << SCALAR_SHIFT

#: Memory holds the conjugates, or the negatives, of the elements; see ``dispatch.lazy``.
CONJ: Final = 1 << 30
NEG: Final = 1 << 31
LAZY: Final = CONJ | NEG

DEVICE_SHIFT: Final = 32
DEVICE_MASK: Final = -1 << DEVICE_SHIFT
#: Key bits that a gradient shares with its tensor.
OPTIONS: Final = DEVICE_MASK | DTYPE_MASK

#: Key bit of a dtype to the dtype.
DTYPE_OF: Final[dict[int, DType]] = {1 << dtype.bit: dtype for dtype in dtypes.ALL}
#: Key bits of dtypes that have gradients.
DIFFERENTIABLE: Final = sum(1 << dtype.bit for dtype in dtypes.ALL if dtype.kind in ("float", "complex"))

_FLAGS: Final = (("dim0", DIM0), ("wrapper", WRAPPER), ("autocast", AUTOCAST), ("autograd", AUTOGRAD), ("conj", CONJ),
                 ("neg", NEG))


def dtype_bit(dtype: DType) -> int:
    """Return the key bit of a dtype."""
    return 1 << dtype.bit


def describe_key(key: int) -> str:
    """Return a description of a key, for traces and listings.

    >>> describe_key(AUTOGRAD | DIM0 | 1 << dtypes.float32.bit)
    'float32 dim0 autograd'
    """
    words = [dtype.name for bit, dtype in DTYPE_OF.items() if key & bit]
    words += [name for name, bit in _FLAGS if key & bit]
    words += [f"number:{kind.__name__}" for kind, bit in SCALAR.items() if key & (bit | bit << 4)]
    return " ".join(words)
