"""Small products of matrices and vectors as built-in functions that call BLAS without the interpreter or a copy."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import ProductPlan

from ..float_gemm.addresses import gemm_address
from ..linear.blas import Library
from .builder import NULL, Operand, Value
from .builtin import Builtin
from .guards import fits
from .layout import ALIGNED, Layout
from .resources import new_array
from .wrappers import Wrapper, find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The most multiplications, about 10 microseconds: more are worth a second thread, and would delay Python threads.
_WORK: Final = 1 << 20
#: The most of them for a single row or column. The next path has routines for vectors, which then win more than its
#: call costs: an inner product of 65,536 elements takes 4 instead of 40 microseconds.
_VECTOR_WORK: Final = 1 << 13
#: The most elements of two vectors, about 10 microseconds.
_ELEMENTS: Final = 1 << 17
#: The most bytes of a result; larger results take their memory from the pool.
_BYTES: Final = 1 << 16
_ONE: Final = {"float32": struct.unpack("=q", struct.pack("=ff", 1, 0))[0],
               "float64": struct.unpack("=q", struct.pack("=d", 1))[0]}
#: BLAS's inner products, and the LLVM types of their results.
_INNER: Final = {"float32": ("sdot", "float"), "float64": ("ddot", "double")}


def make_product(compiler: Compiler, layout: Layout, library: Library, plan: ProductPlan,
                 next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry for ``x @ y``, or for ``x @ y.T + bias``.

    Return None if BLAS does not have the dtype, or for a wrapper of an unknown layout.
    """
    wrapper = find_wrapper(plan.wrapper)
    if plan.dtype.name not in _ONE or wrapper is None:
        return None
    if plan.ranks == (1, 1):
        routine = library.address(_INNER[plan.dtype.name][0])
        return _InnerCode(layout, plan, wrapper, routine).make(
            compiler, "dot", next_path, plan, library) if routine else None
    f = _ProductCode(layout, plan, wrapper, gemm_address(compiler, library, plan.dtype.name))
    return f.make(compiler, "linear" if plan.affine else "matmul", next_path, plan, library)


class _ProductCode(Builtin):
    """The machine code of a product."""

    def __init__(self, layout: Layout, plan: ProductPlan, wrapper: Wrapper, gemm: int) -> None:
        super().__init__(layout, "tensocket_product")
        self.plan, self.wrapper, self.gemm = plan, wrapper, gemm
        self.dtype, self.itemsize = np.dtype(plan.dtype.numpy), plan.dtype.itemsize
        self.require(self.arguments() == (3 if plan.affine else 2))
        x, y = (self.wrapper.open(self.args.pointer(k)) for k in (0, 1))
        self.require(*fits(x, self.dtype, 2, ALIGNED), *fits(y, self.dtype, plan.ranks[1], ALIGNED))
        m, k, rows, columns = *_pair(x, "shape"), *self._sizes(y)
        depth, n = (columns, rows) if plan.affine else (rows, columns)
        area, work = m * n, m * n * k
        self.require(k == depth, work >= 1, work <= _WORK, area * self.itemsize <= _BYTES,
                     (work <= _VECTOR_WORK) | (m > 1) & (n > 1))
        (lda, is_plain_a), (ldb, is_plain_b) = self._orientation(x, m, k), self._second(y, rows, columns)
        bias = self._bias(n) if plan.affine else None
        trans_a = is_plain_a.select(ord("N"), ord("T"))
        trans_b = is_plain_b.select(*map(ord, "TN" if plan.affine else "NT"))
        out = self._allocate(m, n)
        beta = 0 if bias is None else self._prefill(out, bias, m, n)
        self._multiply((trans_b, trans_a, n, m, k), y, ldb, x, lda, beta, out)
        self.returns(self.wrapper.wrap(out))

    def _multiply(self, head: Sequence[Value], b: Value, ldb: Value, a: Value, lda: Value, beta: Operand,
                  out: Value) -> None:
        """Call ``gemm``: Fortran takes the addresses of numbers, and reads matrices as their transposes."""
        *trans, n, m, k = map(self._in_memory, head)
        one = self._in_memory(_ONE[self.plan.dtype.name])
        self.call(self.known(self.gemm), *trans, n, m, k, one, b.field("data"), self._in_memory(ldb),
                  a.field("data"), self._in_memory(lda), self._in_memory(beta), out.field("data"), n, 1, 1,
                  returns="void")

    def _in_memory(self, word: Operand) -> Value:
        return self.variable(word).place

    def _sizes(self, array: Value) -> tuple[Value, Value]:
        """Return both sizes of the second operand; a vector is a column."""
        if self.plan.ranks[1] == 2:
            return _pair(array, "shape")
        return array.field("shape")[0], self.constant(1, "i64")

    def _second(self, array: Value, rows: Value, columns: Value) -> tuple[Value, Value]:
        """Return what ``_orientation`` returns of the second operand, which may be a vector."""
        if self.plan.ranks[1] == 2:
            return self._orientation(array, rows, columns)
        self.require(array.field("strides")[0] == self.itemsize)
        return self.constant(1, "i64"), self.constant(1, "i1")

    def _orientation(self, array: Value, rows: Value, columns: Value) -> tuple[Value, Value]:
        """Return the leading dimension, and whether rows are contiguous; columns must be contiguous otherwise."""
        size = self.itemsize
        down, along = _pair(array, "strides")

        def is_contiguous(near: Value, far: Value, length: Value) -> Value:
            return (far & size - 1 == 0) & (far >= length * size) & (near == size)

        is_plain = is_contiguous(along, down, columns)
        self.require(is_plain | is_contiguous(down, along, rows))
        return is_plain.select(down, along) // size, is_plain

    def _bias(self, n: Value) -> Value:
        """Return the bias, a contiguous vector, or null if it is None."""
        item, bias = self.args.pointer(2), self.variable(NULL)
        with self.when(item != self.object(None)):
            array = self.wrapper.open(item)
            self.require(*fits(array, self.dtype, 1, ALIGNED))
            self.require(array.field("shape")[0] == n, array.field("strides")[0] == self.itemsize)
            bias.value = array
        return bias.value

    def _allocate(self, m: Value, n: Value) -> Value:
        sizes = self.stack(2)
        sizes[0], sizes[1] = m, n
        made = new_array(self, self.object(self.dtype), self.constant(self.plan.ranks[1], "i32"), sizes)
        self.require(made != NULL, otherwise="failed")
        return made

    def _prefill(self, out: Value, bias: Value, m: Value, n: Value) -> Value:
        """Copy the bias, if any, to every row of the result; return beta, the factor of the result in the sum."""
        with self.when(bias != NULL):
            source, target, width = bias.field("data"), out.field("data"), n * self.itemsize
            with self.loop(m) as row:
                self.copy(target + row * width, source, width)
        return (bias == NULL).select(0, _ONE[self.plan.dtype.name])


class _InnerCode(Builtin):
    """The machine code of an inner product."""

    def __init__(self, layout: Layout, plan: ProductPlan, wrapper: Wrapper, routine: int) -> None:
        super().__init__(layout, "tensocket_dot")
        dtype = np.dtype(plan.dtype.numpy)
        self.require(self.arguments() == 2)
        x, y = (wrapper.open(self.args.pointer(k)) for k in (0, 1))
        self.require(*fits(x, dtype, 1, ALIGNED), *fits(y, dtype, 1, ALIGNED))
        size = x.field("shape")[0]
        self.require(size >= 1, size <= _ELEMENTS, y.field("shape")[0] == size,
                     *[array.field("strides")[0] == dtype.itemsize for array in (x, y)])
        count, step = self.variable(size).place, self.variable(1).place
        product = self.call(self.known(routine), count, x.field("data"), step, y.field("data"), step,
                            returns=_INNER[plan.dtype.name][1])
        rank = self.constant(0, "i32")
        out = new_array(self, self.object(dtype), rank, NULL)
        self.require(out != NULL, otherwise="failed")
        out.field("data").store(product)
        self.returns(wrapper.wrap(out, rank))


def _pair(array: Value, field: str) -> tuple[Value, Value]:
    """Return both sizes, or both strides, of a matrix."""
    numbers = array.field(field)
    return numbers[0], numbers[1]
