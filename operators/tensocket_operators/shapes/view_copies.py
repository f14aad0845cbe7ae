"""Copies where views would do: ``NAME_copy`` is ``NAME`` with memory of its own, always contiguous."""

from __future__ import annotations

from typing import Any

from tensocket_core import functions
from tensocket_core.formats import contiguous_format
from tensocket_core.keys import AUTOGRAD

from ..call_forms import write_out
from ..kinds.composite import composite


def _owned(view: Any) -> Any:
    """Return a contiguous copy."""
    return view.clone(memory_format=contiguous_format)


def _several(operator: str, views: Any, out: Any) -> Any:
    """Return copies of views; in the tensors of ``out``, which is returned as None then, as in PyTorch."""
    if out is None:
        return tuple(_owned(view) for view in views)
    write_out(operator, tuple(out), tuple(views))
    return None


@composite("alias_copy(Tensor input) -> Tensor", method=False)
def alias_copy(input: Any) -> Any:
    """A copy of the tensor."""
    return _owned(input)


@composite("detach_copy(Tensor input) -> Tensor", method=False)
def detach_copy(input: Any) -> Any:
    """A copy of the tensor. Like every copy it is differentiable, as PyTorch's is."""
    return _owned(input)


@composite("as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor", method=False)
def as_strided_copy(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy of ``as_strided``."""
    return _owned(input.as_strided(size, stride, storage_offset))


@composite("diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor", method=False)
def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy of ``diagonal``."""
    return _owned(input.diagonal(offset, dim1, dim2))


@composite("expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor", method=False)
def expand_copy(input: Any, size: Any, *, implicit: bool = False) -> Any:
    """A copy of ``expand``; ``implicit`` is accepted and changes nothing."""
    return _owned(input.expand(size))


@composite("permute_copy(Tensor input, int[] dims) -> Tensor", method=False)
def permute_copy(input: Any, dims: Any) -> Any:
    """A copy of ``permute``."""
    return _owned(input.permute(dims))


@composite("select_copy(Tensor input, int dim, int index) -> Tensor", method=False)
def select_copy(input: Any, dim: int, index: int) -> Any:
    """A copy of ``select``."""
    return _owned(input.select(dim, index))


@composite("slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor~", method=False,
           function=False)
def slice_of(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Positions of a dimension from ``start`` to before ``end``, ``step`` apart, as Python slices them; a view."""
    return input.narrow(dim, 0, input.shape[dim]).basic_index(
        (*[slice(None)] * (dim % input.ndim), slice(start, end, step)))


@composite("slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", method=False)
def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A copy of positions of a dimension, as Python slices them."""
    return _owned(slice_of(input, dim, start, end, step))


@composite("squeeze_copy(Tensor input, any dim=None) -> Tensor", method=False)
def squeeze_copy(input: Any, dim: Any = None) -> Any:
    """A copy of ``squeeze``."""
    return _owned(input.squeeze(dim))


@composite("t_copy(Tensor input) -> Tensor", method=False)
def t_copy(input: Any) -> Any:
    """A copy of ``t``."""
    return _owned(input.t())


@composite("transpose_copy(Tensor input, int dim0, int dim1) -> Tensor", method=False)
def transpose_copy(input: Any, dim0: int, dim1: int) -> Any:
    """A copy of ``transpose``."""
    return _owned(input.transpose(dim0, dim1))


@composite("unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor", method=False)
def unfold_copy(input: Any, dimension: int, size: int, step: int) -> Any:
    """A copy of ``unfold``."""
    return _owned(input.unfold(dimension, size, step))


@composite("unsqueeze_copy(Tensor input, int dim) -> Tensor", method=False)
def unsqueeze_copy(input: Any, dim: int) -> Any:
    """A copy of ``unsqueeze``."""
    return _owned(input.unsqueeze(dim))


@composite("view_copy(Tensor input, any size) -> Tensor", method=False)
def view_copy(input: Any, size: Any) -> Any:
    """A copy of ``view``; ``size`` may be a dtype."""
    return _owned(input.view(size))


@composite("view_as_real_copy(Tensor input) -> Tensor", method=False)
def view_as_real_copy(input: Any) -> Any:
    """A copy of ``view_as_real``."""
    return _owned(functions.view_as_real(input))


@composite("view_as_complex_copy(Tensor input) -> Tensor", method=False)
def view_as_complex_copy(input: Any) -> Any:
    """A copy of ``view_as_complex``."""
    return _owned(functions.view_as_complex(input))


# ------------------------------------------------------------------------------------------------------ several views


@composite("split_copy(Tensor input, int split_size, int dim=0, *, any out=None) -> any", method=False)
def split_copy(input: Any, split_size: int, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of ``split``'s parts, in the tensors of ``out`` if it is given."""
    return _several("split_copy", input.split(split_size, dim), out)


@composite("split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0, *, any out=None) -> any", method=False)
def split_with_sizes_copy(input: Any, split_sizes: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of ``split_with_sizes``' parts, in the tensors of ``out`` if it is given."""
    return _several("split_with_sizes_copy", input.split_with_sizes(split_sizes, dim), out)


@composite("unbind_copy(Tensor input, int dim=0, *, any out=None) -> any", method=False)
def unbind_copy(input: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Copies of ``unbind``'s parts, in the tensors of ``out`` if it is given."""
    return _several("unbind_copy", input.unbind(dim), out)


def _unrelated(views: Any) -> tuple[Any, ...]:
    """Return views that autograd no longer knows as such: each has its own version, which only its changes count."""
    for view in views:
        view._base = view._version_counter = view._fixed_view = None
        if view._grad_fn is None:  # made where nothing is recorded: it required a gradient as its base does
            view._key &= ~AUTOGRAD
    return tuple(views)


@composite("unsafe_chunk(Tensor input, int chunks, int dim=0) -> any~")
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """``chunk``, whose parts count as tensors of their own: autograd does not follow them through changes in place."""
    return _unrelated(functions.chunk(input, chunks, dim))


@composite("unsafe_split(Tensor input, int split_size, int dim=0) -> any~")
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """``split``, whose parts count as tensors of their own: autograd does not follow them through changes in place."""
    return _unrelated(functions.split(input, split_size, dim))


@composite("unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> any~")
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """``split_with_sizes``, whose parts count as tensors of their own: autograd does not follow them through changes in
    place.
    """
    return _unrelated(functions.split_with_sizes(input, split_sizes, dim))
