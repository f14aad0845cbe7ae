"""Conversion between nested and dense tensors: joining components, padding, and removing the padding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensocket_operators as core
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from .structures import Pieces, Ragged
from .tensors import Nested, components, described, nested, plain, plain_geometry


def joined(parts: list[Any], example: Any = None) -> Any:
    """Join components to a new nested tensor, of layout strided or that of ``example``."""
    structure = None if example is None else example._structure
    if isinstance(structure, Ragged):
        axis = structure.axis - 1
        offsets = structure.offsets
        if structure.lengths is not None:
            offsets = offsets_of([x.shape[axis] for x in parts], offsets)
        return nested(core.cat(parts, axis).contiguous(), Ragged(offsets, None, structure.axis, structure.ndim))
    shapes = [tuple(x.shape) for x in parts]
    if not parts:
        empty = plain_geometry(example)[:0].clone() if example is not None else core.empty(0)
        return nested(empty, Pieces([], ndim=example.ndim if example is not None else 1))
    return nested(core.cat([x.reshape(-1) for x in parts]), Pieces(shapes))


def offsets_of(lengths: list[int], like: Tensor) -> Any:
    """Return running totals of lengths, from 0, on the device of a tensor."""
    return core.tensor([0, *np.cumsum(lengths).tolist()], dtype=core.int64, device=like.device)


def extended(tensor: Nested, made: Any, trailing: tuple[int, ...]) -> Any:
    """Return a fresh dense tensor as a nested one, whose last dimensions follow those of a contiguous nested tensor."""
    structure = tensor._structure
    if isinstance(structure, Ragged):
        return nested(made, structure.moved(structure.axis, structure.ndim + len(trailing)))
    return nested(made.reshape(-1), Pieces([(*shape, *trailing) for shape in structure.shapes],
                                           ndim=structure.ndim + len(trailing)))


def padded(tensor: Any, padding: float, output_size: Any = None) -> Any:
    """Return a dense tensor that is filled with ``padding`` and holds each component at the start of its dimensions.

    Raises:
        ArgumentError: ``tensor`` is not nested.
        ShapeError: The components are not contiguous, or do not fit ``output_size``.
    """
    if not isinstance(tensor, Nested):
        raise ArgumentError("to_padded_tensor", "a tensor that is not nested", "padding is for nested tensors",
                            "pass a nested tensor")
    structure = tensor._structure
    if isinstance(structure, Pieces) and not tensor.is_contiguous():
        raise ShapeError("to_padded_tensor", "a nested tensor that is not contiguous",
                         "for now to_padded_tensor only supports contiguous nested tensor", "call contiguous() first")
    shapes = [tuple(x.shape) for x in described(tensor)]
    if not shapes:
        return plain(tensor).new_empty(0) if output_size is None else plain(tensor).new_full(output_size, padding)
    if isinstance(structure, Pieces) and len(shapes[0]) and all(0 in shape for shape in shapes):
        raise ShapeError("to_padded_tensor", "components without elements",
                         "at least one constituent tensor should have non-zero numel", "pass components with elements")
    shape = _padded_shape(shapes, output_size)
    if isinstance(structure, Ragged) and shape[1:structure.axis] + shape[structure.axis + 1:] == (
            shapes[0][:structure.axis - 1] + shapes[0][structure.axis:]):
        return _padded_rows(tensor, padding, shape)
    line = core.cat([x.reshape(-1) for x in components(tensor)])
    return _gathered(line, padding, _places(shapes, shape, line.shape[0])).view(shape)


def _padded_shape(shapes: list[tuple[int, ...]], output_size: Any) -> tuple[int, ...]:
    largest = (len(shapes), *[max(sizes) for sizes in zip(*shapes, strict=True)])
    if output_size is None:
        return largest
    shape = tuple([int(n) for n in output_size])
    if len(shape) != len(largest):
        raise ShapeError("to_padded_tensor", f"output_size of {len(shape)} dimensions",
                         f"the padded tensor has {len(largest)}", "pass a size for each")
    if any(n < m for n, m in zip(shape, largest, strict=True)):
        raise ShapeError("to_padded_tensor", f"output_size {list(shape)}",
                         "Value in output_size is less than NestedTensor padded size. Truncation is not supported.",
                         f"pass at least {list(largest)}")
    return shape


def _places(shapes: list[tuple[int, ...]], shape: tuple[int, ...], none: int) -> Any:
    """Return, for each element of the padded tensor, its position in the line; ``none`` for padding."""
    places: Any = np.full(shape, none, np.int64)
    at = 0
    for k, own in enumerate(shapes):
        count = math.prod(own)
        places[(k, *[slice(n) for n in own])] = np.arange(at, at + count).reshape(own)
        at += count
    return places.reshape(-1)


def _gathered(rows: Any, padding: float, places: Any) -> Any:
    """Gather rows at positions; the position after the last row means padding."""
    extra = rows.new_full((1, *rows.shape[1:]), padding)
    return core.cat([rows, extra]).index_select(0, core.tensor(places, device=rows.device))


def _padded_rows(tensor: Any, padding: float, shape: tuple[int, ...]) -> Any:
    """Pad components that differ in only one dimension by gathering whole rows along it."""
    structure = tensor._structure
    axis = structure.axis - 1
    rows = plain(tensor).movedim(axis, 0)
    starts, lengths = structure.bounds()
    places = np.full((shape[0], shape[structure.axis]), rows.shape[0], np.int64)
    for k, (start, count) in enumerate(zip(starts, lengths, strict=True)):
        places[k, :count] = np.arange(start, start + count)
    made = _gathered(rows, padding, places.reshape(-1))
    return made.reshape(*places.shape, *rows.shape[1:]).movedim(1, structure.axis)


def cut(dense: Any, structure: Ragged) -> Any:
    """Convert a padded tensor to a nested one of a ragged structure without gaps."""
    axis = structure.axis
    lengths = structure.bounds()[1]
    rows = dense.movedim(axis, 1)
    flat = rows.reshape(-1, *rows.shape[2:])
    places = np.concatenate([np.arange(n) + k * rows.shape[1] for k, n in enumerate(lengths)] or [np.zeros(0, int)])
    values = flat.index_select(0, core.tensor(places.astype(np.int64), device=dense.device))
    offsets = structure.offsets if structure.lengths is None else offsets_of(lengths, structure.offsets)
    return nested(values.movedim(0, axis - 1), Ragged(offsets, None, axis, structure.ndim))
