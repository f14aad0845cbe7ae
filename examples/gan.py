"""Two adversarial networks: one generates digits, the other tells them from real ones.

python examples/gan.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tensocket as torch
from tensocket import nn
from tensocket.nn import functional as F

from common import picture, settings, show_images, train
from digits import digits


def generator(noise: int, width: int) -> nn.Sequential:
    """Return a network from noise (n, noise, 1, 1) to images (n, 1, 8, 8)."""
    return nn.Sequential(
        nn.ConvTranspose2d(noise, 2 * width, 2), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1), nn.Sigmoid())


def critic(width: int) -> nn.Sequential:
    """Return a network from images (n, 1, 8, 8) to logits (n, 1) of being real."""
    return nn.Sequential(
        nn.utils.spectral_norm(nn.Conv2d(1, width, 4, stride=2, padding=1)), nn.LeakyReLU(0.2),
        nn.utils.spectral_norm(nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.utils.spectral_norm(nn.Linear(8 * width, 1)))


def main(argv: Sequence[str] | None = None) -> int:
    """Train both, generate digits, and save the picture."""
    chosen = settings(__doc__, argv, steps=1200)
    data, _ = digits()
    noise, width, batch = (4, 4, 8) if chosen.tiny else (24, 32, 64)
    maker, judge = generator(noise, width).to(chosen.device), critic(width).to(chosen.device)
    makers, judges = (torch.optim.Adam(net.parameters(), lr=rate, betas=(0.5, 0.99))
                      for net, rate in ((maker, 1e-3), (judge, 2e-3)))

    def made() -> torch.Tensor:
        return maker(torch.randn(batch, noise, 1, 1).to(chosen.device))

    def step(index: int) -> float:
        real = data.batch(batch, chosen.device)[0]
        judged = F.softplus(-judge(real)).mean() + F.softplus(judge(made().detach())).mean()
        judges.zero_grad()
        judged.backward()
        judges.step()
        fooled = F.softplus(-judge(made())).mean()
        makers.zero_grad()
        fooled.backward()
        makers.step()
        return fooled.item()

    losses = train(chosen, step, "gan")
    maker.eval()
    with torch.no_grad():
        images = maker(torch.randn(64, noise, 1, 1).to(chosen.device))[:, 0]
    picture(chosen, "gan", losses, show_images("digits that it makes up", images))
    return 0


if __name__ == "__main__":
    sys.exit(main())
