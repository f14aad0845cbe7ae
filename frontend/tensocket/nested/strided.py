"""Functions of nested tensors of layout strided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensocket_core.geometry import normalize_axis
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import DimensionError, ShapeError, UnsupportedOperator

from . import shared
from .padding import joined
from .rules import each, elementwise, nested_in, replaced, rule
from .structures import Pieces
from .tensors import Nested, StridedNested, components, like, nested, plain, plain_geometry

# ------------------------------------------------------------------------------------------ elementwise functions

#: Functions of nested tensors with different strides, which PyTorch brings into one order.
_ANY_STRIDES = frozenset(("add", "sub"))
#: Functions of two tensors that also run on a view with gaps.
_WITH_GAPS = frozenset(("add", "sub", "mul", "div", "eq", "ne", "ge", "gt", "le", "lt", "add_", "sub_", "mul_", "div_",
                        "fill_", "zero_", "dropout"))


@elementwise(StridedNested)
def pointwise(function: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run an elementwise function on the lines of memory.

    Raises:
        ShapeError: Shapes, strides or positions of the components differ, or a tensor is dense.
    """
    given = list(nested_in((*args, *keywords.values())))
    first = given[0]
    _check_partners(name, args)
    for other in given[1:]:
        if not first.is_same_size(other):
            raise ShapeError(name, "nested tensors with components of other shapes",
                             f"{name} does not support broadcasting when given a NestedTensor",
                             "pass nested tensors with components of the same shapes")
    if not all(x._structure.lies_like(first._structure) and x._array.shape == first._array.shape for x in given):
        if name not in _ANY_STRIDES:
            what = "strides" if any(x._structure.strides != first._structure.strides for x in given) else "offsets"
            raise ShapeError(name, f"nested tensors with other {what}",
                             f"{name} requires {what} to match when given NestedTensors", "call contiguous() first")
        args = replaced(args, lambda x: shared.contiguous(x) if isinstance(x, Nested) else x)
        first = next(nested_in(args))
    elif len(given) == 1 and name not in _WITH_GAPS and not first.is_contiguous():
        raise ShapeError(name, "a nested tensor that is not contiguous",
                         "NestedTensor must be contiguous to get buffer.", "call contiguous() first")
    result = function(*replaced(args, plain), **{key: plain(x) for key, x in keywords.items()})
    if name.endswith("_") and isinstance(args[0], Nested):
        return args[0]
    return each(result, lambda x: like(first, x))


def _check_partners(name: str, args: tuple[Any, ...]) -> None:
    pair = [x for x in args[:2] if isinstance(x, Tensor)]
    dense = [x for x in args if isinstance(x, Tensor) and not isinstance(x, Nested)]
    if any(x.dim() for x in dense):
        kinds = ["nested" if isinstance(x, Nested) else "non-nested" for x in (*pair, dense[0])]
        raise ShapeError(name, "a nested and a dense tensor",
                         f"Expected both self and other to be nested, but got a {kinds[0]} self and {kinds[1]} other",
                         "make both nested, or pass a number")
    if dense and name.endswith("_") and args[0] is dense[0]:
        raise ShapeError(name, "a number that is changed in place", "output with shape [] doesn't match the broadcast "
                         "shape [nested]", "use the function that makes a new tensor")


# ------------------------------------------------------------------------------------------ views


def viewed(tensor: Any, view: Callable[[Any], Any]) -> Any:
    """Return a view of every component, as a nested tensor on the same memory.

    Args:
        tensor: A nested tensor.
        view: Function from a component to its view; the result has the geometry of that view, on the same memory.
    """
    line = plain_geometry(tensor)
    first = line.storage_offset()
    views = [view(x) for x in tensor._structure.parts(line)]
    structure = Pieces([tuple(x.shape) for x in views], [tuple(x.stride()) for x in views],
                       # Views without elements may begin anywhere.
                       [x.storage_offset() - first if x.numel() else start
                        for x, start in zip(views, tensor._structure.starts, strict=True)],
                       None if views else tensor.ndim)
    return nested(plain(tensor), structure)


@rule(StridedNested, "transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Transpose two dimensions of all components.

    Raises:
        UnsupportedOperator: One of them is that of the batch.
    """
    first, second = shared.exchanged(input, dim0, dim1, "Nested tensor dimension 0 cannot be transposed")
    if first == second:
        return input
    return viewed(input, lambda x: x.transpose(first - 1, second - 1))


@rule(StridedNested, "squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    """Remove a dimension in which all components have size 1.

    Raises:
        UnsupportedOperator: The dimension is missing, that of the batch, or the last one.
    """
    if dim is None:
        raise UnsupportedOperator("squeeze", "no dim", "For nested tensors, squeeze without the dim argument is not "
                                  "supported", "pass dim")
    axis = normalize_axis("squeeze", dim, input.ndim)
    if axis == 0:
        raise UnsupportedOperator("squeeze", f"dim={dim}", "For nested tensors, squeezing dimension 0 is not supported "
                                  "at the moment", "squeeze another dimension")
    if input.ndim == 2:
        raise UnsupportedOperator("squeeze", "components of one dimension", "For nested tensors, squeezing a nested "
                                  "tensor of singleton tensors is not supported at the moment", "use unbind()")
    if any(shape[axis - 1] != 1 for shape in input._structure.shapes):
        return input
    return viewed(input, lambda x: x.squeeze(axis - 1))


@rule(StridedNested, "unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """Insert a dimension of size 1 in all components.

    Raises:
        UnsupportedOperator: It would come before that of the batch.
    """
    axis = normalize_axis("unsqueeze", dim, input.ndim + 1)
    if axis == 0:
        raise UnsupportedOperator("unsqueeze", f"dim={dim}", "For nested tensors, unsqueezing dimension 0 is not "
                                  "supported", "unsqueeze another dimension")
    return viewed(input, lambda x: x.unsqueeze(axis - 1))


@rule(StridedNested, "view")
def view(input: Any, *shape: Any) -> Any:
    """Return the components in other shapes; -1 keeps an old size, or is inferred after the old dimensions."""
    sizes = _target("view", input, shape)
    return viewed(input, lambda x: x.view(_sizes_of("view", x, sizes, input.ndim)))


@rule(StridedNested, "reshape")
def reshape(input: Any, *shape: Any) -> Any:
    """Return the components in other shapes; a view if they are adjacent."""
    sizes = _target("reshape", input, shape)
    if input.is_contiguous():
        return viewed(input, lambda x: x.view(_sizes_of("reshape", x, sizes, input.ndim)))
    return joined([x.reshape(_sizes_of("reshape", x, sizes, input.ndim)) for x in components(input)])


def _target(name: str, input: Any, shape: tuple[Any, ...]) -> list[int]:
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if not shape:
        raise ShapeError(name, "an empty shape", "shape '[]' is invalid for a nested tensor", "pass sizes")
    if not len(input):
        raise ShapeError(name, "a nested tensor without components", "empty nested tensor cannot be reshaped",
                         "pass a tensor with components")
    if shape[0] != len(input):
        raise UnsupportedOperator(name, f"shape {list(shape)}", f"{name}: For now nested {name} cannot change or infer "
                                  "the implicit batch dimension", f"begin with {len(input)}")
    return [int(n) for n in shape[1:]]


def _sizes_of(name: str, part: Any, sizes: list[int], ndim: int) -> list[int]:
    """Return the target shape of one component: -1 at an old dimension is its size if another -1 is
    inferred.
    """
    unknown = [k for k, n in enumerate(sizes) if n == -1]
    old = ndim - 1
    if len(unknown) > 1:
        raise ShapeError(name, f"{len(unknown)} sizes of -1", "only one dimension can be inferred", "pass the others")
    found = list(sizes)
    if unknown and unknown[0] < old:
        found[unknown[0]] = part.shape[unknown[0]]
    count = 1
    for n in found:
        count *= n
    if -1 not in found and count != part.numel():
        raise ShapeError(name, f"shape {sizes} for a component of shape {list(part.shape)}",
                         f"shape '{sizes}' is invalid for input of size {part.numel()}", "pass sizes that fit")
    return found


@rule(StridedNested, "flatten")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Join dimensions of all components.

    Raises:
        UnsupportedOperator: That of the batch is among them.
    """
    first, last = (normalize_axis("flatten", dim, input.ndim) for dim in (start_dim, end_dim))
    if first == 0:
        raise UnsupportedOperator("flatten", "dimension 0", "flatten(): not supported for NestedTensor on dim=0",
                                  "flatten other dimensions")
    return viewed(input, lambda x: x.view(x.flatten(first - 1, last - 1).shape))


@rule(StridedNested, "unflatten")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension of all components."""
    axis = _inner("unflatten", dim, input.ndim)
    return viewed(input, lambda x: x.unflatten(axis, sizes))


@rule(StridedNested, "select")
def select(input: Any, dim: int, index: int) -> Any:
    """Return a component, or the entry of all components at an index."""
    axis = normalize_axis("select", dim, input.ndim)
    if axis == 0:
        return shared.select(input, 0, index)
    return viewed(input, lambda x: x.select(axis - 1, index))


@rule(StridedNested, "narrow")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """Return some of the components.

    Raises:
        UnsupportedOperator: ``dim`` is not that of the batch.
        ShapeError: The tensor is not contiguous.
    """
    if normalize_axis("narrow", dim, input.ndim):
        raise UnsupportedOperator("narrow", f"dim={dim}", "narrow(): only dim=0 supported for nested tensors, but got "
                                  f"dim={dim}", "narrow the components")
    if not input.is_contiguous():
        raise ShapeError("narrow", "a nested tensor that is not contiguous",
                         "narrow(): only contiguous nested tensors supported", "call contiguous() first")
    if not 0 <= start <= start + length <= len(input):
        raise DimensionError("narrow", f"start {start} and length {length} of {len(input)} components",
                             "the components are within the batch", "pass others")
    shapes = input._structure.shapes
    starts = [*input._structure.starts, input._structure.numel()]
    line = plain(input).narrow(0, starts[start], starts[start + length] - starts[start])
    return nested(line, Pieces(shapes[start:start + length], ndim=input.ndim))


@rule(StridedNested, "chunk")
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Split the last dimension into equal parts.

    Raises:
        UnsupportedOperator: ``dim`` is another one, or its size is not a multiple of ``chunks``.
        ShapeError: The tensor is not contiguous.
    """
    size = _last("chunk", "Chunk for nested tensors is currently only supported for the last dimension.", input, dim)
    if size % chunks:
        raise UnsupportedOperator("chunk", f"{chunks} chunks of size {size}", "Chunk for nested tensors is only "
                                  "supported for nested tensors with trailing dimension divisible by chunks.",
                                  "pass another number")
    return _split(input, [size // chunks] * chunks)


@rule(StridedNested, "split_with_sizes", "split")
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Split the last dimension into parts of the given sizes.

    Raises:
        UnsupportedOperator: ``dim`` is another one.
        ShapeError: The tensor is not contiguous, or the sizes do not add up.
    """
    size = _last("split_with_sizes", "split_with_sizes for nested tensors is currently only supported for the last "
                 "dimension.", input, dim)
    if isinstance(split_sizes, int):
        split_sizes = [min(split_sizes, size - at) for at in range(0, size, split_sizes)]
    if sum(split_sizes) != size:
        raise ShapeError("split_with_sizes", f"sizes {list(split_sizes)}",
                         f"split_with_sizes expects split_sizes to sum exactly to {size}", "pass others")
    return _split(input, list(split_sizes))


def _last(name: str, rule_text: str, input: Any, dim: int) -> int:
    if normalize_axis(name, dim, input.ndim) != input.ndim - 1:
        raise UnsupportedOperator(name, f"dim={dim}", rule_text, "pass dim=-1")
    if not input.is_contiguous():
        raise ShapeError(name, "a nested tensor that is not contiguous", f"{name} expects `self` to be contiguous.",
                         "call contiguous() first")
    size: int = input.size(-1)
    return size


def _part(start: int, length: int, component: Any) -> Any:
    return component.narrow(-1, start, length)


def _split(input: Any, sizes: list[int]) -> tuple[Any, ...]:
    parts, at = [], 0
    for n in sizes:
        parts.append(viewed(input, partial(_part, at, n)))
        at += n
    return tuple(parts)


def _inner(name: str, dim: int, ndim: int) -> int:
    axis = normalize_axis(name, dim, ndim)
    if axis == 0:
        raise UnsupportedOperator(name, f"dim={dim}", f"{name}(): not supported for NestedTensor on dim=0",
                                  "pass another dimension")
    return axis - 1

