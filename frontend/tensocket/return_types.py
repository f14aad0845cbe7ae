"""Classes of results with names, such as ``max``'s ``(values, indices)``."""

from __future__ import annotations

from tensocket_core.dispatch.results import RESULTS

globals().update(RESULTS)
#: All of these classes.
all_return_types = list(RESULTS.values())

__all__ = list(RESULTS)
