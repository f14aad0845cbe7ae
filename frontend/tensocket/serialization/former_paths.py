"""Former paths of modules of this package, which pickles name; nothing is imported before one of them is asked for."""

from __future__ import annotations

from typing import Final

#: The modules of classes and functions that pickles name, by their former names.
MODULES: Final = {
    **{f"tensocket.{name}": f"tensocket.namespace.{name}" for name in ("devices", "foreach", "legacy", "losses")},
    **{f"tensocket.nn.modules.{name}": f"tensocket.nn.modules.base.{name}" for name in (
        "conversion", "hooks", "state", "tree")},
    **{f"tensocket.nn.modules.{name}": f"tensocket.nn.modules.layers.{name}" for name in (
        "attention", "cells", "loss_base", "margins", "parameters", "rectifiers")},
}
