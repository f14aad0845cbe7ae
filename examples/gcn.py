"""A graph convolutional network (Kipf and Welling, 2017) that finds the parts of a graph from two known nodes of each.

    python examples/gcn.py --device opencl

The graph is random: edges are likelier within a part than between parts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, train

PARTS = 4


def graph(size: int) -> tuple[Tensor, Tensor]:
    """Return the edges of a random graph, bool (n, n) and symmetric, and the part of each node, int64 (n,)."""
    part = torch.arange(size) % PARTS
    likely = torch.where(part[:, None] == part, 0.25, 0.02)
    upper = torch.bernoulli(likely).triu(1).bool()
    return upper | upper.T, part


def normalized(edges: Tensor) -> Tensor:
    """Return edges with self-loops, divided by the roots of both nodes' degrees, as a sparse tensor."""
    looped = edges.float() + torch.eye(len(edges))
    scale = looped.sum(1).rsqrt()
    return (scale[:, None] * looped * scale).to_sparse()


class GCN(nn.Module):
    """A network from features of nodes to scores of parts, with two convolutions over neighbours."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, width), nn.Linear(width, PARTS)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Map features (n, features) and sparse edges (n, n) to scores (n, parts)."""
        x = F.dropout(F.relu(torch.sparse.mm(edges, self.first(x))), 0.4, self.training)
        return torch.sparse.mm(edges, self.second(x))


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and save the picture."""
    chosen = settings(__doc__, argv, steps=300)
    size, width = (24, 8) if chosen.tiny else (160, 32)
    edges, part = graph(size)
    known = torch.arange(2 * PARTS)
    matrix, features = normalized(edges).to(chosen.device), torch.eye(size).to(chosen.device)
    targets = part[known].to(chosen.device)
    model = GCN(size, width).to(chosen.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-3)

    def step(index: int) -> float:
        model.train()
        loss = F.cross_entropy(model(features, matrix)[:2 * PARTS], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = train(chosen, step, "gcn")
    model.eval()
    with torch.no_grad():
        named = model(features, matrix).argmax(1).cpu()
    right = (named == part)[2 * PARTS:].float().mean().item()
    angle = (2 * math.pi / PARTS) * part + torch.rand(size) * 1.2
    radius = 0.6 + 0.5 * torch.rand(size)
    x, y = (radius * angle.cos()).tolist(), (radius * angle.sin()).tolist()

    def draw(axes: Any) -> None:
        for start, end in edges.triu().nonzero().tolist():
            axes.plot([x[start], x[end]], [y[start], y[end]], color="0.85", linewidth=0.5, zorder=1)
        axes.scatter(x, y, c=named.tolist(), cmap="tab10", vmax=9, s=20, zorder=2)
        axes.scatter(x[:2 * PARTS], y[:2 * PARTS], facecolors="none", edgecolors="black", s=60, zorder=3)
        axes.set(title=f"{right:.1%} of the unknown nodes right; circles: known", xticks=[], yticks=[])

    picture(chosen, "gcn", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
