"""Distances and similarities as layers."""

from __future__ import annotations

from tensocket.nn import functional as F
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor


class PairwiseDistance(Module):
    """p-norms of differences along the last dimension.

    Args:
        p: Exponent of the norm.
        eps: Added to differences.
        keepdim: Whether the last dimension stays, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Map (N, D) and (N, D) to (N)."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosines of the angles between vectors.

    Args:
        dim: Dimension of the vectors.
        eps: Lower bound of the lengths in the denominator.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Map two tensors that broadcast to one without their dimension ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


__all__ = ["CosineSimilarity", "PairwiseDistance"]
