"""Building blocks that authors of backends reuse."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules that load at their first use.
__getattr__ = later(__name__, "plans")
