"""Matrix products through the routine ``gemm``, the backend's own or that of a BLAS, divided over the workers.

One piece of machine code, ``products``, serves every layout: a batch with up to two strides per operand (0 if it is
broadcast), matrices whose rows or columns are contiguous, and a division of the rows or columns of the result into
tiles. An iteration is one tile of a matrix of the batch; adjacent tiles of a matrix are one call of the routine.

The routine has one thread; the workers run it on parts of the product. On a Zen 5 in float32, half of a product of
1024 x 1024 matrices takes half as long as the whole (5.1 and 10.1 ms on one core). So nothing is lost against threads
of the library's own, which would compete with the workers for the cores.

BLAS is column-major, as Fortran is. It reads a row-major matrix as its transpose, and the transpose of A @ B is
B^T @ A^T: called with B first and A second, it writes a row-major C.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.launch_recorder import RECORDERS, forbid_replay, note_launch

from ..code.executable import LaunchWords
from ..code.pointers import address_of
from ..float_gemm.addresses import gemm_address
from ..float_gemm.routine import packs_right
from ..threads.pool import Entry, ThreadPool
from .blas import Library
from .inner_products import InnerProducts

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

#: The names of the arguments; each is one word.
_WORDS: Final = ("gemm", "trans_b", "trans_a", "n", "m", "k", "b", "ldb", "a", "lda", "c", "ldc", "alpha", "alpha_high",
                 "beta", "beta_high", "tiles", "step", "by_rows", "tile_a", "tile_b", "tile_c", "inner", "inner_a",
                 "inner_b", "inner_c", "outer_a", "outer_b", "outer_c", "bias", "tile_bias", "item_bytes")
_PACK: Final = struct.Struct(f"={len(_WORDS)}q").pack
#: Positions of the addresses of both operands and the result, and of these and the bias.
_DATA: Final = tuple([_WORDS.index(name) for name in "abc"])
_DATA_WITH_BIAS: Final = (*_DATA, _WORDS.index("bias"))
#: Whether these arrays are written.
_WRITTEN: Final = (False, False, True, False)
#: BLAS's letters for column-major matrices, which are row-major here, and for transposed ones.
PLAIN, TRANSPOSED = ord("N"), ord("T")
#: The multiplications that are worth a second thread: about 10 microseconds.
_GRAIN: Final = 1 << 20
#: The products of a batch, as a multiple of the threads, from which on none of them is divided.
_SHARES: Final = 4
#: The rows or columns of a tile, those of a panel: routines compute blocks of this size or of a fraction.
_TILE: Final = 48
#: The units in which rows and columns are compared: if the routine packs nothing for a part, or the whole other matrix.
_FEWEST: Final = 96
_FEWEST_PACKED: Final = 256
#: The same for a matrix times a vector, which takes as long as reading the matrix.
_VECTOR_GRAIN: Final = 1 << 17
_VECTOR_TILE: Final = 64

_LETTERS: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_ONES: Final = {"float32": struct.pack("=ffd", 1, 0, 0), "float64": struct.pack("=dd", 1, 0),
                "complex64": struct.pack("=ffd", 1, 0, 0), "complex128": struct.pack("=dd", 1, 0)}

_TEXT: Final = Template("""\
define void @products(ptr %args, i64 %begin, i64 %end) {
entry:
  %n.at = alloca i64
  %m.at = alloca i64
$loads
  %by.rows = icmp ne i64 %by_rows, 0
  %extent = select i1 %by.rows, i64 %m, i64 %n
$places
  br label %next
next:
  %u = phi i64 [%begin, %entry], [%until, %done]
  %more = icmp slt i64 %u, %end
  br i1 %more, label %one, label %out
one:
  %item = sdiv i64 %u, %tiles
  %base = mul i64 %item, %tiles
  %tile = sub i64 %u, %base
  %whole = add i64 %base, %tiles
  %until = call i64 @llvm.smin.i64(i64 %whole, i64 %end)
  %first = mul i64 %tile, %step
  %count = sub i64 %until, %u
  %wide = mul i64 %count, %step
  %rest = sub i64 %extent, %first
  %size = call i64 @llvm.smin.i64(i64 %wide, i64 %rest)
  %rows = select i1 %by.rows, i64 %size, i64 %m
  %columns = select i1 %by.rows, i64 %n, i64 %size
  store i64 %rows, ptr %m.at
  store i64 %columns, ptr %n.at
  %outer.i = sdiv i64 %item, %inner
  %outer.base = mul i64 %outer.i, %inner
  %inner.i = sub i64 %item, %outer.base
  %a.1 = mul i64 %outer.i, %outer_a
  %a.2 = mul i64 %inner.i, %inner_a
  %a.3 = mul i64 %tile, %tile_a
  %a.12 = add i64 %a.1, %a.2
  %a.123 = add i64 %a.12, %a.3
  %a.word = add i64 %a, %a.123
  %a.ptr = inttoptr i64 %a.word to ptr
  %b.1 = mul i64 %outer.i, %outer_b
  %b.2 = mul i64 %inner.i, %inner_b
  %b.3 = mul i64 %tile, %tile_b
  %b.12 = add i64 %b.1, %b.2
  %b.123 = add i64 %b.12, %b.3
  %b.word = add i64 %b, %b.123
  %b.ptr = inttoptr i64 %b.word to ptr
  %c.1 = mul i64 %outer.i, %outer_c
  %c.2 = mul i64 %inner.i, %inner_c
  %c.3 = mul i64 %tile, %tile_c
  %c.12 = add i64 %c.1, %c.2
  %c.123 = add i64 %c.12, %c.3
  %c.word = add i64 %c, %c.123
  %c.ptr = inttoptr i64 %c.word to ptr
  %has.bias = icmp ne i64 %bias, 0
  br i1 %has.bias, label %fill, label %multiply
fill:
  %bias.skip = mul i64 %tile, %tile_bias
  %bias.word = add i64 %bias, %bias.skip
  %bias.ptr = inttoptr i64 %bias.word to ptr
  %row.bytes = mul i64 %columns, %item_bytes
  %ldc = load i64, ptr %ldc.at
  %row.step = mul i64 %ldc, %item_bytes
  br label %row
row:
  %r = phi i64 [0, %fill], [%r1, %row]
  %row.skip = mul i64 %r, %row.step
  %row.ptr = getelementptr i8, ptr %c.ptr, i64 %row.skip
  call void @llvm.memcpy.p0.p0.i64(ptr %row.ptr, ptr %bias.ptr, i64 %row.bytes, i1 false)
  %r1 = add i64 %r, 1
  %more.rows = icmp slt i64 %r1, %rows
  br i1 %more.rows, label %row, label %multiply
multiply:
  %gemm.ptr = inttoptr i64 %gemm to ptr
  call void %gemm.ptr(ptr %trans_b.at, ptr %trans_a.at, ptr %n.at, ptr %m.at, ptr %k.at, ptr %alpha.at, ptr %b.ptr,
    ptr %ldb.at, ptr %a.ptr, ptr %lda.at, ptr %beta.at, ptr %c.ptr, ptr %ldc.at, i64 1, i64 1)
  br label %done
done:
  br label %next
out:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
""")
#: A matrix times a vector; an iteration is a tile of the result.
_VECTOR_WORDS: Final = ("gemv", "trans", "size", "other", "a", "lda", "x", "incx", "y", "incy", "alpha", "alpha_high",
                        "beta", "beta_high", "step", "tile_a", "tile_y", "turned")
_VECTOR_PACK: Final = struct.Struct(f"={len(_VECTOR_WORDS)}q").pack
_VECTOR_DATA: Final = tuple([_VECTOR_WORDS.index(name) for name in "axy"])
_VECTOR_TEXT: Final = Template("""\
define void @vectors(ptr %args, i64 %begin, i64 %end) {
entry:
  %size.at = alloca i64
$loads
$places
  %first = mul i64 %begin, %step
  %count = sub i64 %end, %begin
  %wide = mul i64 %count, %step
  %rest = sub i64 %size, %first
  %part = call i64 @llvm.smin.i64(i64 %wide, i64 %rest)
  store i64 %part, ptr %size.at
  %a.1 = mul i64 %begin, %tile_a
  %a.word = add i64 %a, %a.1
  %a.ptr = inttoptr i64 %a.word to ptr
  %y.1 = mul i64 %begin, %tile_y
  %y.word = add i64 %y, %y.1
  %y.ptr = inttoptr i64 %y.word to ptr
  %x.ptr = inttoptr i64 %x to ptr
  %gemv.ptr = inttoptr i64 %gemv to ptr
  %is.turned = icmp ne i64 %turned, 0
  %rows = select i1 %is.turned, ptr %other.at, ptr %size.at
  %columns = select i1 %is.turned, ptr %size.at, ptr %other.at
  call void %gemv.ptr(ptr %trans.at, ptr %rows, ptr %columns, ptr %alpha.at, ptr %a.ptr, ptr %lda.at, ptr %x.ptr,
    ptr %incx.at, ptr %beta.at, ptr %y.ptr, ptr %incy.at, i64 1)
  ret void
}
""")


def _text() -> str:
    by_place = {"trans_a", "trans_b", "k", "lda", "ldb", "ldc", "alpha", "beta"}
    by_place_too = {"trans", "other", "lda", "incx", "incy", "alpha", "beta"}
    return _filled(_TEXT, _WORDS, by_place) + _filled(_VECTOR_TEXT, _VECTOR_WORDS, by_place_too)


def _filled(template: Template, words: Sequence[str], by_place: set[str]) -> str:
    """Return a function whose arguments are passed by value or, if in ``by_place``, by address."""
    loads, places = [], []
    for k, name in enumerate(words):
        if name in by_place:
            places.append(f"  %{name}.at = getelementptr i64, ptr %args, i64 {k}")
        elif not name.endswith("_high"):
            loads += [f"  %{name}.word.at = getelementptr i64, ptr %args, i64 {k}",
                      f"  %{name} = load i64, ptr %{name}.word.at"]
    return template.substitute(loads="\n".join(loads), places="\n".join(places))


def oriented(x: Array) -> tuple[Array, int, int]:
    """Return a batch of matrices, or a copy, that BLAS can read, with BLAS's letter for its layout and its leading
    dimension.
    """
    rows, columns = x.shape[-2:]
    down, along = x.strides[-2:]
    item = x.itemsize
    if x.flags.aligned:
        if (along == item or columns == 1) and (rows == 1 or (down >= columns * item and down % item == 0)):
            return x, PLAIN, max(columns, 1) if rows == 1 else down // item
        if (down == item or rows == 1) and (columns == 1 or (along >= rows * item and along % item == 0)):
            return x, TRANSPOSED, max(rows, 1) if columns == 1 else along // item
    return np.ascontiguousarray(x), PLAIN, max(columns, 1)


def batch_steps(batch: Sequence[int], arrays: Sequence[Array]) -> list[tuple[int, ...]] | None:
    """Return two sizes, then both strides of each array; None if the batch needs more than two dimensions."""
    if len(batch) == 1:
        return [(1, batch[0]), *[(0, x.strides[0] if x.ndim > 2 and x.shape[0] != 1 else 0) for x in arrays]]
    dims: list[list[int]] = []
    rank = len(batch)
    for axis, size in enumerate(batch):
        if size == 1:
            continue
        steps = []
        for x in arrays:
            own = axis - (rank - (x.ndim - 2))
            steps.append(x.strides[own] if own >= 0 and x.shape[own] != 1 else 0)
        if dims and all(old == new * size for old, new in zip(dims[-1][1:], steps, strict=True)):
            dims[-1] = [dims[-1][0] * size, *steps]
        else:
            dims.append([size, *steps])
    if len(dims) > 2:
        return None
    while len(dims) < 2:
        dims.insert(0, [1] + [0] * len(arrays))
    return list(zip(*dims, strict=True))


class Products:
    """Matrix products of the dtypes that BLAS knows.

    Args:
        library: The BLAS.
        compiler: Compiles the routine and the loops around it.
        pool: The threads that divide the work.
        empty: ``empty(shape, dtype)`` allocates results.

    Attributes:
        inner: Products of two vectors.
    """

    def __init__(self, library: Library, compiler: Compiler, pool: ThreadPool,
                 empty: Callable[[tuple[int, ...], np.dtype[Any]], Array]) -> None:
        names = ["products", "vectors"]
        addresses, code = compiler.compile_text("products", _text(), names)
        entries: list[Any] = [ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(address)
                              for address in addresses]
        for entry, address in zip(entries, addresses, strict=True):
            entry.address, entry.library = address, (code, library)
        self._entry: Entry = entries[0]
        self._vectors: Entry = entries[1]
        self._pool = pool
        self._empty = empty
        self._ones = {np.dtype(name): struct.unpack("=qq", ones) for name, ones in _ONES.items()}
        self._gemm: dict[np.dtype[Any], int] = {}
        self._routine = partial(gemm_address, compiler, library)
        self.inner = InnerProducts(library, compiler)
        self._gemv = {np.dtype(name): library.address(f"{letter}gemv") for name, letter in _LETTERS.items()}

    def __call__(self, x: Array, y: Array, out: Array | None = None, bias: Array | None = None) -> Array:
        """Multiply matrices.

        Args:
            x: [..., m, k] of any strides.
            y: [..., k, n] of the same dtype; leading dimensions broadcast.
            out: The contiguous array for the products; a new one by default.
            bias: [n] of the same dtype and any stride, added to every row.

        Returns:
            [..., m, n].

        Raises:
            ValueError: The shapes do not fit.
        """
        m, k = x.shape[-2:]
        n = y.shape[-1]
        if y.shape[-2] != k:
            raise ValueError("matrices do not fit")
        batch: tuple[int, ...] = ()
        if x.ndim > 2 or y.ndim > 2:
            left, right = x.shape[:-2], y.shape[:-2]
            batch = left if left == right else np.broadcast_shapes(left, right)
        if out is None:
            out = self._empty((*batch, m, n), x.dtype)
        if not k:
            _fill(out, bias)
        elif out.size:
            self._run(x, y, out, batch, (m, n, k), bias)
        return out

    def _run(self, x: Array, y: Array, out: Array, batch: tuple[int, ...], sizes: tuple[int, int, int],
             bias: Array | None) -> None:
        m, n, k = sizes
        add = bias is not None
        given = x, y
        x, trans_a, lda = oriented(x)
        y, trans_b, ldb = oriented(y)
        if RECORDERS and (x is not given[0] or y is not given[1]):
            forbid_replay()
        if not batch and (m == 1 or n == 1) and self._gemv[out.dtype]:
            if add:
                _fill(out, bias)
            if n == 1:
                self._run_vector(x, trans_a == PLAIN, lda, y, y.strides[0], out, (m, k), add)
            else:
                self._run_vector(y, trans_b != PLAIN, ldb, x, x.strides[1], out, (n, k), add)
            return
        count = 1
        steps: list[tuple[int, ...]] | None = NO_BATCH
        if batch:
            if y.ndim == 2 and trans_a == PLAIN and lda == k and x.flags.c_contiguous:
                # A batch of matrices times one matrix is one product with their rows stacked.
                m, batch = m * math.prod(batch), ()
            else:
                count = math.prod(batch)
                steps = batch_steps(batch, (x, y, out))
                if steps is None:
                    if RECORDERS:
                        forbid_replay()
                    x, y = np.ascontiguousarray(np.broadcast_to(x, (*batch, m, k))), np.ascontiguousarray(
                        np.broadcast_to(y, (*batch, k, n)))
                    trans_a, trans_b, lda, ldb = PLAIN, PLAIN, k, n
                    steps = batch_steps(batch, (x, y, out))
        assert steps is not None
        (_, inner), (outer_a, inner_a), (outer_b, inner_b), (outer_c, inner_c) = steps
        item, pieces = out.itemsize, count * m * n * k // _GRAIN
        by_rows = _divides_rows(m, n, k, trans_a, trans_b, ldb * item)
        tiles, step = 1, m if by_rows else n
        if pieces > 1 and count < _SHARES * self._pool.threads:
            tiles, step = -(-step // _TILE), _TILE
        gemm = self._gemm.get(out.dtype)
        if gemm is None:
            gemm = self._gemm[out.dtype] = self._routine(out.dtype.name)
        one, one_high = self._ones[out.dtype]
        if bias is not None and bias.strides[0] != item:
            if RECORDERS:
                forbid_replay()
            bias = np.ascontiguousarray(bias)
        args = _PACK(gemm, trans_b, trans_a, n, m, k, address_of(y), ldb, address_of(x), lda, address_of(out), n,
                     one, one_high, one if add else 0, one_high if add else 0, tiles, step, by_rows,
                     step * (lda if trans_a == PLAIN else 1) * item if by_rows else 0,
                     0 if by_rows else step * (1 if trans_b == PLAIN else ldb) * item,
                     step * (n if by_rows else 1) * item,
                     inner, inner_a, inner_b, inner_c, outer_a, outer_b, outer_c,
                     0 if bias is None else address_of(bias), 0 if by_rows else step * item, item)
        if count == 1:  # tiles are few, so that more parts than threads would divide them unevenly
            pieces = min(pieces, self._pool.threads)
        if RECORDERS:
            arrays, data = ((x, y, out), _DATA) if bias is None else ((x, y, out, bias), _DATA_WITH_BIAS)
            words = LaunchWords(args, count * tiles, max(pieces, 1), data)
            note_launch(self._entry, arrays, _WRITTEN[:len(arrays)], words, pieces > 1)
        if pieces > 1:
            self._pool.run(self._entry, args, count * tiles, pieces)
        else:
            self._entry(args, 0, count * tiles)

    def _run_vector(self, matrix: Array, turned: bool, ld: int, vector: Array, step: int, out: Array,
                    sizes: tuple[int, int], add: bool) -> None:
        """Multiply a matrix by a vector; ``turned``: whether BLAS reads the matrix's transpose."""
        size, depth = sizes
        item = out.itemsize
        if depth == 1:
            step = item  # the stride of a single element is arbitrary
        elif step <= 0 or step % item:
            if RECORDERS:
                forbid_replay()
            vector, step = np.ascontiguousarray(vector), item
        if size == 1 and self.inner.has(out.dtype):
            self.inner.run(matrix, vector, out, depth, (1 if turned else ld, step // item), add)
            return
        one, one_high = self._ones[out.dtype]
        args = _VECTOR_PACK(self._gemv[out.dtype], TRANSPOSED if turned else PLAIN, size, depth, address_of(matrix),
                            ld, address_of(vector), step // item, address_of(out), 1, one, one_high,
                            one if add else 0, one_high if add else 0, _VECTOR_TILE,
                            _VECTOR_TILE * (ld if turned else 1) * item, _VECTOR_TILE * item, turned)
        tiles, pieces = -(-size // _VECTOR_TILE), size * depth // _VECTOR_GRAIN
        if RECORDERS:
            words = LaunchWords(args, tiles, max(min(pieces, self._pool.threads), 1), _VECTOR_DATA)
            note_launch(self._vectors, (matrix, vector, out), (False, False, True), words, pieces > 1)
        if pieces > 1:
            self._pool.run(self._vectors, args, tiles, min(pieces, self._pool.threads))
        else:
            self._vectors(args, 0, tiles)


def _divides_rows(m: int, n: int, k: int, trans_a: int, trans_b: int, distance: int) -> bool:
    """Return whether to divide a product by rows, and not by columns.

    Each part of the rows packs the whole right matrix, if that is packed, and each part of the columns the left one.

    Args:
        m: The rows of the result.
        n: Its columns.
        k: The terms.
        trans_a: BLAS's letter for the layout of the left matrix.
        trans_b: That of the right one.
        distance: The bytes between rows of the right matrix, or columns if it is transposed.
    """
    packed = trans_b != PLAIN or packs_right(m, k, distance)
    rows, columns = m // (_FEWEST_PACKED if packed else _FEWEST), n // (_FEWEST if trans_a == PLAIN else _FEWEST_PACKED)
    return rows > columns or (rows == columns and m >= n)


def _fill(out: Array, bias: Array | None) -> None:
    """Write the bias, or zeros, to every row."""
    if RECORDERS and out.size:
        forbid_replay()
    out[...] = 0 if bias is None else bias


NO_BATCH: Final[list[tuple[int, ...]]] = [(1, 1), (0, 0), (0, 0), (0, 0)]
