"""Host memory."""

from __future__ import annotations

import numpy as np

from tensocket_plugins.contract.arrays import Block
from tensocket_plugins.contract.backend import Allocator, Stream


class HostAllocator(Allocator):
    """Hands out plain NumPy memory."""

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """A block of ``nbytes`` bytes."""
        return Block(np.empty(nbytes, np.uint8), nbytes, stream)

    def free(self, block: Block) -> None:
        """Garbage collection frees it."""
