"""Low-precision matrix products in the backend's own machine code, divided over its workers."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.launch_recorder import RECORDERS, forbid_replay

from ..code.pointers import address_of
from ..linear.gemm import NO_BATCH, PLAIN, TRANSPOSED, batch_steps, oriented
from ..threads.pool import Entry, ThreadPool
from .arithmetic import Arithmetic
from .blocking import WORDS
from .microkernel import several_text, single_text
from .packing import LANES, MOST, SLACK, TALL, WIDE

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]

_PACK: Final = struct.Struct(f"={len(WORDS)}q").pack
_NAMES: Final = ("strips", "blocks", "whole")
#: The multiplications, and the elements of right matrices, that are worth a second thread: about 10 microseconds each.
_GRAIN: Final = 1 << 21
_ELEMENTS: Final = 1 << 17
_BYTES: Final = np.dtype(np.uint8)
#: The initial sums without a bias.
_ZEROS: Final = np.zeros(WIDE, np.float32)


class LowPrecisionProducts:
    """Matrix products of one dtype. Sums are float32 or int32, and are rounded or truncated once, at the end.

    Args:
        arithmetic: The instructions that multiply its numbers.
        compiler: Compiles the products.
        pool: The threads that divide the work; no result depends on the division.
        empty: ``empty(shape, dtype)`` allocates results.
    """

    def __init__(self, arithmetic: Arithmetic, compiler: Compiler, pool: ThreadPool,
                 empty: Callable[[tuple[int, ...], np.dtype[Any]], Array]) -> None:
        self._arithmetic, self._compiler = arithmetic, compiler
        self._pool, self._empty = pool, empty
        #: Whether instructions multiply pairs, so that these products are faster than float32 products.
        self.pairs = arithmetic.terms == 2
        #: The elements of a strip's vectors along the sum, and the bytes of a term of a strip.
        self._square, self._term = LANES * arithmetic.terms, TALL * 4 // arithmetic.terms

    def __call__(self, x: Array, y: Array, bias: Array | None = None) -> Array:
        """Multiply matrices.

        Args:
            x: [..., m, k] of any strides.
            y: [..., k, n] of the same dtype; leading dimensions broadcast.
            bias: [n] of the sums' dtype, the initial sums of each row; k must not be 0.

        Returns:
            [..., m, n].

        Raises:
            ValueError: The shapes do not fit.
        """
        m, k = x.shape[-2:]
        n = y.shape[-1]
        if y.shape[-2] != k:
            raise ValueError("matrices do not fit")
        if y.ndim == 2 < x.ndim and x.flags.c_contiguous:
            # A batch of matrices times one matrix is one product with their rows stacked.
            return self(x.reshape((math.prod(x.shape[:-1]), k)), y, bias).reshape((*x.shape[:-1], n))
        if n == 1 != m and bias is None:
            # Compute the transposed product, so that panels of 32 columns divide the long side.
            turned = self(y.swapaxes(-1, -2), x.swapaxes(-1, -2))
            return turned.reshape((*turned.shape[:-2], m, 1))
        batch: tuple[int, ...] = ()
        if x.ndim > 2 or y.ndim > 2:
            left, right = x.shape[:-2], y.shape[:-2]
            batch = left if left == right else np.broadcast_shapes(left, right)
        out = self._empty((*batch, m, n), x.dtype)
        if not k:
            out.fill(0)
        elif out.size:
            self._run(x, y, out, batch, (m, n, k), bias)
        return out

    def of_rows(self, x: Array, source: Array, table: Array, out: Array, steps: tuple[int, int], *,
                turned: bool = False) -> None:
        """Multiply by matrices whose rows begin at arbitrary offsets, and may overlap.

        Args:
            x: [groups, m, k], with m greater than 1.
            source: The contiguous array that holds the rows.
            table: [k] of int64: the offset of each row, in bytes.
            out: [batch, groups, m, n], contiguous; n is the length of a row.
            steps: Bytes from one matrix of the batch to the next, and from one group to the next.
            turned: Whether the table has the n rows of the transposed matrices instead.
        """
        batch, groups, m, n = out.shape
        k, item = x.shape[-1], source.itemsize
        y = np.ndarray((batch, groups, k, n), source.dtype, source, 0, (*steps, *((item, 0) if turned else (0, item))))
        self._run(x, y, out, (batch, groups), (m, n, k), None, table, TRANSPOSED if turned else PLAIN)

    def _run(self, x: Array, y: Array, out: Array, batch: tuple[int, ...], sizes: tuple[int, int, int],
             bias: Array | None, table: Array | None = None, trans_table: int = PLAIN) -> None:
        if RECORDERS:
            forbid_replay()  # a recording holds launches of one range each
        m, n, k = sizes
        item, strips, panels = out.itemsize, -(-m // TALL), -(-n // WIDE)
        strip_bytes = -(-k // self._square) * self._square * self._term + SLACK
        x, trans_x, ldx = oriented(x)
        y, trans_y, ldy = oriented(y) if table is None else (y, trans_table, 0)
        count, lefts = 1, 1
        left_steps: list[tuple[int, ...]] | None = NO_BATCH
        steps: list[tuple[int, ...]] | None = NO_BATCH
        a = self._empty((*x.shape[:-2], 1, strips * strip_bytes) if batch else (strips * strip_bytes,), _BYTES)
        if batch:
            count, lefts = math.prod(batch), math.prod(x.shape[:-2])
            left_steps, steps = batch_steps(x.shape[:-2], (x,)), batch_steps(batch, (a, y, out))
        if left_steps is None or steps is None:  # never with a table, whose batch has two dimensions
            self._run(np.ascontiguousarray(np.broadcast_to(x, (*batch, m, k))),
                      np.ascontiguousarray(np.broadcast_to(y, (*batch, k, n))), out, batch, sizes, bias)
            return
        blocks, tall, pieces = self._division(count, m, n, k)
        items = count * blocks * panels
        first, first_step = (_ZEROS, 0) if bias is None else (_whole_panels(bias), 4 * WIDE)
        (_, inner_x), (outer_by, inner_by) = left_steps[:2]
        (_, inner), (a_outer, a_inner), (y_outer, y_inner), (c_outer, c_inner) = steps
        args = _PACK(address_of(x), ldx * item, trans_x != PLAIN, inner_x, outer_by, inner_by, m, k, strip_bytes,
                     strips, address_of(a), a_outer, a_inner, address_of(y), ldy * item, trans_y == PLAIN, y_outer,
                     y_inner, n, panels, address_of(out), n * item, c_outer, c_inner, inner, blocks, tall,
                     address_of(first), first_step, 0 if table is None else address_of(table), items)
        strips_entry, blocks_entry, whole = self._single if m == 1 else self._several
        if pieces > 1:
            self._pool.run(strips_entry, args, lefts * strips, lefts * m * k // _ELEMENTS)
            self._pool.run(blocks_entry, args, items, pieces)
        else:
            whole(args, 0, lefts * strips)

    @cached_property
    def _several(self) -> tuple[Entry, ...]:
        """The code for left matrices with several rows, compiled at first use."""
        return self._made(several_text(self._arithmetic))

    @cached_property
    def _single(self) -> tuple[Entry, ...]:
        """The code for left matrices with one row, compiled at first use."""
        return self._made(single_text(self._arithmetic))

    def _made(self, text: str) -> tuple[Entry, ...]:
        addresses, code = self._compiler.compile_text(f"narrow_{self._arithmetic.name}", text, _NAMES, vectors=True)
        entries: list[Any] = [ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(address)
                              for address in addresses]
        for entry, address in zip(entries, addresses, strict=True):
            entry.address, entry.library = address, code
        return tuple(entries)

    def _division(self, count: int, m: int, n: int, k: int) -> tuple[int, int, int]:
        """Return the blocks of a matrix along its rows, the strips per block, and the number of worthwhile pieces."""
        threads, strips = self._pool.threads, -(-m // TALL)
        least, wanted = -(-strips // MOST), 1
        pieces = max(count * m * n * k // _GRAIN, count * n * k // _ELEMENTS) if threads > 1 else 1
        if pieces > 1:
            # Two blocks per thread if there are fewer panels than that, but of at least four strips.
            wanted = min(2 * threads // (count * -(-n // WIDE)), strips // 4)
        tall = -(-strips // max(least, wanted))
        return -(-strips // tall), tall, pieces


def _whole_panels(bias: Array) -> Array:
    made = np.zeros(-(-bias.size // WIDE) * WIDE, bias.dtype)
    made[:bias.size] = bias
    return made
