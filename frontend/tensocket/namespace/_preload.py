"""Imports the operators while the garbage collector pauses.

Modules leave no garbage; looking for it took a quarter of the time of ``import tensocket``.
"""

from __future__ import annotations

import gc
from importlib import import_module

_collects = gc.isenabled()
gc.disable()
try:
    import_module("tensocket_operators.functions")
finally:
    if _collects:
        gc.enable()
