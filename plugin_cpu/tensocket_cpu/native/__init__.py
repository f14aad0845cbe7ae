"""Native entries: kernels as built-in functions of the interpreter, for arrays so small that calling costs the most."""

from __future__ import annotations

from .entries import make_entry
from .kept import KeptCalls
from .layout import LAYOUT, Layout, find_layout
from .products import make_product

__all__ = ["LAYOUT", "KeptCalls", "Layout", "find_layout", "make_entry", "make_product"]
