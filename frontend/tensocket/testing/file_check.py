"""``FileCheck``: what a text contains, in which order."""

from __future__ import annotations

import itertools
import re
from typing import Any


class FileCheck:
    """Checks of a text that are stated one after the other, and made by ``run``."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, str, int]] = []

    def _add(self, kind: str, text: str, count: int = 1) -> FileCheck:
        self._checks.append((kind, text, count))
        return self

    def check(self, test_string: str) -> FileCheck:
        """Expect a text after the previous match."""
        return self._add("check", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """Expect that a text is not between the matches around this check."""
        return self._add("not", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """Expect a text in the line after the previous match."""
        return self._add("next", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """Expect a text in the line of the previous match."""
        return self._add("same", test_string)

    def check_count(self, str: Any, count: int, exactly: bool = False) -> FileCheck:
        """Expect a text several times."""
        self._add("count", str, count)
        return self._add("not", str) if exactly else self

    def check_dag(self, test_string: str) -> FileCheck:
        """Expect a text after the previous match, in any order with other such texts around it."""
        return self._add("dag", test_string)

    def check_regex(self, test_string: str) -> FileCheck:
        """Expect a match of a regular expression after the previous match."""
        return self._add("regex", test_string)

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """Expect a text with marks under it, as errors of scripts have them."""
        return self._add("marked", test_string)

    def run(self, test_file: Any) -> None:
        """Make the checks.

        Args:
            test_file: The text, or an object that has a text.

        Raises:
            RuntimeError: A check does not hold.
        """
        text, at, since = f"{test_file}", 0, 0
        pending: list[str] = []
        for k, (kind, wanted, count) in enumerate(self._checks):
            if kind == "not":
                pending.append(wanted)
                continue
            if kind == "dag":
                group = _group(self._checks, k)
                at, since = max(at, self._find(text, wanted, since if group else at, "dag")), since
            else:
                begin = at
                at = self._match(kind, wanted, count, text, at)
                since = at
                self._refuse(pending, text[begin:_start(text, wanted, begin, kind)])
            pending = []
        self._refuse(pending, text[at:])

    def _match(self, kind: str, wanted: str, count: int, text: str, at: int) -> int:
        """Return the end of a match."""
        if kind == "regex":
            found = re.compile(wanted).search(text, at)
            if found is None:
                raise _missing(wanted, text)
            return found.end()
        if kind == "marked":
            return _marked(text, wanted, at)
        for _ in range(count):
            end = self._find(text, wanted, at, kind)
            between = text[at:end - len(wanted)].count("\n")
            if (kind == "next" and between != 1) or (kind == "same" and between):
                raise RuntimeError(f"[FileCheck] {wanted!r} — expected in the {kind} line — it is {between} lines "
                                   f"below")
            at = end
        return at

    @staticmethod
    def _find(text: str, wanted: str, at: int, kind: str) -> int:
        place = text.find(wanted, at)
        if place < 0:
            raise _missing(wanted, text)
        return place + len(wanted)

    @staticmethod
    def _refuse(pending: list[str], text: str) -> None:
        for wanted in pending:
            if wanted in text:
                raise RuntimeError(f"[FileCheck] {wanted!r} — expected to not find it — it is there:\n{text}")


def _group(checks: list[tuple[str, str, int]], k: int) -> bool:
    """Whether the check before this one is of the same group without an order."""
    return k > 0 and checks[k - 1][0] == "dag"


def _start(text: str, wanted: str, at: int, kind: str) -> int:
    if kind == "regex":
        found = re.compile(wanted).search(text, at)
        return at if found is None else found.start()
    place = text.find(wanted, at)
    return at if place < 0 else place


def _marked(text: str, wanted: str, at: int) -> int:
    """Return the end of a line whose marks are under a text."""
    lines = text[at:].split("\n")
    for line, marks in itertools.pairwise(lines):
        place = line.find(wanted)
        if place >= 0 and marks[place:place + len(wanted)] == "~" * len(wanted):
            return at + text[at:].index(marks) + len(marks)
    raise RuntimeError(f"[FileCheck] {wanted!r} — expected to be highlighted — it is not:\n{text}")


def _missing(wanted: str, text: str) -> RuntimeError:
    return RuntimeError(f"[FileCheck] {wanted!r} — expected to find it — it is not in the text:\n{text}")
