"""Collation: functions that make a batch from samples."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, Final

import numpy as np

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_operators import Tensor, as_tensor, float64, stack, tensor

#: The kinds of NumPy's dtypes whose arrays become no tensors: strings, bytes and objects.
np_str_obj_array_pattern: Final = re.compile("[SaUO]")
CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """Convert the arrays of a sample that is loaded without batches to tensors, also inside mappings and sequences."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        parts = [default_convert(value) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return like_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Make a batch from samples; collate types without a function in ``collate_fn_map`` part by part.

    Args:
        batch: Samples of one kind.
        collate_fn_map: Function ``f(batch, *, collate_fn_map)`` for a type or a tuple of types. The exact type of the
            first sample has priority over the first entry of which the sample is an instance.

    Raises:
        ArgumentTypeError: Samples of this type cannot be collated.
        ArgumentError: The sequences have different lengths.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is None:
            function = next((f for kinds, f in collate_fn_map.items() if isinstance(first, kinds)), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return like_mapping(first, {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
                                     for key in first})
    if isinstance(first, Sequence):
        return _collate_sequences(first, batch, collate_fn_map)
    raise _no_batch(kind)


def _collate_sequences(first: Sequence[Any], batch: Any, collate_fn_map: CollateMap | None) -> Any:
    if hasattr(first, "_fields"):
        parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch, strict=True)]
        return type(first)(*parts)
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise ArgumentError("default_collate", f"sequences of lengths {sorted(lengths)}",
                            "each element in list of batch should be of equal size",
                            "pad the samples, or pass a collate_fn to the DataLoader")
    parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch, strict=True)]
    return parts if isinstance(first, (tuple, list)) and type(first) in (tuple, list) else like_sequence(first, parts)


def like_mapping(first: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Return ``parts`` as the type of ``first`` if that type can be constructed from a dict."""
    if type(first) is dict:
        return parts
    try:
        if isinstance(first, MutableMapping):
            # A copy preserves state of the mapping besides its items, such as the factory of a defaultdict.
            made = copy.copy(first)
            made.update(parts)
            return made
        return type(first)(parts)  # type: ignore[call-arg]  # most mappings take one
    except TypeError:
        return parts


def like_sequence(first: Sequence[Any], parts: list[Any]) -> Any:
    """Return ``parts`` as the type of ``first`` if that type can be constructed from a list."""
    if type(first) is list or isinstance(first, (tuple, range)):
        return parts
    try:
        if isinstance(first, MutableSequence):
            made = copy.copy(first)
            for position, part in enumerate(parts):
                made[position] = part
            return made
        return type(first)(parts)  # type: ignore[call-arg]  # most sequences take one
    except TypeError:
        return parts


def _no_batch(kind: object) -> ArgumentTypeError:
    return ArgumentTypeError("default_collate", f"found {kind}",
                             "batch must contain tensors, numpy arrays, numbers, dicts or lists",
                             "pass a collate_fn to the DataLoader")


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack tensors."""
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack arrays; arrays of strings and objects cannot be collated."""
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise _no_batch(first.dtype)
    if all(each.shape == first.shape and each.dtype == first.dtype for each in batch):
        return as_tensor(np.stack(batch))
    return collate_tensor_fn([as_tensor(each) for each in batch])


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Make one tensor from NumPy scalars."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Make a float64 tensor from floats."""
    return as_tensor(np.array(batch, np.float64)) if set(map(type, batch)) == {float} else tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Make an int64 tensor from integers, and a bool tensor from bools."""
    kinds = set(map(type, batch))
    if kinds == {int}:
        with contextlib.suppress(OverflowError):
            return as_tensor(np.array(batch, np.int64))
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return texts unchanged."""
    return batch


#: Collation functions of ``default_collate`` by type; programs may add entries for their own types.
default_collate_fn_map: Final[CollateMap] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Make a batch from samples: stack tensors, arrays and numbers; collate mappings and sequences part by part.

    Raises:
        ArgumentTypeError: Samples of this type cannot be collated.
        ArgumentError: The sequences have different lengths, or samples contain themselves.

    >>> default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': tensor([1., 2.], dtype=tensocket.float64), 'name': ['a', 'b']}
    """
    try:
        return collate(batch, collate_fn_map=default_collate_fn_map)
    except RecursionError:
        raise ArgumentError("default_collate", f"a {type(batch).__name__} that never ends", "maximum recursion depth "
                            "exceeded: samples do not hold themselves", "pass a collate_fn to the DataLoader") from None
