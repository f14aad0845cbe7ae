"""A permutation of channels."""

from __future__ import annotations

from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module


class ChannelShuffle(Module):
    """A layer that interleaves groups of channels: the first channel of each group, then the second of each, ..."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, ...) to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"


__all__ = ["ChannelShuffle"]
