"""A densely connected network: every layer sees the outputs of all before it in its block."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, 4 * growth, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, kernel_size=3, stride=1, padding=1, bias=False)

    def forward(self, features):
        x = self.conv1(self.relu1(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, count, channels, growth):
        super().__init__()
        for i in range(count):
            self.add_module(f"denselayer{i + 1}", DenseLayer(channels + i * growth, growth))

    def forward(self, x):
        features = [x]
        for _, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self, growth=4, blocks=(2, 3), channels=8, classes=10):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([
            ("conv0", nn.Conv2d(3, channels, kernel_size=3, stride=2, padding=1, bias=False)),
            ("norm0", nn.BatchNorm2d(channels)), ("relu0", nn.ReLU(inplace=True))]))
        for i, count in enumerate(blocks):
            self.features.add_module(f"denseblock{i + 1}", DenseBlock(count, channels, growth))
            channels += count * growth
            if i != len(blocks) - 1:
                self.features.add_module(f"transition{i + 1}", nn.Sequential(OrderedDict([
                    ("norm", nn.BatchNorm2d(channels)), ("relu", nn.ReLU(inplace=True)),
                    ("conv", nn.Conv2d(channels, channels // 2, kernel_size=1, bias=False)),
                    ("pool", nn.AvgPool2d(kernel_size=2, stride=2))])))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


def build():
    return DenseNet()


def inputs():
    return (torch.sin(torch.arange(2 * 3 * 256.0, dtype=torch.float64)).float().reshape(2, 3, 16, 16),)
