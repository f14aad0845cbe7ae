"""Copies in place of views: ``NAME_copy`` is ``NAME`` with memory of its own, always contiguous."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.formats import contiguous_format
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.dtypes import FROM_NUMPY

from ..array_paths import array_path
from ..call_forms import write_out
from ..kinds.composite import composite


def _owned(view: Any) -> Any:
    """Return a contiguous copy of a view."""
    return view.clone(memory_format=contiguous_format)


def _several(operator: str, views: Any, out: Any) -> Any:
    """Return copies of views; with ``out``, write them to its tensors and return None, as PyTorch does."""
    if out is None:
        return tuple(_owned(view) for view in views)
    write_out(operator, tuple(out), tuple(views))
    return None


@composite("alias_copy(Tensor input) -> Tensor", replayable=True, method=False)
def alias_copy(input: Any) -> Any:
    """Return a copy of the tensor."""
    return _owned(input)


@composite("detach_copy(Tensor input) -> Tensor", replayable=True, method=False)
def detach_copy(input: Any) -> Any:
    """Return a copy of the tensor, which is differentiable like every copy, as in PyTorch."""
    return _owned(input)


@composite("as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
           replayable=True, method=False)
def as_strided_copy(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Return ``as_strided`` as a copy."""
    return _owned(input.as_strided(size, stride, storage_offset))


@composite("diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor", replayable=True, method=False)
def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return ``diagonal`` as a copy."""
    return _owned(input.diagonal(offset, dim1, dim2))


@composite("expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor", replayable=True, method=False)
def expand_copy(input: Any, size: Any, *, implicit: bool = False) -> Any:
    """Return ``expand`` as a copy; ``implicit`` has no effect."""
    return _owned(input.expand(size))


@composite("permute_copy(Tensor input, int[] dims) -> Tensor", replayable=True, method=False)
def permute_copy(input: Any, dims: Any) -> Any:
    """Return ``permute`` as a copy."""
    return _owned(input.permute(dims))


@composite("select_copy(Tensor input, int dim, int index) -> Tensor", replayable=True, method=False)
def select_copy(input: Any, dim: int, index: int) -> Any:
    """Return ``select`` as a copy."""
    return _owned(input.select(dim, index))


@composite("slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor~", method=False,
           function=False)
def slice_of(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Return a view of positions of a dimension from ``start`` to before ``end``, ``step`` apart, as in Python."""
    return input.narrow(dim, 0, input.shape[dim]).basic_index(
        (*[slice(None)] * (dim % input.ndim), slice(start, end, step)))


@composite("slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
           replayable=True, method=False)
def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Return a copy of positions of a dimension from ``start`` to before ``end``, ``step`` apart, as in Python."""
    return _owned(slice_of(input, dim, start, end, step))


@composite("squeeze_copy(Tensor input, any dim=None) -> Tensor", replayable=True, method=False)
def squeeze_copy(input: Any, dim: Any = None) -> Any:
    """Return ``squeeze`` as a copy."""
    return _owned(input.squeeze(dim))


@composite("t_copy(Tensor input) -> Tensor", replayable=True, method=False)
def t_copy(input: Any) -> Any:
    """Return ``t`` as a copy."""
    return _owned(input.t())


@composite("transpose_copy(Tensor input, int dim0, int dim1) -> Tensor", replayable=True, method=False)
def transpose_copy(input: Any, dim0: int, dim1: int) -> Any:
    """Return ``transpose`` as a copy."""
    return _owned(input.transpose(dim0, dim1))


@composite("unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor", replayable=True, method=False)
def unfold_copy(input: Any, dimension: int, size: int, step: int) -> Any:
    """Return ``unfold`` as a copy."""
    return _owned(input.unfold(dimension, size, step))


@composite("unsqueeze_copy(Tensor input, int dim) -> Tensor", replayable=True, method=False)
def unsqueeze_copy(input: Any, dim: int) -> Any:
    """Return ``unsqueeze`` as a copy."""
    return _owned(input.unsqueeze(dim))


@composite("view_copy(Tensor input, any size) -> Tensor", replayable=True, method=False)
def view_copy(input: Any, size: Any) -> Any:
    """Return ``view`` as a copy; ``size`` may be a dtype."""
    return _owned(input.view(size))


@composite("view_as_real_copy(Tensor input) -> Tensor", method=False)
def view_as_real_copy(input: Any) -> Any:
    """Return ``view_as_real`` as a copy."""
    return _owned(functions.view_as_real(input))


@composite("view_as_complex_copy(Tensor input) -> Tensor", method=False)
def view_as_complex_copy(input: Any) -> Any:
    """Return ``view_as_complex`` as a copy."""
    return _owned(functions.view_as_complex(input))


# ------------------------------------------------------------------------------------------------------ several views


@composite("split_copy(Tensor input, int split_size, int dim=0, *, any out=None) -> any", method=False)
def split_copy(input: Any, split_size: int, dim: int = 0, *, out: Any = None) -> Any:
    """Return copies of the parts that ``split`` makes, or write them to the tensors of ``out``."""
    return _several("split_copy", input.split(split_size, dim), out)


@composite("split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0, *, any out=None) -> any", method=False)
def split_with_sizes_copy(input: Any, split_sizes: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Return copies of the parts that ``split_with_sizes`` makes, or write them to the tensors of ``out``."""
    return _several("split_with_sizes_copy", input.split_with_sizes(split_sizes, dim), out)


#: The most elements of a part that NumPy copies in less time than the call of an operator takes.
_SMALL: Final = 512


def _unbound(array: np.ndarray[Any, Any], dim: Any = 0, *, out: Any = None) -> Any:
    """Return copies of the small parts at all positions of a dimension; NotImplemented for other calls."""
    if out is not None or type(dim) is not int or not -array.ndim <= dim < array.ndim or (
            array.size > _SMALL * array.shape[dim]):
        return NotImplemented
    if array.ndim == 1:
        return tuple(map(np.array, array))
    return tuple([part.copy() for part in (np.moveaxis(array, dim, 0) if dim else array)])


@composite("unbind_copy(Tensor input, int dim=0, *, any out=None) -> any", method=False,
           host_path=array_path(_unbound, accepts=tuple(FROM_NUMPY.values()), label="unbind_copy"))
def unbind_copy(input: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Return copies of the parts that ``unbind`` makes, or write them to the tensors of ``out``."""
    return _several("unbind_copy", input.unbind(dim), out)


def _detach_views(views: Any) -> tuple[Any, ...]:
    """Return views that autograd no longer treats as views: each counts only its own changes in its version."""
    for view in views:
        view._base = view._version_counter = view._fixed_view = None
        if view._grad_fn is None:  # made while recording was off: it inherited requires_grad from its base
            view._key &= ~AUTOGRAD
    return tuple(views)


@composite("unsafe_chunk(Tensor input, int chunks, int dim=0) -> any~")
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Apply ``chunk``; autograd treats the parts as independent tensors when they change in place."""
    return _detach_views(functions.chunk(input, chunks, dim))


@composite("unsafe_split(Tensor input, int split_size, int dim=0) -> any~")
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Apply ``split``; autograd treats the parts as independent tensors when they change in place."""
    return _detach_views(functions.split(input, split_size, dim))


@composite("unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> any~")
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Apply ``split_with_sizes``; autograd treats the parts as independent tensors when they change in place."""
    return _detach_views(functions.split_with_sizes(input, split_sizes, dim))
