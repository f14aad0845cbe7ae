"""ConvNeXt: depthwise 7x7 convolutions, layer normalisation over channels, scaled residuals."""

import torch
import torch.nn.functional as F
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv2(self.act(self.pwconv1(self.norm(y))))
        return x + (self.gamma * y).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, widths=(8, 16), depths=(2, 2), classes=10):
        super().__init__()
        self.downsample_layers = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, widths[0], kernel_size=4, stride=4), LayerNorm2d(widths[0], eps=1e-6)),
            nn.Sequential(LayerNorm2d(widths[0], eps=1e-6), nn.Conv2d(widths[0], widths[1], kernel_size=2, stride=2))])
        self.stages = nn.ModuleList([
            nn.Sequential(*[Block(width) for _ in range(depth)]) for width, depth in zip(widths, depths, strict=False)])
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(m.weight, std=0.02)
            nn.init.constant_(m.bias, 0)

    def forward(self, x):
        for downsample, stage in zip(self.downsample_layers, self.stages, strict=False):
            x = stage(downsample(x))
        return self.head(self.norm(x.mean([-2, -1])))


def build():
    return ConvNeXt()


def inputs():
    return (torch.sin(torch.arange(2 * 3 * 1024.0, dtype=torch.float64)).float().reshape(2, 3, 32, 32),)
