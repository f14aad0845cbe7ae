"""WaveNet: causal dilated convolutions with gates, sums of skipped connections; weights are normalised."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, skipped, dilation):
        super().__init__()
        self.dilation = dilation
        self.filter = nn.Conv1d(width, width, 2, dilation=dilation)
        self.gate = nn.utils.parametrizations.weight_norm(nn.Conv1d(width, width, 2, dilation=dilation))
        self.residual = nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, skipped, 1)

    def forward(self, x):
        padded = F.pad(x, (self.dilation, 0))
        y = torch.tanh(self.filter(padded)) * torch.sigmoid(self.gate(padded))
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self, levels=16, width=8, skipped=12, depth=4):
        super().__init__()
        self.first = nn.Conv1d(levels, width, 1)
        self.layers = nn.ModuleList(Layer(width, skipped, 2 ** k) for k in range(depth))
        self.last1 = nn.Conv1d(skipped, skipped, 1)
        self.last2 = nn.Conv1d(skipped, levels, 1)
        self.levels = levels

    def forward(self, samples):
        x = self.first(F.one_hot(samples, self.levels).permute(0, 2, 1).to(self.first.weight.dtype))
        total = 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.last2(F.relu(self.last1(F.relu(total))))


def build():
    return WaveNet()


def inputs():
    return ((torch.arange(60) * 5 % 16).view(2, 30),)
