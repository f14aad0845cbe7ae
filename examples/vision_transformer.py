"""A vision transformer that reads handwritten digits, as rows of 2 × 2 patches.

python examples/vision_transformer.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, train
from digits import accuracy, digits


class VisionTransformer(nn.Module):
    """A network from images (n, 1, 8, 8) to scores (n, 10)."""

    def __init__(self, width: int, heads: int, depth: int, patch: int = 2) -> None:
        super().__init__()
        patches = (8 // patch) ** 2
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.score = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores, read from the position that stands for the whole image."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        summary = self.summary.expand(len(images), -1, -1)
        return self.score(self.layers(torch.cat([summary, patches], 1) + self.place)[:, 0])


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and save the picture."""
    chosen = settings(__doc__, argv, steps=500)
    data, test = digits()
    model = VisionTransformer(*((8, 2, 1) if chosen.tiny else (48, 4, 3))).to(chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=chosen.steps)

    def step(index: int) -> float:
        images, labels = data.batch(8 if chosen.tiny else 64, chosen.device)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    losses = train(chosen, step, "vision_transformer")
    right = accuracy(model, test, chosen.device)
    places = F.normalize(model.place[0, 1:], dim=-1)
    likeness = (places @ places.T).detach().cpu()

    def draw(axes: Any) -> None:
        axes.imshow(likeness.numpy(), cmap="coolwarm", vmin=-1, vmax=1)
        axes.set(title=f"likeness of places, {right:.1%} of the test images right", xlabel="patch", ylabel="patch")

    picture(chosen, "vision_transformer", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
