"""scikit-learn's handwritten digits: 1,797 images of 8 × 8 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.datasets import load_digits

import tensocket as torch
from tensocket import Tensor


@dataclass(frozen=True)
class Digits:
    """Images with values from 0 to 1, (n, 1, 8, 8), and the digits that they show, int64 (n,)."""

    images: Tensor
    labels: Tensor

    def batch(self, count: int, device: str) -> tuple[Tensor, Tensor]:
        """Return random images and their labels."""
        chosen = torch.randint(0, len(self.images), (count,))
        return self.images[chosen].to(device), self.labels[chosen].to(device)


def digits() -> tuple[Digits, Digits]:
    """Return five sixths of the images for training and one sixth for tests, in random order."""
    bunch = load_digits()
    images = torch.tensor(bunch.images / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(bunch.target, dtype=torch.int64)
    order = torch.randperm(len(images))
    train, test = order[:1500], order[1500:]
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])


def accuracy(model: torch.nn.Module, data: Digits, device: str) -> float:
    """Return the fraction of digits that a model classifies correctly."""
    model.eval()
    with torch.no_grad():
        named = model(data.images.to(device)).argmax(1).cpu()
    return (named == data.labels).float().mean().item()


def confusion(model: torch.nn.Module, data: Digits, device: str) -> Tensor:
    """Return how often the model takes digit i for digit j: int64 (10, 10)."""
    with torch.no_grad():
        named = model(data.images.to(device)).argmax(1).cpu()
    return torch.bincount(data.labels * 10 + named, minlength=100).reshape(10, 10)
