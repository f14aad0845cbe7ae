"""Channels in another order."""

from __future__ import annotations

from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module


class ChannelShuffle(Module):
    """Channels of several groups in turn: first of each group its first channel, then its second, ..."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"


__all__ = ["ChannelShuffle"]
