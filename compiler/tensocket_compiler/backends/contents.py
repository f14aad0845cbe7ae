"""Elements and versions of tensors that a run writes, which come back after it."""

from __future__ import annotations

from typing import Any

from tensocket_core.dispatch.overrides import version_counter
from tensocket_core.geometry import memory_of

from ..execute.runner import whole_tensor


class SavedContents:
    """The elements and versions of some tensors, as they were before a run wrote them."""

    def __init__(self) -> None:
        self._contents: dict[int, tuple[Any, Any]] = {}
        self._versions: dict[int, tuple[list[int], int]] = {}

    def preserve(self, tensor: Any) -> None:
        """Save the elements of a tensor that the run is about to write, and its version."""
        memory = memory_of(tensor._array)
        if id(memory) not in self._contents:
            whole = whole_tensor(memory if isinstance(memory, type(tensor._array)) else tensor._array,
                                 tensor._device_state)
            self._contents[id(memory)] = whole, whole.clone()
        counter = version_counter(tensor)
        self._versions.setdefault(id(counter), (counter, counter[0]))

    def restore(self) -> None:
        """Restore all of them."""
        for whole, contents in self._contents.values():
            whole.copy_(contents)
        for counter, value in self._versions.values():
            counter[0] = value
