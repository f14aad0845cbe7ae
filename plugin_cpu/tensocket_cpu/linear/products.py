"""Matrix products of every dtype, registered as kernels: floats by BLAS, narrow numbers by the backend's own code.

On processors that lack the instructions for that code, 16-bit floats and integers also go through BLAS. Without a BLAS
that this backend can call, NumPy multiplies.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.contract.launch_recorder import wants_kernels
from tensocket_plugins.ir.scalar import bfloat16_to_float32
from tensocket_plugins.kit import host_linalg

from ..threads.pool import in_children

if TYPE_CHECKING:
    from ..lowp_gemm.products import LowPrecisionProducts
    from .halves import Halves

Array = NDArray[Any]
Empty = Callable[[tuple[int, ...], Any], Array]
#: ``(x, y, out=None, *, add=False)``, see ``gemm.Products``.
Multiply = Callable[..., Array]

FLOATS: Final = ("float32", "float64", "complex64", "complex128")
HALVES: Final = ("float16", "bfloat16")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: The rows of 16-bit floats to convert at once: a block of 1024 columns stays in the second-level cache.
_BLOCK: Final = 128
#: The multiplications up to which NumPy is faster: its call is cheaper, and its integer loop needs no floats.
_FEW: Final = 1 << 12
#: The same for batches: the products of 4 x 32 x 32 matrices take NumPy 5 microseconds, and the workers' loop 15.
_FEW_IN_BATCHES: Final = 1 << 16
#: The most terms of a sum of 16-bit products that double precision holds exactly: 2**32 * 2**21 == 2**53.
_LONGEST: Final = 1 << 21


class NumpyProducts:
    """The products of ``Products``, computed by NumPy."""

    def __call__(self, x: Array, y: Array, out: Array | None = None, bias: Array | None = None) -> Array:
        """Multiply matrices; see ``Products``."""
        made = np.asarray(np.matmul(x, y, out))
        return made if bias is None else np.add(made, bias, made)


class Parts:
    """The parts of the kernels, built when the first kernel needs them.

    Args:
        products: Builds the products of BLAS's own dtypes.
        halves: Builds the conversions of a 16-bit dtype.
        narrow: Builds the products of a narrow dtype; None if the processor cannot run them.
        empty: ``empty(shape, dtype)`` allocates results.
    """

    def __init__(self, products: Callable[[], Multiply], halves: Callable[[str], Halves],
                 narrow: Callable[[str], LowPrecisionProducts | None], empty: Empty) -> None:
        self._make, self._halves, self._narrow = products, halves, narrow
        self._lock = threading.Lock()
        self._made: dict[str, Halves] = {}
        self._made_narrow: dict[str, LowPrecisionProducts | None] = {}
        self.empty = empty
        self.products: Multiply = self._first
        in_children(self, Parts._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def _first(self, x: Array, y: Array, out: Array | None = None, bias: Array | None = None) -> Array:
        with self._lock:
            if self.products == self._first:
                self.products = self._make()
        return self.products(x, y, out, bias)

    def halves(self, dtype: str) -> Halves:
        """Return the conversions of a 16-bit dtype."""
        if dtype not in self._made:
            with self._lock:
                self._made[dtype] = self._made.get(dtype) or self._halves(dtype)
        return self._made[dtype]

    def narrow(self, dtype: str) -> LowPrecisionProducts | None:
        """Return the products of a narrow dtype; None if they go through BLAS."""
        if dtype not in self._made_narrow:
            with self._lock:
                if dtype not in self._made_narrow:
                    self._made_narrow[dtype] = self._narrow(dtype)
        return self._made_narrow[dtype]


def matmul_floats(parts: Parts) -> Callable[[Array, Array], Array]:
    """Return the product of BLAS's dtypes; either operand, or both, may be a vector."""

    def matmul(x: Array, y: Array) -> Array:
        rank = x.ndim
        if rank == 2 == y.ndim:
            # ``dot`` avoids the machinery of a ufunc: it costs a third of ``np.matmul``.
            few = x.size * y.shape[1] <= _FEW and not wants_kernels()
            return x.dot(y) if few else parts.products(x, y)
        if rank > 1 and y.ndim > 1:
            few = x.size * y.shape[-1] <= _FEW_IN_BATCHES >= y.size * x.shape[-2] and not wants_kernels()
            return np.asarray(np.matmul(x, y)) if few else parts.products(x, y)
        if x.size * y.size <= _FEW * x.shape[-1]:
            return np.asarray(x.dot(y) if rank == 1 == y.ndim else np.matmul(x, y))
        inner = getattr(parts.products, "inner", None) if rank == 1 == y.ndim else None
        if inner is not None and (made := inner.of_vectors(x, y)) is not NotImplemented:
            return made  # type: ignore[no-any-return]
        left, right = x if rank > 1 else x[None], y if y.ndim > 1 else y[:, None]
        lead = left.shape[:-2] or right.shape[:-2]
        out = parts.empty((*lead, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ())), x.dtype)
        parts.products(left, right, out.reshape((*lead, left.shape[-2], right.shape[-1])))
        return out

    return matmul


def linear_floats(parts: Parts) -> Callable[[Array, Array, Array | None], Array]:
    """Return ``x @ weight.T + bias`` of BLAS's dtypes: the routine adds large products to rows of the bias."""

    def linear(x: Array, weight: Array, bias: Array | None) -> Array:
        transposed = weight.T
        if bias is None:
            return matmul(x, transposed)
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or x.shape[-1] != weight.shape[1]:
            raise ValueError("the shapes do not fit")
        if x.size * weight.shape[0] <= _FEW and (x.ndim == 2 or x.flags.c_contiguous) and x.size:
            rows: Array = (x if x.ndim == 2 else x.reshape(-1, x.shape[-1])).dot(transposed)
            np.add(rows, bias, rows)
            return rows if x.ndim == 2 else rows.reshape(*x.shape[:-1], weight.shape[0])
        return parts.products(x, transposed, bias=bias)

    matmul = matmul_floats(parts)
    return linear


def matmul_halves(parts: Parts, dtype: str, x: Array, y: Array) -> Array:
    """Multiply 16-bit floats, accumulated in float32 and rounded once; operands may be vectors."""
    if x.ndim < 2 or y.ndim < 2:
        made = matmul_halves(parts, dtype, x if x.ndim > 1 else x[None], y if y.ndim > 1 else y[:, None])
        return made.reshape((*made.shape[:-2], *made.shape[-2:-1] * (x.ndim > 1), *made.shape[-1:] * (y.ndim > 1)))
    own = parts.narrow(dtype)
    if own is not None:
        return own(x, y)
    halves, empty, wide = parts.halves(dtype), parts.empty, np.dtype(np.float32)

    def widened(a: Array) -> Array:
        a = np.ascontiguousarray(a)
        made = empty(a.shape, wide)
        halves.widen(made, a)
        return made

    # The transpose of a contiguous matrix is converted in its own layout.
    right = widened(y.swapaxes(-1, -2)).swapaxes(-1, -2) if y.swapaxes(-1, -2).flags.c_contiguous else widened(y)
    if y.ndim > 2 or not x.flags.c_contiguous:
        made = parts.products(widened(x), right)
        out = empty(made.shape, x.dtype)
        halves.narrow(out, made)
        return out
    if x.shape[-1] != y.shape[0]:
        raise ValueError("matrices do not fit")
    out = empty((*x.shape[:-1], y.shape[1]), x.dtype)
    count = math.prod(x.shape[:-1])
    rows, results = x.reshape((count, x.shape[-1])), out.reshape((count, y.shape[1]))
    block = max(_BLOCK, -(-count // 8))
    for begin in range(0, count, block):
        part = rows[begin:begin + block]
        halves.narrow(results[begin:begin + block], parts.products(widened(part), right))
    return out


def linear_halves(parts: Parts, dtype: str, x: Array, weight: Array, bias: Array | None) -> Array:
    """Return ``x @ weight.T + bias`` of 16-bit floats, rounded once.

    Raises:
        ValueError: The shapes do not fit, or no code adds the bias, so that the caller must add it to the product.
    """
    if bias is None:
        return matmul_halves(parts, dtype, x, weight.T)
    own = parts.narrow(dtype)
    if own is None or not x.shape[-1] or bias.shape != weight.shape[:1]:
        raise ValueError("products with such a bias are sums")
    return own(x, weight.T, bfloat16_to_float32(bias) if dtype == "bfloat16" else bias.astype(np.float32))


def matmul_integers(parts: Parts, x: Array, y: Array) -> Array:
    """Multiply integers, exactly but modulo the dtype's range.

    The backend's own code multiplies integers of up to 32 bits. Otherwise, BLAS multiplies parts of 16 bits in double
    precision, which holds their sums exactly; bits above the dtype's are never computed.
    """
    depth = x.shape[-1]
    if x.size * y.shape[-1] <= _FEW or depth > _LONGEST:
        return np.asarray(np.matmul(x, y))
    own = parts.narrow(x.dtype.name)
    if own is not None:
        return own(x, y)
    if x.itemsize <= 2:
        exact = np.float32 if x.itemsize == 1 and depth << 16 <= 1 << 24 else np.float64
        return parts.products(x.astype(exact), y.astype(exact)).astype(np.int64).astype(x.dtype)
    unsigned = np.dtype(f"u{x.itemsize}")
    lefts, rights = _pieces(x.view(unsigned)), _pieces(y.view(unsigned))
    total: Any = None
    for i, left in enumerate(lefts):
        for j, right in enumerate(rights[:len(rights) - i]):
            term = parts.products(left, right).astype(np.uint64).astype(unsigned) << unsigned.type(16 * (i + j))
            total = term if total is None else np.add(total, term, total)
    return np.asarray(total.view(x.dtype))


def _pieces(x: Array) -> list[Array]:
    """Return the 16-bit digits of unsigned integers, lowest first, as float64."""
    return [(x >> x.dtype.type(16 * k) & x.dtype.type(0xFFFF)).astype(np.float64) for k in range(x.itemsize // 2)]


def register_products(table: KernelTable, parts: Parts) -> None:
    """Register ``matmul(x, y)`` and ``linear(x, weight, bias)``, and install ``matmul`` for host operators."""
    host_linalg.install("matmul", lambda x, y: parts.products(x, y))
    table.register("matmul", matmul_floats(parts), dtypes=FLOATS, direct=True)
    table.register("linear", linear_floats(parts), dtypes=FLOATS, direct=True)
    for dtype in HALVES:
        table.register("matmul", partial(matmul_halves, parts, dtype), dtypes=(dtype,), direct=True)
        table.register("linear", partial(linear_halves, parts, dtype), dtypes=(dtype,), direct=True)
    table.register("matmul", partial(matmul_integers, parts), dtypes=INTEGERS, direct=True)

