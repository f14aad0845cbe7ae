"""Masks and masked reductions of sparse tensors, which store and fold only the elements that the mask selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.formats import sparse_coo, sparse_csr, strided
from tensocket_core.geometry import normalize_axes
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DimensionError

from ..reductions.masked import identity_of
from .construct import from_dense
from .layouts import _looked_up, as_coo, coalesced, dense_of, flat_positions, in_layout, split_positions, summed_rows
from .shapes import broadcast_sparse
from .tensor import RULES, SparseTensor, is_sparse, like, wrap_sparse


def canonical_mask(input: Any, mask: Any, name: str = "mask") -> Any:
    """Return the mask as bools in the shape and the layout of the input; coalesced in layout COO.

    Args:
        input: A strided tensor, or a sparse one in layout COO or CSR.
        mask: In any of these layouts; its shape broadcasts to that of the input.
        name: Name of the operation in errors.

    Raises:
        ArgumentError: The input or the mask has another layout.
        DimensionError: The mask has more dimensions than the input.
    """
    for value in (input, mask):
        if value.layout not in (strided, sparse_coo, sparse_csr):
            raise ArgumentError(name, f"layout {value.layout!r}: _input_mask expects strided or sparse COO or sparse "
                                f"CSR tensor but got {value.layout}", "masks have one of these layouts",
                                "convert it to another layout first")
    shape = tuple(input.shape)
    if mask.ndim > input.ndim:
        raise DimensionError(name, f"a mask of shape {list(mask.shape)} for shape {list(shape)}: _input_mask expected "
                             "broadcastable mask (got mask dimensionality higher than of the input)",
                             "a mask broadcasts to the tensor's shape", "reshape the mask")
    mask = mask.detach().to(dtypes.bool_)
    if not is_sparse(mask):
        mask = mask.expand(shape)
        return in_layout(from_dense(mask, input.sparse_dim()), input.layout) if is_sparse(input) else mask
    source = as_coo(mask)
    if tuple(mask.shape) != shape:
        source = broadcast_sparse(source, shape)
    if not is_sparse(input):
        return dense_of(source)
    if source.sparse_dim() != input.sparse_dim():
        return in_layout(from_dense(dense_of(source), input.sparse_dim()), input.layout)
    return in_layout(coalesced(source), input.layout)


def where_masked(mask: SparseTensor, input: SparseTensor, fill_value: Any) -> SparseTensor:
    """Return the elements that a mask selects, stored at the mask's positions: 0 where the input stores none.

    Args:
        mask: Bools in the shape of the input.
        input: In layout COO or CSR.
        fill_value: Value of the unselected elements in a dense slice with selected elements.

    Returns:
        A tensor in the layout of the input; the mask does not select elements that are not stored.

    Raises:
        ArgumentError: Shapes or layouts differ.
    """
    if tuple(mask.shape) != tuple(input.shape) or mask.layout is not input.layout:
        raise ArgumentError("masked.where", f"a mask of layout {mask.layout!r} and shape {list(mask.shape)} for "
                            f"layout {input.layout!r} and shape {list(input.shape)}",
                            "mask and input have one layout and shape", "make the mask with masked._input_mask")
    marks, source = coalesced(as_coo(mask)), as_coo(input)
    chosen = marks.stored
    held = chosen.reshape((chosen.shape[0], -1)).any(1) if chosen.numel() else chosen.new_zeros((chosen.shape[0],))
    places = held.nonzero().squeeze(1)
    positions, chosen = marks.positions.index_select(1, places), chosen.index_select(0, places)
    values = _looked_up(source, positions, marks.sparse_dim())
    if chosen.ndim > 1:
        fill = fill_value if hasattr(fill_value, "_key") else values.new_full((), fill_value)
        values = functions.where(chosen, values, fill.to(values.dtype))
    return in_layout(wrap_sparse(positions, values, input.shape, sparse_coo, True), input.layout)


# -------------------------------------------------------------------------------------------------------- reductions


def _held(name: str, input: Any, mask: Any) -> Any:
    """Return the elements to fold."""
    if mask is None:
        return coalesced(input) if input.layout is sparse_coo else input
    mask = canonical_mask(input, mask, f"masked.{name}")
    return where_masked(mask, input, identity_of("sum" if name == "mean" else name, input.dtype))


def _grouped(name: str, count: int, places: Any, values: Any) -> Any:
    """Fold the values of each group, [count, ...]; ``places`` are the group numbers, and no group is empty."""
    if name == "sum":
        return summed_rows(count, places, values)
    start = values.new_empty((count, *values.shape[1:]))
    return start.index_reduce(0, places, values, name, include_self=False)


def _fold_dense(name: str, values: Any, axes: list[int], keepdim: bool) -> Any:
    return functions.prod(values, axes, keepdim) if name == "prod" else getattr(values, name)(axes, keepdim)


def reduce_sparse(name: str, input: SparseTensor, dim: Any, keepdim: bool, mask: Any) -> SparseTensor:
    """Fold the elements that the mask selects; the result stores the positions to which some contribute.

    Args:
        name: ``sum``, ``prod``, ``amax``, ``amin`` or ``mean``.
        input: In layout COO or CSR.
        dim: Dimensions to fold over.
        keepdim: Whether these dimensions stay, with size 1; in layout CSR they must.
        mask: In any layout; it may be missing for sums.

    Raises:
        ArgumentError: The mask is missing, or a CSR tensor loses a dimension.
    """
    kind = input.layout
    words = "sparse_csr" if kind is sparse_csr else "sparse_coo"
    if mask is None and name != "sum":
        raise ArgumentError(f"masked.{name}", f"a tensor of layout {words} without a mask: masked {name} expects "
                            f"explicit mask for {words} tensor input",
                            "elements that are not stored are zeros to a fold, unless a mask leaves them out",
                            "pass a mask")
    if kind is sparse_csr and not keepdim:
        raise ArgumentError(f"masked.{name}", "keepdim=False for layout sparse_csr: reduction operations on CSR "
                            "tensors with keepdim=False is unsupported", "tensors of layout sparse_csr are matrices",
                            "pass keepdim=True")
    source = as_coo(_held(name, input, mask))
    gone = normalize_axes(f"masked.{name}", dim, input.ndim)
    count = source.sparse_dim()
    values = source.stored
    dense = [k - count + 1 for k in gone if k >= count]
    if dense:
        values = _fold_dense(name, values, dense, keepdim)
    shape = tuple(1 if k in gone else n for k, n in enumerate(input.shape) if keepdim or k not in gone)
    kept = [k for k in range(count) if k not in gone]
    sizes = [input.shape[k] for k in kept]
    if kept or keepdim:
        made = _folded_at(name, source, values, kept, sizes, shape, keepdim)
        return in_layout(made, kind) if kind is sparse_csr else made
    total = _grouped(name, 1, source.positions.new_zeros((values.shape[0],)), values).reshape(shape)
    if not values.shape[0]:
        total = total.new_zeros(shape)
    return from_dense(total)


def _folded_at(name: str, source: SparseTensor, values: Any, kept: list[int], sizes: list[int],
               shape: tuple[int, ...], keepdim: bool) -> SparseTensor:
    """Fold the values whose positions in the dimensions ``kept`` are equal."""
    rows = source.positions.index_select(0, source.positions.new_tensor(kept, dtype=dtypes.int64))
    numbers, places = functions.unique(flat_positions(rows, sizes), return_inverse=True)
    positions = split_positions(numbers, sizes)
    if keepdim:
        lines = iter(positions.unbind(0))
        zeros = numbers * 0
        positions = functions.stack([next(lines) if k in kept else zeros for k in range(source.sparse_dim())])
    return wrap_sparse(positions, _grouped(name, numbers.shape[0], places, values), shape, sparse_coo, True)


#: Masked reductions of sparse tensors, with the layouts that they take.
_REDUCTIONS: Final = {"sum": (sparse_coo, sparse_csr), "prod": (sparse_coo, sparse_csr),
                      "amax": (sparse_coo, sparse_csr), "amin": (sparse_coo, sparse_csr), "mean": (sparse_csr,)}


def _rule(name: str) -> Callable[..., Any]:
    """Return the rule of ``masked.NAME`` for a sparse input or mask."""

    def rule(input: Any, *args: Any, mask: Any = None, **options: Any) -> Any:
        if not is_sparse(input):
            return getattr(functions, f"masked_{name}")(
                input, *args, mask=canonical_mask(input, mask, f"masked.{name}"), **options)
        if input.layout not in _REDUCTIONS.get(name, ()):
            takes = " or ".join(("strided", *(x.name for x in _REDUCTIONS.get(name, ()))))
            raise ArgumentError(f"masked.{name}", f"layout {input.layout!r}: masked {name} expects {takes} tensor (got "
                                f"{input.layout} tensor)", "the operation is defined for some layouts",
                                "convert it with to_dense() first")
        return _reduced(name, input, *args, mask=mask, **options)

    return rule


def _reduced(name: str, input: SparseTensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
             mask: Any = None) -> SparseTensor:
    wanted = dtype
    if wanted is None and name in ("sum", "prod") and input.dtype.category < 2:
        wanted = dtypes.int64
    if name == "mean" and (wanted or input.dtype).category < 2:
        raise ArgumentError("masked.mean", f"dtype {(wanted or input.dtype).name}", "means are of floating-point "
                            "numbers", "pass a float dtype")
    converted = input if wanted is None else like(input, input.stored.to(wanted))
    return reduce_sparse(name, converted, dim, keepdim, mask)


RULES.update({f"masked_{name}": _rule(name) for name in (
    "sum", "prod", "amax", "amin", "mean", "argmax", "argmin", "median", "norm", "var", "std", "logsumexp", "cumsum",
    "cumprod", "softmax", "log_softmax", "softmin", "normalize")})

__all__ = ["canonical_mask", "reduce_sparse", "where_masked"]
