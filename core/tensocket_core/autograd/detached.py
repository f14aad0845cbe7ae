"""Version counter of a tensor detached in place: nodes that saved the tensor before find out."""

from __future__ import annotations

from typing import Any, Final


class AfterDetach(int):
    """A version of a tensor after it was detached in place; it differs from every version before."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is AfterDetach and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class DetachedCounter:
    """Wrapper of a tensor's version counter, which the tensor shares with its views.

    Nodes that saved the tensor before hold plain versions, which no longer compare equal; changes still count for all.

    Args:
        shared: The counter; earlier views keep it.
    """

    __slots__ = ("shared",)

    def __init__(self, shared: list[int]) -> None:
        self.shared: Final = shared

    def __getitem__(self, index: int) -> int:
        return AfterDetach(self.shared[0])

    def __setitem__(self, index: int, value: int) -> None:
        self.shared[0] = int(value)


def detached_counter(counter: Any) -> Any:
    """Return the counter for a tensor that is being detached in place, given its present counter."""
    if counter is None:
        return DetachedCounter([0])
    return DetachedCounter(counter) if type(counter) is list else counter
