"""Versions of tensors that a call modifies: each call of its graph counts the same changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..capture.recorder import CannotRecord, Recording

#: Counters of captured tensors, and positions of tensors that are other objects at each call, with the changes.
Versions = tuple[Sequence[tuple[list[int], int]], Sequence[tuple[int, int]]]


def find_versions(recording: Recording, tensors: Sequence[Any], arguments: int) -> Versions:
    """Return the changes that a call counted.

    Args:
        recording: Its operations.
        tensors: Its arguments, and the tensors of moving places.
        arguments: The number of the former.

    Raises:
        CannotRecord: It modifies an argument, or a tensor of inference mode.
    """
    positions = {id(x._version_counter): k for k, x in enumerate(tensors)}
    fixed, moving = [], []
    for counter, increase in recording.versions.values():
        position = positions.get(id(counter))
        if position is None:
            fixed.append((counter, increase))
        elif position < arguments:
            raise CannotRecord("it modifies an argument")
        elif type(counter) is not list:
            raise CannotRecord("it modifies a tensor of inference mode that others replace")
        else:
            moving.append((position, increase))
    return fixed, moving


def increase_version(tensor: Any, increase: int) -> None:
    """Count changes of a tensor, for all views of its memory."""
    counter = tensor._version_counter
    if counter is None:
        tensor._version_counter = [increase]
    else:
        counter[0] += increase
