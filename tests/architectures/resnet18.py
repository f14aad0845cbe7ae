"""ResNet-18, a sixteenth as wide."""

from resnet import BasicBlock, ResNet, image


def build():
    return ResNet(BasicBlock, [2, 2, 2, 2])


def inputs():
    return image()
