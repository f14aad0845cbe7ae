"""The classes of numbers that stand for sizes of graphs, for questions with ``isinstance``."""

from __future__ import annotations

from tensocket_compiler.capture.numbers import SymFloat as SymFloat


class SymBool:
    """The class of comparisons of such numbers, which has no instances: they are decided at once, as Python's bool."""
