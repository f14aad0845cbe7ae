"""Shapes and arrangements."""

from __future__ import annotations

from typing import Any

import tensocket_operators as core
from tensocket_plugins.contract.errors import ArgumentError, DimensionError

from .promotion import is_array, together


def _axes(axis: Any) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else tuple(axis)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Broadcast arrays to their common shape."""
    return list(core.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of shapes."""
    arrays = [core.empty((), device="meta").expand(tuple(shape)) for shape in shapes]
    return tuple(core.broadcast_tensors(*arrays)[0].shape) if arrays else ()


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """Broadcast an array to a shape."""
    return core.broadcast_to(x, tuple(shape))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Concatenate arrays along an axis; without an axis, flatten them first."""
    parts = together(*arrays)
    return core.cat([x.reshape(-1) for x in parts], 0) if axis is None else core.cat(list(parts), axis)


def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """Insert new axes of size 1.

    Raises:
        DimensionError: An axis is out of range.
        ArgumentError: An axis appears twice.
    """
    rank = x.ndim + len(_axes(axis))
    if any(not -rank <= k < rank for k in _axes(axis)):
        raise DimensionError("expand_dims", f"axis {axis} of a {x.ndim}-dimensional array",
                             f"an axis lies between {-rank} and {rank - 1}", "pass an axis of the result")
    places = {k % rank for k in _axes(axis)}
    if len(places) < len(_axes(axis)):
        raise ArgumentError("expand_dims", f"axis {axis}", "every axis appears once", "remove the repetition")
    for k in sorted(places):
        x = core.unsqueeze(x, k)
    return x


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Return the elements in reverse order along axes, by default all."""
    return core.flip(x, *(range(x.ndim) if axis is None else _axes(axis)))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Move axes to other positions."""
    return core.movedim(x, source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """Permute the axes."""
    return core.permute(x, *axes)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Repeat every element (or slice along an axis)."""
    if is_array(repeats):
        size = x.numel() if axis is None else x.shape[axis]
        repeats = repeats.reshape(-1).expand(size) if repeats.numel() == 1 else repeats
    return core.repeat_interleave(x, repeats, axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """Return the same elements in another shape.

    Raises:
        ShapeError: ``copy`` is False and a view of that shape is impossible.
    """
    wanted = tuple(shape)
    if copy is False:
        return x.view(wanted)
    return x.clone().reshape(wanted) if copy else x.reshape(wanted)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Return the elements shifted along axes; those beyond the end move to the start."""
    if axis is None or x.ndim == 0:
        return core.roll(x, sum(_axes(shift)))
    shifts, axes = _axes(shift), _axes(axis)
    return core.roll(x, shifts * len(axes) if len(shifts) == 1 else shifts, axes)


def squeeze(x: Any, /, axis: Any) -> Any:
    """Remove axes of size 1.

    Raises:
        ArgumentError: An axis has another size.
    """
    axes = _axes(axis)
    if any(x.shape[k] != 1 for k in axes):
        raise ArgumentError("squeeze", f"axis {axis} of shape {list(x.shape)}", "removed axes have size 1",
                            "pass axes of size 1")
    return core.squeeze(x, axes) if axes else x


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Stack arrays along a new axis."""
    return core.stack(list(together(*arrays)), axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """Repeat an array along its last axes, or new ones."""
    return core.tile(x, *repetitions) if repetitions else x.clone()


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along an axis."""
    return tuple(core.unbind(x, axis))
