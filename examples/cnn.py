"""A convolutional network that reads handwritten digits.

python examples/cnn.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensocket as torch
from tensocket import nn
from tensocket.nn import functional as F

from common import picture, settings, train
from digits import accuracy, confusion, digits


def network(width: int) -> nn.Sequential:
    """Return a network from images (n, 1, 8, 8) to scores (n, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(8 * width, 10))


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and save the picture."""
    chosen = settings(__doc__, argv, steps=300)
    data, test = digits()
    model = network(4 if chosen.tiny else 16).to(chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.steps)

    def step(index: int) -> float:
        images, labels = data.batch(8 if chosen.tiny else 64, chosen.device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    losses = train(chosen, step, "cnn")
    right = accuracy(model, test, chosen.device)
    table = confusion(model, test, chosen.device)

    def draw(axes: Any) -> None:
        axes.imshow(table.numpy(), cmap="Blues")
        axes.set(xlabel="read as", ylabel="digit", title=f"test images, {right:.1%} right", xticks=range(10),
                 yticks=range(10))

    picture(chosen, "cnn", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
