"""Joins of dense arrays as built-in functions: the result is made and filled without NumPy's iterators.

Guard: a list or tuple of dense arrays of one dtype that fit each other, an int in range, a result that is not large and
has no zeros among its sizes. Work: a new array, and copies of contiguous bytes. All other calls go to the next path,
with the same arguments.

The code holds no references of its own: no Python code runs between its first check and the last copy, because only
objects with references to others start a garbage collection, and NumPy's arrays are not such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import JoinPlan

from .builder import NULL, Operand, Value
from .builtin import Builtin
from .guards import fits, python_int
from .layout import Layout
from .resources import Resources
from .wrappers import Wrapper, find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The most dimensions of a result.
_RANKS: Final = 8
#: Results with fewer dimensions have one memory format.
_FORMATS_FROM: Final = 4
#: The most bytes of a result; threads may share the copies of larger ones.
_BYTES: Final = 1 << 20
#: The most copies of less than ``_SHORT`` bytes on average. On two columns, NumPy is as fast from 128 float32 elements
#: on; on rows of four elements, it takes twice as long at all sizes (``timeit`` of ``cat`` along the last dimension).
_COPIES: Final = 256
_SHORT: Final = 16


def make_join(compiler: Compiler, layout: Layout, resources: Resources, plan: JoinPlan,
              next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry for ``cat``, or for ``stack``; return None for a wrapper of an unknown layout."""
    wrapper = find_wrapper(plan.wrapper)
    if wrapper is None:
        return None
    f = _JoinCode(layout, resources, plan, wrapper)
    return f.make(compiler, "stack" if plan.new_dim else "cat", next_path, plan, f.dtype)


class _JoinCode(Builtin):
    """The machine code of a join."""

    def __init__(self, layout: Layout, resources: Resources, plan: JoinPlan, wrapper: Wrapper) -> None:
        super().__init__(layout, "tensocket_join")
        self.plan, self.wrapper, self.dtype = plan, wrapper, np.dtype(plan.dtype.numpy)
        self.sizes = self.stack(_RANKS)
        dim = self._open_arguments()
        first = self.wrapper.open(self.items.pointer(0))
        self.rank32, self.shape = first.field("rank"), first.field("shape")
        self._place_axis(python_int(dim))
        self._measure()
        self._check()
        self.sizes[self.axis] = self.along
        made = self.call(resources.allocate, self.object(self.dtype), self.ranks.cast("trunc", "i32"), self.sizes, NULL,
                         self.along * self.area)
        self.require(made != NULL)
        self._copy(made)
        self.returns(self.wrapper.wrap(made))

    def _open_arguments(self) -> Value:
        """Check number and kinds of the arguments; find the tensors, and return the dimension."""
        self.require(self.names == NULL, self.count >= 1, self.count <= 2)
        tensors = self.args.pointer(0)
        kind = tensors.field("type")
        self.require((kind == self.object(list)) | (kind == self.object(tuple)))
        self.many = tensors.field("length")
        self.require(self.many >= 1)
        self.items = tensors.items()
        return (self.count == 2).select(self.args.pointer(self.count - 1), self.object(0))

    def _place_axis(self, dim: Value) -> None:
        """Find the ranks of the operands and of the result, and the number of the dimension."""
        self.rank = self.rank32.cast("sext", "i64")
        self.ranks = self.rank + int(self.plan.new_dim)
        self.require(self.ranks >= 1, self.ranks <= _RANKS, self.ranks + dim >= 0, dim < self.ranks)
        self.axis = dim + (dim < 0).select(self.ranks, 0)

    def _measure(self) -> None:
        """Store the result's sizes except that along the axis; find the product of the sizes before it, the bytes of
        one step along it, and the product of both.
        """
        plan = self.plan
        outer, inner = self.variable(1), self.variable(plan.dtype.itemsize)
        with self.loop(self.rank) as k:
            size = self.shape[k]
            behind = k >= self.axis if plan.new_dim else k > self.axis
            self.sizes[k + behind.cast("zext", "i64") if plan.new_dim else k] = size
            outer.value = outer.value * (k < self.axis).select(size, 1)
            inner.value = inner.value * behind.select(size, 1)
        self.outer, self.inner = outer.value, inner.value
        self.area = self.outer * self.inner
        self.require(self.area >= 1)

    def _check(self) -> None:
        """Check each operand, and find the sum of the sizes along the axis."""
        along = self.variable(0)
        with self.loop(self.many) as i:
            array = self.wrapper.open(self.items.pointer(i))
            self.require(*fits(array, self.dtype, self.rank32))
            self._compare(array.field("shape"), array.field("strides"))
            size = self._size_along(array)
            along.value = along.value + size
            self.require(along.value * self.area <= _BYTES, *[size >= 1] if isinstance(size, Value) else [])
        self.along = along.value
        self.is_alone = self.many == 1
        copies = self.outer * self.many
        self.require(self.is_alone | (copies <= _COPIES) | (self.along * self.area >= copies * _SHORT))

    def _size_along(self, array: Value) -> Operand:
        return 1 if self.plan.new_dim else array.field("shape")[self.axis]

    def _compare(self, sizes: Value, strides: Value) -> None:
        """Compare the sizes of an operand with those of the first one, from the last to the first.

        If results of this rank have several memory formats, strides along sizes of 1 decide it, too.
        """
        plan = self.plan
        step = self.variable(plan.dtype.itemsize)
        with self.loop(self.rank) as k:
            j = self.rank - 1 - k
            size = sizes[j]
            is_equal = size == self.shape[j]
            if not plan.new_dim:
                is_equal = is_equal | (j == self.axis)
            self.require(is_equal, (strides[j] == step.value) | (self.ranks < _FORMATS_FROM))
            step.value = step.value * size

    def _copy(self, made: Value) -> None:
        """Copy the rows of each operand, runs of contiguous bytes, to their places in the result; a single operand is
        one run.
        """
        row = self.along * self.inner
        place = self.variable(made.field("data"))
        runs = self.is_alone.select(1, self.outer)
        with self.loop(self.many) as p:
            array = self.wrapper.slot(self.items.pointer(p))
            size = self._size_along(array)
            width = self.is_alone.select(row * self.outer, self.inner * size)
            source, to = self.variable(array.field("data")), self.variable(place.value)
            with self.loop(runs):
                self.copy(to.value, source.value, width)
                source.value, to.value = source.value + width, to.value + row
            place.value = place.value + width
