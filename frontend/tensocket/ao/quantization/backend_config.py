"""Conversions of models to quantized tensors, which do not exist here."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "ao.quantization.backend_config",
    "BackendConfig BackendPatternConfig get_native_backend_config",
    "there are no quantized tensors, which a converted model has",
    "keep the model in floats, or round its weights with torchao's quantize_"))
