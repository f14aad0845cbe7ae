"""ResNet-50, a sixteenth as wide."""

from resnet import Bottleneck, ResNet, image


def build():
    return ResNet(Bottleneck, [3, 4, 6, 3])


def inputs():
    return image()
