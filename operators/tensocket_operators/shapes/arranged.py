"""Arrangements: results that consist of copies of parts of the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensocket_core.keys import dtype_bit
from tensocket_core.launch.copies import copy_elements
from tensocket_core.launch.fill import fill_array
from tensocket_core.strides import empty_strided_array, format_strides, public_strides, suggested_format
from tensocket_core.tensor import wrap

from ..kinds.view import Custom


class Arranged(Custom):
    """An operator whose result consists of copies of parts of its first argument, and of zeros elsewhere.

    The record says where the parts lie; copies run on every device, and few elements replay them as one call. Arguments
    count dimensions from the last one, so that the operator takes any leading dimensions, such as a batch.

    Attributes:
        shape: ``shape(input_shape, *args)``: the shape of the result.
        parts: ``parts(out, array, *args)``: pairs of a view of the result and a view of the argument of the same shape.
            The parts of the result are disjoint.
        zeros: Whether parts leave elements of the result, which are zero.
        follows: Whether the result has the memory format of the argument, instead of row-major order.
    """

    def __init__(self, schema: str, doc: str, shape: Callable[..., tuple[int, ...]],
                 parts: Callable[..., Iterable[tuple[Any, Any]]], *, zeros: bool = False, follows: bool = False,
                 **record: Any) -> None:
        super().__init__(schema, doc, self._arrange, replayable=True, method=False, function=False, **record)
        self.shape = shape
        self.parts = parts
        self.zeros = zeros
        self.follows = follows

    def _arrange(self, state: Any, input: Any, *args: Any) -> Any:
        array, dtype = input._array, input.dtype
        shape = self.shape(array.shape, *args)
        if self.follows and len(shape) > 3:
            memory_format = suggested_format(array.shape, public_strides(array))
            out = empty_strided_array(state, shape, dtype, format_strides(self.name, shape, memory_format))
        else:
            out = state.runtime.empty(shape, dtype, state.stream)
        if self.zeros:
            fill_array(self.name, state, out, 0, dtype)
        for part, source in self.parts(out, array, *args):
            copy_elements(state, part, dtype, source, dtype)
        return wrap(out, state.key | dtype_bit(dtype))
