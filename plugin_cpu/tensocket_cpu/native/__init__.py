"""Native entries: kernels as built-in functions of the interpreter, where the time of a call matters."""

from __future__ import annotations

from .entries import make_entry
from .factories import FactoryCompiler
from .forms import FormCompiler
from .joins import make_join
from .layout import LAYOUT, Layout, find_layout
from .products import make_product
from .replay import ReplayCompiler
from .resources import Resources
from .views import ViewCompiler

__all__ = ["LAYOUT", "FactoryCompiler", "FormCompiler", "Layout", "ReplayCompiler", "Resources", "ViewCompiler",
           "find_layout", "make_entry", "make_join", "make_product"]
