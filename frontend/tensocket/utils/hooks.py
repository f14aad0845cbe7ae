"""Handles by which a registered hook is taken away again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import MutableMapping
from typing import Any

_next_id = itertools.count()


class RemovableHandle:
    """Removes a hook; also a context manager that removes it at the end of the block.

    Args:
        hooks: The table that holds the hook under ``handle.id``. The handle does not keep it alive.
        extra: Further tables that may hold something under the same id.
    """

    def __init__(self, hooks: MutableMapping[int, Any], *extra: MutableMapping[int, Any]) -> None:
        self.id = next(_next_id)
        self._tables = tuple(weakref.ref(table) for table in (hooks, *extra))

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        for table in self._tables:
            hooks = table()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()
