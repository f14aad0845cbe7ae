"""Reads of elements by code outside of operators, which the runtime tells the observer of a recorded run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class ReadObserver(ABC):
    """An observer of values for runs whose graph is the same for all elements."""

    @abstractmethod
    def note_read(self, source: Any) -> None:
        """Stop the run, because code outside of operators reads elements."""

    def note_range(self, array: Any, low: int, high: int, other: int) -> None:
        """Do nothing: the operator that checks the range is a node, and does so again."""

    def number(self, tensor: Any) -> Any:
        """Stop the run: the number would be a constant of the graph."""
        self.note_read(tensor)

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option."""
        return table[key]
