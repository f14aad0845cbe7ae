"""Patterns such as ``b (h w) ... -> b h w ...``: axes and groups of axes on both sides of an arrow."""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Mapping

from tensocket.errors import ArgumentError, ArgumentTypeError

#: The marker for any number of axes.
_ellipsis: str = "\u2026"


class AnonymousAxis:
    """An axis with a size but no name; each one is a separate axis.

    Attributes:
        value: Its size.
    """

    def __init__(self, value: str) -> None:
        self.value = int(value)
        if self.value < 1:
            raise _refused(value, "an axis without a name has a positive length", "write a positive number")

    def __repr__(self) -> str:
        return f"{self.value}-axis"


class ParsedExpression:
    """One side of a pattern.

    Attributes:
        identifiers: Names of axes, including ``_ellipsis``, and axes without a name.
        composition: The axes of every dimension; ``_ellipsis`` for the dimensions that it replaces.
        has_ellipsis: Whether the side has an ellipsis.
        has_ellipsis_parenthesized: Whether it is in a group; None without an ellipsis.
        has_non_unitary_anonymous_axes: Whether an axis without a name is longer than 1.
    """

    def __init__(self, expression: str, *, allow_underscore: bool = False, allow_duplicates: bool = False) -> None:
        self.identifiers: set[str | AnonymousAxis] = set()
        self.composition: list[list[str | AnonymousAxis] | str] = []
        self.has_ellipsis = "..." in expression
        self.has_ellipsis_parenthesized: bool | None = None
        self.has_non_unitary_anonymous_axes = False
        self._underscore, self._duplicates = allow_underscore, allow_duplicates
        if expression.count(".") != 3 * self.has_ellipsis:
            raise _refused(expression, "dots are those of one ellipsis (...)", "write at most one ...")
        group: list[str | AnonymousAxis] | None = None
        for token in re.findall(r"[()]|[^\s()]+", expression.replace("...", _ellipsis)):
            if token == "(":
                if group is not None:
                    raise _refused(expression, "groups of axes are not nested", "take the inner brackets away")
                group = []
            elif token == ")":
                if group is None:
                    raise _refused(expression, "every closing bracket has an opening one", "open what is closed")
                self.composition.append(group)
                group = None
            else:
                self._add(token, group)
        if group is not None:
            raise _refused(expression, "every opening bracket has a closing one", "close what is opened")

    def _add(self, name: str, group: list[str | AnonymousAxis] | None) -> None:
        if name in self.identifiers and not self._duplicates and not (self._underscore and name == "_"):
            raise _refused(name, "an axis is named once on each side", "name it once")
        if name == _ellipsis:
            self.identifiers.add(name)
            self.has_ellipsis_parenthesized = group is not None
            if group is None:
                self.composition.append(name)
            else:
                group.append(name)
            return
        if name.isdecimal() and int(name) == 1:
            if group is None:
                self.composition.append([])
            return
        valid, reason = self.check_axis_name_return_reason(name, self._underscore)
        if not (valid or name.isdecimal()):
            raise _refused(name, f"an axis has a name or is a number: {reason}", "use letters and digits")
        axis: str | AnonymousAxis = AnonymousAxis(name) if name.isdecimal() else name
        self.identifiers.add(axis)
        self.has_non_unitary_anonymous_axes |= name.isdecimal()
        if group is None:
            self.composition.append([axis])
        else:
            group.append(axis)

    @staticmethod
    def check_axis_name_return_reason(name: str, allow_underscore: bool = False) -> tuple[bool, str]:
        """Whether a name can be an axis, and the reason if not."""
        if not name.isidentifier():
            return False, "names are Python identifiers"
        if name[0] == "_" or name[-1] == "_":
            if name == "_" and allow_underscore:
                return True, ""
            return False, "names neither begin nor end with an underscore"
        if keyword.iskeyword(name):
            warnings.warn(f"the axis {name!r} has the name of a keyword; use another one", RuntimeWarning,
                          stacklevel=2)
        if name == "axis":
            warnings.warn("'axis' as the name of an axis will be refused; use another one",
                          FutureWarning, stacklevel=2)
        return True, ""

    @staticmethod
    def check_axis_name(name: str) -> bool:
        """Whether a name can be an axis."""
        return ParsedExpression.check_axis_name_return_reason(name)[0]


def _refused(given: str, rule: str, advice: str) -> ArgumentError:
    return ArgumentError("rearrange", repr(given), rule, advice)


def parse_pattern(pattern: str, axes_lengths: Mapping[str, int]) -> tuple[ParsedExpression, ParsedExpression]:
    """Return both sides of a pattern.

    Raises:
        ArgumentError: The text is not a pattern.
    """
    sides = pattern.split("->")
    if len(sides) != 2:
        raise _refused(pattern, "a pattern has two sides, divided by one '->'", "write two sides")
    if _ellipsis in axes_lengths:
        raise _refused(pattern, "a length belongs to one axis", "give lengths of named axes")
    left, right = ParsedExpression(sides[0]), ParsedExpression(sides[1])
    if right.has_ellipsis and not left.has_ellipsis:
        raise _refused(pattern, "an ellipsis on the right is on the left, too", "write it on the left")
    if left.has_ellipsis_parenthesized:
        raise _refused(pattern, "the ellipsis on the left is in no group", "take it out of the group")
    return left, right


def validate_rearrange_expressions(left: ParsedExpression, right: ParsedExpression,
                                   axes_lengths: Mapping[str, int]) -> None:
    """Refuse patterns that do more than rearrange.

    Raises:
        ArgumentError: An axis is on only one side, has no name but a length, or is not in the pattern.
        ArgumentTypeError: A length is not an integer.
    """
    for name, length in axes_lengths.items():
        if type(length) is not int:
            raise ArgumentTypeError("rearrange", f"{name}={length!r}",
                                    "lengths of axes are integers", "pass an integer")
    if left.has_non_unitary_anonymous_axes or right.has_non_unitary_anonymous_axes:
        raise _refused("a number", "axes without a name have length 1", "name the axis")
    difference = left.identifiers ^ right.identifiers
    if difference:
        raise _refused(str(difference), "every axis is on both sides",
                       "name an axis on both sides")
    unknown = axes_lengths.keys() - left.identifiers
    if unknown:
        raise _refused(str(unknown), "axes with lengths are in the pattern", "give lengths of its axes only")
