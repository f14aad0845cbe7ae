"""The count of in-place changes of a tensor that was detached in place: nodes that saved it before notice."""

from __future__ import annotations

from typing import Any, Final


class AfterDetach(int):
    """A version of a tensor since it was detached in place; it differs from every version before."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is AfterDetach and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class DetachedCounter:
    """Stands for the counter that a tensor shares with its views, in the place of the tensor's own reference.

    What nodes have saved before has plain versions, which no longer compare equal; changes are counted for all.

    Args:
        shared: The counter; views that were made before have it still.
    """

    __slots__ = ("shared",)

    def __init__(self, shared: list[int]) -> None:
        self.shared: Final = shared

    def __getitem__(self, index: int) -> int:
        return AfterDetach(self.shared[0])

    def __setitem__(self, index: int, value: int) -> None:
        self.shared[0] = int(value)


def detached_counter(counter: Any) -> Any:
    """Return the counter of a tensor that is being detached in place, for the counter that it has now."""
    if counter is None:
        return DetachedCounter([0])
    return DetachedCounter(counter) if type(counter) is list else counter
