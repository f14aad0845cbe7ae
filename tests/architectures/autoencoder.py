"""A convolutional autoencoder with group and instance normalisation and pixel shuffle."""

import torch
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.PReLU(8),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(16, affine=True), nn.ELU(),
        nn.Conv2d(16, 4, 1), nn.Softsign(),
        nn.ConvTranspose2d(4, 16, 3, stride=2, padding=1, output_padding=1), nn.LeakyReLU(0.1),
        nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2), nn.Sigmoid())


def inputs():
    return (torch.sin(torch.arange(2 * 256.0, dtype=torch.float64)).float().reshape(2, 1, 16, 16),)
