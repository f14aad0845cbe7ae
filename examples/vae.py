"""A variational autoencoder of handwritten digits (Kingma and Welling, 2014).

python examples/vae.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, show_images, train
from digits import digits


class VAE(nn.Module):
    """A network from rows of 64 pixels to a few normal variables, and back."""

    def __init__(self, width: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encode = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, 64))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map (n, 64) to the logits of pixels (n, 64), and the means and log variances (n, latent)."""
        mean, log_variance = self.encode(pixels).chunk(2, -1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(drawn), mean, log_variance


def bound(logits: Tensor, pixels: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the negative evidence lower bound, averaged over images."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return (reconstruction + divergence) / len(pixels)


def main(argv: Sequence[str] | None = None) -> int:
    """Train, draw new digits, and save the picture."""
    chosen = settings(__doc__, argv, steps=1500)
    data, _ = digits()
    model = VAE(*((16, 2) if chosen.tiny else (256, 12))).to(chosen.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(index: int) -> float:
        pixels = data.batch(8 if chosen.tiny else 64, chosen.device)[0].flatten(1)
        logits, mean, log_variance = model(pixels)
        loss = bound(logits, pixels, mean, log_variance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = train(chosen, step, "vae")
    with torch.no_grad():
        drawn = model.decode(torch.randn(64, model.latent, device=chosen.device)).sigmoid()
    picture(chosen, "vae", losses, show_images("digits that it makes up", drawn.reshape(-1, 8, 8)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
