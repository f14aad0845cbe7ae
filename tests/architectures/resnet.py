"""Residual networks with basic and bottleneck blocks."""

import torch
from torch import nn


def conv3x3(channels, width, stride=1):
    return nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels, width, stride=1, downsample=None):
        super().__init__()
        self.conv1 = conv3x3(channels, width, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(width, width)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels, width, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv3x3(width, width, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block, layers, width=4, classes=10):
        super().__init__()
        self.channels = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, width, layers[0])
        self.layer2 = self._make_layer(block, 2 * width, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 4 * width, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 8 * width, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * block.expansion, classes)
        for m in self.modules():
            # Blocks start near the identity: errors of rounding do not grow with depth.
            if isinstance(m, (BasicBlock, Bottleneck)):
                nn.init.constant_((m.bn3 if isinstance(m, Bottleneck) else m.bn2).weight, 0.2)

    def _make_layer(self, block, width, count, stride=1):
        downsample = None
        if stride != 1 or self.channels != width * block.expansion:
            downsample = nn.Sequential(
                nn.Conv2d(self.channels, width * block.expansion, 1, stride=stride, bias=False),
                nn.BatchNorm2d(width * block.expansion))
        layers = [block(self.channels, width, stride, downsample)]
        self.channels = width * block.expansion
        layers += [block(self.channels, width) for _ in range(1, count)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def image():
    return (torch.sin(torch.arange(2 * 3 * 64 * 64.0, dtype=torch.float64)).float().reshape(2, 3, 64, 64),)
