"""Native entries: kernels as built-in functions of the interpreter, for arrays so small that overhead dominates."""

from __future__ import annotations

from .entries import make_entry
from .joins import make_join
from .layout import LAYOUT, Layout, find_layout
from .products import make_product
from .replay import ReplayCompiler
from .views import ViewCompiler

__all__ = ["LAYOUT", "Layout", "ReplayCompiler", "ViewCompiler", "find_layout", "make_entry", "make_join",
           "make_product"]
