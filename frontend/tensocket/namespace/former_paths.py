"""Former paths of modules of this package that pickles contain; nothing is imported until one of them is used."""

from __future__ import annotations

from typing import Final

#: The current modules of classes and functions, by their former names in pickles.
MODULES: Final = {
    **{f"tensocket.{name}": f"tensocket.namespace.{name}" for name in ("devices", "foreach", "legacy", "losses")},
    **{f"tensocket.nn.modules.{name}": f"tensocket.nn.modules.base.{name}" for name in (
        "conversion", "hooks", "state", "tree")},
    **{f"tensocket.nn.modules.{name}": f"tensocket.nn.modules.layers.{name}" for name in (
        "attention", "cells", "loss_base", "margins", "parameters", "rectifiers")},
}
