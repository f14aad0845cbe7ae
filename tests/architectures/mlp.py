"""A multi-layer perceptron with normalised hidden layers."""

import torch
from torch import nn


def build():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 24), nn.Tanh(),
        nn.Linear(24, 10))


def inputs():
    return (torch.sin(torch.arange(256.0, dtype=torch.float64)).float().reshape(4, 8, 8),)
