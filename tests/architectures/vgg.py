"""VGG-11 with batch normalisation, made from a list of widths."""

import torch
from torch import nn

WIDTHS = [8, "pool", 16, "pool", 24, 24, "pool", 32, 32, "pool"]


class VGG(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        layers = []
        channels = 3
        for width in WIDTHS:
            if width == "pool":
                layers += [nn.MaxPool2d(2, 2)]
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(channels * 2 * 2, 48), nn.ReLU(True), nn.Dropout(),
                                        nn.Linear(48, classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.reshape(x.size(0), -1))


def build():
    return VGG()


def inputs():
    return (torch.sin(torch.arange(2 * 3 * 1024.0, dtype=torch.float64)).float().reshape(2, 3, 32, 32),)
