"""Types of tensors with known and unknown sizes, for gradual type checking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final


class TensorType:
    """The type of tensors with these sizes, of which some are numbers and some ``Dyn`` or variables."""

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    __hash__ = None  # type: ignore[assignment]

    def __class_getitem__(cls, *args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _DynType:
    """The type of values of which nothing is known."""

    __name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"

    __str__ = __repr__


Dyn: Final = _DynType()


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether two types may describe the same value: unknown parts fit to everything."""
    if t1 == t2 or isinstance(t1, _DynType) or isinstance(t2, _DynType):
        return True
    return _fit(t1, t2, is_consistent)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether every value of the first type is one of the second."""
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    return _fit(t1, t2, is_more_precise)


def _fit(t1: Any, t2: Any, fits: Any) -> bool:
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(map(fits, t1.__args__, t2.__args__))
