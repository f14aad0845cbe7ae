"""Conversion of the weights of convolutions to channels last."""

from __future__ import annotations

from typing import Any, TypeVar

from tensocket.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from tensocket.nn.modules.module import Module

Net = TypeVar("Net", bound=Module)


def convert_conv2d_weight_memory_format(module: Net, memory_format: Any) -> Net:
    """Convert the weights of all 2-dimensional convolutions in ``module`` to ``memory_format``."""
    return _laid_out(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Net, memory_format: Any) -> Net:
    """Convert the weights of all 3-dimensional convolutions in ``module`` to ``memory_format``."""
    return _laid_out(module, (Conv3d, ConvTranspose3d), memory_format)


def _laid_out(module: Net, kinds: tuple[type[Module], ...], memory_format: Any) -> Net:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().contiguous(memory_format=memory_format)
    return module


__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]
