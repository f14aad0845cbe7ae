"""Modules at the borders of the quantized part of a model.

tensocket does not have quantized tensors, and no function here converts a model: it stays a model of floats, in which
both modules return their argument.
"""

from __future__ import annotations

from typing import Any

from tensocket import Tensor
from tensocket.namespace.refusals import refused
from tensocket.nn import Module


class _Border(Module):
    """A module that returns its argument."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x


class QuantStub(_Border):
    """The border before the quantized part of a model."""


class DeQuantStub(_Border):
    """The border after the quantized part of a model."""


globals().update(refused(
    "ao.quantization", "QConfig QConfigMapping convert default_dynamic_qconfig default_observer "
    "default_placeholder_observer disable_fake_quant disable_observer enable_fake_quant enable_observer "
    "default_per_channel_weight_observer default_qconfig default_weight_observer fuse_modules fuse_modules_qat "
    "get_default_qat_qconfig get_default_qconfig get_default_qconfig_mapping prepare prepare_qat quantize "
    "quantize_dynamic", "there are no quantized tensors, which a converted model has",
    "keep the model in floats, or round its weights with torchao's quantize_"))

__all__ = ["DeQuantStub", "QuantStub"]
