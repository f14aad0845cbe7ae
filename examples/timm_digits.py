"""A small EfficientNet of timm that reads handwritten digits.

python -m tensocket.as_torch examples/timm_digits.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

from common import picture, settings, train
from digits import Digits, accuracy, confusion, digits

SIDE = 32


def enlarge(data: Digits) -> Digits:
    """Return digits with the size of the smallest images that the network is meant for."""
    return Digits(torch.nn.functional.interpolate(data.images, size=(SIDE, SIDE), mode="bilinear"), data.labels)


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and save the picture."""
    chosen = settings(__doc__, argv, steps=150)
    data, test = map(enlarge, digits())
    model = timm.create_model("test_efficientnet", in_chans=1, num_classes=10).to(chosen.device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=3e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=chosen.steps, warmup_t=chosen.steps // 10, warmup_lr_init=1e-4,
                                 t_in_epochs=False)
    loss_of = LabelSmoothingCrossEntropy(0.1)

    def step(index: int) -> float:
        images, labels = data.batch(8 if chosen.tiny else 64, chosen.device)
        loss = loss_of(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step_update(index + 1)
        return loss.item()

    losses = train(chosen, step, "timm_digits")
    right = accuracy(model, test, chosen.device)
    table = confusion(model, test, chosen.device)

    def draw(axes: Any) -> None:
        axes.imshow(table.numpy(), cmap="Blues")
        axes.set(xlabel="read as", ylabel="digit", title=f"test images, {right:.1%} right", xticks=range(10),
                 yticks=range(10))

    picture(chosen, "timm_digits", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
