"""``rearrange``: permutation, splitting and joining of dimensions."""

from __future__ import annotations

import math
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor, stack

from ._parsing import ParsedExpression, _ellipsis, parse_pattern, validate_rearrange_expressions


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """Permute, split and join the dimensions of a tensor by a pattern in the notation of
    einops.

    Args:
        tensor: The tensor, or tensors of one shape, which are stacked along a new first dimension.
        pattern: Names of the dimensions before and after ``->``. Parentheses join several to one dimension, ``...``
            means all others, and 1 or () a dimension of one element.
        axes_lengths: Sizes of axes in groups on the left; each group may omit one axis.

    Returns:
        A view if possible, otherwise a copy.

    Raises:
        ArgumentError: The pattern is wrong, or does not fit the tensor.
        ArgumentTypeError: A length is not an integer.

    >>> import tensocket as torch
    >>> rearrange(torch.arange(6).reshape(2, 3), "a b -> (b a)").tolist()
    [0, 3, 1, 4, 2, 5]
    """
    whole = tensor if isinstance(tensor, Tensor) else stack(list(tensor))
    left, right = parse_pattern(pattern, axes_lengths)
    validate_rearrange_expressions(left, right, axes_lengths)
    names, sizes = _axes_before(whole, left, axes_lengths)
    dimensions = [_spread(part, names) for part in right.composition]
    order = [axis for part in dimensions for group in part for axis in group]
    shape = [math.prod([sizes[axis] for axis in group]) for part in dimensions for group in part]
    return whole.reshape(tuple(sizes)).permute(tuple(order)).reshape(tuple(shape))


def _axes_before(tensor: Any, left: ParsedExpression, lengths: dict[str, int]) -> tuple[dict[Any, list[int]],
                                                                                         list[int]]:
    """Return positions of all axes by name, and their sizes, after splitting groups and dropping unit dimensions."""
    rest = tensor.ndim - len(left.composition) + left.has_ellipsis
    if rest < 0 or (rest and not left.has_ellipsis):
        count = len(left.composition) - left.has_ellipsis
        raise ArgumentError("rearrange", f"a tensor of shape {list(tensor.shape)}, a pattern of {count} dimensions",
                            "a pattern names every dimension, or has an ellipsis for the others", "name them all")
    names: dict[Any, list[int]] = {}
    sizes: list[int] = []
    dim = 0
    for part in left.composition:
        if part == _ellipsis:
            names[_ellipsis] = list(range(len(sizes), len(sizes) + rest))
            sizes += tensor.shape[dim:dim + rest]
            dim += rest
            continue
        for axis, size in zip(part, _split(int(tensor.shape[dim]), part, lengths), strict=True):
            names[axis] = [len(sizes)]
            sizes.append(size)
        dim += 1
    return names, sizes


def _split(size: int, group: Any, lengths: dict[str, int]) -> list[int]:
    """Return the sizes of the axes of a dimension, one of which may be unknown."""
    known = [lengths.get(axis) for axis in group]
    product = math.prod([length for length in known if length is not None])
    missing = known.count(None)
    fits = product == size if not missing else product > 0 and size % product == 0
    if missing > 1 or not fits:
        raise ArgumentError("rearrange", f"a dimension of size {size} for the axes {' '.join(map(str, group))}",
                            "all but one axis of a group have a length, and the product of all lengths is the size",
                            "pass the lengths as keyword arguments")
    return [size // product if length is None else length for length in known]


def _spread(part: Any, names: dict[Any, list[int]]) -> list[list[int]]:
    """Return the axes of a dimension on the right side."""
    if part == _ellipsis:
        return [[axis] for axis in names[_ellipsis]]
    return [[axis for name in part for axis in names[name]]]
