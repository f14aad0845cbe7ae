"""Sizes of inputs in files: the symbols that they follow from, with their ranges, and comparisons of them."""

from __future__ import annotations

import re
from typing import Any, Final

from tensocket.errors import SerializationError

from ..sizes import Root
from ..symbols import Comparison, Expression, text_of
from .arguments import Json, entry_of
from .expressions import parse, parse_comparison

#: Characters of expressions.
_SHOWN: Final = re.compile(r"[\w .,()*+/%<>=!-]{1,1000}")


class InputSizes:
    """The symbols of a program's sizes.

    Args:
        ranges: Ranges by symbol.
        is_exact: Whether a smallest size of 2 is one. PyTorch writes it for all sizes that its compiler does not treat
            apart, and checks smaller ones nowhere.

    Attributes:
        roots: The symbols, in the order of their first use.
    """

    def __init__(self, ranges: Json, *, is_exact: bool) -> None:
        self._ranges, self._is_exact = ranges, is_exact
        self._by_symbol: dict[str, Root] = {}
        self.roots: list[Root] = []

    def expression(self, text: str) -> Expression:
        """Return the expression of an input's size.

        Raises:
            ValueError: The text is not an expression of symbols.
        """
        return parse(text, self._root)

    def _root(self, symbol: str) -> Root:
        if symbol not in self._by_symbol:
            if not symbol.isidentifier():
                raise ValueError(f"{symbol[:80]!r} is not a symbol")
            known = self._ranges.get(symbol) or {"min_val": 0, "max_val": None}
            low, high = known["min_val"] or 0, known["max_val"]
            if not all(type(x) is int for x in (low, 0 if high is None else high)):
                raise ValueError(f"a range of {symbol}")
            low = low if self._is_exact or low > 2 else 0
            made = Root(symbol, symbol, symbol, "named", low, low, float("inf") if high is None else high)
            self._by_symbol[symbol] = made
            self.roots.append(made)
        return self._by_symbol[symbol]

    def shown(self, text: str) -> str:
        """Return an expression of any sizes as listings write it.

        Raises:
            ValueError: It has other characters than expressions.
        """
        if "Symbol(" in text or "Integer(" in text:
            return text_of(parse(text, str), str)
        if not _SHOWN.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not an expression of sizes")
        return text

    def size(self, value: Json) -> Expression:
        """Return a size: a number, or an expression.

        Raises:
            ValueError: It is neither.
        """
        kind, content = entry_of(value)
        if kind == "as_expr":
            return self.expression(content["expr_str"])
        if type(content) is not int or content < 0:
            raise ValueError(f"a size {content!r}")
        return content

    def comparison(self, text: str, places: dict[str, Expression]) -> Comparison:
        """Return a comparison that calls must check.

        Args:
            text: The comparison.
            places: Expressions of sizes of inputs, by ``L['x'].size()[0]``.

        Raises:
            SerializationError: It compares something other than sizes of inputs.
        """
        def leaf(name: str) -> Any:
            found = places.get(name, self._by_symbol.get(name))
            if found is None:
                raise ValueError(f"{name[:80]!r} is not a size of an input")
            return found

        try:
            return parse_comparison(text, leaf)
        except ValueError as error:
            raise SerializationError("export.load", f"the guard {text[:200]!r}: {error}", "guards compare sizes of "
                                     "inputs", "export the program so that it does not depend on more") from error
