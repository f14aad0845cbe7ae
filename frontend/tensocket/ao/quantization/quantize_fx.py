"""Conversions of models to quantized tensors, which do not exist here."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "ao.quantization.quantize_fx",
    "convert_fx convert_to_reference_fx fuse_fx prepare_fx prepare_qat_fx",
    "there are no quantized tensors, which a converted model has",
    "keep the model in floats, or round its weights with torchao's quantize_"))
