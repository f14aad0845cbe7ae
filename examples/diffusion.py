"""A diffusion model (Ho and others, 2020) that learns a spiral of points in the plane.

python examples/diffusion.py --device opencl
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


def spiral(count: int) -> Tensor:
    """Return random points of a spiral, (count, 2)."""
    turn = 3 * math.pi * torch.rand(count).sqrt()
    points = torch.stack([turn * turn.cos(), turn * turn.sin()], 1) / 6
    return points + 0.03 * torch.randn(count, 2)


class Denoiser(nn.Module):
    """A network that estimates the noise in points after some time steps of mixing with noise."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.time = nn.Embedding(steps, width)
        self.point = nn.Linear(2, width)
        self.network = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                     nn.Linear(width, 2))

    def forward(self, points: Tensor, time: Tensor) -> Tensor:
        """Map points (n, 2) and time steps int64 (n,) to noise (n, 2)."""
        return self.network(self.point(points) + self.time(time))


def main(argv: Sequence[str] | None = None) -> int:
    """Train, draw new points, and save the picture."""
    chosen = settings(__doc__, argv, steps=2500)
    times, width, batch = (5, 8, 16) if chosen.tiny else (60, 96, 256)
    model = Denoiser(width, times).to(chosen.device)
    rates = torch.linspace(1e-3, 0.15, times)
    kept = (1 - rates).cumprod(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.steps)

    def step(index: int) -> float:
        time, noise = torch.randint(0, times, (batch,)), torch.randn(batch, 2)
        share = kept[time].unsqueeze(1)
        mixed = share.sqrt() * spiral(batch) + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(mixed.to(chosen.device), time.to(chosen.device)), noise.to(chosen.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    @torch.no_grad()
    def sample(count: int) -> Tensor:
        points = torch.randn(count, 2)
        for time in reversed(range(times)):
            moment = torch.full((count,), time, device=chosen.device)
            noise = model(points.to(chosen.device), moment).cpu()
            points = (points - rates[time] / (1 - kept[time]).sqrt() * noise) / (1 - rates[time]).sqrt()
            if time:
                points = points + rates[time].sqrt() * torch.randn(count, 2)
        return points

    losses = train(chosen, step, "diffusion")
    real, drawn = spiral(800), sample(16 if chosen.tiny else 800)

    def draw(axes: Any) -> None:
        axes.plot(*real.T.numpy(), ".", color="0.8", markersize=3, label="given")
        axes.plot(*drawn.T.numpy(), ".", markersize=3, label="drawn")
        axes.set(title="points", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
        axes.legend(loc="upper right")

    picture(chosen, "diffusion", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
