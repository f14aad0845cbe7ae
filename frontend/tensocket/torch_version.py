"""A version that programs can compare: ``torch.__version__ >= "1.10"`` and ``torch.__version__ >= (2, 0)``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

_RELEASE: Final = re.compile(r"\d+(?:\.\d+)*")
_PRE: Final = re.compile(r"(?:a|b|rc|alpha|beta|dev)")


def _key(version: Any) -> tuple[tuple[int, ...], int, str]:
    """Return the numbers of a release, its rank among pre-releases, and the local part after ``+``.

    Raises:
        ValueError: The text is not a version.
        TypeError: The value cannot name a version.
    """
    if not isinstance(version, (str, Iterable)):
        raise TypeError(f"a version compares with strings and tuples, not with {type(version).__name__}")
    text = (version if isinstance(version, str) else ".".join(map(str, version))).strip().removeprefix("v")
    numbers = _RELEASE.match(text)
    if numbers is None:
        raise ValueError(f"{version!r} is no version")
    release = [int(part) for part in numbers[0].split(".")]
    while release and release[-1] == 0:
        release.pop()
    rest, _, local = text[numbers.end():].partition("+")
    return tuple(release), 0 if _PRE.search(rest) else 1, local


class TorchVersion(str):
    """A string that compares with version strings and tuples as versions do, and with other texts as strings do."""

    __slots__ = ()

    def _compared(self, other: Any, compare: Callable[[Any, Any], bool]) -> bool:
        try:
            return compare(_key(self), _key(other))
        except ValueError:
            return compare(str(self), str(other))

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, operator.ge)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple, list)) and self._compared(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


__all__ = ["TorchVersion"]
