"""Making a batch of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_core import Tensor, float64, stack, tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples to a batch: tensors, arrays and numbers are stacked; mappings and sequences are collated by their parts.

    Raises:
        ArgumentTypeError: Samples of a type that has no batch.
        ArgumentError: Sequences of different length.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)):
        return tensor(np.stack([np.asarray(sample) for sample in batch]))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, (bool, int)):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        return _collate_sequences(first, batch)
    raise ArgumentTypeError("default_collate", f"samples of type {type(first).__name__}", "a sample consists of "
                            "tensors, arrays, numbers, strings, mappings and sequences",
                            "pass a collate_fn to the DataLoader")


def _collate_sequences(first: Sequence[Any], batch: Sequence[Any]) -> Any:
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise ArgumentError("default_collate", f"sequences of lengths {sorted(lengths)}", "samples have equally many "
                            "parts", "pad the samples, or pass a collate_fn to the DataLoader")
    parts = [default_collate(part) for part in zip(*batch, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else parts


def default_convert(data: Any) -> Any:
    """What loading without batches does: arrays become tensors, also inside of mappings and sequences."""
    if isinstance(data, (np.ndarray, np.generic)):
        return tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, (tuple, list)):
        parts = [default_convert(value) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    return data


def _like_mapping(first: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """``parts`` as the type of ``first`` where that can be made of a dict."""
    try:
        return type(first)(parts)  # type: ignore[call-arg]  # most mappings take one
    except TypeError:
        return parts
