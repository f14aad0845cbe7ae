"""Functions of nested tensors of layout jagged: they run on the dense tensor that concatenates the components."""

from __future__ import annotations

import math
from typing import Any

import tensocket_operators as core
from tensocket_core.geometry import normalize_axis
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ShapeError, UnsupportedOperator

from . import shared
from .padding import cut, offsets_of
from .rules import each, elementwise, nested_in, replaced, rule
from .sizes import NestedInt
from .structures import Ragged
from .tensors import Nested, NestedTensor, components, nested, plain, ragged_size, view_of

# ------------------------------------------------------------------------------------------ elementwise functions


@elementwise(NestedTensor)
def pointwise(function: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run an elementwise function on the dense tensors; dense operands broadcast to the components.

    Raises:
        ShapeError: Ragged structures or sizes do not fit.
    """
    given = list(nested_in((*args, *keywords.values())))
    first = max(given, key=lambda x: x.ndim)
    for other in given:
        if not isinstance(other, NestedTensor) or not _fits(first, other):
            raise _refused(name, first, other)

    def change(x: Any) -> Any:
        return plain(x) if isinstance(x, Nested) else _fitted(name, first, x)

    result = function(*replaced(args, change), **{
        key: change(x) if isinstance(x, Tensor) else x for key, x in keywords.items()})
    if name.endswith("_") and isinstance(args[0], Nested):
        return args[0]
    return each(result, lambda x: nested(x, first._structure.moved(first._structure.axis, x.dim() + 1)))


def _refused(name: str, first: Any, other: Any) -> ShapeError:
    return ShapeError(name, "tensors that do not fit", f"cannot call binary pointwise function {name}.Tensor with "
                      f"inputs of shapes {sizes_of(first)} and {sizes_of(other)}",
                      "pass tensors with the same offsets object, or dense ones that broadcast")


def sizes_of(tensor: Any) -> tuple[Any, ...]:
    """Return the shape as errors show it."""
    return tuple(tensor.shape) if isinstance(tensor, NestedTensor) or not isinstance(tensor, Nested) else ("nested",)


def _fits(first: Any, other: Any) -> bool:
    """Whether two ragged structures are the same and the other sizes broadcast."""
    if first.ndim != other.ndim:
        return False
    return all(a == b or (isinstance(a, int) and isinstance(b, int) and 1 in (a, b))
               for a, b in zip(first.shape, other.shape, strict=True))


def _fitted(name: str, first: Any, dense: Any) -> Any:
    """Return a dense operand in a shape that broadcasts with the dense tensor of a nested one."""
    ndim, axis = first.ndim, first._structure.axis
    if dense.dim() > ndim:
        raise _refused(name, first, dense)
    gapless = first._structure.lengths is None
    if gapless and dense.dim() == ndim and (dense.shape[0], dense.shape[axis]) == (
            len(first), first._structure.longest) and dense.shape[axis] != 1:
        return plain(cut(dense, first._structure.moved(axis, ndim)))  # padded components
    if dense.dim() == ndim and dense.shape[0] == 1:
        dense = dense.squeeze(0)
    ragged = dense.dim() - (ndim - axis)
    if ragged >= 0 and dense.shape[ragged] != 1:
        raise _refused(name, first, dense)
    if dense.dim() < ndim:
        return dense
    if dense.shape[0] != len(first) or not gapless:
        raise _refused(name, first, dense)
    counts = core.tensor(first._structure.bounds()[1], dtype=core.int64, device=dense.device)
    return dense.squeeze(axis).repeat_interleave(counts, 0).movedim(0, axis - 1)


# ------------------------------------------------------------------------------------------ dimensions


def _inner(name: str, input: Any, dim: int) -> int:
    """Return a dimension of the dense tensor.

    Raises:
        UnsupportedOperator: ``dim`` is the batch or the ragged dimension.
    """
    axis = normalize_axis(name, dim, input.ndim)
    if axis in (0, input._structure.axis):
        raise not_along(name, axis)
    return axis - 1


def not_along(name: str, axis: int) -> UnsupportedOperator:
    """Return the error for the batch and the ragged dimension."""
    return UnsupportedOperator(name, f"dimension {axis}", f"{name}(): not supported for NestedTensor on dim={axis}",
                               "pass another dimension, or use unbind()")


@rule(NestedTensor, "transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Transpose two dimensions; the ragged one may be one of them.

    Raises:
        UnsupportedOperator: One of them is that of the batch.
    """
    first, second = shared.exchanged(input, dim0, dim1, "transpose(): not supported for NestedTensor on dim=0")
    if first == second:
        return shared.alias(input)
    axis = {first: second, second: first}.get(input._structure.axis, input._structure.axis)
    return nested(plain(input).transpose(first - 1, second - 1), input._structure.moved(axis, input.ndim))


@rule(NestedTensor, "permute")
def permute(input: Any, *dims: Any) -> Any:
    """Permute the dimensions; that of the batch stays first.

    Raises:
        UnsupportedOperator: The batch does not stay first.
    """
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        dims = tuple(dims[0])
    order = [normalize_axis("permute", dim, input.ndim) for dim in dims]
    if sorted(order) != list(range(input.ndim)):
        raise ShapeError("permute", f"dimensions {list(dims)}", "each dimension stands once in an order", "pass all")
    if order[0]:
        raise not_along("permute", 0)
    axis = order.index(input._structure.axis)
    return nested(plain(input).permute([k - 1 for k in order[1:]]), input._structure.moved(axis, input.ndim))


def _layout_for(name: str, input: Any, shape: tuple[Any, ...]) -> tuple[list[Any], int]:
    """Return the sizes of the dense tensor for a target shape, and the position of the ragged dimension."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    own = input._structure.axis
    size = ragged_size(input)
    if len(shape) < 2 or (shape[0] != -1 and shape[0] != len(input)):
        raise ShapeError(name, f"shape {list(shape)}", f"{name}(): cannot view shape {sizes_of(input)} as "
                         f"{tuple(shape)}", "begin with the size of the batch and keep the ragged dimension")
    symbols = [k for k, n in enumerate(shape) if isinstance(n, NestedInt)]
    if symbols:
        axis = symbols[0]
        known = len(symbols) == 1 and shape[axis] == size
    else:
        axis = own
        known = axis < len(shape) and shape[axis] == -1
    if not known:
        raise ShapeError(name, f"shape {list(shape)}", f"{name}(): cannot view shape {sizes_of(input)} as "
                         f"{tuple(shape)}", "keep the ragged dimension, as -1 or as its size")
    values = plain(input)
    sizes = [values.shape[own - 1] if k == axis else n for k, n in enumerate(shape)][1:]
    return sizes, axis


def _target(name: str, input: Any, shape: tuple[Any, ...]) -> tuple[list[int], Ragged]:
    sizes, axis = _layout_for(name, input, shape)
    before, after = sizes[:axis - 1], sizes[axis:]
    own = input._structure.axis
    inner = input._array.shape
    total = inner[own - 1]
    full = [*_side(name, input, before, inner[:own - 1]), total, *_side(name, input, after, inner[own:])]
    return full, input._structure.moved(axis, len(full) + 1)


def _side(name: str, input: Any, new: list[Any], old: tuple[int, ...]) -> list[int]:
    """Return the sizes on one side of the ragged dimension, with -1 replaced by its value.

    Raises:
        ShapeError: Their product differs from that of the old sizes.
    """
    found = list(new)
    if found.count(-1) > 1:
        found = [old[k] if n == -1 and k < len(old) else n for k, n in enumerate(found)]
    elif -1 in found:
        rest = math.prod(n for n in found if n != -1)
        found[found.index(-1)] = math.prod(old) // rest if rest else 0
    if math.prod(found) != math.prod(old):
        raise ShapeError(name, f"sizes {new} beside the ragged dimension",
                         f"{name}(): cannot view shape {sizes_of(input)} with these sizes",
                         f"keep the product of {list(old)}")
    return found


@rule(NestedTensor, "view", "_unsafe_view")
def view(input: Any, *shape: Any) -> Any:
    """Return the components in other shapes; the ragged dimension is -1 or its symbol."""
    sizes, structure = _target("view", input, shape)
    return nested(plain(input).view(sizes), structure)


@rule(NestedTensor, "reshape")
def reshape(input: Any, *shape: Any) -> Any:
    """Return the components in other shapes; a view if the strides allow one."""
    sizes, structure = _target("reshape", input, shape)
    return nested(plain(input).reshape(sizes), structure)


@rule(NestedTensor, "reshape_as", "view_as")
def reshape_as(input: Any, other: Any) -> Any:
    """Return the components in the shapes of another nested tensor."""
    return reshape(input, *other.shape)


@rule(NestedTensor, "flatten")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Join dimensions on one side of the ragged dimension."""
    first, last = (normalize_axis("flatten", dim, input.ndim) for dim in (start_dim, end_dim))
    axis = input._structure.axis
    if first == last:
        return input
    if first == 0:
        raise not_along("flatten", 0)
    if first <= axis <= last:
        raise not_along("flatten", axis)
    moved = axis - (last - first if last < axis else 0)
    values = plain(input).flatten(first - 1, last - 1)
    return nested(view_of(values), input._structure.moved(moved, values.dim() + 1))


@rule(NestedTensor, "unflatten")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several."""
    at = _inner("unflatten", input, dim)
    values = plain(input).unflatten(at, sizes)
    axis = input._structure.axis
    return nested(values, input._structure.moved(axis + (len(sizes) - 1 if at < axis - 1 else 0), values.dim() + 1))


@rule(NestedTensor, "squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    """Remove a dimension of size 1."""
    if dim is None:
        raise UnsupportedOperator("squeeze", "no dim", "squeeze(): For nested tensors, squeeze without the dim "
                                  "argument is not supported", "pass dim")
    at = _inner("squeeze", input, dim)
    values = plain(input).squeeze(at)
    axis = input._structure.axis
    removed = values.dim() + 1 < input.ndim
    return nested(view_of(values), input._structure.moved(axis - (removed and at < axis - 1), values.dim() + 1))


@rule(NestedTensor, "unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """Insert a dimension of size 1."""
    at = normalize_axis("unsqueeze", dim, input.ndim + 1)
    if at == 0:
        raise not_along("unsqueeze", 0)
    axis = input._structure.axis
    return nested(plain(input).unsqueeze(at - 1), input._structure.moved(axis + (at <= axis), input.ndim + 1))


@rule(NestedTensor, "expand", "expand_as")
def expand(input: Any, *sizes: Any) -> Any:
    """Repeat dimensions of size 1; the batch and the ragged dimension stay."""
    if len(sizes) == 1 and isinstance(sizes[0], Nested):
        sizes = tuple(sizes[0].shape)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    axis = input._structure.axis
    if len(sizes) != input.ndim or sizes[0] not in (-1, len(input)) or (
            sizes[axis] != -1 and sizes[axis] != ragged_size(input)):
        raise ShapeError("expand", f"sizes {list(sizes)} for {sizes_of(input)}",
                         "expand(): the batch and the ragged dimension are not expanded", "pass -1 for both")
    inner = [-1 if k == axis else n for k, n in enumerate(sizes)][1:]
    return nested(plain(input).expand(inner), input._structure)


@rule(NestedTensor, "select")
def select(input: Any, dim: int, index: int) -> Any:
    """Return a component, or the entry of all components at an index."""
    axis = normalize_axis("select", dim, input.ndim)
    if axis == 0:
        return shared.select(input, 0, index)
    at = _inner("select", input, dim)
    own = input._structure.axis
    return nested(plain(input).select(at, index), input._structure.moved(own - (at < own - 1), input.ndim - 1))


@rule(NestedTensor, "slice", "narrow")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """Return a part of a dimension."""
    return nested(plain(input).narrow(_inner("narrow", input, dim), start, length), input._structure)


@rule(NestedTensor, "split")
def split(input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Split a dimension into parts."""
    name = "split" if isinstance(split_size_or_sections, int) else "split_with_sizes"
    at = _inner(name, input, dim)
    return tuple([nested(x, input._structure) for x in plain(input).split(split_size_or_sections, at)])


@rule(NestedTensor, "split_with_sizes")
def split_withsizes_of(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Split a dimension into parts of the given sizes."""
    return split(input, list(split_sizes), dim)


@rule(NestedTensor, "chunk")
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Split a dimension, or the batch, into equal parts."""
    if normalize_axis("chunk", dim, input.ndim):
        return tuple([nested(x, input._structure) for x in plain(input).chunk(chunks, _inner("chunk", input, dim))])
    structure = input._structure
    if structure.lengths is not None:
        raise not_along("chunk", 0)
    starts, lengths = structure.bounds()
    step = -(-len(input) // chunks)
    parts = []
    for at in range(0, len(input), step):
        own = lengths[at:at + step]
        values = plain(input).narrow(structure.axis - 1, starts[at], sum(own))
        parts.append(nested(values, Ragged(offsets_of(own, structure.offsets), None, structure.axis, input.ndim)))
    return tuple(parts)


@rule(NestedTensor, "cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Concatenate nested tensors of one ragged structure along a dimension, or their components along the batch.

    Raises:
        ArgumentError: A tensor is dense.
        ShapeError: Structures differ.
    """
    if not all(isinstance(x, NestedTensor) for x in tensors):
        raise ArgumentError("cat", "nested and dense tensors", "expected each tensor in given list to be nested",
                            "make all of them nested")
    first = tensors[0]
    structure = first._structure
    if normalize_axis("cat", dim, first.ndim) == 0:
        parts = [part for x in tensors for part in components(x)]
        offsets = offsets_of([x.shape[structure.axis - 1] for x in parts], structure.offsets)
        return nested(core.cat(parts, structure.axis - 1), Ragged(offsets, None, structure.axis, first.ndim))
    if any(x._structure.source is not structure.source or x._structure.axis != structure.axis for x in tensors):
        raise ShapeError("cat", "nested tensors of other ragged structures", "expected all nested tensors to have "
                         "matching ragged structures outside of the concatenated dim", "share the offsets object")
    return nested(core.cat([plain(x) for x in tensors], _inner("cat", first, dim)), structure)
