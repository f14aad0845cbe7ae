"""EfficientNet's blocks: depthwise convolutions with squeeze-and-excitation, SiLU."""

import torch
from torch import nn


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.SiLU(inplace=True)
        self.scale_activation = nn.Sigmoid()

    def forward(self, x):
        scale = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return self.scale_activation(scale) * x


def conv_norm(channels, width, kernel_size=1, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(channels, width, kernel_size, stride, kernel_size // 2, groups=groups, bias=False),
              nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)]
    return nn.Sequential(*layers, nn.SiLU(inplace=True)) if act else nn.Sequential(*layers)


class MBConv(nn.Module):
    def __init__(self, channels, width, expansion, kernel_size, stride):
        super().__init__()
        hidden = channels * expansion
        self.block = nn.Sequential(
            conv_norm(channels, hidden), conv_norm(hidden, hidden, kernel_size, stride, groups=hidden),
            SqueezeExcitation(hidden, max(1, channels // 4)), conv_norm(hidden, width, act=False))
        self.use_res_connect = stride == 1 and channels == width

    def forward(self, x):
        result = self.block(x)
        if self.use_res_connect:
            result += x
        return result


class EfficientNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            conv_norm(3, 8, 3, stride=2), MBConv(8, 8, 1, 3, 1), MBConv(8, 12, 4, 5, 2), MBConv(12, 12, 4, 5, 1),
            conv_norm(12, 32))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=0.2, inplace=True), nn.Linear(32, classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def build():
    return EfficientNet()


def inputs():
    return (torch.sin(torch.arange(2 * 3 * 576.0, dtype=torch.float64)).float().reshape(2, 3, 24, 24),)
