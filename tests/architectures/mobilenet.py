"""MobileNetV2: inverted residuals with depthwise convolutions and ReLU6."""

import torch
from torch import nn

#: Expansion, channels, repetitions, stride.
BLOCKS = [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2)]


class ConvBNReLU(nn.Sequential):
    def __init__(self, channels, width, kernel_size=3, stride=1, groups=1):
        padding = (kernel_size - 1) // 2
        super().__init__(nn.Conv2d(channels, width, kernel_size, stride, padding, groups=groups, bias=False),
                         nn.BatchNorm2d(width), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, channels, width, stride, expansion):
        super().__init__()
        hidden = channels * expansion
        self.shortcut = stride == 1 and channels == width
        layers = [] if expansion == 1 else [ConvBNReLU(channels, hidden, kernel_size=1)]
        layers += [ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
                   nn.Conv2d(hidden, width, 1, 1, 0, bias=False), nn.BatchNorm2d(width)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        channels = 8
        features = [ConvBNReLU(3, channels, stride=2)]
        for expansion, width, count, stride in BLOCKS:
            for i in range(count):
                features.append(InvertedResidual(channels, width, stride if i == 0 else 1, expansion))
                channels = width
        features.append(ConvBNReLU(channels, 32, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, classes))

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.mean([2, 3]))


def build():
    return MobileNetV2()


def inputs():
    return (torch.sin(torch.arange(2 * 3 * 1024.0, dtype=torch.float64)).float().reshape(2, 3, 32, 32),)
